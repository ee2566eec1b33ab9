"""Representations of budgets. Amounts are integers in the unit of the measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from budgets.administration import BudgetEdit, NewBudget
from budgets.models import (
    DEFAULT_NAME_LENGTH_MAX,
    LIMIT_MAX,
    NAME_LENGTH_MAX,
    ROLLING_DAYS_MAX,
    AlertKind,
    Budget,
    BudgetAlert,
    BudgetDay,
    BudgetDefault,
    BudgetState,
    Measure,
    Policy,
    WindowKind,
)
from webapi.serializers import StrictSerializer, TextField, UtcTimeField, WholeNumberField

_UNITS = (
    "In the unit of the measure: milli-GPU-seconds (gpu_hours), millionths of a GPU-second of the "
    "reference GPU (credits), or nano-currency (money)"
)
_POLICY_HELP = "Effect at 100 %"
_WINDOW_HELP = "Period over which it counts, in the organization's time zone"


class BudgetStateSerializer(serializers.ModelSerializer[BudgetState]):
    """A budget at its last evaluation."""

    as_of = UtcTimeField()
    window_start = UtcTimeField()
    window_end = UtcTimeField()
    used = serializers.IntegerField(help_text="Used since the window began")
    on_hold = serializers.IntegerField(
        help_text="The most that running jobs may still use before the window ends"
    )
    left = serializers.SerializerMethodField(
        help_text="Limit less use and holds. Below 0: running jobs may use more than the limit"
    )
    room_at = UtcTimeField(help_text="When a used-up budget has room again at the latest")
    forecast_low = serializers.IntegerField(allow_null=True, help_text="Lowest of all methods")
    forecast = serializers.IntegerField(
        allow_null=True,
        help_text="Expected use at the end of the window: the mean of the run rate of 7 days and "
        "of the same weekdays a week before. Null without a complete day, or for rolling days",
    )
    forecast_high = serializers.IntegerField(allow_null=True, help_text="Highest of all methods")

    class Meta:
        model = BudgetState
        fields = [
            "as_of",
            "window_start",
            "window_end",
            "used",
            "on_hold",
            "left",
            "room_at",
            "forecast_low",
            "forecast",
            "forecast_high",
        ]

    def get_left(self, state: BudgetState) -> int:
        """Return the limit less use and holds."""
        return state.budget.limit - state.used - state.on_hold


class BudgetSerializer(serializers.Serializer[Any]):
    """A budget."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    node = serializers.CharField(source="node.display_path")
    user = serializers.SerializerMethodField(help_text="Username; null: of the whole node")
    pool = serializers.SerializerMethodField(help_text="Null: all pools")
    measure = serializers.ChoiceField(choices=Measure.values)
    limit = serializers.IntegerField(help_text=_UNITS)
    currency = serializers.SerializerMethodField(help_text="Of a measure in money; else null")
    window = serializers.ChoiceField(choices=WindowKind.values, help_text=_WINDOW_HELP)
    rolling_days = serializers.IntegerField(
        allow_null=True, help_text="Length of a rolling window: today and the days before"
    )
    policy = serializers.ChoiceField(choices=Policy.values, help_text=_POLICY_HELP)
    not_held_on = serializers.SerializerMethodField(
        help_text="Clusters that start native jobs without asking. The budget counts these jobs "
        "and cannot hold them. Empty for a budget that only notifies"
    )
    state = BudgetStateSerializer()
    can_edit = serializers.SerializerMethodField(help_text="Whether the caller may change it")
    version = serializers.IntegerField(help_text='The ETag is "v" and this number, quoted')

    def get_user(self, budget: Budget) -> str | None:
        """Return whose use counts."""
        return None if budget.user is None else budget.user.username

    def get_pool(self, budget: Budget) -> str | None:
        """Return the pool that counts."""
        return None if budget.pool is None else budget.pool.name

    def get_not_held_on(self, budget: Budget) -> list[str]:
        """Return the names of the clusters."""
        unheld: Mapping[str, frozenset[UUID]] = self.context["unheld"]
        if budget.policy == Policy.NOTIFY:
            return []
        pool = budget.pool_id
        return [name for name, pools in unheld.items() if pool is None or pool in pools]

    def get_currency(self, budget: Budget) -> str | None:
        """Return the currency of a budget in money."""
        currencies: dict[Any, str] = self.context["currencies"]
        return currencies.get(budget.organization_id) if budget.measure == Measure.MONEY else None

    def get_can_edit(self, budget: Budget) -> bool:
        """Return whether the caller may change it."""
        may: bool = self.context["may_manage"](budget)
        return may


class BudgetDaySerializer(serializers.ModelSerializer[BudgetDay]):
    """Use of a budget on one day of the organization's time zone."""

    day = serializers.DateField()
    used = serializers.IntegerField(help_text=_UNITS)

    class Meta:
        model = BudgetDay
        fields = ["day", "used"]


class BudgetDetailSerializer(BudgetSerializer):
    """A budget with its use by day."""

    days = serializers.SerializerMethodField(
        help_text="Days of the window until the last evaluation, oldest first. They sum to `used`"
    )

    @extend_schema_field(BudgetDaySerializer(many=True))
    def get_days(self, budget: Budget) -> list[dict[str, Any]]:
        """Return the counted days of the window."""
        return [dict(BudgetDaySerializer(one).data) for one in self.context["days"]]


