"""Laws of the look ahead: small numbers, so that limits bind."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Snapshot
from builders.arbiter_builders import NOW, a_queued, a_quota, a_running, a_snapshot, devices, slots
from simulator.look_ahead import Assumptions
from simulator.what_if import Change, what_if

CALM = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
GPUS, NODES = 2, 3
TEAMS = "abc"
HORIZON_S = 2_000


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    a = draw(st.integers(0, GPUS * NODES))
    b = draw(st.integers(0, GPUS * NODES - a))
    running = [
        a_running(
            f"r{i}",
            draw(st.sampled_from(TEAMS)),
            slots(i, 1, gpus=draw(st.integers(1, GPUS))),
            started_at=NOW - draw(st.integers(0, 500)),
            time_limit_s=draw(st.sampled_from([None, 600, 900, 3_000])),
        )
        for i in range(draw(st.integers(0, NODES)))
    ]
    queued = [
        a_queued(
            f"q{i}",
            draw(st.sampled_from(TEAMS)),
            nodes=draw(st.integers(1, 2)),
            gpus=draw(st.integers(1, GPUS)),
            submitted_at=NOW - draw(st.integers(0, 3)),
            time_limit_s=draw(st.sampled_from([None, 60, 200, 700])),
        )
        for i in range(draw(st.integers(0, 6)))
    ]
    return a_snapshot(
        quotas={"a": a, "b": b, "c": GPUS * NODES - a - b},
        devices=devices(NODES, gpus=GPUS),
        running=running,
        queued=queued,
    )


@st.composite
def changes(draw: st.DrawFn) -> Change:
    return Change(
        tuple(
            a_quota(team, draw(st.integers(0, 3)), borrow=draw(st.sampled_from([None, 0, 2])))
            for team in draw(st.sets(st.sampled_from(TEAMS), min_size=1))
        )
    )


@CALM
@given(snapshots())
def test_a_change_to_what_is_there_already_changes_nothing(snapshot: Snapshot) -> None:
    """Planted: one future advanced a second further than the other."""
    found = what_if(snapshot, Policy(), Change(snapshot.quotas[:1]), HORIZON_S)
    assert (found.shifts, found.reclaimed, found.spared) == ((), (), ())
    assert all(one.before_mgpu == one.after_mgpu for one in found.use)
    assert all(
        (one.guaranteed_before_mgpu_s, one.borrowed_before_mgpu_s)
        == (one.guaranteed_after_mgpu_s, one.borrowed_after_mgpu_s)
        for one in found.time
    )


@CALM
@given(snapshots(), changes(), st.randoms(use_true_random=False))
def test_the_order_of_the_parts_does_not_matter(
    snapshot: Snapshot, change: Change, dice: st.DataObject
) -> None:
    """Planted: of jobs alike only the one shown that was given first."""
    turned = replace(
        snapshot,
        running=tuple(dice.sample(snapshot.running, len(snapshot.running))),  # type: ignore[attr-defined]
        queued=tuple(dice.sample(snapshot.queued, len(snapshot.queued))),  # type: ignore[attr-defined]
    )
    assert what_if(turned, Policy(), change, HORIZON_S) == what_if(
        snapshot, Policy(), change, HORIZON_S
    )


@CALM
@given(snapshots(), changes())
def test_there_and_back_is_the_same_difference_the_other_way_round(
    snapshot: Snapshot, change: Change
) -> None:
    """Planted: `spared` left empty."""
    there = what_if(snapshot, Policy(), change, HORIZON_S)
    before = {quota.node: quota for quota in snapshot.quotas}
    undo = Change(tuple(before[quota.node] for quota in change.quotas))
    back = what_if(change.apply(snapshot), Policy(), undo, HORIZON_S)
    assert back.reclaimed == there.spared
    assert back.spared == there.reclaimed
    assert {(one.job, one.before, one.after, one.sooner_s) for one in back.shifts} == {
        (one.job, one.after, one.before, -one.sooner_s) for one in there.shifts
    }


@CALM
@given(snapshots(), changes(), st.integers(1, HORIZON_S))
def test_gpu_time_never_exceeds_the_fleet_s(
    snapshot: Snapshot, change: Change, horizon_s: int
) -> None:
    """Planted: an attempt that is classed anew counted from its start again."""
    found = what_if(snapshot, Policy(), change, horizon_s, Assumptions(step_s=7))
    most = GPUS * NODES * 1_000 * (found.until - found.taken_at)
    for held in (
        sum(one.guaranteed_before_mgpu_s + one.borrowed_before_mgpu_s for one in found.time),
        sum(one.guaranteed_after_mgpu_s + one.borrowed_after_mgpu_s for one in found.time),
    ):
        assert 0 <= held <= most
    assert all(
        min(one.guaranteed_after_mgpu_s, one.borrowed_after_mgpu_s) >= 0 for one in found.time
    )
