"""Shapes of reports by groups."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rest_framework import serializers

from billing.api.price_serializers import CorrectionSerializer
from billing.periods import Period
from chargeback.api.sum_serializers import (
    AmountsSerializer,
    ChargebackCheckSerializer,
    CurrencySumsSerializer,
    ReportDeviceTotalsSerializer,
    ReportTotalsSerializer,
    report_sums_body,
    utc_text,
)
from chargeback.capacity import Withheld
from chargeback.checks import MonthCheck
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
        "below the organization. A department ends in ' (part)' if the row has only a part of it",
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

    team = serializers.CharField(help_text="Latest path of the team in both periods")


class SpanSerializer(serializers.Serializer[Period]):
    """A period."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()


class MovesSerializer(serializers.Serializer[Any]):
    """The change of costs since the period before. A team that moved in the tree stays one team."""

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


class IdleSerializer(serializers.Serializer[Any]):
    """Idle and spare GPUs of the pools whose capacity the caller may see."""

    start = serializers.DateTimeField(source="period.start")
    end = serializers.DateTimeField(source="period.end")
    as_of = serializers.DateTimeField(source="period.as_of")
    time_zone = serializers.CharField()
    share = serializers.ChoiceField(choices=[*Share])
    pools = IdlePoolSerializer(many=True)
    rows = IdleRowSerializer(many=True, help_text="Empty without a share-out")
    withheld = WithheldPoolSerializer(
        many=True, help_text="The other pools of the caller, and why their capacity is hidden"
    )


class MonthCheckSerializer(serializers.Serializer[MonthCheck]):
    """A closed month of an organization, in nano-currency."""

    organization = serializers.CharField(help_text="Slug")
    month = serializers.CharField(help_text="2026-11")
    currency = serializers.CharField(help_text="ISO 4217; empty without a rate card")
    closed_at = serializers.DateTimeField()
    report_mgpu_s = serializers.IntegerField(help_text="Use by the segments of today")
    billed_mgpu_s = serializers.IntegerField(help_text="Use in the charges and their corrections")
    report_nano = serializers.IntegerField(help_text="Cost by the segments of today")
    billed_nano = serializers.IntegerField(help_text="Charges of the closed month, which stay")
    corrections_nano = serializers.IntegerField(
        help_text="Corrections of the month in later closed months"
    )
    difference_nano = serializers.IntegerField(help_text="Report less charges and corrections")
    is_as_billed = serializers.BooleanField()
    statements_nano = serializers.IntegerField(
        allow_null=True, help_text="All statements less credit notes; null without statements"
    )
    ledger_nano = serializers.IntegerField(
        allow_null=True, help_text="The same in the ledger of money"
    )
    is_posted = serializers.BooleanField(help_text="Whether the ledger has the statements")
    advice = serializers.CharField(
        allow_blank=True, help_text="Reason of a difference, and what to do; empty without one"
    )


class ClosedMonthsSerializer(serializers.Serializer[Any]):
    """Closed months inside of a period, the latest first, at most 3."""

    months = MonthCheckSerializer(many=True)
