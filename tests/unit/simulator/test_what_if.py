"""What a change of quotas would do: small futures, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Quota, RunningJob, Slot, Snapshot
from arbiter.cycle.decide import decide
from builders.arbiter_builders import (
    GPU,
    NOW,
    a_claim,
    a_queued,
    a_quota,
    a_running,
    a_snapshot,
    a_victim,
    devices,
    slots,
)
from simulator.look_ahead import Assumptions, Loss
from simulator.what_if import Change, Difference, Shift, TeamTime, TeamUse, what_if

DAY_S = 86_400
HOUR_S = 3_600


def asked(snapshot: Snapshot, *quotas: Quota, horizon_s: int = DAY_S, **assumed: int) -> Difference:
    return what_if(snapshot, Policy(), Change(quotas), horizon_s, Assumptions(**assumed))


def borrowed(*, a: int = 0, until_s: int | None = 600, **running: object) -> Snapshot:
    """4 GPUs: b, guaranteed none, has run y on all of them for an hour and is done in `until_s`;
    a waits for them with x, and is guaranteed `a`."""
    limit_s = None if until_s is None else HOUR_S + until_s
    return a_snapshot(
        quotas={"a": a, "b": 0},
        devices=devices(1, gpus=4),
        running=[
            a_running(
                "y",
                "b",
                slots(0, 1, gpus=4),
                started_at=NOW - HOUR_S,
                time_limit_s=limit_s,
                **running,
            )
        ],
        queued=[a_queued("x", "a", gpus=4, time_limit_s=1_000)],
    )


def test_a_raised_guarantee_starts_x_300_s_sooner_and_puts_4_gpu_hours_of_y_at_risk() -> None:
    """Without it x waits for the end of y, at 600; with it y has notice now and is gone at 300.

    Planted: what is at risk counted to the end of the grace; the wake after an end left out.
    """
    found = asked(borrowed(), a_quota("a", 4))

    assert found.shifts == (Shift("x", "a", "alice", "h100", 4 * GPU, NOW + 600, NOW + 300, 300),)
    assert found.reclaimed == (
        Loss("y", "b", "alice", "h100", 4 * GPU, NOW, 4 * GPU * HOUR_S, "x"),
    )
    assert (found.spared, found.is_cut, found.until) == ((), False, NOW + DAY_S)


def asked_from(begins_s: int, ends_s: int | None = None, horizon_s: int = DAY_S) -> Difference:
    ends_at = None if ends_s is None else NOW + ends_s
    change = Change((a_quota("a", 4),), NOW + begins_s, ends_at)
    return what_if(borrowed(), Policy(), change, horizon_s, Assumptions())


def test_a_change_to_come_counts_from_its_time_on() -> None:
    """Planted: it counts from now on, as a change without a time does."""
    found = asked_from(120)
    assert found.shifts == (Shift("x", "a", "alice", "h100", 4 * GPU, NOW + 600, NOW + 420, 180),)
    (loss,) = found.reclaimed
    assert (loss.noticed_at, loss.at_risk_mgpu_s) == (NOW + 120, 4 * GPU * (HOUR_S + 120))
    assert asked_from(-120).shifts == asked(borrowed(), a_quota("a", 4)).shifts


@pytest.mark.parametrize(("begins_s", "ends_s"), [(660, None), (2 * DAY_S, None), (120, 120)])
def test_a_change_that_comes_too_late_or_ends_at_once_moves_nobody(
    begins_s: int, ends_s: int | None
) -> None:
    """y is done at 600 by itself, and x begins."""
    found = asked_from(begins_s, ends_s)
    assert (found.shifts, found.reclaimed) == ((), ())


def test_a_change_counts_until_it_is_taken_back() -> None:
    """x starts at 300 and is within the guarantee of a until that is taken back, at 720.

    Planted: it is never taken back.
    """
    (of_a, _) = asked_from(0, 720, horizon_s=2_000).time
    assert (of_a.guaranteed_after_mgpu_s, of_a.borrowed_after_mgpu_s) == (
        4 * GPU * (720 - 300),
        4 * GPU * (1_300 - 720),
    )


def test_what_is_at_risk_begins_at_the_last_checkpoint() -> None:
    (loss,) = asked(borrowed(checkpoint_at=NOW - 60), a_quota("a", 4)).reclaimed
    assert loss.at_risk_mgpu_s == 4 * GPU * 60


def test_gpu_time_and_use_differ_by_who_holds_the_gpus() -> None:
    """Without: y until 600, then x for 1,000 s, both borrowed. With: y until 300, x guaranteed
    from 300 to 1,300, then y anew from the next minute, 1,320, for its whole limit of 4,200 s."""
    found = asked(borrowed(), a_quota("a", 4), horizon_s=2_000)

    assert found.time == (
        TeamTime("a", "h100", "normal", 0, 4 * GPU * 1_000, 4 * GPU * 1_000, 0),
        TeamTime("b", "h100", "normal", 0, 0, 4 * GPU * 600, 4 * GPU * (300 + 680)),
    )
    assert found.use == (TeamUse("b", "h100", 4 * GPU, 0, 4 * GPU),)


def test_a_lowered_guarantee_reclaims_nobody() -> None:
    """What runs within it is borrowed from then on, and nobody is entitled to take it back."""
    found = asked(
        a_snapshot(
            quotas={"a": 4, "b": 0},
            devices=devices(1, gpus=4),
            running=[a_running("x", "a", slots(0, 1, gpus=4), time_limit_s=1_050)],
            queued=[a_queued("y", "b", gpus=4, time_limit_s=100)],
        ),
        a_quota("a", 0),
        horizon_s=600,
    )
    assert (found.reclaimed, found.spared, found.shifts) == ((), (), ())
    assert found.time == (TeamTime("a", "h100", "normal", 4 * GPU * 600, 0, 0, 4 * GPU * 600),)


def test_a_lowered_guarantee_spares_whom_it_would_have_taken_back() -> None:
    """a gives its guarantee up: y is not stopped for x any more, which starts 300 s later."""
    found = asked(borrowed(a=4), a_quota("a", 0))
    (loss,) = found.spared
    (shift,) = found.shifts
    assert (found.reclaimed, loss.job, loss.beneficiary) == ((), "y", "x")
    assert (shift.sooner_s, shift.is_at_least) == (-300, False)


def test_a_job_that_never_starts_in_one_future_starts_that_much_sooner_at_least() -> None:
    """b may borrow nothing: y, which is never done, runs alone; x starts with the change only."""
    snapshot = borrowed(until_s=10 * DAY_S)
    (shift,) = asked(snapshot, a_quota("a", 4)).shifts
    assert (shift.before, shift.after, shift.sooner_s) == (None, NOW + 300, DAY_S - 300)
    assert shift.is_at_least


@pytest.mark.parametrize(
    ("ran_s", "runtime_s", "starts_s"), [(100, 1_000, 900), (500, 1_000, 540), (800, 1_000, 840)]
)
def test_a_job_without_a_limit_runs_as_assumed_or_as_long_again(
    ran_s: int, runtime_s: int, starts_s: int
) -> None:
    """1,000 s in all; after 800 of them 800 more. Decisions fall on whole minutes."""
    snapshot = borrowed()
    (run,) = snapshot.running
    endless = replace(run, started_at=NOW - ran_s, time_limit_s=None)
    found = asked(replace(snapshot, running=(endless,)), a_quota("a", 4), runtime_s=runtime_s)
    (shift,) = found.shifts
    assert (shift.before, found.assumed_ends) == (NOW + starts_s, 1)


def test_a_victim_queues_again_with_its_place_and_begins_anew() -> None:
    """y, submitted before z, runs again when x is done at 1,300, and z after that as ever."""
    snapshot = borrowed()
    later = a_queued("z", "b", gpus=4, submitted_at=NOW - 5, time_limit_s=100)
    found = asked(replace(snapshot, queued=(*snapshot.queued, later)), a_quota("a", 4))
    assert [(one.job, one.before, one.after) for one in found.shifts] == [
        # without: y to 600, x to 1,600, z; with: x from 300 to 1,300, y 4,200 s from 1,320, z
        ("z", NOW + 1_620, NOW + 5_525),
        ("x", NOW + 600, NOW + 300),
    ]


def test_a_job_that_is_done_within_its_grace_does_not_begin_anew() -> None:
    """y is done at 100. Planted: whoever has notice queues again."""
    found = asked(borrowed(until_s=100), a_quota("a", 4), horizon_s=6_000)
    assert found.time == (
        TeamTime("a", "h100", "normal", 0, 4 * GPU * 1_000, 4 * GPU * 1_000, 0),
        TeamTime("b", "h100", "normal", 0, 0, 4 * GPU * 100, 4 * GPU * 100),
    )


def test_a_job_that_is_being_stopped_already_is_no_news() -> None:
    """The claim stands in both futures: x starts at the end of the grace, y was lost before.
    For money three of x's four GPUs are guaranteed afterwards."""
    snapshot = a_snapshot(
        quotas={"a": 4, "b": 0},
        devices=devices(1, gpus=4),
        running=[a_victim("y", "b", slots(0, 1, gpus=4), of="x", grace_until=NOW + 120)],
        queued=[a_queued("x", "a", gpus=4, time_limit_s=60)],
        claims=[a_claim("x", slots(0, 1, gpus=4), grace_until=NOW + 120)],
    )
    found = asked(snapshot, a_quota("a", 3), a_quota("b", 0), horizon_s=200)
    assert (found.shifts, found.reclaimed, found.spared) == ((), (), ())
    assert found.time == (
        TeamTime("a", "h100", "normal", 4 * GPU * 60, 3 * GPU * 60, 0, GPU * 60),
        TeamTime("b", "h100", "normal", 0, 0, 4 * GPU * 140, 4 * GPU * 140),
    )


