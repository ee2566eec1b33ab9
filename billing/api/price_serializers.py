"""Shapes of prices."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from billing.models import BILLED_S_MAX, PRICED_CLASSES, PriceMode, RateCard
from billing.pricing import PRICE_NANO_MAX, may_edit, time_zone_of
from primitives.units import PPM
from quotas.models import PRICE_MULTIPLIER_PPM_MAX
from webapi.serializers import (
    DEVICE_HELP,
    DEVICES,
    StrictSerializer,
    TextField,
    UtcTimeField,
    WholeNumberField,
    YesOrNoField,
)

MODE_HELP = (
    "pay_per_use: what was used is billed. commitment: the guarantee is billed, used or not. "
    "showback: costs are reported and not billed"
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


class PoolTermsSerializer(serializers.Serializer[Any]):
    """Terms of a pool during `[start, end)`. Multipliers are in millionths."""

    id = serializers.UUIDField()
    pool = serializers.CharField(source="pool.name")
    device = serializers.ChoiceField(choices=DEVICES, source="pool.device", help_text=DEVICE_HELP)
    mode = serializers.ChoiceField(choices=PriceMode.choices, help_text=MODE_HELP)
    guaranteed_ppm = serializers.IntegerField()
    borrowed_ppm = serializers.IntegerField()
    unpaid_ppm = serializers.IntegerField()
    minimum_s = serializers.IntegerField(help_text="Least billed time of an attempt")
    increment_s = serializers.IntegerField(help_text="Attempts are billed for multiples of it")
    start = serializers.DateTimeField()
    end = serializers.DateTimeField(allow_null=True, help_text="null: no end yet")
    added_at = serializers.DateTimeField(
        allow_null=True, help_text="null for terms of older versions"
    )
    added_by = serializers.CharField(help_text="Login; empty for terms of older versions")
    is_correction = serializers.BooleanField(
        help_text="Whether they were added after they had started to apply"
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
    terms = PoolTermsSerializer(
        many=True,
        help_text="Sorted by pool and start. A pool without terms is pay-per-use, with multipliers "
        "of 1, no minimum, and billed by the second",
    )
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


def _multiplier() -> WholeNumberField:
    return WholeNumberField(
        required=False, default=PPM, min_value=0, max_value=PRICE_MULTIPLIER_PPM_MAX
    )


class PoolTermsCreateSerializer(StrictSerializer):
    """New terms of a pool."""

    pool = TextField(max_length=63)
    mode = serializers.ChoiceField(choices=PriceMode.choices, help_text=MODE_HELP)
    guaranteed_ppm = _multiplier()
    borrowed_ppm = _multiplier()
    unpaid_ppm = _multiplier()
    minimum_s = WholeNumberField(required=False, default=0, min_value=0, max_value=BILLED_S_MAX)
    increment_s = WholeNumberField(required=False, default=1, min_value=1, max_value=BILLED_S_MAX)
    start = UtcTimeField(
        required=False, allow_null=True, default=None, help_text="null: from now on"
    )
    end = UtcTimeField(required=False, allow_null=True, default=None)
    ends_current = YesOrNoField(
        required=False,
        default=False,
        help_text="End the terms that apply at `start` there. Without `end`, the new terms last "
        "until the next scheduled ones",
    )


class RuleEndSerializer(StrictSerializer):
    """The end of a price or of terms."""

    end = UtcTimeField(allow_null=True, help_text="null: now")
