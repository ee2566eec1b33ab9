"""Representations of maintenance windows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rest_framework import serializers

from maintenance.models import NODES_MAX, REASON_LENGTH_MAX, MaintenanceWindow, WindowState
from maintenance.windows import may_change
from tenants.access import Actor
from webapi.serializers import (
    BoundedListField,
    StrictSerializer,
    TextField,
    UtcTimeField,
    WholeNumberField,
)

_END_HELP = "Excluded. At most 31 days after the start"


class MaintenanceCreateSerializer(StrictSerializer):
    """A new maintenance window of a cluster, of one pool on it, or of some of its nodes."""

    cluster = TextField(max_length=100, help_text="Name of the cluster")
    pool = TextField(
        required=False, allow_null=True, max_length=100, help_text="Default: the whole cluster"
    )
    nodes = BoundedListField(
        child=TextField(max_length=253),
        max_length=NODES_MAX,
        min_length=1,
        required=False,
        allow_null=True,
        help_text="Names of nodes of the cluster, or of the pool on it. Default: all",
    )
    node_count = WholeNumberField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=NODES_MAX,
        help_text="Instead of names: so many nodes. Nodes that are drained or have the least work "
        "at the start are taken",
    )
    start = UtcTimeField(required=False, allow_null=True, help_text="Default: at once")
    end = UtcTimeField(help_text=_END_HELP)
    reason = TextField(max_length=REASON_LENGTH_MAX)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the fields. Raises ValidationError for names and a number of nodes at once."""
        if attrs.get("nodes") is not None and attrs.get("node_count") is not None:
            raise serializers.ValidationError(
                {"node_count": ["Give nodes or node_count, not both."]}, code="invalid"
            )
        return attrs


class MaintenanceUpdateSerializer(StrictSerializer):
    """Changes of a maintenance window. Missing fields stay as they are."""

    start = UtcTimeField(required=False)
    end = UtcTimeField(required=False, help_text=_END_HELP)
    reason = TextField(required=False, max_length=REASON_LENGTH_MAX)


class MaintenanceSerializer(serializers.Serializer[dict[str, Any]]):
    """No job starts on the cluster or the nodes that could still run from `start` to `end`."""

    id = serializers.UUIDField()
    version = serializers.IntegerField()
    cluster = serializers.CharField(help_text="Name of the cluster")
    pool = serializers.CharField(allow_null=True, help_text="Null: the whole cluster")
    nodes = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="Names; null: all nodes"
    )
    start = UtcTimeField()
    end = UtcTimeField(help_text=_END_HELP)
    reason = serializers.CharField()
    state = serializers.ChoiceField(choices=WindowState.values)
    made_by = serializers.CharField()
    can_change = serializers.BooleanField(help_text="Whether the caller may change and cancel it")


def shown_window(found: MaintenanceWindow, *, actor: Actor, now: datetime) -> dict[str, Any]:
    """Return the body of a window for `actor`."""
    state = found.state_at(now)
    body = {
        "id": found.pk,
        "version": found.version,
        "cluster": found.cluster.name,
        "pool": None if found.pool is None else found.pool.name,
        "nodes": found.nodes,
        "start": found.start,
        "end": found.end,
        "reason": found.reason,
        "state": state,
        "made_by": found.made_by.login,
        "can_change": may_change(actor) and state in (WindowState.PLANNED, WindowState.OPEN),
    }
    return dict(MaintenanceSerializer(body).data)
