"""Shapes of reports by groups."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from billing.api.price_serializers import CorrectionSerializer
from billing.api.serializers import (
    AmountsSerializer,
    ChargebackCheckSerializer,
    CurrencySumsSerializer,
    ReportDeviceTotalsSerializer,
    ReportTotalsSerializer,
    report_sums_body,
    utc_text,
)
from chargeback.dimensions import Dimension
from chargeback.reports import GroupedReport
from webapi.serializers import DEVICE_HELP, DEVICES

_AMOUNTS = tuple(AmountsSerializer().fields)


class GroupRowSerializer(AmountsSerializer):
    """The use of one group, in one kind of devices and one currency."""

    keys = serializers.DictField(
        child=serializers.CharField(allow_blank=True),
        help_text="The names of the group, by dimension. The department is empty for a team right "
        "below the organization",
    )
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    currency = serializers.CharField(
        allow_null=True, help_text="ISO 4217; null if the organization has no rate card"
    )


class BucketSerializer(serializers.Serializer[Any]):
    """An hour, day, week or month of the organization's time zone, cut to the period."""

    label = serializers.CharField()  # type: ignore[assignment]
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()


class GroupedReportSerializer(serializers.Serializer[Any]):
    """Use and cost from `start` to `end` by groups, sorted by their names.

    Use that has not ended counts until `end` or `as_of`, whichever is earlier.
    """

    by = serializers.ListField(child=serializers.ChoiceField(choices=[*Dimension]))
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    as_of = serializers.DateTimeField()
    time_zone = serializers.CharField(
        help_text="Zone (IANA) of its days: the organization's, or UTC for several organizations"
    )
    currency = serializers.CharField(
        allow_null=True,
        help_text="ISO 4217; null if no rate card applies, or there are several: see `by_currency`",
    )
    rows = GroupRowSerializer(many=True, help_text="At most 10,000")
    by_currency = CurrencySumsSerializer(
        many=True, help_text="The totals by currency; at least one item"
    )
    totals = ReportTotalsSerializer(help_text="Sum over all rows. Each job counts once")
    totals_by_device = ReportDeviceTotalsSerializer(many=True)
    check = ChargebackCheckSerializer()
    buckets = BucketSerializer(
        many=True, help_text="All times of the dimension of time, also those without use"
    )
    corrections = CorrectionSerializer(
        many=True, help_text="Prices that were added after they had applied in the period"
    )
    priced_at = serializers.DateTimeField(
        allow_null=True, help_text="Costs are those at the prices of this moment. null: as charged"
    )

    def to_representation(self, instance: GroupedReport) -> dict[str, Any]:
        """Return the report in the form of the API."""
        period = instance.period
        return {
            "by": list(instance.by),
            "start": utc_text(period.start),
            "end": utc_text(period.end),
            "as_of": utc_text(period.as_of),
            "time_zone": instance.time_zone,
            "currency": instance.currency,
            "rows": [
                {
                    "keys": dict(zip(instance.by, row.keys, strict=True)),
                    "device": row.device.value,
                    "currency": row.currency,
                    **{name: getattr(row.amounts, name) for name in _AMOUNTS},
                }
                for row in instance.rows
            ],
            "by_currency": CurrencySumsSerializer(instance.by_currency, many=True).data,
            **report_sums_body(instance, instance.by_currency),
            "buckets": BucketSerializer(instance.buckets, many=True).data,
            "corrections": CorrectionSerializer(instance.corrections, many=True).data,
            "priced_at": None if instance.priced_at is None else utc_text(instance.priced_at),
        }
