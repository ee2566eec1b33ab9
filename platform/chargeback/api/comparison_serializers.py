"""Shapes of the comparison of prices."""

from __future__ import annotations

from rest_framework import serializers

from billing.api.price_serializers import MODE_HELP
from billing.models import PRICED_CLASSES, ExtraCharge, PriceMode
from chargeback.price_comparison import PriceAt, PriceComparison, PricePair, TeamPair
from webapi.serializers import DEVICE_HELP, DEVICES

SHOWBACK_HELP = "Cost that showback reports. It is not billed, and in no other cost"


class PriceAtSerializer(serializers.Serializer[PriceAt]):
    """The price of a class at one moment, and the cost of the period's usage at it."""

    mode = serializers.ChoiceField(choices=PriceMode.choices, help_text=MODE_HELP)
    price_nano = serializers.IntegerField(
        allow_null=True, help_text="Per GPU-hour, with the multiplier of the class. null: no price"
    )
    multiplier_ppm = serializers.IntegerField(
        allow_null=True, help_text="Multiplier of the class in millionths"
    )
    cost_nano = serializers.IntegerField()


class PricePairSerializer(serializers.Serializer[PricePair]):
    """A price at two moments, and the usage of the period at each of them."""

    pool = serializers.CharField()
    device = serializers.ChoiceField(choices=DEVICES, help_text=DEVICE_HELP)
    usage_class = serializers.ChoiceField(choices=[*PRICED_CLASSES, *ExtraCharge])
    mgpu_s = serializers.IntegerField(
        help_text="Usage of the period. Of a commitment or top-ups: the larger billed quantity"
    )
    change_ppm = serializers.IntegerField(
        allow_null=True, help_text="Change of the price in millionths; null without a first one"
    )
    first = PriceAtSerializer()
    second = PriceAtSerializer()


class TeamPairSerializer(serializers.Serializer[TeamPair]):
    """A team's cost of the period at two moments."""

    team = serializers.CharField()
    first_cost_nano = serializers.IntegerField()
    second_cost_nano = serializers.IntegerField()
    first_showback_nano = serializers.IntegerField(help_text=SHOWBACK_HELP)
    second_showback_nano = serializers.IntegerField(help_text=SHOWBACK_HELP)
    change_ppm = serializers.IntegerField(
        allow_null=True, help_text="Change of the cost in millionths; null if the first is 0"
    )


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
    first_showback_nano = serializers.IntegerField(help_text=SHOWBACK_HELP)
    second_showback_nano = serializers.IntegerField(help_text=SHOWBACK_HELP)
    change_ppm = serializers.IntegerField(
        allow_null=True, help_text="Change of the cost in millionths; null if the first is 0"
    )
    teams = TeamPairSerializer(many=True, help_text="The largest change of the cost first")
    prices = PricePairSerializer(source="pairs", many=True)
