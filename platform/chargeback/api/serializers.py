"""Shapes of reports by groups."""

from __future__ import annotations

from dataclasses import asdict
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
from billing.periods import Period
from chargeback.dimensions import Dimension
from chargeback.idle import Share
from chargeback.moves import Move, Moves
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


class MoveSerializer(serializers.Serializer[Any]):
    """The costs of two periods, and the parts of their difference, in nano-currency."""

    before_nano = serializers.IntegerField()
    after_nano = serializers.IntegerField()
    change_nano = serializers.IntegerField(help_text="The sum of the parts below")
    price_nano = serializers.IntegerField(
        help_text="Use of the second period, at its prices less those of the first"
    )
    volume_nano = serializers.IntegerField(
        help_text="More or less use, at the mean price of the first period"
    )
    usage_class_nano = serializers.IntegerField(help_text="Another mix of usage classes")
    new_nano = serializers.IntegerField(help_text="Teams without use in the first period")
    ended_nano = serializers.IntegerField(help_text="Teams without use in the second period")
    currency = serializers.CharField(
        allow_null=True, help_text="ISO 4217; null if the organization has no rate card"
    )


class TeamMoveSerializer(MoveSerializer):
    """The change of a team's cost."""

    team = serializers.CharField(help_text="Path of the team at the time of use")


class SpanSerializer(serializers.Serializer[Period]):
    """A period."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()


class MovesSerializer(serializers.Serializer[Any]):
    """The change of costs since the period before. A moved team is ended there and new here."""

    before = SpanSerializer()
    after = SpanSerializer()
    as_of = serializers.DateTimeField()
    time_zone = serializers.CharField()
    rows = TeamMoveSerializer(many=True, help_text="Largest change first")
    totals = MoveSerializer(many=True, help_text="One item for each currency")

    def to_representation(self, instance: Moves) -> dict[str, Any]:
        """Return the moves in the form of the API."""
        return {
            "before": SpanSerializer(instance.before).data,
            "after": SpanSerializer(instance.after).data,
            "as_of": utc_text(instance.after.as_of),
            "time_zone": instance.time_zone,
            "rows": [
                {"team": row.team, "currency": row.currency, **_move_body(row.move)}
                for row in instance.rows
            ],
            "totals": [
                {"currency": currency, **_move_body(move)}
                for currency, move in instance.totals.items()
            ],
        }


def _move_body(move: Move) -> dict[str, int]:
    return {**asdict(move), "change_nano": move.change_nano}


class IdlePoolSerializer(serializers.Serializer[Any]):
    """The healthy capacity of a pool. Capacity + over = in use + outside + idle + spare."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    capacity_mgpu_s = serializers.IntegerField(help_text="Nodes that are down have none")
    in_use_mgpu_s = serializers.IntegerField()
    outside_mgpu_s = serializers.IntegerField(help_text="Used by workloads of no team")
    over_mgpu_s = serializers.IntegerField(help_text="Used on nodes that did not count as healthy")
    idle_mgpu_s = serializers.IntegerField(help_text="Unused, inside of unused guarantees")
    spare_mgpu_s = serializers.IntegerField(help_text="Unused, and guaranteed to nobody")


class IdleRowSerializer(serializers.Serializer[Any]):
    """A team's share of the idle time of a pool. The rows of a pool sum to zero."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    team = serializers.CharField(
        allow_null=True, help_text="Path of the team; null: the idle account, which is negative"
    )
    mgpu_s = serializers.IntegerField()


class IdleSerializer(serializers.Serializer[Any]):
    """Idle and spare GPUs of the pools whose capacity the caller may see."""

    start = serializers.DateTimeField(source="period.start")
    end = serializers.DateTimeField(source="period.end")
    as_of = serializers.DateTimeField(source="period.as_of")
    time_zone = serializers.CharField()
    share = serializers.ChoiceField(choices=[*Share])
    pools = IdlePoolSerializer(many=True)
    rows = IdleRowSerializer(many=True)
