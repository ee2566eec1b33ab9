"""What is told of a reserved start, and of who comes first, is what the order of turns will do
(R-80)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import QueuedJob, Snapshot
from arbiter.cycle.decide import decide
from builders.arbiter_builders import (
    DAY_S,
    GPU,
    NOW,
    World,
    a_queued,
    a_quota,
    a_running,
    a_snapshot,
    a_victim,
    devices,
    slots,
)
from builders.arbiter_plans import started
from simulator.start_time import start_time

QUOTAS = {"o": 8, "o/a": 8, "o/b": 0, "o/z": 0}


def told(plan: Plan) -> list[tuple[str, int, int | None]]:
    """Who waits in the order of service, how many come first, and by when it starts at the latest,
    in seconds from now."""
    return [
        (one.job, one.jobs_ahead, None if one.latest is None else one.latest - plan.taken_at)
        for one in plan.waiting
    ]


def a_big_one(*, gpus: int = 8, nodes: int = 1) -> QueuedJob:
    """A job of a team without a guarantee that has used less of its share than team a."""
    return a_queued("big", "o/b", gpus=gpus, nodes=nodes, submitted_at=NOW - 900, time_limit_s=100)


def a_full_guarantee(*own: QueuedJob, nodes: int = 2, **big: int) -> Snapshot:
    """Team a uses all of its guarantee until 100 s from now, and has more to do; strangers run on
    the other node and on another cluster for long."""
    return a_snapshot(
        quotas=QUOTAS,
        devices=devices(nodes) + devices(1, cluster="beta"),
        running=[
            a_running("own0", "o/a", slots(0, 1), started_at=NOW, time_limit_s=100),
            a_running("far", "o/z", slots(0, 1, cluster="beta"), cluster="beta"),
            a_running("other", "o/z", slots(1, 1), started_at=NOW, time_limit_s=DAY_S),
        ],
        queued=[a_big_one(**big), *own],
        used={("o/a", "u"): 1_000_000},
    )


def own(number: int, **more: Any) -> QueuedJob:
    return a_queued(
        f"own{number}", "o/a", gpus=8, submitted_at=NOW - 800 + number, time_limit_s=100, **more
    )


def test_who_draws_on_its_guarantee_by_then_is_told_to_come_first() -> None:
    """At 100 the guarantee of team a is free again, and its jobs go before the big one, one after
    another: they are ahead of it, and its start is told when none is left.

    Planted: the order that is told goes by what they draw on now; what is reserved is told as the
    latest start whoever comes first by then.
    """
    world = World(a_full_guarantee(own(1), own(2)), Policy())
    assert told(world.step()) == [("own1", 0, 200), ("own2", 1, None), ("big", 2, None)]
    starts = []
    for _ in range(3):
        world.now += 100
        for run in list(world.running.values()):
            if run.time_limit_s is not None and run.started_at + run.time_limit_s <= world.now:
                world.leave(run.job)
        plan = world.step()
        starts.append((started(plan), told(plan)))
    assert starts == [
        (["own1"], [("own2", 0, 200), ("big", 1, None)]),
        (["own2"], [("big", 0, 100)]),
        (["big"], []),
    ]


def test_a_look_ahead_finds_the_same_turns() -> None:
    """It plays the arbiter on, minute by minute: both jobs of team a run before the big one."""
    snapshot = a_full_guarantee(own(1), own(2))
    found = start_time(snapshot, Policy(), "big", 3_600)
    assert (found.earliest - NOW, found.latest and found.latest - NOW) == (340, 360)


@pytest.mark.parametrize(
    ("waiting", "latest"),
    [
        # Half of the guarantee is what the job of team a takes of the node at 100, and of the two.
        ([a_queued("half", "o/a", gpus=4, submitted_at=NOW - 800)], None),
        # More than team a is ever guaranteed draws on spare GPUs then, too.
        ([a_queued("large", "o/a", gpus=8, nodes=2, submitted_at=NOW - 800)], 100),
        # It may not run there.
        ([own(1, cluster="beta")], 100),
        ([], 100),
    ],
)
def test_a_start_is_told_unless_somebody_takes_it(
    waiting: list[QueuedJob], latest: int | None
) -> None:
    """Planted, each dies here: who wants more than the guarantee counts; who may not run on the
    cluster."""
    snapshot = a_full_guarantee(*waiting)
    plan = decide(snapshot, Policy())
    assert {one[0]: one[2] for one in told(plan)}["big"] == latest


def test_a_start_is_told_where_enough_comes_free_for_both() -> None:
    """Of four nodes that come free by 90 team a takes two, of which only one is reserved.

    Planted: any job of a guarantee that comes free makes the start untold.
    """
    running = [
        a_running(f"r{i}", "o/a" if i < 2 else "o/z", slots(i, 1), started_at=NOW, time_limit_s=90)
        for i in range(4)
    ]
    plan = decide(
        a_snapshot(
            quotas={**QUOTAS, "o": 16, "o/a": 16},
            devices=devices(4),
            running=running,
            queued=[a_big_one(nodes=2), own(1), own(2)],
            used={("o/a", "u"): 1_000_000},
        ),
        Policy(),
    )
    assert told(plan) == [("own1", 0, 90), ("own2", 1, None), ("big", 2, 90)]


def test_a_start_behind_jobs_that_hold_no_reservation_is_not_told() -> None:
    """Of jobs that are alike only the first holds one: the second of them takes the node that the
    last one in line has reserved.

    Planted: only those are looked at that hold a reservation.
    """
    jobs = [
        a_queued(f"j{i}", "o/b", gpus=8, submitted_at=NOW - 900 + i, time_limit_s=100)
        for i in range(2)
    ]
    last = a_queued("last", "o/b", gpus=4, submitted_at=NOW - 100, time_limit_s=100)
    running = [a_running("r", "o/z", slots(0, 1), started_at=NOW, time_limit_s=100)]
    snapshot = a_snapshot(
        quotas={"o": 0, "o/b": 0, "o/z": 0},
        devices=devices(1),
        running=running,
        queued=[*jobs, last],
    )
    plan = decide(snapshot, Policy())
    assert {one.job: one.start_at - NOW for one in plan.reservations} == {"j0": 100, "last": 200}
    assert told(plan) == [("j0", 0, 100), ("j1", 1, None), ("last", 2, None)]


def test_quota_that_is_taken_first_leaves_a_start_untold() -> None:
    """There are nodes enough at 100; the organization may use no more than 24 GPUs in all, of which
    team a takes 8 first.

    Planted: only devices are weighed.
    """
    quotas = [a_quota("o", 8, borrow=16), a_quota("o/a", 8), a_quota("o/b", 0), a_quota("o/z", 0)]
    snapshot = a_full_guarantee(own(1), nodes=4)
    plan = decide(replace(snapshot, quotas=tuple(quotas)), Policy())
    assert told(plan) == [("own1", 0, 200), ("big", 1, None)]


def an_organization_at_its_guarantee() -> Snapshot:
    """Organization x uses its 2 GPUs until one of them ends at 200; its team of the lower rank has
    no guarantee and waits. Organization y uses its 3, and a team of it that has its own in use
    waits, too."""
    return a_snapshot(
        quotas=[
            *(a_quota("x", 2), a_quota("x/a", 0), a_quota("x/b", 1)),
            *(a_quota("y", 3), a_quota("y/t", 1), a_quota("y/u", 1), a_quota("y/v", 0)),
        ],
        ranks={"x/b": 1},
        devices=devices(1, gpus=5),
        running=[
            a_running("x1", "x/b", slots(0, 1, gpus=1), started_at=NOW, time_limit_s=200),
            *(
                a_running(name, team, slots(0, 1, gpus=1), started_at=NOW - 900)
                for name, team in (("x2", "x/a"), ("y1", "y/t"), ("y2", "y/u"), ("y3", "y/v"))
            ),
        ],
        queued=[
            a_queued("ynext", "y/t", submitted_at=NOW - 400, time_limit_s=1_000),
            a_queued("xnext", "x/a", submitted_at=NOW - 10, time_limit_s=1_000),
        ],
    )


def test_who_draws_on_its_organization_s_guarantee_by_then_leaves_a_start_untold() -> None:
    """At 200 the guarantee of x is idle again, and xnext takes the GPU that ynext has reserved.

    Planted: only the team's own guarantee is looked at; who draws on as high a guarantee as the
    reserved one is never first; whoever draws on a guarantee by then counts, however much he needs.
    """
    snapshot = an_organization_at_its_guarantee()
    world = World(snapshot, Policy(min_run_s=0))
    plan = world.step()
    assert [(one.job, one.start_at - NOW) for one in plan.reservations] == [
        ("ynext", 200),
        ("xnext", 1_200),
    ]
    assert {one[0]: one[2] for one in told(plan)} == {"ynext": None, "xnext": None}
    world.now += 200
    world.leave("x1")
    plan = world.step()
    assert (started(plan), told(plan)) == (["xnext"], [("ynext", 0, 1_000)])
    alone = replace(snapshot, queued=(snapshot.queued[0],))
    assert told(decide(alone, Policy(min_run_s=0))) == [("ynext", 0, 200)]
    # Where ynext draws on the guarantee of y, the two stand level then.
    quotas = tuple(
        replace(one, guaranteed_mgpu=4 * GPU) if one.node == "y" else one for one in snapshot.quotas
    )
    level = decide(replace(snapshot, quotas=quotas), Policy(min_run_s=0))
    first = level.reservations[0]
    assert (first.job, first.start_at - NOW) == ("ynext", 200)
    assert {one[0]: one[2] for one in told(level)}["ynext"] is None
    # With less than it asks for idle, xnext draws on spare GPUs then as well.
    large = replace(snapshot.queued[1], mgpu_per_node=2 * GPU)
    both = replace(snapshot, queued=(snapshot.queued[0], large))
    assert {one[0]: one[2] for one in told(decide(both, Policy(min_run_s=0)))}["ynext"] == 200


@pytest.mark.parametrize(("beneficiary", "latest"), [("w", None), (None, 100)])
def test_who_is_being_stopped_for_another_leaves_a_start_untold(
    beneficiary: str | None, latest: int | None
) -> None:
    """It waits again once it is gone, and nobody knows yet where; whom its user stops does not.

    Planted: who is being stopped is forgotten.
    """
    snapshot = a_full_guarantee()
    leaving = replace(
        a_victim("v", "o/z", slots(2, 1), of="w", grace_until=NOW + 50), beneficiary=beneficiary
    )
    snapshot = replace(
        snapshot,
        devices=(*devices(3), *devices(1, cluster="beta")),
        running=(*snapshot.running, leaving),
        queued=(a_big_one(nodes=2),),
    )
    plan = decide(snapshot, Policy())
    assert [(one.job, one.start_at - NOW) for one in plan.reservations] == [("big", 100)]
    assert told(plan) == [("big", 0, latest)]
