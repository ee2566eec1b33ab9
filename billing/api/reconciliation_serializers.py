"""Shapes of reconciled days."""

from __future__ import annotations

from datetime import date
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from billing.acknowledgements import REASON_LENGTH_MAX
from billing.reconciliation import Cause
from billing.reconciliation_models import ReconciledAccount, ReconciliationStatus
from billing.reconciliations import DIFFERENCES_MAX, DayView, device_of_account
from primitives.errors import InvalidRequest
from webapi.paging import day_or_refuse
from webapi.serializers import DEVICE_HELP, DEVICES, StrictSerializer, TextField


class DayField(serializers.DateField):
    """A UTC day such as "2026-11-21"."""

    def to_internal_value(self, value: Any) -> date:
        """Return the day. Raises ValidationError for anything else."""
        try:
            if isinstance(value, str):
                return day_or_refuse(value, self.field_name or "day")
        except InvalidRequest:
            pass
        raise serializers.ValidationError("must be a day such as 2026-11-21", code="invalid")


class ReconciliationDifferenceSerializer(serializers.Serializer[Any]):
    """A time span in which the meter and the cluster's account of one run differ."""

    cause = serializers.ChoiceField(choices=[cause.value for cause in Cause])
    mgpu_s = serializers.IntegerField(
        help_text="Milli-GPU-seconds in the account minus those in the meter"
    )
    job = serializers.UUIDField(allow_null=True, help_text="null: unknown to the portal")
    attempt = serializers.UUIDField(allow_null=True)
    native_id = serializers.CharField(allow_null=True, help_text="The run's id on the cluster")
    user = serializers.CharField(help_text="The user's name on the cluster")
    state = serializers.CharField(help_text="The state as the cluster calls it")
    metered_start = serializers.CharField(allow_null=True)
    metered_end = serializers.CharField(allow_null=True, help_text="null: running, or never ran")
    metered_mgpu = serializers.IntegerField(allow_null=True)
    accounted_start = serializers.CharField(allow_null=True)
    accounted_end = serializers.CharField(allow_null=True, help_text="null: running, or never ran")
    accounted_mgpu = serializers.IntegerField(allow_null=True)


class ReconciledAccountSerializer(serializers.Serializer[ReconciledAccount]):
    """One account and pool of a day. The listed and omitted differences sum to the difference."""

    account = serializers.CharField(help_text="Name of the account on the cluster")
    team = serializers.CharField(
        source="team.display_path", allow_null=True, help_text="Path of the team; null: no team"
    )
    pool = serializers.CharField()
    device = serializers.SerializerMethodField(help_text=DEVICE_HELP)
    is_green = serializers.BooleanField(help_text="All differences are expected")
    metered_mgpu_s = serializers.IntegerField()
    accounted_mgpu_s = serializers.IntegerField()
    difference_count = serializers.IntegerField()
    differences = ReconciliationDifferenceSerializer(
        many=True, help_text=f"Largest first, at most {DIFFERENCES_MAX}"
    )
    cut_count = serializers.IntegerField(help_text="Number of differences that are not listed")
    cut_mgpu_s = serializers.IntegerField(help_text="Sum of the differences that are not listed")

    @extend_schema_field(serializers.ChoiceField(choices=DEVICES))
    def get_device(self, account: ReconciledAccount) -> str:
        """Return the kind of the pool's devices."""
        return device_of_account(account).value


class DeviceSumsSerializer(serializers.Serializer[Any]):
    """The sums of a day over all pools with this kind of devices."""

    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    metered_mgpu_s = serializers.IntegerField()
    accounted_mgpu_s = serializers.IntegerField()


class AcknowledgementSerializer(serializers.Serializer[Any]):
    """An acknowledgement of the differences of a red day."""

    at = serializers.DateTimeField()
    by = serializers.CharField(help_text="Login")
    reason = serializers.CharField()


class AcknowledgementRequestSerializer(StrictSerializer):
    """The reason why the differences of a red day stay."""

    reason = TextField(max_length=REASON_LENGTH_MAX)


class ReconciliationSerializer(serializers.Serializer[DayView]):
    """One UTC day of one cluster. Sums and status cover the accounts that the caller may see."""

    id = serializers.UUIDField(source="row.id")
    cluster = serializers.CharField(source="row.cluster.name")
    day = serializers.DateField(source="row.day")
    status = serializers.ChoiceField(
        choices=ReconciliationStatus.values,
        help_text="green: only expected differences; red: other differences too; pending: the "
        "cluster's account is not complete yet; unavailable: no account, will be retried",
    )
    is_complete = serializers.BooleanField(help_text="Whether the whole day was compared")
    as_of = serializers.DateTimeField(
        source="row.as_of", allow_null=True, help_text="The cluster's time at the last comparison"
    )
    until = serializers.DateTimeField(
        source="row.until", allow_null=True, help_text="End of the compared part of the day"
    )
    is_requested = serializers.SerializerMethodField(help_text="A comparison is under way")
    next_at = serializers.DateTimeField(
        source="row.next_at", allow_null=True, help_text="Time of the next automatic comparison"
    )
    acknowledgement = serializers.SerializerMethodField(
        help_text="Of a red day; null: not acknowledged, or a later comparison found other "
        "differences"
    )
    message = serializers.CharField(
        allow_blank=True, help_text="The cluster's own message, for users who manage clusters"
    )
    metered_mgpu_s = serializers.IntegerField(
        help_text="Sum over all pools. `by_device` has separate sums for cores and GPUs"
    )
    accounted_mgpu_s = serializers.IntegerField(help_text="Like `metered_mgpu_s`")
    by_device = DeviceSumsSerializer(
        many=True, help_text="Both sums for each kind of devices. They add up to those above"
    )
    difference_count = serializers.IntegerField()

    @extend_schema_field(AcknowledgementSerializer(allow_null=True))
    def get_acknowledgement(self, view: DayView) -> dict[str, Any] | None:
        """Return the acknowledgement, if the day is red for the caller."""
        row = view.row
        if row.acknowledged_at is None or view.status != ReconciliationStatus.RED:
            return None
        shown = {
            "at": row.acknowledged_at,
            "by": row.acknowledged_by,
            "reason": row.acknowledged_reason,
        }
        return dict(AcknowledgementSerializer(shown).data)

    def get_is_requested(self, view: DayView) -> bool:
        """Return whether a request is open."""
        return view.row.request_id is not None


class ReconciliationDetailSerializer(ReconciliationSerializer):
    """A day with its accounts and their differences."""

    accounts = ReconciledAccountSerializer(many=True)


class ReconciliationRequestSerializer(StrictSerializer):
    """A day of a cluster to compare."""

    cluster = TextField(max_length=63, help_text="Name of the cluster")
    day = DayField(help_text="UTC day. Today is compared up to now")
