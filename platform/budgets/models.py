"""Budgets, what was used of them, and their alerts.

Amounts are integers in the unit of the budget's measure: milli-GPU-seconds, millionths of a
GPU-second of the reference GPU (credits), or nano-currency.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from clusters.models import Pool
from tenants.models import Node, User

#: A billion currency units, or 278 million GPU-hours. Sums of amounts stay far below 2 to the 63.
LIMIT_MAX = 10**18
#: The largest stored amount. A larger one is stored as this, which is above every limit.
AMOUNT_MAX = 4 * LIMIT_MAX
ROLLING_DAYS_MAX = 366
NAME_LENGTH_MAX = 100
#: With " of " and the longest slug of a team it is as long as the longest name of a budget.
DEFAULT_NAME_LENGTH_MAX = 33


class Measure(models.TextChoices):
    """The quantity that a budget limits."""

    #: Milli-GPU-seconds in pools of GPUs.
    GPU_HOURS = "gpu_hours"
    #: Millionths of a GPU-second, weighted by pool.
    CREDITS = "credits"
    #: Nano-currency of the organization's rate card.
    MONEY = "money"


class WindowKind(models.TextChoices):
    """The period over which a budget counts, in the organization's time zone."""

    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    #: Today and the `rolling_days` - 1 days before.
    ROLLING = "rolling"


class Policy(models.TextChoices):
    """The effect of a budget that is used up."""

    NOTIFY = "notify"
    STOP_BORROWING = "stop_borrowing"
    STOP_STARTS = "stop_starts"


class Terms(models.Model):
    """The terms of a budget: what it counts, how much, over which period, and its effect."""

    measure = models.CharField(max_length=9, choices=Measure.choices)
    limit = models.BigIntegerField()
    window = models.CharField(max_length=7, choices=WindowKind.choices)
    rolling_days = models.PositiveSmallIntegerField(null=True)
    policy = models.CharField(max_length=14, choices=Policy.choices)

    class Meta:
        abstract = True
        constraints = [
            models.CheckConstraint(
                condition=Q(limit__gte=1, limit__lte=LIMIT_MAX), name="%(class)s_limit_is_in_range"
            ),
            models.CheckConstraint(
                condition=Q(measure__in=["gpu_hours", "credits", "money"]),
                name="%(class)s_measure_is_known",
            ),
            models.CheckConstraint(
                condition=Q(window__in=["month", "quarter", "year"], rolling_days=None)
                | Q(
                    window="rolling",
                    rolling_days__isnull=False,
                    rolling_days__gte=1,
                    rolling_days__lte=ROLLING_DAYS_MAX,
                ),
                name="%(class)s_window_is_whole",
            ),
        ]


class Budget(Terms):
    """A limit on the use of a node's subtree, or of one user below the node, over each period.

    `pool` None means all pools. A budget of a user cannot stop borrowing, because a team borrows
    and not a user.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+")
    node = models.ForeignKey(Node, models.PROTECT, related_name="+")
    user = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    pool = models.ForeignKey(Pool, models.PROTECT, null=True, related_name="+")
    name = models.CharField(max_length=NAME_LENGTH_MAX)
    created_at = models.DateTimeField()
    version = models.IntegerField(default=1)

    class Meta(Terms.Meta):
        constraints = [
            *Terms.Meta.constraints,
            models.UniqueConstraint(
                fields=["organization", "name"], name="budget_name_once_per_organization"
            ),
            models.CheckConstraint(
                condition=Q(policy__in=["notify", "stop_starts"])
                | Q(policy="stop_borrowing", user=None),
                name="budget_policy_is_possible",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class BudgetDefault(Terms):
    """The budget that each team made below a node gets. The nearest node above the team counts.

    It limits nothing itself. The budget of a team has the default's name and the team's slug.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    node = models.OneToOneField(Node, models.PROTECT, related_name="+")
    name = models.CharField(max_length=DEFAULT_NAME_LENGTH_MAX)
    version = models.IntegerField(default=1)

    class Meta(Terms.Meta):
        constraints = [
            *Terms.Meta.constraints,
            models.CheckConstraint(
                condition=Q(policy__in=["notify", "stop_borrowing", "stop_starts"]),
                name="budgetdefault_policy_is_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} of new teams in {self.node}"


class BudgetEvaluation(models.Model):
    """The last evaluation of all budgets of an organization.

    `recent_attempts` are the attempts of the minute before `as_of` that it counted.
    `whole_day` is the day on which whole windows were last counted anew, after late corrections.
    """

    organization = models.OneToOneField(Node, models.PROTECT, primary_key=True, related_name="+")
    as_of = models.DateTimeField()
    recent_attempts = ArrayField(models.UUIDField())
    whole_day = models.DateField()

    def __str__(self) -> str:
        return f"budgets of {self.organization} at {self.as_of:%Y-%m-%dT%H:%M:%SZ}"


class BudgetState(models.Model):
    """A budget at its last evaluation.

    `used` was used during `[window_start, as_of)`. `on_hold` is the most that running jobs may
    still use before the window ends. `room_at` is the time at which the budget has room again: the
    next window, or the midnight at which enough days leave a rolling one. The forecast is of the
    whole window; None without a complete day before, or for a rolling one.
    """

    budget = models.OneToOneField(Budget, models.CASCADE, primary_key=True, related_name="state")
    as_of = models.DateTimeField()
    window_start = models.DateTimeField()
    window_end = models.DateTimeField()
    used = models.BigIntegerField()
    on_hold = models.BigIntegerField()
    room_at = models.DateTimeField()
    forecast_low = models.BigIntegerField(null=True)
    forecast = models.BigIntegerField(null=True)
    forecast_high = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(used__gte=0, on_hold__gte=0), name="budget_use_is_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.budget}: {self.used} used, {self.on_hold} on hold"


class BudgetDay(models.Model):
    """Use of a budget on one day of the organization's time zone."""

    budget = models.ForeignKey(Budget, models.CASCADE, related_name="days")
    day = models.DateField()
    used = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["budget", "day"], name="budget_day_is_counted_once"),
            models.CheckConstraint(condition=Q(used__gte=0), name="budget_day_is_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.budget} on {self.day}: {self.used}"


class AlertKind(models.TextChoices):
    """The amount that reached the percentage: use with holds, or the forecast of the window."""

    USED = "used"
    FORECAST = "forecast"


class BudgetAlert(models.Model):
    """A budget that reached a percentage of its limit. Once in each window, for each limit."""

    id = models.BigAutoField(primary_key=True)
    budget = models.ForeignKey(Budget, models.CASCADE, related_name="alerts")
    window_start = models.DateTimeField()
    kind = models.CharField(max_length=8, choices=AlertKind.choices)
    percent = models.PositiveSmallIntegerField()
    at = models.DateTimeField()
    amount = models.BigIntegerField()
    limit = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["budget", "window_start", "kind", "percent", "limit"],
                name="budget_alerts_once_a_window",
            ),
            models.CheckConstraint(
                condition=Q(kind="used", percent__in=[50, 80, 90, 100])
                | Q(kind="forecast", percent=100),
                name="budget_alert_is_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.budget} at {self.percent} % ({self.kind})"