def test_whose_claim_is_given_up_may_claim_again_in_the_same_cycle() -> None:
    """`small` has waited as long as a claim may and cannot start, since y still uses what o may
    borrow; it claims the same GPU again at once. In both futures it starts when y is gone."""
    on = (Slot("alpha-000", GPU), Slot("alpha-001", GPU), Slot("alpha-002", GPU))
    wide = devices(3, gpus=2)
    snapshot = a_snapshot(
        quotas=[a_quota("o", 2, borrow=1), a_quota("o/l", 0), a_quota("x", 5), a_quota("x/h", 0)],
        devices=(wide[0], devices(2, gpus=1)[1], wide[2]),
        running=[a_victim("y", "o", on, of="large", grace_until=NOW + 120)],
        queued=[a_queued("small", "o/l"), a_queued("large", "x/h", nodes=3)],
        claims=[
            a_claim("large", on, grace_until=NOW + 120),
            a_claim("small", on[:1], grace_until=NOW - 601),
        ],
    )
    plan = decide(snapshot, Policy())
    assert (plan.dropped_claims, [one.job for one in plan.reclaims]) == (("small",), ["small"])
    found = asked(snapshot, a_quota("x", 4), horizon_s=200)
    assert (found.shifts, found.reclaimed, found.spared) == ((), (), ())
    assert {use.team: use.after_mgpu for use in found.use} == {
        "o": 0,
        "o/l": GPU,
        "x/h": 3 * GPU,
    }


