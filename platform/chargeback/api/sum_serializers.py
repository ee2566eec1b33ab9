"""Shapes of amounts and sums of reports, and of the jobs behind them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rest_framework import serializers

from billing.models import ExtraCharge, FaultReason, UsageClass
from chargeback.jobs import JobUse
from chargeback.sums import CurrencySums, Sums
from webapi.serializers import DEVICE_HELP, DEVICES


class AmountsSerializer(serializers.Serializer[Any]):
    """Usage in milli-GPU-seconds and cost in nano-currency."""

    guaranteed_mgpu_s = serializers.IntegerField(help_text="Inside the guarantee")
    borrowed_mgpu_s = serializers.IntegerField(
        help_text="Above the guarantee, and paid by credits where the credit bank is on"
    )
    unpaid_mgpu_s = serializers.IntegerField(help_text="Above the guarantee, without credits")
    fault_mgpu_s = serializers.IntegerField(
        help_text="Lost by a fault of the cluster or an early preemption; costs nothing"
    )
    guaranteed_cost_nano = serializers.IntegerField()
    borrowed_cost_nano = serializers.IntegerField()
    unpaid_cost_nano = serializers.IntegerField()
    commitment_mgpu_s = serializers.IntegerField(
        help_text="Guarantee of pools that bill commitments, used or not. It is no usage"
    )
    commitment_cost_nano = serializers.IntegerField()
    top_up_mgpu_s = serializers.IntegerField(
        help_text="Rest of minimums and increments at the ends of attempts. It is no usage"
    )
    top_up_cost_nano = serializers.IntegerField()
    cost_nano = serializers.IntegerField(
        help_text="Billed cost: of all classes, commitments and top-ups"
    )
    showback_nano = serializers.IntegerField(
        help_text="Cost that showback reports. It is not billed, and in no other cost"
    )
    unpriced_mgpu_s = serializers.IntegerField(
        help_text="Part of the usage without a price, which costs 0"
    )
    jobs = serializers.IntegerField()


class DeviceTotalsSerializer(AmountsSerializer):
    """The totals of all pools with this kind of devices."""

    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)


class ChargebackCheckSerializer(serializers.Serializer[Any]):
    """The same usage computed twice: from the segments, and from the rows of teams."""

    segments_mgpu_s = serializers.IntegerField()
    rows_mgpu_s = serializers.IntegerField()
    is_equal = serializers.BooleanField()


class CurrencySumsSerializer(serializers.Serializer[Any]):
    """Totals of the organizations with one currency, and their check."""

    currency = serializers.CharField(
        allow_null=True, help_text="ISO 4217; null if no rate card applies"
    )
    organizations = serializers.ListField(
        child=serializers.CharField(), help_text="Slugs of the organizations with usage"
    )
    totals = AmountsSerializer()
    totals_by_device = DeviceTotalsSerializer(many=True)
    check = ChargebackCheckSerializer()

    def to_representation(self, instance: CurrencySums) -> dict[str, Any]:
        """Return the sums and their currency."""
        return {
            "currency": instance.currency,
            "organizations": list(instance.organizations),
            **_sums_body(instance),
        }


class ReportTotalsSerializer(AmountsSerializer):
    """Totals of a report. Costs are null if there are several currencies."""

    guaranteed_cost_nano = serializers.IntegerField(allow_null=True)
    borrowed_cost_nano = serializers.IntegerField(allow_null=True)
    unpaid_cost_nano = serializers.IntegerField(allow_null=True)
    commitment_cost_nano = serializers.IntegerField(allow_null=True)
    top_up_cost_nano = serializers.IntegerField(allow_null=True)
    cost_nano = serializers.IntegerField(allow_null=True, help_text="Billed cost of all")
    showback_nano = serializers.IntegerField(allow_null=True)


class ReportDeviceTotalsSerializer(ReportTotalsSerializer):
    """The totals of all pools with this kind of devices."""

    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)


def _sums_body(sums: Sums) -> dict[str, Any]:
    rows_mgpu_s = sums.totals.mgpu_s
    return {
        "totals": AmountsSerializer(sums.totals).data,
        "totals_by_device": [
            {"device": device.value, **AmountsSerializer(amounts).data}
            for device, amounts in sums.totals_by_device.items()
        ],
        "check": {
            "segments_mgpu_s": sums.segments_mgpu_s,
            "rows_mgpu_s": rows_mgpu_s,
            "is_equal": sums.segments_mgpu_s == rows_mgpu_s,
        },
    }


_COSTS = (
    "guaranteed_cost_nano",
    "borrowed_cost_nano",
    "unpaid_cost_nano",
    "commitment_cost_nano",
    "top_up_cost_nano",
    "cost_nano",
    "showback_nano",
)


def report_sums_body(sums: Sums, parts: Collection[CurrencySums]) -> dict[str, Any]:
    """Return the totals of a report and their check. Costs in several currencies have no sum."""
    body = _sums_body(sums)
    if len(parts) > 1:
        for amounts in [body["totals"], *body["totals_by_device"]]:
            amounts.update(dict.fromkeys(_COSTS))
    return body


def utc_text(moment: Any) -> Any:
    """Return a time in the form of all answers."""
    return serializers.DateTimeField().to_representation(moment)


class ChargebackJobSerializer(serializers.Serializer[JobUse]):
    """Use of a job in one usage class in the period, over `attempts` attempts, or its top-ups.

    A commitment has no job. Charges beside use have a cost, and no use.
    """

    job = serializers.UUIDField(source="job_id", allow_null=True, help_text="null: a commitment")
    name = serializers.CharField()
    team = serializers.CharField(help_text="Path of the team")
    user = serializers.CharField(help_text="Username")
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    usage_class = serializers.ChoiceField(choices=[*UsageClass, *ExtraCharge])
    mgpu_s = serializers.IntegerField()
    cost_nano = serializers.IntegerField()
    attempts = serializers.IntegerField()
    faults = serializers.ListField(
        child=serializers.ChoiceField(choices=FaultReason.choices),
        help_text="Reasons of use in the class fault; empty for other classes",
    )
