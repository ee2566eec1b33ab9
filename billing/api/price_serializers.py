"""Shapes of prices and their comparison."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from billing.models import PRICED_CLASSES, RateCard
from billing.price_comparison import PriceComparison, PricePair
from billing.pricing import PRICE_NANO_MAX, may_edit, time_zone_of
from webapi.serializers import (
    DEVICE_HELP,
    DEVICES,
    StrictSerializer,
    TextField,
    UtcTimeField,
    WholeNumberField,
    YesOrNoField,
)


class RateLineSerializer(serializers.Serializer[Any]):
    """Price of a GPU-hour during `[start, end)`; of a core-hour in a pool of CPU cores."""

    id = serializers.UUIDField()
    pool = serializers.CharField(source="pool.name")
    device = serializers.ChoiceField(choices=DEVICES, source="pool.device", help_text=DEVICE_HELP)
    usage_class = serializers.ChoiceField(choices=PRICED_CLASSES)
    price_nano = serializers.IntegerField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField(allow_null=True, help_text="null: no end yet")
    added_at = serializers.DateTimeField(
        allow_null=True, help_text="null for prices of older versions"
    )
    added_by = serializers.CharField(help_text="Login; empty for prices of older versions")
    is_correction = serializers.BooleanField(
        help_text="Whether it was added after it had started to apply"
    )


class CorrectionSerializer(RateLineSerializer):
    """A price that was added after it had started to apply."""

    organization = serializers.CharField(source="card.organization.slug")
    currency = serializers.CharField(source="card.currency", help_text="ISO 4217")


class RateCardSerializer(serializers.Serializer[RateCard]):
    """An organization's prices."""

    id = serializers.UUIDField()
    organization = serializers.CharField(source="organization.slug")
    currency = serializers.CharField(help_text="ISO 4217")
    time_zone = serializers.SerializerMethodField(
        help_text="Zone of the organization (IANA), in which days of prices begin"
    )
    lines = RateLineSerializer(many=True, help_text="Sorted by pool, usage class and start")
    can_edit = serializers.SerializerMethodField(
        help_text="Whether the caller may change the prices"
    )

    def get_time_zone(self, card: RateCard) -> str:
        """Return the zone of the organization."""
        return time_zone_of(card)

    def get_can_edit(self, card: RateCard) -> bool:
        """Return whether the caller in the context may change the prices."""
        return may_edit(self.context["actor"], card)


class RateCardCreateSerializer(StrictSerializer):
    """A new, empty rate card."""

    organization = TextField(max_length=63)
    currency = TextField(max_length=3, help_text="ISO 4217, for example EUR")


class RateLineCreateSerializer(StrictSerializer):
    """A new price."""

    pool = TextField(max_length=63)
    usage_class = serializers.ChoiceField(choices=PRICED_CLASSES)
    price_nano = WholeNumberField(min_value=0, max_value=PRICE_NANO_MAX)
    start = UtcTimeField(
        required=False, allow_null=True, default=None, help_text="null: from now on"
    )
    end = UtcTimeField(required=False, allow_null=True, default=None)
    ends_current = YesOrNoField(
        required=False,
        default=False,
        help_text="End the price that applies at `start` there. Without `end`, the new price lasts "
        "until the next scheduled one",
    )


class RateLineEndSerializer(StrictSerializer):
    """The end of a price."""

    end = UtcTimeField(allow_null=True, help_text="null: now")


class PricePairSerializer(serializers.Serializer[PricePair]):
    """A price at two moments, and the usage of the period at each of them."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    usage_class = serializers.ChoiceField(choices=PRICED_CLASSES)
    first_nano = serializers.IntegerField(allow_null=True, help_text="null: no price")
    second_nano = serializers.IntegerField(allow_null=True, help_text="null: no price")
    change_ppm = serializers.IntegerField(
        allow_null=True, help_text="Change of the price in millionths; null without a first one"
    )
    mgpu_s = serializers.IntegerField(help_text="Usage of the period")
    first_cost_nano = serializers.IntegerField(help_text="Cost of that usage at the first price")
    second_cost_nano = serializers.IntegerField(help_text="Cost of that usage at the second price")


class PriceComparisonSerializer(serializers.Serializer[PriceComparison]):
    """Prices at two moments, and the cost of a period under each of them."""

    organization = serializers.CharField(source="card.organization.slug")
    currency = serializers.CharField(source="card.currency", help_text="ISO 4217")
    first = serializers.DateTimeField()
    second = serializers.DateTimeField()
    start = serializers.DateTimeField(source="period.start")
    end = serializers.DateTimeField(source="period.end")
    is_whole = serializers.BooleanField(
        help_text="False: usage and costs are those of the nodes whose costs the caller may see"
    )
    charged_cost_nano = serializers.IntegerField(help_text="Cost in the chargeback report")
    first_cost_nano = serializers.IntegerField()
    second_cost_nano = serializers.IntegerField()
    change_ppm = serializers.IntegerField(
        allow_null=True, help_text="Change of the cost in millionths; null if the first is 0"
    )
    prices = PricePairSerializer(source="pairs", many=True)
