"""Laws of the settlement: nothing comes from nothing, limits hold, and earnings are what is owned
(R-89 to R-94)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from credits.settlement import (
    Account,
    Interval,
    Limits,
    Settlement,
    expire,
    settle,
    share_out,
)

LIMITS = Limits(floor_s=2, cap_s=3)
TEAMS = "abcd"


def check(before: tuple[Account, ...], pool: int, after: Settlement) -> None:
    """What holds of every step, and that the transfers are the difference."""
    was = {one.team: one.balance for one in before}
    now = {one.team: one.balance for one in after.accounts}
    assert sum(now.values()) + after.pool == sum(was.values()) + pool == 0
    for transfer in after.transfers:
        assert transfer.amount > 0
        assert transfer.payer != transfer.payee
        pool += (transfer.payee is None) * transfer.amount
        pool -= (transfer.payer is None) * transfer.amount
        for team, sign in ((transfer.payer, -1), (transfer.payee, 1)):
            if team is not None:
                was[team] += sign * transfer.amount
    assert (was, pool) == (now, after.pool)
    for account in after.accounts:
        assert all(earning.amount > 0 for earning in account.earnings)
        assert sum(earning.amount for earning in account.earnings) == max(0, account.balance)
        ends = [earning.expires_at for earning in account.earnings]
        assert ends == sorted(set(ends))


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_credits_only_move_within_their_limits(data: st.DataObject) -> None:
    """Sum zero, floor and cap, the rich pay nothing they did not borrow, no team pays and lends
    at once, the poorest lends first, and everything idle and borrowed is accounted for.

    Mutants that die here: the part above the cap is lost; POOL keeps the dividend that it gives;
    payment goes on below the floor; an earning is made of what repays a debt; earnings are spent
    last in first out (their order is lost); lenders are paid in order of their names; a unit
    of rounding is dropped; unpaid use earns something for the lenders.
    """
    accounts = tuple(Account(team, data.draw(st.integers(0, 6))) for team in TEAMS)
    pool = 0
    for step in range(data.draw(st.integers(1, 6))):
        interval = Interval(
            data.draw(st.integers(1, 3)),
            {team: data.draw(st.integers(0, 9)) for team in TEAMS},
            {
                team: data.draw(st.integers(0, 6))
                for team in data.draw(st.sets(st.sampled_from(TEAMS)))
            },
        )
        settled = settle(accounts, pool, interval, expires_at=step, limits=LIMITS)
        check(accounts, pool, settled)
        check_settled(accounts, interval, settled)
        accounts, pool = settled.accounts, settled.pool
        if data.draw(st.booleans()):
            expired = expire(accounts, pool, at=step - 2)
            check(accounts, pool, expired)
            assert all(
                earning.expires_at > step - 2
                for one in expired.accounts
                for earning in one.earnings
            )
            accounts, pool = expired.accounts, expired.pool
        if data.draw(st.booleans()):
            shared = share_out(accounts, pool, expires_at=step, limits=LIMITS)
            check(accounts, pool, shared)
            assert shared.pool >= 0
            room = any(one.balance < 3 * one.guaranteed for one in shared.accounts)
            assert shared.pool == 0 or not room or shared.pool < pool
            accounts, pool = shared.accounts, shared.pool


def check_settled(before: tuple[Account, ...], interval: Interval, settled: Settlement) -> None:
    lendable = interval.lendable or {}
    total = idle_of_all = 0
    levels: dict[str, float] = {}
    for was, now in zip(before, settled.accounts, strict=True):
        team = was.team
        above = (interval.used[team] - was.guaranteed) * interval.seconds
        idle = min(max(0, -above), lendable.get(team, was.guaranteed) * interval.seconds)
        paid, lent = settled.paid.get(team, 0), settled.lent.get(team, 0)
        assert paid + settled.unpaid.get(team, 0) == max(0, above)
        assert 0 <= lent <= idle
        assert not (paid and lent)
        assert now.balance >= min(was.balance, -2 * was.guaranteed)
        assert now.balance <= max(was.balance, 3 * was.guaranteed)
        if settled.unpaid.get(team, 0):
            assert now.balance <= -2 * was.guaranteed
        total += paid
        idle_of_all += idle
        if lent:
            levels[team] = (was.balance + lent - 1) / was.guaranteed
    assert sum(settled.lent.values()) == min(total, idle_of_all)
    # Nobody was raised above another who could have lent more instead.
    for was in before:
        idle = (was.guaranteed - interval.used[was.team]) * interval.seconds
        idle = min(idle, lendable.get(was.team, was.guaranteed) * interval.seconds)
        lent = settled.lent.get(was.team, 0)
        if lent < idle:
            level = (was.balance + lent + 1) / was.guaranteed
            assert all(other <= level for other in levels.values())
