"""Shapes of reconciled days."""

from __future__ import annotations

from datetime import date
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from billing.acknowledgements import REASON_LENGTH_MAX
from billing.models import ReconciledAccount, ReconciliationStatus
from billing.reconciliation import Cause
from billing.reconciliations import DIFFERENCES_MAX, DayView, device_of_account
from primitives.errors import InvalidRequest
from webapi.paging import day_or_refuse
from webapi.serializers import DEVICE_HELP, DEVICES, StrictSerializer, TextField


class DayField(serializers.DateField):
    """A UTC day such as "2026-11-21"."""

    def to_internal_value(self, value: Any) -> date:
        """The day. Raises ValidationError for anything else."""
        try:
            if isinstance(value, str):
                return day_or_refuse(value, self.field_name or "day")
        except InvalidRequest:
            pass
        raise serializers.ValidationError("must be a day such as 2026-11-21", code="invalid")


class ReconciliationDifferenceSerializer(serializers.Serializer[Any]):
    """One stretch in which the meter and the cluster's account disagree, of one run."""

    cause = serializers.ChoiceField(choices=[cause.value for cause in Cause])
    mgpu_s = serializers.IntegerField(
        help_text="Milli-GPU-seconds that the account has more than the meter"
    )
    job = serializers.UUIDField(allow_null=True, help_text="Null: the portal knows no such job")
    attempt = serializers.UUIDField(allow_null=True)
    native_id = serializers.CharField(allow_null=True, help_text="The cluster's id of the run")
    user = serializers.CharField(help_text="The cluster's name of its user")
    state = serializers.CharField(help_text="The cluster's word")
    metered_start = serializers.CharField(allow_null=True)
    metered_end = serializers.CharField(allow_null=True, help_text="Null: it runs, or never ran")
    metered_mgpu = serializers.IntegerField(allow_null=True)
    accounted_start = serializers.CharField(allow_null=True)
    accounted_end = serializers.CharField(allow_null=True, help_text="Null: it runs, or never ran")
    accounted_mgpu = serializers.IntegerField(allow_null=True)


class ReconciledAccountSerializer(serializers.Serializer[ReconciledAccount]):
    """One account and pool of a day; the differences, with what was cut, sum to the difference."""

    account = serializers.CharField(help_text="The cluster's name")
    team = serializers.CharField(
        source="team.display_path", allow_null=True, help_text="Path; null: no team's"
    )
    pool = serializers.CharField()
    device = serializers.SerializerMethodField(help_text=DEVICE_HELP)
    is_green = serializers.BooleanField(help_text="Nothing differs but what is expected")
    metered_mgpu_s = serializers.IntegerField()
    accounted_mgpu_s = serializers.IntegerField()
    difference_count = serializers.IntegerField()
    differences = ReconciliationDifferenceSerializer(
        many=True, help_text=f"Largest first, at most {DIFFERENCES_MAX}"
    )
    cut_count = serializers.IntegerField(help_text="Differences beyond those")
    cut_mgpu_s = serializers.IntegerField(help_text="Their sum")

    @extend_schema_field(serializers.ChoiceField(choices=DEVICES))
    def get_device(self, account: ReconciledAccount) -> str:
        """What its pool counts."""
        return device_of_account(account).value


class DeviceSumsSerializer(serializers.Serializer[Any]):
    """The sums of a day over all pools with such devices."""

    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    metered_mgpu_s = serializers.IntegerField()
    accounted_mgpu_s = serializers.IntegerField()


class AcknowledgementSerializer(serializers.Serializer[Any]):
    """Who knows the differences of a red day, and why they stay."""

    at = serializers.DateTimeField()
    by = serializers.CharField(help_text="Login")
    reason = serializers.CharField()


class AcknowledgementRequestSerializer(StrictSerializer):
    """Why the differences of a red day stay."""

    reason = TextField(max_length=REASON_LENGTH_MAX)


class ReconciliationSerializer(serializers.Serializer[DayView]):
    """One UTC day of one cluster. All but the day and the cluster is of the accounts that the
    caller may see."""

    id = serializers.UUIDField(source="row.id")
    cluster = serializers.CharField(source="row.cluster.name")
    day = serializers.DateField(source="row.day")
    status = serializers.ChoiceField(
        choices=ReconciliationStatus.values,
        help_text="green: only expected differences; red: others too; pending: the cluster's "
        "account is not complete yet; unavailable: it could not be had, and is asked for again",
    )
    is_complete = serializers.BooleanField(help_text="Whether the whole day was compared")
    as_of = serializers.DateTimeField(
        source="row.as_of", allow_null=True, help_text="The cluster's time of the last comparison"
    )
    until = serializers.DateTimeField(
        source="row.until", allow_null=True, help_text="The day was compared up to here"
    )
    is_requested = serializers.SerializerMethodField(help_text="A comparison is under way")
    next_at = serializers.DateTimeField(
        source="row.next_at", allow_null=True, help_text="When it is compared again by itself"
    )
    acknowledgement = serializers.SerializerMethodField(
        help_text="Of a red day; null: nobody has acknowledged it, or a later comparison found "
        "other differences"
    )
    message = serializers.CharField(
        allow_blank=True, help_text="The cluster's own words, for those who manage clusters"
    )
    metered_mgpu_s = serializers.IntegerField(
        help_text="Of all pools: cores and GPUs, where there are both, are apart in `by_device`"
    )
    accounted_mgpu_s = serializers.IntegerField(help_text="As `metered_mgpu_s`")
    by_device = DeviceSumsSerializer(
        many=True, help_text="Both sums, of each kind of devices; they sum to those above"
    )
    difference_count = serializers.IntegerField()

    @extend_schema_field(AcknowledgementSerializer(allow_null=True))
    def get_acknowledgement(self, view: DayView) -> dict[str, Any] | None:
        """The acknowledgement, for those to whom the day is red."""
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
        """Whether a request waits."""
        return view.row.request_id is not None


class ReconciliationDetailSerializer(ReconciliationSerializer):
    """A day with its accounts and their differences."""

    accounts = ReconciledAccountSerializer(many=True)


class ReconciliationRequestSerializer(StrictSerializer):
    """Which day of which cluster is to be compared."""

    cluster = TextField(max_length=63, help_text="Name")
    day = DayField(help_text="UTC; today is compared as far as it has come")
