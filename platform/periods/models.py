"""Closed months and their charges. The database refuses any change of them."""

from __future__ import annotations

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeBoundary, RangeOperators
from django.db import models
from django.db.models import F, Func, Q
from uuid_utils.compat import uuid7

from billing.models import PriceMode, RateLine

# Django finds these models by these imports.
from periods import code_models as code_models
from periods import statement_models as statement_models
from periods.code_models import CODE_LENGTH_MAX
from tenants.models import Node, User

REASON_LENGTH_MAX = 500


class BillingPeriod(models.Model):
    """A closed month of an organization: `[start, end)` by its time zone at the closing.

    `month` is its first day. `currency` is that of the rate card, or empty. `reason` says why it
    was closed in spite of what blocked it. `digest` is over all of its charges and adjustments
    (`periods.digests`). Months that are not closed have no row.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+", db_index=False)
    month = models.DateField()
    start = models.DateTimeField()
    end = models.DateTimeField()
    time_zone = models.CharField(max_length=64)
    currency = models.CharField(max_length=3, blank=True)
    closed_at = models.DateTimeField()
    closed_by = models.CharField(max_length=200)
    reason = models.CharField(max_length=REASON_LENGTH_MAX, blank=True)
    row_count = models.IntegerField()
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organization", "month"], name="month_closed_once"),
            models.CheckConstraint(condition=Q(end__gt=F("start")), name="period_has_a_length"),
            models.CheckConstraint(
                condition=Q(closed_at__gte=F("end")), name="period_closed_after_its_end"
            ),
            ExclusionConstraint(
                name="periods_do_not_overlap",
                expressions=[
                    ("organization", RangeOperators.EQUAL),
                    (
                        Func("start", "end", RangeBoundary(), function="TSTZRANGE"),
                        RangeOperators.OVERLAPS,
                    ),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m} of {self.organization_id}"


class ChargeRow(models.Model):
    """A charge of a closed month: use on a day by everything that reports group by.

    The fields from `team` to `mode` are those of `billing.daily_charges.ChargedUse`, the amounts
    those of `Charged` there. `day` is the day of the use in the zone of its month, whose first day
    is `month`. A correction changes the charges of a day in an earlier month, and may be negative.
    The codes are those of the team in `month`, or empty.
    """

    id = models.BigAutoField(primary_key=True)
    period = models.ForeignKey(BillingPeriod, models.PROTECT, related_name="rows", db_index=False)
    number = models.IntegerField()
    is_correction = models.BooleanField()
    month = models.DateField()
    day = models.DateField()
    team = models.ForeignKey(Node, models.PROTECT, related_name="+", db_index=False)
    team_path = models.CharField(max_length=1024)
    user = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    username = models.CharField(max_length=63, blank=True)
    pool = models.CharField(max_length=63)
    device = models.CharField(max_length=8)
    cluster = models.CharField(max_length=63, blank=True)
    usage_class = models.CharField(max_length=10)
    fault = models.CharField(max_length=11, blank=True)
    priority_class = models.CharField(max_length=63, blank=True)
    multiplier_ppm = models.PositiveIntegerField()
    job_type = models.CharField(max_length=12, blank=True)
    rate_line = models.ForeignKey(
        RateLine, models.PROTECT, null=True, related_name="+", db_index=False
    )
    price_nano = models.BigIntegerField(null=True)
    mode = models.CharField(max_length=11, default=PriceMode.PAY_PER_USE.value)
    mgpu_s = models.BigIntegerField()
    extra_mgpu_s = models.BigIntegerField(default=0)
    cost_nano = models.BigIntegerField()
    cost_centre = models.CharField(max_length=CODE_LENGTH_MAX, blank=True, default="")
    project_code = models.CharField(max_length=CODE_LENGTH_MAX, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["period", "number"], name="charge_row_has_a_number"),
            models.CheckConstraint(
                condition=Q(is_correction=True)
                | Q(mgpu_s__gt=0, extra_mgpu_s=0, cost_nano__gte=0)
                | Q(mgpu_s=0, extra_mgpu_s__gt=0, cost_nano__gte=0),
                name="only_corrections_are_negative",
            ),
            models.CheckConstraint(
                condition=Q(usage_class="fault", rate_line=None, price_nano=0)
                | (~Q(usage_class="fault") & Q(rate_line__isnull=False, price_nano__isnull=False))
                | (~Q(usage_class="fault") & Q(rate_line=None, price_nano=None, cost_nano=0)),
                name="charge_row_costs_its_price",
            ),
            models.CheckConstraint(
                condition=Q(usage_class="fault") | Q(fault=""), name="only_faults_have_a_reason"
            ),
            models.CheckConstraint(
                condition=Q(usage_class="commitment", user=None)
                | (~Q(usage_class="commitment") & Q(user__isnull=False)),
                name="only_commitments_have_no_user",
            ),
        ]
        indexes = [models.Index(fields=["day", "period"], name="charge_row_by_day")]

    def __str__(self) -> str:
        return f"row {self.number} of {self.period_id}"
