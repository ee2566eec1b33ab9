"""Accounts and transfers of the ledger for tests, with defaults."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, transaction
from uuid_utils.compat import uuid7

from builders.portal_builders import NOW
from ledger.accounts import open_account
from ledger.models import Account, Transfer, TransferState
from ledger.transfers import NewTransfer, find_transfers, record

CREDITS = "credits:h100"
LATER = NOW + timedelta(hours=1)


def a_team_account(owner: str = "nlp", **limits: int | None) -> Account:
    return open_account(CREDITS, owner, "team", **limits)


def a_pool_account() -> Account:
    return open_account(CREDITS, "h100", "pool")


def two_accounts(**limits: int | None) -> tuple[Account, Account]:
    """A team's account with these limits, and that of the pool."""
    return a_team_account(**limits), a_pool_account()


def a_move(debit: Account, credit: Account, amount: int = 10, **values: Any) -> NewTransfer:
    """A posted transfer that nobody has recorded yet."""
    given = {"key": uuid7(), "code": "lent", "effective_at": NOW} | values
    return NewTransfer(debit_id=debit.id, credit_id=credit.id, amount=amount, **given)


def a_hold(debit: Account, credit: Account, amount: int = 10, **values: Any) -> NewTransfer:
    """A pending transfer that expires after an hour."""
    given = {"state": TransferState.PENDING, "expires_at": LATER, "code": "hold"} | values
    return a_move(debit, credit, amount, **given)


def recorded(new: NewTransfer) -> Transfer:
    """The transfer, after it was recorded."""
    record([new], now=NOW)
    return find_transfers([new.key])[new.key]


def sums(account: Account) -> tuple[int, int, int]:
    """The balance of an account, what it holds, and what is pending for it."""
    account.refresh_from_db()
    return account.balance, account.pending_debits, account.pending_credits


def a_key(number: int) -> UUID:
    return UUID(int=number)


def refused_by(constraint: str, act: Callable[[], Any]) -> None:
    """Run `act`, which the database refuses for this constraint or trigger."""
    with pytest.raises(DatabaseError) as refusal, transaction.atomic():
        act()
    assert refusal.value.__cause__.diag.constraint_name == constraint  # type: ignore[union-attr]
