"""Adjustments of charges, disputes about them, and the threshold of each organization.

The database refuses changes: an adjustment and a dispute are decided once, and stay.
"""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from uuid_utils.compat import uuid7

from billing.models import MeteredAttempt
from clusters.models import Pool
from primitives.units import NANO_PER_UNIT
from tenants.models import Node, User

#: The longest reason and note, in characters.
REASON_LENGTH_MAX = 500
#: The largest amount: a billion of the currency.
AMOUNT_MAX_NANO = 10**9 * NANO_PER_UNIT
#: Adjustments above this amount need a second person, unless the organization says otherwise.
THRESHOLD_NANO = 1_000 * NANO_PER_UNIT


class AdjustmentPolicy(models.Model):
    """The amount above which an organization's adjustments need a second person.

    `changed_by` changed it last. `before_nano` is the threshold before the changes of that person,
    for whom it still holds if it is lower.
    """

    organization = models.OneToOneField(Node, models.PROTECT, primary_key=True, related_name="+")
    threshold_nano = models.BigIntegerField(default=THRESHOLD_NANO)
    changed_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    changed_at = models.DateTimeField(null=True)
    before_nano = models.BigIntegerField(null=True)
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(threshold_nano__gte=0, threshold_nano__lte=AMOUNT_MAX_NANO),
                name="adjustment_threshold_is_in_range",
            ),
            models.CheckConstraint(
                condition=Q(changed_by=None, changed_at=None, before_nano=None)
                | Q(
                    before_nano__isnull=False,
                    before_nano__gte=0,
                    changed_at__isnull=False,
                    changed_by__isnull=False,
                ),
                name="threshold_remembers_its_last_change",
            ),
        ]

    def __str__(self) -> str:
        return f"adjustment policy of {self.organization}"


class DisputeStatus(models.TextChoices):
    """The status of a dispute. It changes once, from open."""

    OPEN = "open"
    ACCEPTED = "accepted"
    DECLINED = "declined"
    WITHDRAWN = "withdrawn"


class Dispute(models.Model):
    """A person's claim that the charge of an attempt, or of a row, is wrong.

    A row is what the team was charged for `pool` in `month` (its first day). `charged_nano` is the
    whole charge at the time of asking. Finance accepts it with a refund of at most that amount, or
    declines it with a `note`. An attempt is refunded once, and so is a row.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+")
    team = models.ForeignKey(Node, models.PROTECT, related_name="+")
    attempt = models.ForeignKey(MeteredAttempt, models.PROTECT, null=True, related_name="+")
    pool = models.ForeignKey(Pool, models.PROTECT, null=True, related_name="+")
    month = models.DateField(null=True)
    charged_nano = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    reason = models.CharField(max_length=REASON_LENGTH_MAX)
    status = models.CharField(max_length=9, choices=DisputeStatus.choices)
    asked_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    asked_at = models.DateTimeField()
    decided_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=REASON_LENGTH_MAX, blank=True)
    refund_nano = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(charged_nano__gt=0) & ~Q(reason=""), name="dispute_is_about_a_charge"
            ),
            models.UniqueConstraint(
                fields=["attempt"],
                condition=Q(status__in=("open", "accepted")),
                name="attempt_is_disputed_once",
            ),
            models.UniqueConstraint(
                fields=["team", "pool", "month"],
                condition=Q(status__in=("open", "accepted")),
                name="row_is_disputed_once",
            ),
            models.CheckConstraint(
                condition=Q(attempt__isnull=False, pool=None, month=None)
                | Q(attempt=None, pool__isnull=False, month__isnull=False),
                name="dispute_is_about_an_attempt_or_a_row",
            ),
            models.CheckConstraint(
                condition=Q(
                    status="accepted",
                    refund_nano__isnull=False,
                    refund_nano__gt=0,
                    refund_nano__lte=F("charged_nano"),
                )
                | ~Q(status="accepted") & Q(refund_nano=None),
                name="refund_is_at_most_the_charge",
            ),
            models.CheckConstraint(
                condition=Q(status="open", decided_by=None, decided_at=None, note="")
                | Q(status="withdrawn", decided_at__isnull=False, decided_by__isnull=False)
                & Q(decided_by=F("asked_by"))
                | Q(status__in=("accepted", "declined"), decided_at__isnull=False)
                & Q(decided_by__isnull=False)
                & ~Q(decided_by=F("asked_by")),
                name="dispute_is_decided_by_another_person",
            ),
            models.CheckConstraint(
                condition=~Q(status="declined") | ~Q(note=""), name="declined_dispute_has_a_note"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} dispute about {self.subject}"

    @property
    def subject(self) -> str:
        """Return what it is about: "bert, attempt 1", or "h100 in 2026-10"."""
        if self.attempt is not None:
            return f"{self.attempt.job_name}, attempt {self.attempt.number}"
        return f"{self.pool} in {self.month:%Y-%m}"


class AdjustmentStatus(models.TextChoices):
    """The status of an adjustment. It changes once, from pending."""

    PENDING = "pending"
    DONE = "done"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"


class Adjustment(models.Model):
    """An amount that is charged to a team beside its use: above 0 a charge, below 0 a credit.

    It counts in `month` (its first day), at `effective_at`, once it is done or approved. `user` and
    `pool` may be empty. The refund of a `dispute` is the negative of its amount. A charge that
    takes it back later names the dispute, too. Both are corrections if the month of the use is
    closed.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+")
    team = models.ForeignKey(Node, models.PROTECT, related_name="+")
    user = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    pool = models.ForeignKey(Pool, models.PROTECT, null=True, related_name="+")
    dispute = models.ForeignKey(Dispute, models.PROTECT, null=True, related_name="refunds")
    is_correction = models.BooleanField(default=False)
    month = models.DateField()
    effective_at = models.DateTimeField()
    amount_nano = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    reason = models.CharField(max_length=REASON_LENGTH_MAX)
    status = models.CharField(max_length=9, choices=AdjustmentStatus.choices)
    asked_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    asked_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=REASON_LENGTH_MAX, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["expires_at"], condition=Q(status="pending"), name="adjustment_by_expiry"
            ),
            models.Index(fields=["organization", "effective_at"], name="adjustment_by_moment"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(amount_nano__gte=-AMOUNT_MAX_NANO, amount_nano__lte=AMOUNT_MAX_NANO)
                & ~Q(amount_nano=0)
                & ~Q(reason=""),
                name="adjustment_changes_something",
            ),
            models.CheckConstraint(
                condition=Q(dispute=None, is_correction=False)
                | Q(dispute__isnull=False, status="done"),
                name="only_refunds_are_corrections",
            ),
            models.CheckConstraint(
                condition=Q(status="done", expires_at=None)
                | Q(~Q(status="done"), expires_at__isnull=False, expires_at__gt=F("asked_at")),
                name="adjustment_that_waits_expires",
            ),
            models.CheckConstraint(
                condition=Q(status="pending", decided_by=None, decided_at=None)
                | Q(status__in=("done", "expired"), decided_by=None, decided_at__isnull=False)
                | Q(status__in=("approved", "rejected"), decided_at__isnull=False)
                & Q(decided_by__isnull=False)
                & ~Q(decided_by=F("asked_by"))
                | Q(status="withdrawn", decided_at__isnull=False, decided_by__isnull=False)
                & Q(decided_by=F("asked_by")),
                name="adjustment_has_a_second_person",
            ),
            models.CheckConstraint(
                condition=~Q(status="rejected") | ~Q(note=""),
                name="rejected_adjustment_has_a_note",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} adjustment of {self.amount_nano} for {self.team}"