class BudgetAlertSerializer(serializers.ModelSerializer[BudgetAlert]):
    """A budget that reached a percentage of its limit."""

    budget = serializers.UUIDField(source="budget_id")
    at = UtcTimeField()
    window_start = UtcTimeField()
    kind = serializers.ChoiceField(
        choices=AlertKind.values, help_text="What reached it: use with holds, or the forecast"
    )
    percent = serializers.IntegerField()
    amount = serializers.IntegerField(help_text=_UNITS)
    limit = serializers.IntegerField(help_text="The limit at that time")

    class Meta:
        model = BudgetAlert
        fields = ["id", "budget", "at", "window_start", "kind", "percent", "amount", "limit"]


class BudgetUpdateSerializer(StrictSerializer):
    """A change of a budget. Missing settings stay."""

    name = TextField(max_length=NAME_LENGTH_MAX, required=False)
    limit = WholeNumberField(min_value=1, max_value=LIMIT_MAX, required=False, help_text=_UNITS)
    window = serializers.ChoiceField(
        choices=WindowKind.values, required=False, help_text=_WINDOW_HELP
    )
    rolling_days = WholeNumberField(
        min_value=1, max_value=ROLLING_DAYS_MAX, required=False, allow_null=True
    )
    policy = serializers.ChoiceField(choices=Policy.values, required=False, help_text=_POLICY_HELP)

    def to_edit(self) -> BudgetEdit:
        """Return the given settings."""
        edit = BudgetEdit()
        for name in BudgetEdit.__annotations__:
            if name in self.validated_data:
                edit[name] = self.validated_data[name]  # type: ignore[literal-required]
        return edit


class BudgetCreateSerializer(BudgetUpdateSerializer):
    """A new budget."""

    name = TextField(max_length=NAME_LENGTH_MAX)
    node = TextField(max_length=2_000, help_text="Path of the node whose subtree counts")
    user = TextField(
        max_length=150, required=False, allow_null=True, help_text="Username; null: everybody"
    )
    pool = TextField(max_length=63, required=False, allow_null=True, help_text="Null: all pools")
    measure = serializers.ChoiceField(choices=Measure.values)
    limit = WholeNumberField(min_value=1, max_value=LIMIT_MAX, help_text=_UNITS)
    window = serializers.ChoiceField(choices=WindowKind.values, help_text=_WINDOW_HELP)
    policy = serializers.ChoiceField(choices=Policy.values, help_text=_POLICY_HELP)

    def to_new(self) -> NewBudget:
        """Return whose it is and what it measures."""
        given = self.validated_data
        return NewBudget(given["node"], given.get("user"), given.get("pool"), given["measure"])


class BudgetDefaultSerializer(serializers.ModelSerializer[BudgetDefault]):
    """The budget that each team made below a node gets."""

    name = serializers.CharField(help_text="A team's budget is called NAME of SLUG")
    node = serializers.CharField(source="node.display_path")
    measure = serializers.ChoiceField(choices=Measure.values)
    limit = serializers.IntegerField(help_text=_UNITS)
    currency = serializers.SerializerMethodField(help_text="Of a measure in money; else null")
    window = serializers.ChoiceField(choices=WindowKind.values, help_text=_WINDOW_HELP)
    rolling_days = serializers.IntegerField(
        allow_null=True, help_text="Length of a rolling window: today and the days before"
    )
    policy = serializers.ChoiceField(choices=Policy.values, help_text=_POLICY_HELP)
    can_edit = serializers.SerializerMethodField(help_text="Whether the caller may change it")
    version = serializers.IntegerField(help_text='The ETag is "v" and this number, quoted')

    class Meta:
        model = BudgetDefault
        fields = [
            "id",
            "name",
            "node",
            "measure",
            "limit",
            "currency",
            "window",
            "rolling_days",
            "policy",
            "can_edit",
            "version",
        ]

    def get_currency(self, default: BudgetDefault) -> str | None:
        """Return the currency of a default in money."""
        currencies: dict[Any, str] = self.context["currencies"]
        organization = default.node.organization_id
        return currencies.get(organization) if default.measure == Measure.MONEY else None

    def get_can_edit(self, default: BudgetDefault) -> bool:
        """Return whether the caller may change it."""
        may: bool = self.context["may_set"](default)
        return may


class BudgetDefaultUpdateSerializer(BudgetUpdateSerializer):
    """A change of a default budget. Missing settings stay."""

    name = TextField(max_length=DEFAULT_NAME_LENGTH_MAX, required=False)


class BudgetDefaultCreateSerializer(BudgetDefaultUpdateSerializer):
    """A default budget of a node without one."""

    name = TextField(max_length=DEFAULT_NAME_LENGTH_MAX)
    node = TextField(max_length=2_000, help_text="Path of the organization or department")
    measure = serializers.ChoiceField(choices=Measure.values)
    limit = WholeNumberField(min_value=1, max_value=LIMIT_MAX, help_text=_UNITS)
    window = serializers.ChoiceField(choices=WindowKind.values, help_text=_WINDOW_HELP)
    policy = serializers.ChoiceField(choices=Policy.values, help_text=_POLICY_HELP)
