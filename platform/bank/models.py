"""Credit banks: their switches, what was settled, and earnings that are not spent yet.

The ledger holds the balances. Credits are whole millionths of a GPU-second of the reference GPU.
"""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from uuid_utils.compat import uuid7

from clusters.models import Pool
from ledger.models import REASON_LENGTH_MAX
from tenants.models import Node, User

#: Cap of a balance by default and at most, in seconds of the team's guarantee.
CAP_S = 14 * 86_400
CAP_S_MAX = 365 * 86_400


class CreditBank(models.Model):
    """The switch of an organization's credit bank.

    While it is off, nothing is settled and no balance orders anything. Balances stay.
    """

    organization = models.OneToOneField(
        Node, models.PROTECT, primary_key=True, related_name="credit_bank"
    )
    is_on = models.BooleanField(default=False)
    cap_s = models.PositiveIntegerField(default=CAP_S)
    switched_at = models.DateTimeField()
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(cap_s__lte=CAP_S_MAX), name="credit_bank_cap_is_in_range"
            ),
        ]

    def __str__(self) -> str:
        return f"credit bank of {self.organization}"


class CreditPool(models.Model):
    """The credits of an organization in one pool. Its ledger is `credits:<id>`.

    Use from `settled_since` until `settled_until` is settled; before that, use of the times in
    which the bank was on. `epoch` counts the changes of balances; snapshots of the arbiter name it.
    """

    organization = models.ForeignKey(Node, models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="+")
    settled_since = models.DateTimeField()
    settled_until = models.DateTimeField()
    epoch = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "pool"], name="credit_pool_once_per_organization"
            ),
        ]

    def __str__(self) -> str:
        return f"credits of {self.organization} in {self.pool}"

    @property
    def ledger(self) -> str:
        """The name of its ledger."""
        return f"credits:{self.pk}"


class Settlement(models.Model):
    """A settled interval `[start, end)` in which a team borrowed. Append-only.

    The transfers of the first `revision` have `effective_at` at its end. Late news makes another
    one, for a `reason`: it reverses the payments that are no longer right, and posts others. Each
    revision starts from the balances that all transfers up to `after_number` made, with the same
    limits and the same weight of the pool.
    """

    credit_pool = models.ForeignKey(CreditPool, models.PROTECT, related_name="settlements")
    start = models.DateTimeField()
    end = models.DateTimeField()
    revision = models.PositiveIntegerField(default=1)
    reason = models.CharField(max_length=500, blank=True)
    after_number = models.BigIntegerField()
    floor_s = models.PositiveIntegerField()
    cap_s = models.PositiveIntegerField()
    weight = models.IntegerField()
    recorded_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["credit_pool", "start", "revision"], name="interval_is_settled_once"
            ),
            models.CheckConstraint(condition=Q(end__gt=F("start")), name="settlement_has_a_length"),
        ]

    def __str__(self) -> str:
        return f"settlement of {self.start:%Y-%m-%dT%H:%M:%SZ} in {self.credit_pool}"


class SettlementLine(models.Model):
    """A team's part of a settlement, in weighted millionths of a GPU-second. Append-only.

    `guaranteed` and `used` are integrals over the interval. `paid`, `unpaid` and `waived` are what
    the team borrowed; the last is free because of a fault. `lent` is what it earned before its cap.
    """

    settlement = models.ForeignKey(Settlement, models.PROTECT, related_name="lines")
    team = models.ForeignKey(Node, models.PROTECT, related_name="+")
    guaranteed = models.BigIntegerField()
    used = models.BigIntegerField()
    paid = models.BigIntegerField()
    unpaid = models.BigIntegerField()
    waived = models.BigIntegerField(default=0, db_default=0)
    lent = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["settlement", "team"], name="settlement_line_once_per_team"
            ),
            models.CheckConstraint(
                condition=Q(paid__gte=0, unpaid__gte=0, waived__gte=0, lent__gte=0)
                & (Q(lent=0) | Q(paid=0, unpaid=0, waived=0)),
                name="team_borrows_or_lends",
            ),
            models.CheckConstraint(
                condition=Q(paid=0, unpaid=0, waived=0)
                | Q(used=F("guaranteed") + F("paid") + F("unpaid") + F("waived")),
                name="settlement_line_adds_up",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.team} in {self.settlement}"


