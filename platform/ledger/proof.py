"""The proof of a ledger: all of it is computed again and compared with what is stored.

Memory stays bounded: entries and transfers are read page by page. Transfers may be recorded
meanwhile; an account is compared up to the entry that was its last when the account was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db import connection
from django.db.models import F, Sum

from ledger.accounts import accounts_of
from ledger.hashing import hash_of_account, hash_of_body, hash_of_entry, hash_of_seal
from ledger.models import Account, Entry, Seal, SealedHead, Transfer, TransferState

#: The most faults that one proof returns.
FAULTS_MAX = 100
#: Rows of one page.
_PAGE = 2_000
#: Transfers whose entries one statement counts.
_TRANSFERS_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class Fault:
    """A difference between what is stored and what the transfers make, in one sentence."""

    kind: str
    sentence: str


@dataclass(slots=True)
class _Book:
    """The sums of an account after its entries so far."""

    head: bytes
    sequence: int = 0
    debits: int = 0
    credits: int = 0
    held: int = 0
    incoming: int = 0

    @property
    def balance(self) -> int:
        return self.credits - self.debits


def find_faults(ledger: str) -> list[Fault]:
    """Return the faults of a ledger, at most `FAULTS_MAX`. An empty list is the proof."""
    return list(islice(_faults(ledger), FAULTS_MAX))


def _faults(ledger: str) -> Iterator[Fault]:
    yield from _faults_of_sums(ledger)
    for account in accounts_of(ledger).iterator(chunk_size=_PAGE):
        yield from _faults_of_account(account)
    yield from _faults_of_transfers(ledger)
    yield from _faults_of_seals(ledger)


def _faults_of_sums(ledger: str) -> Iterator[Fault]:
    sums = accounts_of(ledger).aggregate(
        posted=Sum(F("posted_credits") - F("posted_debits")),
        pending=Sum(F("pending_credits") - F("pending_debits")),
    )
    for name, total in sums.items():
        if total:
            yield Fault("sum", f"The {name} sums of {ledger} make {total} instead of 0.")


def _faults_of_account(account: Account) -> Iterator[Fault]:
    book = _Book(hash_of_account(account.ledger, account.owner, account.kind))
    last = 0
    while rows := list(
        Entry.objects.filter(
            account_id=account.id, sequence__gt=last, sequence__lte=account.sequence
        )
        .select_related("transfer__resolves", "transfer__reverses")
        .order_by("sequence")[:_PAGE]
    ):
        last = rows[-1].sequence
        for entry in rows:
            if fault := _judge(entry, book):
                yield fault
    stored = (
        account.sequence,
        bytes(account.head),
        account.posted_debits,
        account.posted_credits,
        account.pending_debits,
        account.pending_credits,
    )
    if stored != (
        *(book.sequence, book.head, book.debits, book.credits),
        *(book.held, book.incoming),
    ):
        yield Fault(
            "account",
            f"Account {account.id} has {account.sequence} entries and the balance "
            f"{account.balance}; its entries make {book.sequence} and {book.balance}.",
        )


def _judge(entry: Entry, book: _Book) -> Fault | None:
    """Take an entry into the book, and return the first fault of the entry.

    A fault does not spread: the book goes on with the hash that is stored.
    """
    name = f"Entry {entry.sequence} of account {entry.account_id}"
    missing = entry.sequence - book.sequence - 1
    before, book.head, book.sequence = book.head, bytes(entry.hash), entry.sequence
    transfer = entry.transfer
    _book(transfer, entry.account_id, book)
    if missing:
        return Fault(
            "entry",
            f"{missing} entries before entry {entry.sequence} of account "
            f"{entry.account_id} are gone, or their transfers.",
        )
    if wrong := _fault_of_transfer(transfer):
        return Fault("transfer", f"Transfer {transfer.key} {wrong}.")
    if entry.account_id not in (transfer.debit_id, transfer.credit_id):
        return Fault("entry", f"{name} names transfer {transfer.key}, which has other accounts.")
    stored = (entry.balance, entry.held, entry.incoming)
    if stored != (book.balance, book.held, book.incoming):
        return Fault(
            "balance", f"{name} has the balance {entry.balance}; its transfers make {book.balance}."
        )
    hashed = hash_of_entry(
        before,
        account_id=entry.account_id,
        sequence=entry.sequence,
        body_hash=bytes(transfer.body_hash),
        created_at=transfer.created_at,
        balance=entry.balance,
        held=entry.held,
        incoming=entry.incoming,
    )
    if hashed != bytes(entry.hash):
        return Fault("hash", f"{name} does not follow the entry before: its hash is another one.")
    return None


def _book(transfer: Transfer, account_id: int, book: _Book) -> None:
    posted = transfer.amount if transfer.state == TransferState.POSTED else 0
    pending = transfer.amount if transfer.state == TransferState.PENDING else 0
    if transfer.resolves is not None:
        pending -= transfer.resolves.amount
    if account_id == transfer.debit_id:
        book.debits += posted
        book.held += pending
    else:
        book.credits += posted
        book.incoming += pending


def _fault_of_transfer(transfer: Transfer) -> str | None:
    """Return what is wrong with a transfer by itself, as the end of a sentence."""
    names = (
        *("key", "debit_id", "credit_id", "amount", "state", "code", "resolves_id", "reverses_id"),
        *("enforces_limits", "effective_at", "expires_at", "reference", "reason"),
    )
    if hash_of_body(**{name: getattr(transfer, name) for name in names}) != bytes(
        transfer.body_hash
    ):
        return "was changed after it was recorded"
    if (pending := transfer.resolves) is not None and (
        pending.state != TransferState.PENDING
        or (pending.debit_id, pending.credit_id) != (transfer.debit_id, transfer.credit_id)
        or transfer.amount > pending.amount
    ):
        return f"does not fit transfer {pending.key}, which it resolves"
    if (posted := transfer.reverses) is not None and (
        posted.state != TransferState.POSTED
        or (posted.debit_id, posted.credit_id) != (transfer.credit_id, transfer.debit_id)
        or transfer.amount != posted.amount
    ):
        return f"is not the opposite of transfer {posted.key}, which it reverses"
    return None


#: Transfers of a page without an entry at each of their accounts.
_WITHOUT_ENTRIES = """
SELECT t.key FROM ledger_transfer t JOIN ledger_account a ON a.id = t.debit_id
WHERE a.ledger = %(ledger)s AND t.number > %(after)s AND t.number <= %(until)s AND 2 <> (
    SELECT count(*) FROM ledger_entry e
    WHERE e.transfer_id = t.number AND e.account_id IN (t.debit_id, t.credit_id)
)
ORDER BY t.number LIMIT %(most)s
"""
#: Transfers that are resolved or reversed more than once.
_TWICE = """
SELECT {column} FROM ledger_transfer t JOIN ledger_account a ON a.id = t.debit_id
WHERE a.ledger = %(ledger)s AND {column} IS NOT NULL
GROUP BY {column} HAVING count(*) > 1 ORDER BY {column} LIMIT %(most)s
"""
#: Transfers that are pending and not listed so, or the other way round.
_PENDING = """
SELECT t.key FROM ledger_transfer t JOIN ledger_account a ON a.id = t.debit_id
LEFT JOIN ledger_pendingtransfer p ON p.transfer_id = t.number
WHERE a.ledger = %(ledger)s AND p.expires_at IS DISTINCT FROM CASE
    WHEN NOT EXISTS (SELECT FROM ledger_transfer r WHERE r.resolves_id = t.key) THEN t.expires_at
