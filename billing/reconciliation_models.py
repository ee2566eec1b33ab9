"""Reconciled days of clusters, and the accounts that were compared on them."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from clusters.models import Cluster
from tenants.models import Node


class ReconciliationStatus(models.TextChoices):
    """The result of comparing our meter with a cluster's own account of a day."""

    GREEN = "green"
    RED = "red"
    #: The account is not complete yet, or no comparison has run.
    PENDING = "pending"
    #: The cluster did not deliver its account.
    UNAVAILABLE = "unavailable"


class Reconciliation(models.Model):
    """A UTC day of a cluster: the last comparison of our meter with the cluster's account.

    `as_of` is the cluster's time at the comparison, and `until` the end of the compared part of the
    day. Both are empty before the first comparison. A failed comparison keeps the numbers and sets
    `message`, and `status` if the day was not compared as a whole before. `request_id` is the open
    request. `next_at` is the time of the next automatic request. `green_at` is when the meter was
    last read for a comparison of the whole day that was green.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    day = models.DateField()
    status = models.CharField(max_length=11, choices=ReconciliationStatus.choices)
    as_of = models.DateTimeField(null=True)
    until = models.DateTimeField(null=True)
    message = models.TextField(blank=True)
    request_id = models.UUIDField(null=True, unique=True)
    requested_at = models.DateTimeField(null=True)
    tried_at = models.DateTimeField(null=True)
    next_at = models.DateTimeField(null=True)
    green_at = models.DateTimeField(null=True)
    #: Acknowledgement of the differences at that time by a person (`billing.acknowledgements`).
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=200, blank=True)
    acknowledged_reason = models.CharField(max_length=500, blank=True)
    acknowledged_digest = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "day"], name="day_reconciled_once"),
            models.CheckConstraint(
                condition=Q(
                    acknowledged_at=None,
                    acknowledged_by="",
                    acknowledged_reason="",
                    acknowledged_digest="",
                )
                | Q(acknowledged_at__isnull=False)
                & ~Q(acknowledged_by="")
                & ~Q(acknowledged_reason="")
                & ~Q(acknowledged_digest=""),
                name="acknowledgement_has_its_reason",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["green", "red", "pending", "unavailable"]),
                name="reconciliation_status_is_known",
            ),
            models.CheckConstraint(
                condition=Q(as_of=None, until=None) | Q(as_of__isnull=False, until__isnull=False),
                name="reconciliation_says_until_when",
            ),
            models.CheckConstraint(
                condition=~Q(status__in=["green", "red"]) | Q(as_of__isnull=False),
                name="reconciliation_has_compared",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.cluster_id} on {self.day}"

    @property
    def is_whole(self) -> bool:
        """Return whether the whole day was compared."""
        end = datetime.combine(self.day, time(), UTC) + timedelta(days=1)
        return self.until is not None and self.until >= end


class ReconciledAccount(models.Model):
    """An account and pool of a reconciled day, in milli-GPU-seconds.

    `team` is the account's team, or empty. `differences` are the largest ones. `cut_count` more are
    omitted, which sum to `cut_mgpu_s`.
    """

    id = models.BigAutoField(primary_key=True)
    reconciliation = models.ForeignKey(
        Reconciliation, models.CASCADE, related_name="accounts", db_index=False
    )
    account = models.CharField(max_length=255)
    pool = models.CharField(max_length=63)
    team = models.ForeignKey(Node, models.PROTECT, null=True, related_name="+")
    is_green = models.BooleanField()
    metered_mgpu_s = models.BigIntegerField()
    accounted_mgpu_s = models.BigIntegerField()
    differences = models.JSONField(default=list)
    difference_count = models.IntegerField()
    cut_count = models.IntegerField()
    cut_mgpu_s = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["reconciliation", "account", "pool"], name="account_reconciled_once"
            ),
            models.CheckConstraint(
                condition=Q(metered_mgpu_s__gte=0, accounted_mgpu_s__gte=0),
                name="reconciled_use_is_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.account} {self.pool} of {self.reconciliation_id}"
