"""Representations of notices."""

from __future__ import annotations

from rest_framework import serializers

from notices.models import Notice
from webapi.serializers import StrictSerializer, UtcTimeField


class FigureSerializer(serializers.Serializer[dict[str, str]]):
    """A number of a notice, with the path of the page behind it."""

    title = serializers.CharField()
    value = serializers.CharField()
    link = serializers.CharField()


class NoticeSerializer(serializers.ModelSerializer[Notice]):
    """An event that the caller is told of."""

    at = UtcTimeField(help_text="When it happened")
    deadline = UtcTimeField(allow_null=True, help_text="The time by which to act, if there is one")
    read_at = UtcTimeField(allow_null=True, help_text="When the caller read it; null: unread")
    figures = FigureSerializer(many=True, help_text="Numbers of a summary")

    class Meta:
        model = Notice
        fields = [
            *("id", "event", "subject_kind", "subject_id", "sentence", "link"),
            *("at", "deadline", "read_at", "figures"),
        ]
        extra_kwargs = {
            "subject_kind": {"help_text": "Kind of the object, such as job"},
            "subject_id": {"help_text": "Id of the object"},
            "link": {"help_text": "Path of the page that shows more"},
        }


class UnreadCountSerializer(serializers.Serializer[dict[str, int]]):
    """The number of unread notices."""

    unread = serializers.IntegerField()


class NoticesReadSerializer(StrictSerializer):
    """The notices to mark as read."""

    through = serializers.UUIDField(
        required=False,
        allow_null=True,
        help_text="The newest notice to mark. Default: all are marked",
    )
