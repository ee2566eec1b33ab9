"""Accounts, transfers, entries and seals. Only the database's own trigger writes balances.

Amounts are whole numbers of the ledger's smallest unit: millionths of a GPU-second for credits,
billionths of the currency for money. The unit is not a column, so one ledger has one unit.

A bigint is wide enough. Ten thousand H100 GPUs for 14 days are 1.2e16 of credits. An account that
moves as much all the time reaches the limit of its sums, 9.2e18, after 29 years.
"""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

#: The largest amount of one transfer.
AMOUNT_MAX = 10**18
#: The longest reason and the longest reference of a transfer, in characters.
REASON_LENGTH_MAX = 500
REFERENCE_LENGTH_MAX = 128


class Account(models.Model):
    """An account of an owner in a ledger.

    - `ledger` names the kind of value and its scope, like `credits:<pool>` or `money:EUR`. `owner`
      is a key that only the caller understands. `kind` tells accounts of one owner apart.
    - The balance is posted credits less posted debits. Pending debits are held: they can no longer
      be spent.
    - `floor` is the least balance less held that new spending may leave, and `cap` the largest
      balance with pending credits. Empty means no limit.
    - `sequence` is the number of the last entry, and `head` its hash. Before the first entry,
      `head` is the hash of ledger, owner and kind.
    """

    id = models.BigAutoField(primary_key=True)
    ledger = models.CharField(max_length=64)
    owner = models.CharField(max_length=64)
    kind = models.CharField(max_length=32)
    floor = models.BigIntegerField(null=True)
    cap = models.BigIntegerField(null=True)
    posted_debits = models.BigIntegerField(default=0)
    posted_credits = models.BigIntegerField(default=0)
    pending_debits = models.BigIntegerField(default=0)
    pending_credits = models.BigIntegerField(default=0)
    sequence = models.BigIntegerField(default=0)
    head = models.BinaryField(max_length=32)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["ledger", "owner", "kind"], name="account_is_unique"),
            models.CheckConstraint(
                condition=Q(ledger__regex=r"\A[a-z]+:[A-Za-z0-9._-]+\Z"), name="account_ledger_name"
            ),
            models.CheckConstraint(
                condition=Q(kind__regex=r"\A[a-z][a-z0-9_]*\Z") & ~Q(owner=""),
                name="account_names_are_plain",
            ),
            models.CheckConstraint(
                condition=Q(floor=None) | Q(cap=None) | Q(floor__lte=F("cap")),
                name="account_floor_is_below_its_cap",
            ),
            models.CheckConstraint(
                condition=Q(
                    posted_debits__gte=0,
                    posted_credits__gte=0,
                    pending_debits__gte=0,
                    pending_credits__gte=0,
                    sequence__gte=0,
                ),
                name="account_sums_are_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} account of {self.owner} in {self.ledger}"

    @property
    def balance(self) -> int:
        """Posted credits less posted debits."""
        return self.posted_credits - self.posted_debits

    @property
    def available(self) -> int:
        """The balance less what is held."""
        return self.balance - self.pending_debits


class TransferState(models.TextChoices):
    """The state in which a transfer is recorded. It never changes."""

    PENDING = "pending"
    POSTED = "posted"
    VOIDED = "voided"


class Transfer(models.Model):
    """A movement of `amount` from one account (`debit`) to another one (`credit`).

    - `key` is chosen by the caller and makes a repeat harmless. `number` is the order of recording.
    - A pending transfer only holds the amount. Another transfer, which `resolves` it, posts the
      amount or a part of it, or voids it.
    - A reversal moves the amount of a posted transfer back.
    - A transfer with `enforces_limits` is refused where it would break a floor or a cap. A
      resolution is never refused for that.
    - `effective_at` is the moment that the transfer is about, and `created_at` that of recording.
    - `body_hash` covers all that the caller chose, so all but `created_at`.
    """

    number = models.BigAutoField(primary_key=True)
    key = models.UUIDField(unique=True)
    body_hash = models.BinaryField(max_length=32)
    debit = models.ForeignKey(Account, models.PROTECT, related_name="+", db_index=False)
    credit = models.ForeignKey(Account, models.PROTECT, related_name="+", db_index=False)
    amount = models.BigIntegerField()
    state = models.CharField(max_length=8, choices=TransferState)
    code = models.CharField(max_length=32)
    resolves = models.ForeignKey(
        "self", models.PROTECT, to_field="key", null=True, related_name="+", db_index=False
    )
    reverses = models.ForeignKey(
        "self", models.PROTECT, to_field="key", null=True, related_name="+", db_index=False
    )
    enforces_limits = models.BooleanField(default=True)
    effective_at = models.DateTimeField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    reference = models.CharField(max_length=REFERENCE_LENGTH_MAX, blank=True)
    reason = models.CharField(max_length=REASON_LENGTH_MAX, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(amount__gte=1, amount__lte=AMOUNT_MAX), name="transfer_moves_something"
            ),
            models.CheckConstraint(
                condition=~Q(debit=F("credit")), name="transfer_has_two_accounts"
            ),
            models.CheckConstraint(
                condition=Q(code__regex=r"\A[a-z][a-z0-9_]*\Z"), name="transfer_code_is_plain"
            ),
            models.CheckConstraint(
                condition=Q(
                    state="pending", expires_at__isnull=False, expires_at__gt=F("created_at")
                )
                | (~Q(state="pending") & Q(expires_at=None)),
                name="transfer_expires_if_pending",
            ),
            models.CheckConstraint(
                condition=Q(state="pending", resolves=None, reverses=None)
                | Q(state="voided", resolves__isnull=False, reverses=None)
                | (Q(state="posted") & (Q(resolves=None) | Q(reverses=None))),
                name="transfer_has_one_purpose",
            ),
            models.UniqueConstraint(
                fields=["resolves"],
                condition=Q(resolves__isnull=False),
                name="transfer_is_resolved_once",
            ),
            models.UniqueConstraint(
                fields=["reverses"],
                condition=Q(reverses__isnull=False),
                name="transfer_is_reversed_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.state} transfer {self.key} of {self.amount}"


class PendingTransfer(models.Model):
    """A pending transfer that nothing has resolved yet. The trigger adds and deletes these rows."""

    transfer = models.OneToOneField(
        Transfer, models.PROTECT, primary_key=True, related_name="pending", db_constraint=False
    )
    expires_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["expires_at"], name="pending_by_expiry")]

    def __str__(self) -> str:
        return f"pending transfer {self.transfer_id}"