END
AND t.number > %(after)s AND t.number <= %(until)s
ORDER BY t.number LIMIT %(most)s
"""


def _faults_of_transfers(ledger: str) -> Iterator[Fault]:
    given: dict[str, Any] = {"ledger": ledger, "most": FAULTS_MAX}
    last = Transfer.objects.order_by("-number").values_list("number", flat=True).first() or 0
    for after in range(0, last, _TRANSFERS_AT_ONCE):
        page = given | {"after": after, "until": after + _TRANSFERS_AT_ONCE}
        for key in _keys(_WITHOUT_ENTRIES, page):
            yield Fault("entry", f"Transfer {key} has no entry at one of its accounts.")
        for key in _keys(_PENDING, page):
            yield Fault(
                "pending", f"Transfer {key} is wrongly in or out of the list of pending ones."
            )
    for column, word in (("resolves_id", "resolved"), ("reverses_id", "reversed")):
        for key in _keys(_TWICE.format(column=column), given):
            yield Fault("twice", f"Transfer {key} is {word} more than once.")


def _keys(statement: str, given: dict[str, Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, given)
        return [key for (key,) in cursor.fetchall()]


def _faults_of_seals(ledger: str) -> Iterator[Fault]:
    before = b""
    seals = Seal.objects.filter(ledger=ledger).order_by("number")
    for expected, seal in enumerate(seals.iterator(chunk_size=_PAGE), start=1):
        name = f"Seal {seal.number} of {ledger}"
        heads = SealedHead.objects.filter(seal_id=seal.id).order_by("account_id")
        hashed = hash_of_seal(
            before,
            ledger=ledger,
            number=expected,
            sealed_at=seal.sealed_at,
            heads=heads.values_list("account_id", "sequence", "head").iterator(chunk_size=_PAGE),
        )
        if hashed != bytes(seal.hash):
            yield Fault("seal", f"{name} is broken: its hash is another one.")
        before = bytes(seal.hash)
        for account_id in _keys(_UNSEALED, {"seal": seal.id, "most": FAULTS_MAX}):
            yield Fault("seal", f"{name} has another history of account {account_id}.")


#: Accounts whose entry at the moment of a seal is gone or another one now.
_UNSEALED = """
SELECT h.account_id FROM ledger_sealedhead h
LEFT JOIN ledger_entry e ON e.account_id = h.account_id AND e.sequence = h.sequence
WHERE h.seal_id = %(seal)s AND h.sequence > 0 AND e.hash IS DISTINCT FROM h.head
ORDER BY h.account_id LIMIT %(most)s
"""
