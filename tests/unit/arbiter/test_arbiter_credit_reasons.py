"""What people are told where credits decided: who waits, who is unpaid, who is stopped (R-117)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arbiter.api.plan import ByCredits, Code, Waiting
from arbiter.api.policy import Policy, SpareOrder
from arbiter.api.snapshot import Snapshot
from arbiter.cycle.decide import decide
from arbiter.explain.credit_order import victim_text
from arbiter.explain.sentences import sentence
from builders.arbiter_builders import GPU, NOW, a_queued, a_running, a_snapshot, devices, slots
from builders.arbiter_plans import plan_of, started, why

#: A job of another organization that has all GPUs.
LONG = a_running("r", "y", slots(0, 1), started_at=NOW - 9_000, time_limit_s=90_000)
NAMES = {"x/a": "a", "x/b": "b", "x/c": "c"}


def two_borrowers(*, credits: dict[str, int], busy: bool = False, **more: object) -> Snapshot:
    """Teams a and b of x want 8 GPUs each, with a guarantee of one GPU each.

    All 8 GPUs are free, or `busy` with a job of another organization.
    """
    return a_snapshot(
        quotas={"x": 2, "x/a": 1, "x/b": 1, "y": 6},
        devices=devices(1),
        running=[LONG] if busy else (),
        queued=[
            a_queued("a", "x/a", gpus=8, submitted_at=NOW - 900),
            a_queued("b", "x/b", gpus=8, submitted_at=NOW - 100),
        ],
        credits=credits,
        **more,  # type: ignore[arg-type]
    )


def text_of(snapshot: Snapshot, waiting: Waiting) -> str:
    """Return the sentence with the names of all teams."""
    job = next(one for one in snapshot.queued if one.id == waiting.job)
    return sentence(waiting, job, NAMES)


def test_a_job_that_lost_spare_gpus_to_a_richer_team_is_told_both_balances() -> None:
    """Against: the balances after the hold of the start."""
    snapshot = two_borrowers(credits={"x/a": -2, "x/b": 30})
    plan = plan_of(snapshot)
    told = why(plan, "a")
    assert (started(plan), told.code, told.node) == (["b"], Code.BEHIND_CREDITS, "x/b")
    assert told.numbers["taken_mgpu"] == 8 * GPU
    assert text_of(snapshot, told) == (
        "It needs 8 GPUs. This cycle gave 8 GPUs beyond guarantees to teams of equal rank with more"
        " credits or less recent use. b comes first, because it has more credits: 30 days of its"
        " guarantee, against -2 days of your team."
    )


def test_a_job_that_waits_behind_a_richer_team_is_told_so_as_long_as_both_wait() -> None:
    """Planted: only starts of the cycle count."""
    snapshot = two_borrowers(credits={"x/a": -2, "x/b": 30}, busy=True)
    plan = plan_of(snapshot)
    assert why(plan, "b").code is Code.WAITING_FOR_FREE_GPUS
    assert text_of(snapshot, why(plan, "a")) == (
        "It needs 8 GPUs; 0 are free. b comes first, because it has more credits: 30 days of its"
        " guarantee, against -2 days of your team. 1 job is ahead of it."
    )


def test_equal_credits_and_equal_tenths_decide_nothing() -> None:
    """Against: balances compared to the unit."""
    snapshot = two_borrowers(credits={"x/a": 1, "x/b": 1}, busy=True)
    first, second = snapshot.balances
    nearly = replace(second, credits=first.credits + 1)
    plan = plan_of(replace(snapshot, balances=(first, nearly)))
    assert {one.code for one in plan.waiting} == {Code.WAITING_FOR_FREE_GPUS}


def test_rank_decides_before_credits_and_is_not_called_credits() -> None:
    snapshot = two_borrowers(credits={"x/a": -2, "x/b": 30}, busy=True, ranks={"x/b": 2})
    assert why(plan_of(snapshot), "a").code is Code.WAITING_FOR_FREE_GPUS


def test_the_next_richer_team_is_named() -> None:
    """Planted: the richest team."""
    snapshot = a_snapshot(
        quotas={"x": 3, "x/a": 1, "x/b": 1, "x/c": 1, "y": 5},
        devices=devices(1),
        running=[LONG],
        queued=[a_queued(team, f"x/{team}", gpus=8) for team in "abc"],
        credits={"x/a": 1, "x/b": 5, "x/c": 3},
    )
    plan = plan_of(snapshot)
    named = {job: why(plan, job).node for job in "abc"}
    assert named == {"a": "x/c", "b": None, "c": "x/b"}


def test_an_unpaid_team_is_told_that_its_borrowing_is_unpaid() -> None:
    snapshot = two_borrowers(credits={"x/a": -7, "x/b": 0}, busy=True)
    told = why(plan_of(snapshot), "a")
    assert (told.numbers["credits_tenths"], told.numbers["floor_tenths"]) == (-70, -70)
    assert text_of(snapshot, told) == (
        "It needs 8 GPUs; 0 are free. b comes first, because it has more credits: 0 days of its"
        " guarantee, against -7 days of your team. The credits of your team are at the floor, so"
        " what it borrows is unpaid: it comes after teams that pay, and is reclaimed first."
        " 1 job is ahead of it."
    )


def test_balances_of_another_organization_are_never_told() -> None:
    snapshot = a_snapshot(
        quotas={"x": 1, "x/a": 1, "y": 1, "y/b": 1},
        devices=devices(1),
        queued=[a_queued("a", "x/a", gpus=8), a_queued("b", "y/b", gpus=8)],
        credits={"x/a": -2, "y/b": 30},
    )
    told = why(plan_of(snapshot), "a")
    assert (told.code, told.node) == (Code.BEHIND_CREDITS, None)
    assert not {"ahead_credits_tenths", "taken_mgpu"} & set(told.numbers)
    assert text_of(snapshot, told) == (
        "It needs 8 GPUs; 0 are free. A team with more credits comes first."
    )


def test_without_a_bank_no_reason_speaks_of_credits() -> None:
    plan = plan_of(two_borrowers(credits={}, busy=True))
    assert {one.code for one in plan.waiting} == {Code.WAITING_FOR_FREE_GPUS}


def test_credits_after_fair_share_are_named_only_where_fair_share_is_even() -> None:
    """Planted: credits of teams that fair-share tells apart."""
    policy = Policy(spare_order=SpareOrder.FAIR_SHARE_THEN_CREDITS)
    even = two_borrowers(credits={"x/a": -2, "x/b": 30}, busy=True)
    told = why(decide(even, policy), "a")
    assert (told.code, told.node) == (Code.BEHIND_CREDITS, "x/b")
    uneven = two_borrowers(
        credits={"x/a": -2, "x/b": 30}, busy=True, used={("x/a", "alice"): 90_000}
    )
    assert why(decide(uneven, policy), "a").code is Code.WAITING_FOR_FREE_GPUS


# -- victims --------------------------------------------------------------------------------


def owner_returns(credits: dict[str, int]) -> Snapshot:
    """Team c wants its 4 GPUs back; a and b borrow 4 each, for as long."""
    return a_snapshot(
        quotas={"x": 6, "x/a": 1, "x/b": 1, "x/c": 4},
        devices=devices(1),
        running=[
            a_running("a", "x/a", slots(0, 1, gpus=4), started_at=NOW - 9_000),
            a_running("b", "x/b", slots(0, 1, gpus=4), started_at=NOW - 9_000),
        ],
        queued=[a_queued("c", "x/c", gpus=4)],
        credits=credits,
    )


@pytest.mark.parametrize(
    ("credits", "decided", "text"),
    [
        (
            {"x/a": 3, "x/b": -2},
            ByCredits(is_unpaid=False, tenths=-20, spared_team="x/a", spared_tenths=30),
            "It was chosen because its team has fewer credits than others: -2 days of its"
            " guarantee, against 3 days of a.",
        ),
        (
            {"x/a": 3, "x/b": -7},
            ByCredits(is_unpaid=True, tenths=-70, spared_team="x/a", spared_tenths=30),
            "It was chosen because the credits of its team are at the floor: what the team borrows"
            " is unpaid and is reclaimed first.",
        ),
    ],
)
def test_a_victim_of_credits_is_told_why(
    credits: dict[str, int], decided: ByCredits, text: str
) -> None:
    ((victim,),) = [reclaim.victims for reclaim in plan_of(owner_returns(credits)).reclaims]
    assert (victim.job, victim.by_credits) == ("b", (decided,))
    assert victim_text(decided, NAMES) == text


def test_a_victim_that_credits_did_not_choose_is_told_nothing_of_them() -> None:
    """Both have the same credits, so the id decides. Planted: every victim with a balance."""
    ((victim,),) = [one.victims for one in plan_of(owner_returns({"x/a": 2, "x/b": 2})).reclaims]
    assert (victim.job, victim.by_credits) == ("a", ())
