"""Opens and finds accounts, and sets their limits."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import DatabaseError, connection, transaction
from django.db.models import QuerySet

from bulk.inserting import insert_rows
from ledger.errors import InvalidTransfer, refusal_of
from ledger.hashing import hash_of_account
from ledger.models import Account


def open_account(
    ledger: str, owner: str, kind: str, *, floor: int | None = None, cap: int | None = None
) -> Account:
    """Open an account with a balance of 0, or return the one that is open already.

    The limits of an account that is open already stay. Raises InvalidTransfer.
    """
    if account := find_account(ledger, owner, kind):
        return account
    row = {
        "ledger": ledger,
        "owner": owner,
        "kind": kind,
        "floor": floor,
        "cap": cap,
        "head": f"\\x{hash_of_account(ledger, owner, kind).hex()}",
    }
    try:
        with transaction.atomic():
            insert_rows(Account, [row], ignore_conflicts=True)
    except DatabaseError as error:
        raise refusal_of(error) or error from error
    return Account.objects.get(ledger=ledger, owner=owner, kind=kind)


def find_account(ledger: str, owner: str, kind: str) -> Account | None:
    """Return the account, or None where nobody opened it."""
    return Account.objects.filter(ledger=ledger, owner=owner, kind=kind).first()


def accounts_of(ledger: str) -> QuerySet[Account]:
    """Return the accounts of a ledger in the order of their ids."""
    return Account.objects.filter(ledger=ledger).order_by("id")


def set_limits(account_id: int, *, floor: int | None, cap: int | None) -> None:
    """Set the limits of new transfers; the balance stays as it is. Raises InvalidTransfer."""
    try:
        with transaction.atomic():
            known = Account.objects.filter(id=account_id).update(floor=floor, cap=cap)
    except DatabaseError as error:
        raise refusal_of(error) or error from error
    if not known:
        raise InvalidTransfer(f"There is no account {account_id}. Open it first.")


def lock_accounts(ids: Iterable[int]) -> None:
    """Lock accounts until the end of the transaction, in the order in which the trigger does."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM ledger_account WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE",
            [sorted(set(ids))],
        )
