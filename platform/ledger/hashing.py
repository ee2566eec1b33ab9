"""Hashes of accounts, transfers and entries, equal to those that the database computes.

The hashed text is a JSON list, so that no value can pass for its neighbour. Times are whole
microseconds since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import UUID

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def hash_of_account(ledger: str, owner: str, kind: str) -> bytes:
    """Return the hash that stands before an account's first entry."""
    return _hash_of([ledger, owner, kind])


def hash_of_body(
    *,
    key: UUID,
    debit_id: int,
    credit_id: int,
    amount: int,
    state: str,
    code: str,
    resolves_id: UUID | None,
    reverses_id: UUID | None,
    enforces_limits: bool,
    effective_at: datetime,
    expires_at: datetime | None,
    reference: str,
    reason: str,
) -> bytes:
    """Return the hash of all that a caller chooses about a transfer."""
    return _hash_of(
        [
            str(key),
            debit_id,
            credit_id,
            amount,
            str(state),
            code,
            None if resolves_id is None else str(resolves_id),
            None if reverses_id is None else str(reverses_id),
            enforces_limits,
            in_microseconds(effective_at),
            None if expires_at is None else in_microseconds(expires_at),
            reference,
            reason,
        ]
    )


def hash_of_entry(
    before: bytes,
    *,
    account_id: int,
    sequence: int,
    body_hash: bytes,
    created_at: datetime,
    balance: int,
    held: int,
    incoming: int,
) -> bytes:
    """Return the hash of an entry that follows the entry with the hash `before`."""
    return _hash_of(
        [
            before.hex(),
            account_id,
            sequence,
            body_hash.hex(),
            in_microseconds(created_at),
            balance,
            held,
            incoming,
        ]
    )


def hash_of_seal(
    before: bytes,
    *,
    ledger: str,
    number: int,
    sealed_at: datetime,
    heads: Iterable[tuple[int, int, bytes | memoryview]],
) -> bytes:
    """Return the hash of a seal that follows the seal with the hash `before`.

    `heads` are the account's id, the number of its last entry, and its hash, in the order of ids.
    """
    digest = sha256(_line([before.hex(), ledger, number, in_microseconds(sealed_at)]))
    for account_id, sequence, head in heads:
        digest.update(_line([account_id, sequence, bytes(head).hex()]))
    return digest.digest()


def in_microseconds(moment: datetime) -> int:
    """Return the whole microseconds from 1970 to `moment`."""
    return (moment - _EPOCH) // _MICROSECOND


def _hash_of(values: Sequence[object]) -> bytes:
    return sha256(_line(values)).digest()


def _line(values: Sequence[object]) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode()
