"""Stored charges of past days, and notes of what changed since."""

from __future__ import annotations

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeBoundary, RangeOperators
from django.db import models
from django.db.models import F, Func, Q

from tenants.models import Node


class StoredDay(models.Model):
    """A past day of an organization whose charges are stored, `[start, end)`.

    A day without rows had no use. See `billing.stored_charges`.
    """

    id = models.BigAutoField(primary_key=True)
    organization = models.ForeignKey(Node, models.CASCADE, related_name="+", db_index=False)
    start = models.DateTimeField()
    end = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(end__gt=F("start")), name="stored_day_has_a_length"),
            ExclusionConstraint(
                name="a_moment_is_stored_once",
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
        return f"stored day of {self.organization_id} from {self.start:%Y-%m-%dT%H:%M:%SZ}"


class StoredCharge(models.Model):
    """A charge of a stored day: use by everything that reports group by, but for commitments.

    The amounts are those of `billing.daily_charges.Charged`. `usage_class` is its number in
    `billing.usage_sql.CLASSES`. `MeteredParty` ensures that what the ids name exists.
    """

    id = models.BigAutoField(primary_key=True)
    day = models.ForeignKey(StoredDay, models.CASCADE, related_name="charges")
    team_id = models.UUIDField()
    pool_id = models.UUIDField()
    user_id = models.UUIDField()
    cluster_id = models.UUIDField()
    usage_class = models.SmallIntegerField()
    fault = models.CharField(max_length=11, blank=True)
    priority_class = models.CharField(max_length=63)
    multiplier_ppm = models.PositiveIntegerField()
    job_type = models.CharField(max_length=12, blank=True)
    rate_line_id = models.UUIDField(null=True)
    price_nano = models.BigIntegerField(null=True)
    mode = models.CharField(max_length=11)
    mgpu_s = models.BigIntegerField()
    extra_mgpu_s = models.BigIntegerField()
    cost_nano = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(mgpu_s__gt=0, extra_mgpu_s=0) | Q(mgpu_s=0, extra_mgpu_s__gt=0),
                name="stored_charge_is_some",
            ),
            models.CheckConstraint(
                condition=Q(cost_nano__gte=0), name="stored_charge_is_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"charge of stored day {self.day_id}"


class ChangedCharges(models.Model):
    """A note that charges of an organization from `start` on are other than they were.

    Triggers write it for changes of what is older than 48 hours.
    """

    id = models.BigAutoField(primary_key=True)
    organization = models.ForeignKey(Node, models.CASCADE, related_name="+")
    start = models.DateTimeField()

    def __str__(self) -> str:
        return f"changed charges of {self.organization_id} from {self.start:%Y-%m-%dT%H:%M:%SZ}"