class SettlementTransfer(models.Model):
    """A payment that is part of a settlement, by its key in the ledger. Append-only.

    A later revision names it again unless it reversed it.
    """

    settlement = models.ForeignKey(Settlement, models.PROTECT, related_name="transfers")
    key = models.UUIDField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["settlement", "key"], name="settlement_names_a_transfer_once"
            ),
        ]

    def __str__(self) -> str:
        return f"transfer {self.key} of {self.settlement}"


class TransferStatus(models.TextChoices):
    """The status of a transfer. It changes once, from pending."""

    PENDING = "pending"
    DONE = "done"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"


class CreditTransfer(models.Model):
    """Credits that a person transfers from one team to another.

    A transfer inside a department is done at once. One across departments is pending until another
    person approves or rejects it, the one who asked withdraws it, or it expires at `expires_at`.
    Its transfer in the ledger has its id as key.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    credit_pool = models.ForeignKey(CreditPool, models.PROTECT, related_name="transfers")
    sender = models.ForeignKey(Node, models.PROTECT, related_name="+")
    recipient = models.ForeignKey(Node, models.PROTECT, related_name="+")
    amount = models.BigIntegerField()
    reason = models.CharField(max_length=REASON_LENGTH_MAX)
    status = models.CharField(max_length=9, choices=TransferStatus.choices)
    asked_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    asked_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=REASON_LENGTH_MAX, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["expires_at"],
                condition=Q(status="pending"),
                name="credit_transfer_by_expiry",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(amount__gt=0) & ~Q(sender=F("recipient")) & ~Q(reason=""),
                name="credit_transfer_moves_something",
            ),
            models.CheckConstraint(
                condition=Q(status="done", expires_at=None)
                | Q(~Q(status="done"), expires_at__isnull=False, expires_at__gt=F("asked_at")),
                name="credit_transfer_that_waits_expires",
            ),
            models.CheckConstraint(
                condition=Q(status="pending", decided_by=None, decided_at=None)
                | Q(status__in=("done", "expired"), decided_by=None, decided_at__isnull=False)
                | Q(status__in=("approved", "rejected"), decided_at__isnull=False)
                & Q(decided_by__isnull=False)
                & ~Q(decided_by=F("asked_by"))
                | Q(status="withdrawn", decided_at__isnull=False, decided_by__isnull=False)
                & Q(decided_by=F("asked_by")),
                name="credit_transfer_has_a_second_person",
            ),
            models.CheckConstraint(
                condition=~Q(status="rejected") | ~Q(note=""),
                name="rejected_credit_transfer_has_a_note",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} transfer of {self.amount} from {self.sender} to {self.recipient}"


class CreditLot(models.Model):
    """Earnings of a team that expire at `expires_at` unless they are spent before.

    The lots of a team sum to its balance where that is above 0. The oldest are spent first.
    """

    credit_pool = models.ForeignKey(CreditPool, models.PROTECT, related_name="lots")
    team = models.ForeignKey(Node, models.PROTECT, related_name="+")
    expires_at = models.DateTimeField()
    amount = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["credit_pool", "team", "expires_at"], name="credit_lot_once_per_expiry"
            ),
            models.CheckConstraint(condition=Q(amount__gt=0), name="credit_lot_has_credits"),
        ]

    def __str__(self) -> str:
        return f"{self.amount} of {self.team} until {self.expires_at:%Y-%m-%d}"


class CreditNotice(models.Model):
    """A notice that earnings of a team expire within `days`. Append-only.

    `amount` was left then.
    """

    credit_pool = models.ForeignKey(CreditPool, models.PROTECT, related_name="notices")
    team = models.ForeignKey(Node, models.PROTECT, related_name="+")
    expires_at = models.DateTimeField()
    days = models.PositiveSmallIntegerField()
    amount = models.BigIntegerField()
    given_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["credit_pool", "team", "expires_at", "days"],
                name="credit_notice_once_per_expiry",
            ),
            models.CheckConstraint(
                condition=Q(amount__gt=0, days__gt=0, expires_at__gt=F("given_at")),
                name="credit_notice_comes_before_the_expiry",
            ),
        ]

    def __str__(self) -> str:
        return f"notice to {self.team}, {self.days} days before {self.expires_at:%Y-%m-%d}"
