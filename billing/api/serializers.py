"""Shapes of reports and prices."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rest_framework import serializers

from billing.api.price_serializers import CorrectionSerializer
from billing.capacity import Withheld
from billing.chargeback import CurrencySums, JobUse, Report, Row, Sums
from billing.models import FaultReason, UsageClass
from tenants.models import NodeKind
from webapi.serializers import (
    DEVICE_HELP,
    DEVICES,
)


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


class ChargebackRowSerializer(AmountsSerializer):
    """Usage of a pool by a node.

    An organization or department includes its whole subtree. So add up only the rows of teams, or
    use the totals.
    """

    node = serializers.CharField(source="node.display_path", help_text="Path of the node")
    node_kind = serializers.ChoiceField(choices=NodeKind.choices)
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    currency = serializers.CharField(
        allow_null=True, help_text="ISO 4217; null if the organization has no rate card"
    )

    def to_representation(self, instance: Row) -> dict[str, Any]:
        """Return the row with its amounts and the node."""
        return {
            "node": instance.node.display_path,
            "node_kind": instance.node.kind,
            "pool": instance.pool,
            "device": instance.device.value,
            "currency": instance.currency,
            **AmountsSerializer(instance.amounts).data,
        }


class DeviceTotalsSerializer(AmountsSerializer):
    """The totals of all pools with this kind of devices."""

    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)


class ChargebackCheckSerializer(serializers.Serializer[Any]):
    """The same usage computed twice: from the segments, and from the rows of teams."""

    segments_mgpu_s = serializers.IntegerField()
    rows_mgpu_s = serializers.IntegerField()
    is_equal = serializers.BooleanField()


class ChargebackDaySerializer(serializers.Serializer[Any]):
    """Usage of a pool on one day, UTC."""

    day = serializers.DateField()
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    guaranteed_mgpu_s = serializers.IntegerField()
    borrowed_mgpu_s = serializers.IntegerField()
    unpaid_mgpu_s = serializers.IntegerField()
    fault_mgpu_s = serializers.IntegerField()


class PoolCapacitySerializer(serializers.Serializer[Any]):
    """Healthy capacity of a pool, its use by all organizations, and the difference."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    capacity_mgpu_s = serializers.IntegerField()
    in_use_mgpu_s = serializers.IntegerField()
    outside_mgpu_s = serializers.IntegerField(
        help_text="Used by workloads of no team: neither in use nor idle"
    )
    idle_mgpu_s = serializers.IntegerField(
        help_text="Negative if jobs used GPUs of nodes that no longer counted as healthy"
    )


class WithheldPoolSerializer(serializers.Serializer[Any]):
    """A pool without shown capacity, and its unused guarantee."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    reason = serializers.ChoiceField(
        choices=[reason.value for reason in Withheld],
        help_text="shared: other organizations have a quota in the pool, or used it. partial: the "
        "caller sees the costs of a part of the organization",
    )
    guaranteed_mgpu_s = serializers.IntegerField(
        allow_null=True,
        help_text="Guarantee of the organizations whose costs the caller may see completely; null "
        "if there is none",
    )
    unused_mgpu_s = serializers.IntegerField(
        allow_null=True,
        help_text="Part of the guarantee that their own jobs did not use: idle, or lent to other "
        "organizations",
    )


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


class ChargebackReportSerializer(serializers.Serializer[Any]):
    """Usage and cost from `start` to `end`.

    Use that has not ended counts until `end` or `as_of`, whichever is earlier.
    """

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    as_of = serializers.DateTimeField()
    currency = serializers.CharField(
        allow_null=True,
        help_text="ISO 4217; null if no rate card applies, or there are several: see `by_currency`",
    )
    rows = ChargebackRowSerializer(many=True)
    by_currency = CurrencySumsSerializer(
        many=True,
        help_text="The totals by currency; at least one item. A row belongs to the item that lists "
        "its organization",
    )
    totals = ReportTotalsSerializer(
        help_text="Sum over all pools. `totals_by_device` has separate times for cores and GPUs. "
        "Each job counts once, even if it ran in several pools",
    )
    totals_by_device = ReportDeviceTotalsSerializer(
        many=True,
        help_text="One item for each kind of devices in use. They sum to `totals`, except for "
        "jobs that ran on several kinds, which count once there",
    )
    check = ChargebackCheckSerializer()
    days = ChargebackDaySerializer(many=True)
    capacity = PoolCapacitySerializer(
        many=True,
        help_text="Only pools whose capacity reveals nothing about other organizations' use",
    )
    capacity_withheld = WithheldPoolSerializer(
        many=True, help_text="The other pools of the report, and why their capacity is hidden"
    )
    corrections = CorrectionSerializer(
        many=True,
        help_text="Prices that were added after they had applied in the period. Empty with "
        "`priced_at`",
    )
    priced_at = serializers.DateTimeField(
        allow_null=True,
        help_text="Costs are not what was charged, but what the use would cost at the prices of "
        "this moment. null: as charged",
    )

    def to_representation(self, instance: Report) -> dict[str, Any]:
        """Return the report in the form of the API."""
        period = instance.period
        return {
            "start": utc_text(period.start),
            "end": utc_text(period.end),
            "as_of": utc_text(period.as_of),
            "currency": instance.currency,
            "rows": [ChargebackRowSerializer(row).data for row in instance.rows],
            "by_currency": CurrencySumsSerializer(instance.by_currency, many=True).data,
            **report_sums_body(instance, instance.by_currency),
            "days": ChargebackDaySerializer(instance.days, many=True).data,
            "capacity": PoolCapacitySerializer(instance.capacity, many=True).data,
            "capacity_withheld": WithheldPoolSerializer(instance.withheld, many=True).data,
            "corrections": CorrectionSerializer(instance.corrections, many=True).data,
            "priced_at": None if instance.priced_at is None else utc_text(instance.priced_at),
        }


def utc_text(moment: Any) -> Any:
    """Return a time in the form of all answers."""
    return serializers.DateTimeField().to_representation(moment)


class ChargebackJobSerializer(serializers.Serializer[JobUse]):
    """Usage of one job in one usage class in the period, over `attempts` attempts."""

    job = serializers.UUIDField(source="job_id")
    name = serializers.CharField()
    team = serializers.CharField(help_text="Path of the team")
    user = serializers.CharField(help_text="Username")
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    usage_class = serializers.ChoiceField(choices=UsageClass.choices)
    mgpu_s = serializers.IntegerField()
    cost_nano = serializers.IntegerField()
    attempts = serializers.IntegerField()
    faults = serializers.ListField(
        child=serializers.ChoiceField(choices=FaultReason.choices),
        help_text="Reasons of use in the class fault; empty for other classes",
    )
