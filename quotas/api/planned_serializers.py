"""Shapes of planned changes of quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from quotas.api.serializers import QuotaSettingsSerializer, QuotaValuesSerializer
from quotas.models import PlannedChange, PlannedEdit, PlannedStatus
from quotas.planned_changes import EDITS_MAX, REVERT_AFTER_S_MAX, REVERT_AFTER_S_MIN, was_changed
from quotas.planned_reading import edits_of, may_apply, may_cancel, may_preview
from quotas.quota_store import REASON_LENGTH_MAX, percent_text, values_of
from tenants.access import Actor
from webapi.serializers import (
    DEVICE_HELP,
    DEVICES,
    BoundedListField,
    StrictSerializer,
    TextField,
    UtcTimeField,
    WholeNumberField,
)


class PlannedEditRequestSerializer(QuotaSettingsSerializer):
    """The settings of one quota to change. Missing settings stay."""

    quota = serializers.UUIDField()


class PlannedChangeCreateSerializer(StrictSerializer):
    """Several edits of quotas of one organization, which are applied together."""

    edits = BoundedListField(
        child=PlannedEditRequestSerializer(), min_length=1, max_length=EDITS_MAX
    )
    reason = TextField(
        max_length=REASON_LENGTH_MAX, help_text="Reason, stored in the history that all users read"
    )
    apply_at = UtcTimeField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Time to apply it; null: once approved",
    )
    revert_after_s = WholeNumberField(
        required=False,
        allow_null=True,
        default=None,
        min_value=REVERT_AFTER_S_MIN,
        max_value=REVERT_AFTER_S_MAX,
        help_text="Seconds after which it is reverted, unless its quotas changed meanwhile; "
        "null: never",
    )


class QuotaSetSerializer(serializers.Serializer[Any]):
    """The settings of an edit, by their names in a change. Unchanged settings are absent."""

    guaranteed_mgpu = serializers.IntegerField(required=False)
    guaranteed_percent = serializers.CharField(required=False)
    borrow_limit_mgpu = serializers.IntegerField(required=False, allow_null=True)
    lend_limit_mgpu = serializers.IntegerField(required=False, allow_null=True)
    weight = serializers.IntegerField(required=False)

    def to_representation(self, instance: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings, including nulls."""
        return dict(instance)


class PlannedEditSerializer(serializers.Serializer[Any]):
    """One quota in three versions: when drafted or decided, now, and the settings of the change."""

    quota = serializers.UUIDField()
    node = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    before = QuotaValuesSerializer()
    current = QuotaValuesSerializer()
    is_stale = serializers.BooleanField(
        help_text="Its settings were changed since. A percentage that resolves to other GPUs is "
        "no change"
    )
    set = QuotaSetSerializer()


class PlannedChangeSerializer(serializers.Serializer[Any]):
    """A planned change and its status."""

    id = serializers.UUIDField()
    node = serializers.CharField(help_text="Lowest node above all edited nodes")
    reason = serializers.CharField()
    status = serializers.ChoiceField(choices=PlannedStatus.values)
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(help_text="When a draft without a decision expires")
    apply_at = serializers.DateTimeField(allow_null=True)
    revert_after_s = serializers.IntegerField(allow_null=True)
    decided_by = serializers.CharField(
        allow_null=True, help_text="Login of the user who applied or scheduled it"
    )
    decided_at = serializers.DateTimeField(allow_null=True)
    applied_at = serializers.DateTimeField(allow_null=True)
    revert_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    note = serializers.CharField(help_text="Why it failed, or was not reverted")
    can_manage = serializers.BooleanField(help_text="Whether you may cancel it")
    can_preview = serializers.BooleanField(
        help_text="Whether you may preview it, while it is not decided"
    )
    can_apply = serializers.BooleanField(
        help_text="Whether it is a draft and you have the rights to all edits at present"
    )
    edits = PlannedEditSerializer(many=True)


#: A reverted change is compared with the settings before it, like one that was never applied.
_IN_FORCE = (PlannedStatus.APPLIED, PlannedStatus.KEPT)


def shown_change(planned: PlannedChange, *, actor: Actor) -> dict[str, Any]:
    """Return a planned change as JSON. One query for its edits."""
    edits = edits_of(planned)
    return dict(
        PlannedChangeSerializer(
            {
                "id": planned.pk,
                "node": planned.node.display_path,
                "reason": planned.reason,
                "status": planned.status,
                "created_by": planned.created_by.login,
                "created_at": planned.created_at,
                "expires_at": planned.expires_at,
                "apply_at": planned.apply_at,
                "revert_after_s": planned.revert_after_s,
                "decided_by": None if planned.decided_by is None else planned.decided_by.login,
                "decided_at": planned.decided_at,
                "applied_at": planned.applied_at,
                "revert_at": planned.revert_at,
                "ended_at": planned.ended_at,
                "note": planned.note,
                "can_manage": may_cancel(actor, planned, edits),
                "can_preview": may_preview(actor, planned, edits),
                "can_apply": may_apply(actor, planned, edits),
                "edits": [
                    _shown_edit(edit, is_applied=planned.status in _IN_FORCE) for edit in edits
                ],
            }
        ).data
    )


def _shown_edit(edit: PlannedEdit, *, is_applied: bool) -> dict[str, Any]:
    quota = edit.quota
    given = dict(edit.values)
    if "guaranteed_bp" in given:
        given["guaranteed_percent"] = percent_text(given.pop("guaranteed_bp"))
    return {
        "quota": quota.pk,
        "node": quota.node.display_path,
        "pool": quota.pool.name,
        "device": quota.pool.device,
        "before": edit.before,
        "current": values_of(quota),
        "is_stale": was_changed(edit, is_applied=is_applied),
        "set": given,
    }
