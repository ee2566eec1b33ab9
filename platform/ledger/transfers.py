"""Records transfers: many in one statement, each at most once.

Callers that record several batches in one transaction must lock all accounts first
(`accounts.lock_accounts`), or two of them may wait for each other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from uuid import UUID, uuid5

from django.db import DatabaseError, transaction

from bulk.inserting import insert_rows
from ledger.accounts import lock_accounts
from ledger.errors import InvalidTransfer, TransferKeyReused, refusal_of
from ledger.hashing import hash_of_body
from ledger.models import (
    REASON_LENGTH_MAX,
    REFERENCE_LENGTH_MAX,
    PendingTransfer,
    Transfer,
    TransferState,
)

#: The most transfers of one batch.
BATCH_MAX = 5_000
#: The most expired transfers that one call voids.
EXPIRED_MAX = 1_000
#: The code of the transfer that voids an expired one.
EXPIRED = "expired"
#: Makes the key of that transfer from the key of the expired one.
_EXPIRED_KEYS = UUID("6f0b8a52-5c0e-5a55-9d1e-6c0f6f3f2f11")
_INTEGER_MAX = (1 << 63) - 1
#: Characters that PostgreSQL does not store: NUL, and halves of a surrogate pair.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class NewTransfer:
    """A transfer to record; the fields are those of `models.Transfer`.

    `resolution_of` and `reversal_of` make the ones that refer to another transfer.
    """

    key: UUID
    debit_id: int
    credit_id: int
    amount: int
    code: str
    effective_at: datetime
    state: TransferState = TransferState.POSTED
    expires_at: datetime | None = None
    resolves_id: UUID | None = None
    reverses_id: UUID | None = None
    enforces_limits: bool = True
    reference: str = ""
    reason: str = ""


_FIELDS = tuple(field.name for field in fields(NewTransfer))


@dataclass(frozen=True, slots=True)
class Recorded:
    """A transfer of a batch. `is_repeat`: it was recorded before, so nothing happened now."""

    key: UUID
    number: int
    is_repeat: bool


def record(batch: Sequence[NewTransfer], *, now: datetime) -> list[Recorded]:
    """Record all transfers of a batch in their order, or none of them.

    A transfer whose key was recorded before with the same body changes nothing. Raises
    InvalidTransfer, TransferKeyReused, FloorReached, CapReached, NotResolvable or NotReversible.
    """
    if len(batch) > BATCH_MAX:
        raise InvalidTransfer(f"A batch holds at most {BATCH_MAX} transfers. Split it.")
    for new in batch:
        _refuse_what_cannot_be_stored(new)
    if now.utcoffset() is None or now.microsecond:
        raise ValueError("now must be in whole seconds and have a time zone")
    try:
        with transaction.atomic():
            lock_accounts(id for new in batch for id in (new.debit_id, new.credit_id))
            return _record(batch, now)
    except DatabaseError as error:
        raise refusal_of(error) or error from error


def find_transfers(keys: Collection[UUID]) -> dict[UUID, Transfer]:
    """Return the recorded transfers among `keys`, by key."""
    return Transfer.objects.in_bulk(list(keys), field_name="key")


def is_pending(transfer: Transfer) -> bool:
    """Return whether nothing has resolved the transfer yet."""
    return PendingTransfer.objects.filter(pk=transfer.pk).exists()


def resolution_of(
    pending: Transfer,
    *,
    key: UUID,
    amount: int | None,
    effective_at: datetime,
    code: str = "",
    reference: str = "",
    reason: str = "",
) -> NewTransfer:
    """Return the transfer that posts `amount` of a pending one and releases the rest.

    Without an amount, it voids the pending one. Its code is that of the pending one by default.
    """
    is_void = amount is None
    return NewTransfer(
        key=key,
        debit_id=pending.debit_id,
        credit_id=pending.credit_id,
        amount=pending.amount if amount is None else amount,
        code=code or pending.code,
        effective_at=effective_at,
        state=TransferState.VOIDED if is_void else TransferState.POSTED,
        resolves_id=pending.key,
        reference=reference,
        reason=reason,
    )


def reversal_of(
    posted: Transfer,
    *,
    key: UUID,
    effective_at: datetime,
    code: str = "",
    reference: str = "",
    reason: str = "",
) -> NewTransfer:
    """Return the transfer that moves the amount of a posted one back. It ignores limits."""
    return NewTransfer(
        key=key,
        debit_id=posted.credit_id,
        credit_id=posted.debit_id,
        amount=posted.amount,
        code=code or posted.code,
        effective_at=effective_at,
        reverses_id=posted.key,
        enforces_limits=False,
        reference=reference,
        reason=reason,
    )


@transaction.atomic
def void_expired(*, now: datetime) -> int:
    """Void pending transfers that expired by `now`, the oldest first; return how many.

    One call voids at most `EXPIRED_MAX`. A result below that means that none is left.
    """
    expired = PendingTransfer.objects.filter(expires_at__lte=now).order_by("expires_at", "pk")
    candidates = list(expired.select_related("transfer")[:EXPIRED_MAX])
    lock_accounts(
        id for each in candidates for id in (each.transfer.debit_id, each.transfer.credit_id)
    )
    # Another process may have resolved some of them before the accounts were locked.
    numbers = [each.pk for each in candidates]
    rest = expired.filter(pk__in=numbers).select_related("transfer")
    voids = [
        resolution_of(
            each.transfer,
            key=uuid5(_EXPIRED_KEYS, str(each.transfer.key)),
            amount=None,
            effective_at=each.expires_at,
            code=EXPIRED,
        )
        for each in rest
    ]
    record(voids, now=now)
    return len(voids)


def _refuse_what_cannot_be_stored(new: NewTransfer) -> None:
    """Refuse values that a column cannot hold. The database refuses all others."""
    if any(abs(each) > _INTEGER_MAX for each in (new.amount, new.debit_id, new.credit_id)):
        raise InvalidTransfer(f"Transfer {new.key} has a number beyond 2^63. Lower it.")
    for name, text, most in (
        ("code", new.code, 32),
        ("reference", new.reference, REFERENCE_LENGTH_MAX),
        ("reason", new.reason, REASON_LENGTH_MAX),
    ):
        if len(text) > most or _UNSTORABLE.search(text):
            raise InvalidTransfer(
                f"The {name} of transfer {new.key} must be text of at most {most} characters."
            )
    for moment in (new.effective_at, new.expires_at):
        if moment is not None and (moment.utcoffset() is None or moment.microsecond):
            raise InvalidTransfer(
                f"Times of transfer {new.key} must be whole seconds with a time zone."
            )


def _record(batch: Sequence[NewTransfer], now: datetime) -> list[Recorded]:
    """Store the transfers that are new. The accounts are locked, so nobody else stores them."""
    known = {
        key: (number, bytes(body_hash))
        for key, number, body_hash in Transfer.objects.filter(
            key__in=[new.key for new in batch]
        ).values_list("key", "number", "body_hash")
    }
    hashes: dict[UUID, bytes] = {}
    rows: list[dict[str, object]] = []
    for new in batch:
        body = {name: getattr(new, name) for name in _FIELDS}
        body_hash = hash_of_body(**body)
        stored_hash = known[new.key][1] if new.key in known else hashes.get(new.key, body_hash)
        if stored_hash != body_hash:
            raise TransferKeyReused(
                f"Transfer {new.key} was recorded before with other values. Send the same "
                "values, or take a new key.",
                transfer=str(new.key),
            )
        if new.key not in known and new.key not in hashes:
            hashes[new.key] = body_hash
            rows.append(body | {"body_hash": f"\\x{body_hash.hex()}"})
    numbers = dict(zip(hashes, insert_rows(Transfer, rows, same={"created_at": now}), strict=True))
    recorded = []
    for new in batch:
        # A second one of the same batch repeats the first.
        is_new = hashes.pop(new.key, None) is not None
        number = numbers[new.key] if new.key in numbers else known[new.key][0]
        recorded.append(Recorded(new.key, number, is_repeat=not is_new))
    return recorded
