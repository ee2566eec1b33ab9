"""The ledger in PostgreSQL beside a naive ledger in memory, through random batches.

Planted: a hold that is released by the amount of its post, a floor that ignores what is held, an
expiry that posts, and a repeat that compares keys alone.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from builders.ledger_builders import CREDITS, a_key
from builders.portal_builders import NOW
from ledger.accounts import accounts_of, open_account, set_limits
from ledger.errors import CapReached, FloorReached, NotResolvable, NotReversible, TransferKeyReused
from ledger.models import Entry, PendingTransfer, Transfer, TransferState
from ledger.transfers import NewTransfer, record, void_expired
from primitives.errors import PortalError

pytestmark = pytest.mark.django_db

ACCOUNTS = 3


class Refused(Exception):
    """The naive ledger refuses, and expects this error of the real one."""

    def __init__(self, error: type[PortalError]) -> None:
        self.error = error


@dataclass
class Naive:
    """Balances as plain numbers. An account is its place in the list."""

    balances: list[int] = field(default_factory=lambda: [0] * ACCOUNTS)
    limits: list[tuple[int | None, int | None]] = field(
        default_factory=lambda: [(None, None)] * ACCOUNTS
    )
    bodies: dict[UUID, NewTransfer] = field(default_factory=dict)
    holds: dict[UUID, NewTransfer] = field(default_factory=dict)
    reversed: set[UUID] = field(default_factory=set)

    def held(self, account: int) -> int:
        return sum(hold.amount for hold in self.holds.values() if hold.debit_id == account)

    def incoming(self, account: int) -> int:
        return sum(hold.amount for hold in self.holds.values() if hold.credit_id == account)

    def apply(self, new: NewTransfer, second: int) -> None:
        if new.key in self.bodies:
            if self.bodies[new.key] != new:
                raise Refused(TransferKeyReused)
            return
        if new.resolves_id is not None:
            hold = self.holds.get(new.resolves_id)
            is_late = hold is not None and second >= _second(hold.expires_at)
            if hold is None or new.amount > hold.amount or (new.state == "posted" and is_late):
                raise Refused(NotResolvable)
            del self.holds[new.resolves_id]
        if new.reverses_id is not None:
            posted = self.bodies[new.reverses_id]
            if (
                posted.state != "posted"
                or posted.reverses_id is not None
                or posted.key in self.reversed
            ):
                raise Refused(NotReversible)
            self.reversed.add(posted.key)
        if new.state == "pending":
            self.holds[new.key] = new
        if new.state == "posted":
            self.balances[new.debit_id] -= new.amount
            self.balances[new.credit_id] += new.amount
        self.bodies[new.key] = new
        if new.enforces_limits and new.resolves_id is None:
            self._check(new)

    def _check(self, new: NewTransfer) -> None:
        for account in sorted((new.debit_id, new.credit_id)):
            floor, cap = self.limits[account]
            balance = self.balances[account]
            is_debit = account == new.debit_id
            if is_debit and floor is not None and balance - self.held(account) < floor:
                raise Refused(FloorReached)
            if not is_debit and cap is not None and balance + self.incoming(account) > cap:
                raise Refused(CapReached)


def _second(moment: Any) -> int:
    return int((moment - NOW).total_seconds())


accounts = st.permutations(range(ACCOUNTS)).map(lambda order: (order[0], order[1]))
amounts = st.integers(1, 30)
picks = st.integers(0, 50)
#: What a batch does: its transfers refer to any that were recorded before.
acts = st.one_of(
    st.tuples(st.just("move"), accounts, amounts, st.booleans()),
    st.tuples(st.just("hold"), accounts, amounts, st.booleans()),
    st.tuples(st.just("post"), picks, amounts),
    st.tuples(st.just("void"), picks),
    st.tuples(st.just("reverse"), picks),
    st.tuples(st.just("repeat"), picks),
    st.tuples(st.just("reuse"), picks),
)


class Ledger(RuleBasedStateMachine):
    """Each example has a transaction of its own, which is rolled back."""

    def __init__(self) -> None:
        super().__init__()
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.naive = Naive()
        self.second = 0
        self.keys = 0
        self.ids = [open_account(CREDITS, f"team-{n}", "team").id for n in range(ACCOUNTS)]

    @initialize(low=st.integers(-40, 0), high=st.integers(0, 60))
    def begin_with_limits(self, low: int, high: int) -> None:
        self.limit(0, low, None)
        self.limit(1, None, high)

    @rule(
        account=st.integers(0, ACCOUNTS - 1),
        floor=st.integers(-40, 0) | st.none(),
        cap=st.integers(0, 60) | st.none(),
    )
    def limit(self, account: int, floor: int | None, cap: int | None) -> None:
        set_limits(self.ids[account], floor=floor, cap=cap)
        self.naive.limits[account] = (floor, cap)

    @rule(batch=st.lists(acts, min_size=1, max_size=4))
    def record_a_batch(self, batch: Sequence[tuple[Any, ...]]) -> None:
        after = copy.deepcopy(self.naive)
        news: list[NewTransfer] = []
        refused: Refused | None = None
        for act in batch:
            new = self.transfer_of(act, after)
            if new is None:
                continue
            news.append(new)
            if refused is None:
                try:
                    after.apply(new, self.second)
                except Refused as refusal:
                    refused = refusal
        real = [
            replace(new, debit_id=self.ids[new.debit_id], credit_id=self.ids[new.credit_id])
            for new in news
        ]
        now = NOW + timedelta(seconds=self.second)
        if refused is None:
            known = set(self.naive.bodies)
            done = record(real, now=now)
            for new, each in zip(news, done, strict=True):
                assert each.is_repeat == (new.key in known)
                known.add(new.key)
            self.naive = after
            return
        # Of several faults in a batch the database may meet another one first.
        with pytest.raises(refused.error if len(news) == 1 else PortalError):
            record(real, now=now)

    @rule(seconds=st.integers(1, 20))
    def let_holds_expire(self, seconds: int) -> None:
        self.second += seconds
        expired = [
            k for k, hold in self.naive.holds.items() if _second(hold.expires_at) <= self.second
        ]
        assert void_expired(now=NOW + timedelta(seconds=self.second)) == len(expired)
        for key in expired:
            del self.naive.holds[key]

    def transfer_of(self, act: tuple[Any, ...], naive: Naive) -> NewTransfer | None:
        """The transfer that an act asks for. None where it needs an earlier one."""
        kind, *rest = act
        self.keys += 1
        key = a_key(self.keys)
        if kind in ("move", "hold"):
            (debit, credit), amount, enforces_limits = rest
            new = NewTransfer(
                key, debit, credit, amount, "lent", NOW, enforces_limits=enforces_limits
            )
            if kind == "move":
                return new
            expires_at = NOW + timedelta(seconds=self.second + 15)
            return replace(new, state=TransferState.PENDING, expires_at=expires_at)
        if not naive.bodies:
            return None
        old = list(naive.bodies.values())[rest[0] % len(naive.bodies)]
        if kind == "repeat":
            return old
        if kind == "reuse":
            return replace(old, reason=f"{old.reason} again")
        if kind == "reverse":
            return replace(
                old,
                key=key,
                debit_id=old.credit_id,
                credit_id=old.debit_id,
                state=TransferState.POSTED,
                expires_at=None,
                resolves_id=None,
                reverses_id=old.key,
                enforces_limits=False,
            )
        return replace(
            old,
            key=key,
            amount=rest[1] if kind == "post" else old.amount,
            state=TransferState.POSTED if kind == "post" else TransferState.VOIDED,
            expires_at=None,
            resolves_id=old.key,
            reverses_id=None,
        )

    @invariant()
    def agrees_with_the_naive_one(self) -> None:
        books = [(a.balance, a.pending_debits, a.pending_credits) for a in accounts_of(CREDITS)]
        assert books == [
            (self.naive.balances[n], self.naive.held(n), self.naive.incoming(n))
            for n in range(ACCOUNTS)
        ]
        assert sum(balance for balance, _, _ in books) == 0
        open_keys = PendingTransfer.objects.values_list("transfer__key", flat=True)
        assert set(open_keys) == set(self.naive.holds)
        assert Entry.objects.count() == 2 * Transfer.objects.count()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.atomic.__exit__(None, None, None)


def test_the_ledger_is_the_naive_one() -> None:
    run_state_machine_as_test(Ledger, settings=settings(max_examples=40, stateful_step_count=20))
