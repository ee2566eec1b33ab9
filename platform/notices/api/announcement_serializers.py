"""Representations of announcements."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from notices.announcement_models import TEXT_LENGTH_MAX, Announcement, AnnouncementLevel
from notices.announcements import may_change
from tenants.access import Actor
from webapi.serializers import StrictSerializer, TextField, UtcTimeField

_END_HELP = "Excluded. Null: until it is removed"


class AnnouncementCreateSerializer(StrictSerializer):
    """A new announcement: of a node, of a cluster, or with neither to everybody."""

    text = TextField(max_length=TEXT_LENGTH_MAX)
    level = serializers.ChoiceField(choices=AnnouncementLevel.choices, default="info")
    node = TextField(
        required=False, allow_null=True, max_length=1_024, help_text="Path of the node"
    )
    cluster = TextField(
        required=False, allow_null=True, max_length=100, help_text="Name of the cluster"
    )
    start = UtcTimeField(required=False, allow_null=True, help_text="Default: at once")
    end = UtcTimeField(required=False, allow_null=True, help_text=_END_HELP)


class AnnouncementUpdateSerializer(StrictSerializer):
    """Changes of an announcement. Missing fields stay as they are."""

    text = TextField(required=False, max_length=TEXT_LENGTH_MAX)
    level = serializers.ChoiceField(choices=AnnouncementLevel.choices, required=False)
    start = UtcTimeField(required=False)
    end = UtcTimeField(required=False, allow_null=True, help_text=_END_HELP)


class AnnouncementSerializer(serializers.Serializer[dict[str, Any]]):
    """A text on top of all pages from `start` until before `end`."""

    id = serializers.UUIDField()
    version = serializers.IntegerField()
    node = serializers.CharField(allow_null=True, help_text="Path of its node")
    cluster = serializers.CharField(allow_null=True, help_text="Name of its cluster")
    level = serializers.ChoiceField(choices=AnnouncementLevel.choices)
    text = serializers.CharField()
    start = UtcTimeField()
    end = UtcTimeField(allow_null=True, help_text=_END_HELP)
    made_by = serializers.CharField()
    can_change = serializers.BooleanField(help_text="Whether the caller may change and remove it")


def shown_announcement(found: Announcement, *, actor: Actor) -> dict[str, Any]:
    """Return the body of an announcement for `actor`."""
    body = {
        "id": found.pk,
        "version": found.version,
        "node": None if found.node is None else found.node.display_path,
        "cluster": None if found.cluster is None else found.cluster.name,
        "level": found.level,
        "text": found.text,
        "start": found.start,
        "end": found.end,
        "made_by": found.made_by.login,
        "can_change": may_change(actor, found),
    }
    return dict(AnnouncementSerializer(body).data)
