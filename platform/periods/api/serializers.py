"""Shapes of months."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, Sum
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from adjustments.adjusting import adjustments_in
from billing.reconciliation_models import ReconciliationStatus
from periods.closing import BLOCKERS_MAX, GRACE, MonthView, PeriodState
from periods.models import REASON_LENGTH_MAX, ChargeRow
from webapi.serializers import DEVICE_HELP, DEVICES, StrictSerializer, TextField


class UnconfirmedDaySerializer(serializers.Serializer[Any]):
    """A UTC day of a cluster that is not green, and not acknowledged."""

    cluster = serializers.CharField()
    day = serializers.DateField()
    status = serializers.ChoiceField(
        choices=ReconciliationStatus.values,
        allow_null=True,
        help_text="green: only a part was compared; null: never compared",
    )


class PeriodSerializer(serializers.Serializer[MonthView]):
    """A month of an organization."""

    organization = serializers.CharField(source="organization.slug")
    month = serializers.CharField(source="month.name", help_text='Such as "2026-11"')
    start = serializers.DateTimeField(source="month.start")
    end = serializers.DateTimeField(source="month.end", help_text="Excluded")
    time_zone = serializers.CharField(source="month.zone.key")
    state = serializers.ChoiceField(
        choices=[state.value for state in PeriodState],
        help_text="open; grace: late facts still change it; due: a person may close it; closed",
    )
    due_at = serializers.SerializerMethodField(help_text="From when on it may be closed")
    unconfirmed = UnconfirmedDaySerializer(
        many=True,
        help_text=f"Days that block its closing without a reason, at most {BLOCKERS_MAX}",
    )
    closed_at = serializers.DateTimeField(source="period.closed_at", default=None, allow_null=True)
    closed_by = serializers.CharField(
        source="period.closed_by", default=None, allow_null=True, help_text="Login"
    )
    reason = serializers.CharField(
        source="period.reason",
        default=None,
        allow_null=True,
        help_text="Why it was closed with unconfirmed days; empty: all were confirmed",
    )
    currency = serializers.CharField(source="period.currency", default=None, allow_null=True)
    row_count = serializers.IntegerField(source="period.row_count", default=None, allow_null=True)
    digest = serializers.CharField(
        source="period.digest",
        default=None,
        allow_null=True,
        help_text="SHA-256 over all charges and adjustments",
    )

    @extend_schema_field(serializers.DateTimeField())
    def get_due_at(self, view: MonthView) -> Any:
        """Return the end of the grace."""
        return serializers.DateTimeField().to_representation(view.month.end + GRACE)


class PeriodChargeSerializer(serializers.Serializer[Any]):
    """The charges of a closed month for a team, pool and class, summed over its days."""

    team = serializers.CharField(help_text="Path of the team at the time of use")
    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    usage_class = serializers.CharField(
        help_text="A usage class, or commitment or top_up, which are billed beside the use"
    )
    is_correction = serializers.BooleanField(help_text="It changes charges of earlier months")
    mgpu_s = serializers.IntegerField()
    extra_mgpu_s = serializers.IntegerField(
        help_text="Billed quantity of a commitment or of top-ups. It is no use"
    )
    unpriced_mgpu_s = serializers.IntegerField()
    cost_nano = serializers.IntegerField()


class PeriodDetailSerializer(PeriodSerializer):
    """A month with its charges, once it is closed."""

    charges = serializers.SerializerMethodField()
    adjustments_nano = serializers.SerializerMethodField()

    def get_adjustments_nano(self, view: MonthView) -> int:
        """Return the sum of the adjustments of the month, refunds included."""
        adjustments = adjustments_in(view.organization.pk, view.month.first)
        return sum(one.amount_nano for one in adjustments)

    @extend_schema_field(PeriodChargeSerializer(many=True))
    def get_charges(self, view: MonthView) -> list[dict[str, Any]]:
        """Return the frozen charges; none while it is not closed."""
        if view.period is None:
            return []
        names = ("team_path", "pool", "device", "usage_class", "is_correction")
        found = (
            ChargeRow.objects.filter(period=view.period)
            .values(*names)
            .annotate(
                mgpu_s_sum=Sum("mgpu_s"),
                extra_sum=Sum("extra_mgpu_s"),
                unpriced_sum=Sum("mgpu_s", filter=Q(price_nano=None), default=0),
                cost=Sum("cost_nano"),
            )
            .order_by("is_correction", "team_path", "pool", "usage_class")
        )
        return [
            {
                "team": row["team_path"],
                **{name: row[name] for name in names[1:]},
                "mgpu_s": int(row["mgpu_s_sum"]),
                "extra_mgpu_s": int(row["extra_sum"]),
                "unpriced_mgpu_s": int(row["unpriced_sum"]),
                "cost_nano": int(row["cost"]),
            }
            for row in found
        ]


class PeriodCloseSerializer(StrictSerializer):
    """The reason to close a month with unconfirmed days."""

    reason = TextField(max_length=REASON_LENGTH_MAX, required=False)