class Entry(models.Model):
    """The effect of a transfer on one of its two accounts, and the account's sums after it.

    `held` are the pending debits and `incoming` the pending credits. `hash` covers the hash of the
    entry before, the transfer's body and `created_at`, and all columns here.
    """

    pk = models.CompositePrimaryKey("account_id", "sequence")
    account = models.ForeignKey(
        Account, models.PROTECT, related_name="entries", db_index=False, db_constraint=False
    )
    sequence = models.BigIntegerField()
    transfer = models.ForeignKey(
        Transfer, models.PROTECT, related_name="entries", db_index=False, db_constraint=False
    )
    balance = models.BigIntegerField()
    held = models.BigIntegerField()
    incoming = models.BigIntegerField()
    hash = models.BinaryField(max_length=32)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["transfer", "account"], name="entry_once_per_transfer_and_account"
            ),
        ]

    def __str__(self) -> str:
        return f"entry {self.sequence} of account {self.account_id}"


class Seal(models.Model):
    """The heads of all accounts of a ledger at one moment, under one hash.

    `hash` covers the hash of the seal before, so a copy of the latest one, kept elsewhere, proves
    the whole history up to it.
    """

    id = models.BigAutoField(primary_key=True)
    ledger = models.CharField(max_length=64)
    number = models.PositiveIntegerField()
    sealed_at = models.DateTimeField()
    hash = models.BinaryField(max_length=32)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["ledger", "number"], name="seal_number_is_unique"),
        ]

    def __str__(self) -> str:
        return f"seal {self.number} of {self.ledger}"


class SealedHead(models.Model):
    """The number and the hash of the last entry that an account had at the moment of a seal."""

    pk = models.CompositePrimaryKey("seal_id", "account_id")
    seal = models.ForeignKey(Seal, models.PROTECT, related_name="heads", db_index=False)
    account = models.ForeignKey(
        Account, models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )
    sequence = models.BigIntegerField()
    head = models.BinaryField(max_length=32)

    def __str__(self) -> str:
        return f"head {self.sequence} of account {self.account_id}"
