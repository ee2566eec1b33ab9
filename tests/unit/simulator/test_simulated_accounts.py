"""Recent use and credits in virtual time, and what they decide there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arbiter.api.policy import DAY_S, Policy
from arbiter.api.snapshot import Usage
from arbiter.fairshare.decay import Decay
from builders.simulator_builders import a_job, play
from simulator.accounts import Bank, RecentUse
from simulator.scene import POOL

GPU = 1_000
#: What a GPU earns or costs in a second.
UNIT = 1_000 * 1_000
WEEK_S = 7 * DAY_S


def test_use_counts_half_after_the_half_life() -> None:
    """4 GPUs for an hour, which counts from its end on; what runs counts until now.

    Planted: `at` is not moved on for those who hold nothing.
    """
    recent = RecentUse(WEEK_S)
    recent.hold("a", "ana", 4 * GPU, 0)
    recent.hold("a", "ana", -4 * GPU, 3_600)
    exact = Decay(WEEK_S).used([(0, 3_600, 4 * GPU)], 3_600)
    assert recent.usage(3_600) == (Usage("a", "ana", POOL, exact, 3_600),)
    (later,) = recent.usage(3_600 + WEEK_S)
    assert (later.decayed_mgpu_s, later.as_of) == (exact // 2, 3_600 + WEEK_S)


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 4)), max_size=6))
def test_use_is_that_of_the_intervals_however_often_it_is_asked(
    asked: list[tuple[int, int]],
) -> None:
    """Off by one milli-GPU-second at most for each look and each change.

    Planted: the sum is decayed and what was held in between is not added.
    """
    recent, intervals, now = RecentUse(WEEK_S), [], 0
    for passed, gpus in asked:
        recent.hold("a", "ana", gpus * GPU, now)
        intervals.append((now, now + passed, gpus * GPU))
        now += passed
        recent.usage(now)
        recent.hold("a", "ana", -gpus * GPU, now)
    exact = Decay(WEEK_S).used(intervals, now)
    found = sum(row.decayed_mgpu_s for row in recent.usage(now))
    assert abs(found - exact) <= 2 * len(asked)


def test_who_has_long_used_nothing_is_forgotten() -> None:
    recent = RecentUse(3_600)
    recent.hold("a", "ana", GPU, 0)
    recent.hold("a", "ana", -GPU, 60)
    assert recent.usage(60) != ()
    assert recent.usage(100 * 3_600) == ()


def a_bank(**guarantees: int) -> Bank:
    return Bank({team: gpus * GPU for team, gpus in guarantees.items()}, floor_s=WEEK_S)


def credits_of(bank: Bank, now: int) -> dict[str, int]:
    return {one.team: one.credits // UNIT for one in bank.balances(now)}


def test_a_borrower_pays_its_lender_each_quarter() -> None:
    """a holds 3 of its 2 GPUs for ten minutes; b, guaranteed 2, lends one of them.

    Planted: only what is held at the settlement counts.
    """
    bank = a_bank(a=2, b=2)
    bank.hold("a", 3 * GPU, 0)
    bank.hold("a", -GPU, 600)
    assert credits_of(bank, 899) == {"a": 0, "b": 0}
    assert credits_of(bank, 900) == {"a": -600, "b": 600}
    assert bank.pool == 0


def test_what_is_borrowed_holds_an_hour_of_credits() -> None:
    bank = a_bank(a=2, b=2)
    bank.hold("a", 3 * GPU, 0)
    assert {one.team: one.held // UNIT for one in bank.balances(10)} == {"a": 3_600, "b": 0}
    bank.hold("a", -GPU, 20)
    assert {one.held for one in bank.balances(20)} == {0}


def test_a_team_that_lends_nothing_earns_nothing() -> None:
    bank = Bank({"a": 2 * GPU, "b": 2 * GPU}, floor_s=WEEK_S, lends={"b": 0})
    bank.hold("a", 3 * GPU, 0)
    assert credits_of(bank, 900) == {"a": -900, "b": 0}
    assert bank.pool == 900 * UNIT


def test_earnings_are_shared_out_and_expire() -> None:
    """a borrows a GPU of nobody's for a quarter: POOL has 900, and shares them after 30 days with
    what a and b are guaranteed. b's earnings of then are gone 90 days later; a's debt is not."""
    bank = a_bank(a=2, b=1)
    bank.hold("a", 3 * GPU, 0)
    bank.hold("b", GPU, 0)
    bank.hold("a", -GPU, 900)
    assert (credits_of(bank, 900), bank.pool) == ({"a": -900, "b": 0}, 900 * UNIT)
    assert (credits_of(bank, 30 * DAY_S), bank.pool) == ({"a": -300, "b": 300}, 0)
    assert (credits_of(bank, 120 * DAY_S - 1), bank.pool) == ({"a": -300, "b": 300}, 0)
    assert sum(credits_of(bank, 120 * DAY_S).values()) * UNIT + bank.pool == 0
    assert credits_of(bank, 120 * DAY_S)["b"] == 100


@given(
    st.lists(
        st.tuples(st.integers(0, 4_000), st.sampled_from("abc"), st.integers(0, 4)), max_size=12
    )
)
def test_no_credits_come_from_nothing(changes: list[tuple[int, str, int]]) -> None:
    """Planted: what the settlement leaves in POOL is forgotten."""
    bank, now, held = a_bank(a=1, b=2, c=0), 0, dict.fromkeys("abc", 0)
    for passed, team, gpus in changes:
        now += passed
        bank.hold(team, (gpus - held[team]) * GPU, now)
        held[team] = gpus
        assert sum(one.credits for one in bank.balances(now)) + bank.pool == 0


@pytest.mark.parametrize(("has_credits", "first"), [(True, "a-next"), (False, "b-next")])
def test_spare_gpus_go_to_the_richer_team_and_without_a_bank_to_who_used_less(
    has_credits: bool, first: str
) -> None:
    """b borrows 2 GPUs until 20,000, of a and of c, and nothing of that use is left at 60,000, when
    a has used its own GPU for long. Then both want the one spare GPU.

    Planted: a snapshot without balances; one without usage.
    """
    jobs = [
        a_job("b-lent", team="b", gpus=3, runs=20_000),
        a_job("c", team="c", runs=70_000),
        a_job("a-own", team="a", at=30_000, runs=40_000),
        a_job("b-own", team="b", at=60_000, runs=5_000),
        a_job("b-next", team="b", at=60_000, runs=5_000),
        a_job("a-next", team="a", at=60_000, runs=5_000),
    ]
    if not has_credits:
        jobs[-2:] = jobs[:-3:-1]
    played = play(
        "tidegate",
        jobs,
        guarantees={"a": 1, "b": 1, "c": 2},
        knobs=Policy(fair_share_half_life_s=3_600),
        has_credits=has_credits,
    )
    starts = played.starts()
    assert starts["b-own"] == starts[first] == 60_000
    assert {starts["a-next"], starts["b-next"]} == {60_000, 65_000}


def test_what_a_bank_tells_follows_every_change() -> None:
    """What is held for an hour goes with each start and end, what is had with each quarter.

    Planted: what was told of a team is told again after it held more, or after a settlement.
    """
    bank = Bank({"a": 2 * GPU, "b": 2 * GPU}, floor_s=WEEK_S)
    told = {one.team: (one.credits, one.held) for one in bank.balances(0)}
    assert told == {"a": (0, 0), "b": (0, 0)}
    bank.hold("a", 3 * GPU, 0)
    told = {one.team: (one.credits, one.held) for one in bank.balances(0)}
    assert told == {"a": (0, 3_600 * UNIT), "b": (0, 0)}
    told = {one.team: (one.credits, one.held) for one in bank.balances(900)}
    assert told == {"a": (-900 * UNIT, 3_600 * UNIT), "b": (900 * UNIT, 0)}