def test_other_pools_are_left_alone() -> None:
    snapshot = borrowed()
    other = [a_quota("a", 4, pool="a100"), a_quota("b", 0, pool="a100")]
    waits = a_queued("w", "a", gpus=4, pool="a100")
    found = asked(
        replace(
            snapshot,
            quotas=(*snapshot.quotas, *other),
            devices=(*snapshot.devices, *devices(1, gpus=4, cluster="beta", pool="a100")),
            clusters=frozenset({"alpha", "beta"}),
            queued=(*snapshot.queued, waits),
        ),
        a_quota("b", 0, pool="a100"),
    )
    assert found.shifts == ()
    assert found.use == (TeamUse("a", "a100", 0, 4 * GPU, 4 * GPU),)
    assert {one.pool for one in found.time} == {"a100"}


def test_the_work_is_bounded_and_says_how_far_it_came() -> None:
    """One round of both futures looks at x and y twice; the next would be at 60."""
    found = asked(borrowed(), a_quota("a", 4), work_max=4)
    assert (found.until, found.asked_until, found.is_cut) == (NOW + 60, NOW + DAY_S, True)
    assert found.shifts == ()
    assert [loss.job for loss in found.reclaimed] == ["y"]


def test_moments_are_a_minute_apart_and_then_a_fiftieth_of_what_is_ahead() -> None:
    moments = Assumptions().moments(NOW, NOW + DAY_S)
    ahead = [at - NOW for at in moments]
    assert ahead[:3] == [0, 60, 120]
    assert [b - a for a, b in pairwise(ahead)] == [max(60, a // 50) for a in ahead[:-1]]
    assert (ahead[-1] < DAY_S, len(ahead)) == (True, 221)


def test_what_would_be_too_much_work_is_done_less_precisely() -> None:
    """Moments of a day: 221 by fiftieths, 129 by twenty-fifths, 72 by twelfths, 63 by tenths."""
    assumed = Assumptions(work_max=100 * 100)
    precisions = [
        assumed.within(work, NOW, NOW + DAY_S).precision for work in (45, 46, 77, 78, 138, 139, 999)
    ]
    assert precisions == [50, 25, 25, 12, 12, 10, 10]
    found = asked(borrowed(), a_quota("a", 4), work_max=4 * 221 - 1)
    assert (found.precision_s, found.is_cut) == (DAY_S // 25, False)


@pytest.mark.parametrize("horizon_s", [0, 31 * DAY_S + 1])
def test_a_horizon_out_of_range_is_refused(horizon_s: int) -> None:
    with pytest.raises(ValueError, match="choose 1 to 2678400"):
        asked(borrowed(), a_quota("a", 4), horizon_s=horizon_s)


@pytest.mark.parametrize("name", ["runtime_s", "step_s", "precision", "work_max"])
def test_assumptions_out_of_range_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0; choose 1 to"):
        Assumptions(**{name: 0})


def test_use_in_the_future_counts_for_fair_share() -> None:
    """Two teams of equal weight take turns on one GPU, also where nobody used anything before: who
    has run is behind who has not."""
    running: list[RunningJob] = []
    snapshot = a_snapshot(
        quotas={"a": 0, "b": 0, "c": 1},
        devices=devices(1, gpus=1),
        running=running,
        queued=[
            a_queued(f"{team}{i}", team, submitted_at=NOW - 100 + i, time_limit_s=7_200)
            for i, team in enumerate("aaabbb")
        ],
    )
    found = asked(snapshot, a_quota("c", 1, lend=0), horizon_s=10 * HOUR_S)
    assert [(one.job, one.before is None, one.after) for one in found.shifts] == [
        ("a0", False, None),
        ("b3", False, None),
        ("a1", False, None),
        ("b4", False, None),
        ("a2", False, None),
    ]
