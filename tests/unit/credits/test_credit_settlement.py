"""The settlement of credits: the worked example to the unit, limits, earnings, dividend and holds
(R-89 to R-94)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import pytest

from arbiter.api.snapshot import PoolWeight
from credits.settlement import (
    Account,
    Earning,
    Interval,
    Limits,
    Settlement,
    Transfer,
    TransferKind,
    expire,
    held_credits,
    move,
    settle,
    share_out,
)

#: The worked example counts in GPU-days: one GPU a day is one unit here.
DAY = 1
TWO_DAYS = Limits(floor_s=2 * DAY, cap_s=2 * DAY)
TEAMS = (Account("A", 40), Account("B", 40), Account("C", 20))
USED = (
    {"A": 10, "B": 90, "C": 20},
    {"A": 10, "B": 60, "C": 50},
    {"A": 60, "B": 40, "C": 20},
    {"A": 60, "B": 40, "C": 20},
    {"A": 40, "B": 0, "C": 80},
)


def balances(settled: Settlement) -> dict[str, int]:
    return {account.team: account.balance for account in settled.accounts} | {"": settled.pool}


def five_days() -> list[Settlement]:
    accounts, pool, found = TEAMS, 0, []
    for day, used in enumerate(USED):
        settled = settle(accounts, pool, Interval(DAY, used), expires_at=100 + day, limits=TWO_DAYS)
        accounts, pool = settled.accounts, settled.pool  # type: ignore[assignment]
        found.append(settled)
    return found


def test_the_worked_example_comes_out_to_the_unit() -> None:
    days = five_days()
    assert [balances(day) for day in days] == [
        {"A": 30, "B": -50, "C": 0, "": 20},
        {"A": 60, "B": -70, "C": -30, "": 40},
        {"A": 40, "B": -70, "C": -30, "": 60},
        {"A": 20, "B": -70, "C": -30, "": 80},
        {"A": 20, "B": -60, "C": -40, "": 80},
    ]
    assert [day.paid for day in days] == [
        {"B": 50},
        {"B": 20, "C": 30},
        {"A": 20},
        {"A": 20},
        {"C": 10},
    ]
    assert [day.lent for day in days] == [{"A": 30}, {"A": 30}, {}, {}, {"B": 10}]
    assert [day.unpaid for day in days] == [{}, {}, {}, {}, {"C": 50}]
    closed = share_out(days[-1].accounts, days[-1].pool, expires_at=200, limits=TWO_DAYS)
    assert [(one.payee, one.amount) for one in closed.transfers] == [
        ("A", 32),
        ("B", 32),
        ("C", 16),
    ]
    assert balances(closed) == {"A": 52, "B": -28, "C": -24, "": 0}


def test_the_first_earned_is_spent_first_and_the_rest_expires_into_the_pool() -> None:
    """A's lot of day 1 is gone on day 4; 20 of day 2's remain."""
    last = five_days()[-1]
    earnings = {account.team: account.earnings for account in last.accounts}
    assert earnings == {"A": (Earning(20, 101),), "B": (), "C": ()}
    assert expire(last.accounts, last.pool, at=100).transfers == ()
    expired = expire(last.accounts, last.pool, at=101)
    assert expired.transfers == (Transfer("A", None, 20, TransferKind.EXPIRED),)
    assert balances(expired) == {"A": 0, "B": -60, "C": -40, "": 100}


def test_the_richest_payer_is_matched_with_the_poorest_lender() -> None:
    accounts = [
        Account("p", 10, 5, (Earning(5, 9),)),
        Account("q", 10, 20, (Earning(20, 9),)),
        Account("x", 10, -30),
        Account("y", 10, 5, (Earning(5, 9),)),
    ]
    used = {"p": 20, "q": 15, "x": 0, "y": 0}
    settled = settle(accounts, 0, Interval(1, used), expires_at=50)
    assert settled.transfers == (
        Transfer("q", "x", 5, TransferKind.LENT),
        Transfer("p", "x", 5, TransferKind.LENT),
        Transfer("p", "y", 5, TransferKind.LENT),
    )


def test_lenders_are_raised_to_one_level_and_no_further_than_they_were_idle() -> None:
    """x is the poorest; y and z are level."""
    accounts = [
        Account("b", 100, 900),
        Account("x", 10, -10),
        Account("y", 20, 0),
        Account("z", 10, 0),
    ]
    used = {"b": 140, "x": 0, "y": 0, "z": 8}
    settled = settle(accounts, 0, Interval(1, used), expires_at=50)
    assert settled.lent == {"x": 10, "y": 20, "z": 2}
    used = {"b": 113, "x": 0, "y": 0, "z": 8}
    settled = settle(accounts, 0, Interval(1, used), expires_at=50)
    # 10 make x as rich as the others, and it has no more; 3 are a tenth of what y and z have.
    assert settled.lent == {"x": 10, "y": 2, "z": 1}


def test_what_may_not_be_lent_earns_nothing() -> None:
    accounts = [Account("a", 10), Account("b", 10)]
    interval = Interval(2, {"a": 20, "b": 0}, {"b": 3})
    settled = settle(accounts, 0, interval, expires_at=50)
    assert (settled.lent, settled.paid, settled.pool) == ({"b": 6}, {"a": 20}, 14)


def test_earnings_above_the_cap_go_to_the_pool() -> None:
    accounts = [Account("a", 10), Account("b", 10, 15, (Earning(15, 7),))]
    settled = settle(accounts, -15, Interval(1, {"a": 20, "b": 0}), expires_at=9, limits=TWO_DAYS)
    assert settled.transfers == (
        Transfer("a", "b", 5, TransferKind.LENT),
        Transfer("a", None, 5, TransferKind.ABOVE_CAP),
    )
    assert balances(settled) == {"a": -10, "b": 20, "": -10}


def test_below_the_floor_nothing_is_paid_and_nothing_is_earned_by_it() -> None:
    accounts = [Account("a", 10, -25), Account("b", 10), Account("c", 0)]
    interval = Interval(1, {"a": 20, "b": 0, "c": 4})
    settled = settle(accounts, 25, interval, expires_at=9, limits=TWO_DAYS)
    assert settled.transfers == ()
    assert settled.unpaid == {"a": 10, "c": 4}


def test_a_dividend_stays_in_the_pool_where_it_would_lift_a_team_above_its_cap() -> None:
    accounts = [Account("a", 10, 18, (Earning(18, 7),)), Account("b", 10, -58), Account("c", 0)]
    shared = share_out(accounts, 40, expires_at=9, limits=TWO_DAYS)
    assert [(one.payee, one.amount) for one in shared.transfers] == [("a", 2), ("b", 20)]
    assert shared.pool == 18
    assert share_out(accounts, 0, expires_at=9).transfers == ()
    assert share_out([Account("c", 0)], 5, expires_at=9).pool == 5


def test_a_debt_takes_up_what_is_earned_before_a_lot_is_made() -> None:
    accounts = [Account("a", 10, 0), Account("b", 10, -4)]
    settled = settle(accounts, 4, Interval(1, {"a": 20, "b": 0}), expires_at=9)
    assert settled.accounts[1] == Account("b", 10, 6, (Earning(6, 9),))


def test_a_transfer_moves_the_oldest_earnings_with_their_expiry() -> None:
    """Both have earnings that expire at 7. Planted: a debt that becomes earnings."""
    sender = Account("a", 10, 9, (Earning(4, 5), Earning(5, 7)))
    recipient = Account("b", 10, 2, (Earning(2, 7),))
    assert move(sender, recipient, 6) == (
        Account("a", 10, 3, (Earning(3, 7),)),
        Account("b", 10, 8, (Earning(4, 5), Earning(4, 7))),
    )
    in_debt = Account("b", 10, -5)
    assert move(sender, in_debt, 6)[1] == Account("b", 10, 1, (Earning(1, 7),))
    assert move(sender, in_debt, 4)[1] == Account("b", 10, -1)
    with pytest.raises(ValueError, match="a has no 10 credits to transfer"):
        move(sender, recipient, 10)


def test_a_hold_is_an_hour_of_borrowing_and_dies_by_itself() -> None:
    """Planted: a third settlement may be missed; what a team leaves idle is held."""

    def held(borrowed: int, unsettled_s: int) -> int:
        return held_credits(borrowed, unsettled_s=unsettled_s, settled_every_s=900)

    assert [held(8_000, unsettled_s) for unsettled_s in (-60, 1_799, 1_800)] == [
        28_800_000,
        28_800_000,
        0,
    ]
    assert (held(0, 0), held(-8_000, 0)) == (0, 0)


# -- over-reporting -----------------------------------------------------------------------------


def served(accounts: Sequence[Account], asked: Mapping[str, int], capacity: int) -> dict[str, int]:
    """The order of service with one GPU at a time: guarantees first, then the richest; who is
    down at the floor comes after all who can pay, as they are the first to be taken back from."""
    used = {one.team: min(asked[one.team], one.guaranteed) for one in accounts}
    while sum(used.values()) < capacity:
        wanting = [one for one in accounts if used[one.team] < asked[one.team]]
        if not wanting:
            break

        def richness(one: Account) -> tuple[bool, float, str]:
            left = one.balance - max(0, used[one.team] - one.guaranteed)
            is_unpaid = left <= -TWO_DAYS.floor_s * one.guaranteed
            return is_unpaid, -left / one.guaranteed, one.team

        used[min(wanting, key=richness).team] += 1
    return used


def useful(asked: Sequence[Mapping[str, int]], needs: Sequence[int], capacity: int) -> int:
    """What team a gets of what it really needs, day by day."""
    accounts: Sequence[Account] = (Account("a", 1), Account("b", 1), Account("c", 1))
    pool = total = 0
    for day, need in zip(asked, needs, strict=True):
        used = served(accounts, day, capacity)
        total += min(need, used["a"])
        settled = settle(accounts, pool, Interval(DAY, used), expires_at=99, limits=TWO_DAYS)
        accounts, pool = settled.accounts, settled.pool
        assert sum(one.balance for one in accounts) + pool == 0
    return total


def test_asking_for_more_than_is_needed_never_pays() -> None:
    """Every demand of three teams over two days, and every way in which one of them could ask for
    more; and over three days where the others' demands are among the extremes.

    Mutant that dies here: the poorest borrower is served first.
    """
    checked = 0
    for days, choices in ((2, range(4)), (3, (0, 3))):
        for others in product(product(choices, repeat=2), repeat=days):
            for needs in product(choices, repeat=days):
                honest = None
                for lies in product(range(4), repeat=days):
                    if any(lie < need for lie, need in zip(lies, needs, strict=True)):
                        continue
                    asked = [
                        {"a": lie, "b": b, "c": c} for lie, (b, c) in zip(lies, others, strict=True)
                    ]
                    if honest is None:
                        assert lies == needs
                        honest = useful(asked, needs, 4)
                    assert useful(asked, needs, 4) <= honest, (others, needs, lies)
                    checked += 1
    assert checked > 20_000


@pytest.mark.parametrize("permille", [0, -1])
def test_a_pool_that_weighs_nothing_is_refused(permille: int) -> None:
    """Planted: it divides by zero when somebody's credits are asked for."""
    with pytest.raises(ValueError, match=f"pool 'h100' weighs {permille}; choose 1 or more"):
        PoolWeight("h100", permille)
