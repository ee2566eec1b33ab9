"""What is taken back beside what is reserved: only for as long as it would be in the way (R-79)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arbiter.api.plan import Code
from arbiter.api.snapshot import PriorityClass, QueuedJob, RunningJob, Snapshot
from builders.arbiter_builders import (
    NOW,
    a_queued,
    a_quota,
    a_running,
    a_snapshot,
    a_victim,
    devices,
    slots,
)
from builders.arbiter_plans import plan_of, started, victims, why

INFINIBAND = frozenset({"infiniband"})
CLASSES = (PriorityClass("critical", 20, preempts_within_team=True), PriorityClass("normal", 5))


def a_free_gpu_reserved_for_later(time_limit_s: int | None, *more: QueuedJob) -> Snapshot:
    """The free GPU of node 0 is reserved for a big job of a higher rank, from 5,000 s on. A
    critical gang of two ranks, which runs for so long at most, may stop its mates on both nodes.
    Another GPU is free on a cluster where neither may run."""

    def mate(name: str, node: int, ends_in_s: int) -> RunningJob:
        on = slots(node, 1, gpus=1)
        return a_running(name, "o/b", on, started_at=NOW, time_limit_s=ends_in_s)

    return a_snapshot(
        quotas={"o": 5, "o/a": 0, "o/b": 0},
        ranks={"o/a": 5, "o/b": 1},
        classes=CLASSES,
        devices=(
            *devices(1, gpus=3),
            devices(2, gpus=1)[1],
            *devices(1, gpus=1, cluster="beta"),
        ),
        running=[mate("long", 0, 5_000), mate("mate", 0, 100), mate("other", 1, 100)],
        queued=[
            a_queued(
                "big", "o/a", gpus=3, cluster="alpha", submitted_at=NOW - 900, time_limit_s=500
            ),
            a_queued(
                "gang",
                "o/b",
                nodes=2,
                gpus=1,
                cluster="alpha",
                priority="critical",
                time_limit_s=time_limit_s,
            ),
            *more,
        ],
    )


@pytest.mark.parametrize(
    ("time_limit_s", "stopped"),
    [
        # Gone at 300 + 4,700 s at the latest, when the big job is to start.
        (4_700, ["other"]),
        # All that ends on node 0 until then is reserved, too.
        (4_701, []),
        (None, []),
    ],
)
def test_nobody_is_stopped_for_what_is_reserved_for_later(
    time_limit_s: int | None, stopped: list[str]
) -> None:
    """Planted: whoever GPUs are taken back for is thought to run for ever; the grace is left out of
    how long it is in the way; who ends until then on a reserved node may be stopped for it."""
    plan = plan_of(a_free_gpu_reserved_for_later(time_limit_s), min_run_s=0)
    first = plan.reservations[0]
    assert (first.job, first.start_at - NOW) == ("big", 5_000)
    assert victims(plan) == stopped


@pytest.mark.parametrize(("time_limit_s", "starts"), [(4_700, ["late"]), (4_701, [])])
def test_a_claim_that_ends_before_leaves_the_quota_of_what_is_reserved(
    time_limit_s: int, starts: list[str]
) -> None:
    """Of 5 GPUs that quota allows the big job needs 3 and the late one has 1 when it is to start.
    The gang may stop one of its mates that ends never, on a node of its own.

    Planted: every claim counts then against quota.
    """
    late = a_queued("late", "o/b", gpus=1, cluster="beta", time_limit_s=10_000)
    world = a_free_gpu_reserved_for_later(time_limit_s, late)
    endless = a_running("endless", "o/b", slots(2, 1, gpus=1), started_at=NOW)
    world = replace(
        world,
        quotas=(a_quota("o", 5, borrow=0), *world.quotas[1:]),
        devices=(*world.devices, devices(3, gpus=1)[2]),
        running=(*(run for run in world.running if run.job != "mate"), endless),
    )
    plan = plan_of(world, min_run_s=0)
    assert plan.reservations[0].job == "big"
    assert victims(plan) == (["endless"] if starts else ["endless", "other"])
    assert started(plan) == starts


def two_nodes_for_a_gang(job: QueuedJob, *on_first: RunningJob, gang_gpus: int = 8) -> Snapshot:
    """A gang that its team's guarantee covers waits for both nodes with InfiniBand, until 800 s
    from now: one of its team may go on for so long on the second. `on_first` of them run others,
    by default one that holds half of it for 700 s at most; the rest comes back in 600 s. `job` is
    of the gang's team and comes after it."""
    if not on_first:
        half = slots(0, 1, gpus=4)
        on_first = (
            a_victim("leaving", "o/v", half, of="gone", grace_until=NOW + 600),
            a_running("v", "o/v", half, started_at=NOW, time_limit_s=700),
        )
    *pair, third = devices(3)
    gang = a_queued("gang", "o/x", nodes=2, gpus=gang_gpus, submitted_at=NOW - 900)
    return a_snapshot(
        quotas={"o": 32, "o/x": 32, "o/v": 0},
        devices=(*(replace(one, features=INFINIBAND) for one in pair), third),
        running=[
            *on_first,
            a_running("s", "o/x", slots(1, 1), started_at=NOW, time_limit_s=800),
            a_running("other", "o/v", slots(2, 1), started_at=NOW - 50_000),
        ],
        queued=[replace(gang, features=INFINIBAND), job],
    )


@pytest.mark.parametrize(("time_limit_s", "stopped"), [(200, ["v"]), (201, []), (None, [])])
def test_a_claim_takes_nothing_that_comes_free_for_who_comes_first(
    time_limit_s: int | None, stopped: list[str]
) -> None:
    """It could begin once what comes back anyway is there: 200 s before the gang.

    Planted: a claim is bound by what is free now, not by what comes free, and small jobs of the
    team whose claims follow each other kept the gang waiting for good; it begins after the grace of
    its own victims.
    """
    job = a_queued("job", "o/x", gpus=8, time_limit_s=time_limit_s)
    plan = plan_of(two_nodes_for_a_gang(replace(job, features=INFINIBAND)))
    assert (plan.reservations[0].job, plan.reservations[0].start_at) == ("gang", NOW + 800)
    assert victims(plan) == stopped
    waiting = why(plan, "job")
    assert (waiting.code, waiting.numbers.get("reserved_start_at")) == (
        (Code.WAITING_FOR_RECLAIM, None) if stopped else (Code.RESERVED_FOR_LARGER_JOB, NOW + 800)
    )


def test_a_shorter_job_behind_one_that_would_delay_a_reservation_claims() -> None:
    """Planted: who may not claim keeps all others of its team, class and size from it."""
    jobs = [
        replace(
            a_queued(name, "o/x", gpus=8, submitted_at=NOW - age_s, time_limit_s=time_limit_s),
            features=INFINIBAND,
        )
        for name, age_s, time_limit_s in (("long", 50, None), ("short", 40, 200))
    ]
    world = two_nodes_for_a_gang(jobs[0])
    quotas = tuple(a_quota(node, gpus) for node, gpus in (("o", 48), ("o/x", 48), ("o/v", 0)))
    plan = plan_of(replace(world, quotas=quotas, queued=(*world.queued, jobs[1])))
    assert [(one.job, [victim.job for victim in one.victims]) for one in plan.reclaims] == [
        ("short", ["v"])
    ]
    assert why(plan, "long").code is Code.RESERVED_FOR_LARGER_JOB


def test_a_claim_takes_nothing_back_on_a_node_that_a_reservation_holds() -> None:
    """The gang needs half of the node, and one of those who run there goes on for longer. The other
    half could be taken back without delay; the rule is kept simple instead.

    Planted: what comes free by itself is there for a claim.
    """
    half = slots(0, 1, gpus=4)
    both = [a_running("v", "o/v", half, started_at=NOW, time_limit_s=700)]
    both.append(a_running("w", "o/v", half, started_at=NOW))
    job = replace(a_queued("job", "o/x", gpus=4), features=INFINIBAND)
    plan = plan_of(two_nodes_for_a_gang(job, *both, gang_gpus=4))
    assert plan.reservations[0].start_at == NOW + 800
    assert (victims(plan), why(plan, "job").code) == ([], Code.RESERVED_FOR_LARGER_JOB)


def test_another_node_is_cleared_where_the_cheapest_is_reserved() -> None:
    """Planted: who would be stopped there is looked for as ever, and nobody else is asked."""
    plan = plan_of(two_nodes_for_a_gang(a_queued("job", "o/x", gpus=8)))
    assert plan.reservations[0].start_at == NOW + 800
    assert victims(plan) == ["other"]


def test_the_cheapest_of_the_other_nodes_is_cleared_where_one_is_reserved() -> None:
    """Planted: a node that could hold no rank is chosen first, and then the first victims on any
    that make up for it."""
    half = slots(0, 1, gpus=4)
    both = [a_running(name, "o/v", half, started_at=NOW, time_limit_s=700) for name in "vw"]
    world = two_nodes_for_a_gang(a_queued("job", "o/x", gpus=8), *both)
    ran_s = {"p": (2, 5_000), "q": (2, 5_000), "r": (3, 100), "s4": (3, 6_000)}
    others = [
        a_running(name, "o/v", slots(node, 1, gpus=4), started_at=NOW - seconds)
        for name, (node, seconds) in ran_s.items()
    ]
    world = replace(
        world,
        devices=(*world.devices, devices(4)[3]),
        running=(*(run for run in world.running if run.job != "other"), *others),
    )
    plan = plan_of(world, min_run_s=0)
    assert victims(plan) == ["r", "s4"]


@pytest.mark.parametrize(("lower", "stopped"), [("ends", []), ("endless", ["endless"])])
def test_a_claim_leaves_a_reserved_job_its_quota(lower: str, stopped: list[str]) -> None:
    """Of the 32 GPUs that quota allows the gang needs 16 from 800 s on, when one of its team has
    ended and another department's runs on. The job takes the place of `lower` of its team.

    Planted: whoever is stopped for it counts as if he had gone on.
    """
    of = {"ends": 800, "endless": None}
    running = [
        a_running(
            name,
            "o/x",
            slots(at, 1),
            priority="normal" if name == lower else "critical",
            started_at=NOW,
            time_limit_s=limit_s,
        )
        for at, (name, limit_s) in enumerate(of.items())
    ]
    running += [
        a_running(f"y{limit_s}", "o/y", slots(at, 1), started_at=NOW, time_limit_s=limit_s)
        for at, limit_s in ((2, 700), (3, 10_000))
    ]
    world = a_snapshot(
        quotas=[a_quota("o", 32, borrow=0), a_quota("o/x", 40), a_quota("o/y", 16)],
        classes=CLASSES,
        devices=devices(6),
        running=running,
        queued=[
            a_queued("gang", "o/x", nodes=2, gpus=8, priority="critical", submitted_at=NOW - 900),
            a_queued("job", "o/x", gpus=8, priority="critical"),
        ],
    )
    plan = plan_of(world, min_run_s=0)
    assert [(one.job, one.start_at - NOW) for one in plan.reservations][:1] == [("gang", 800)]
    assert victims(plan) == stopped


def test_who_may_not_claim_keeps_nobody_from_it_who_would_delay_less() -> None:
    """Two gangs wait for a pair of nodes each, the second one for long. A job without a limit would
    delay both, one of 4,000 s only the first, whose nodes it may not use.

    Planted: all are refused that are there when the first reservation begins.
    """

    def asks(name: str, feature: str, age_s: int, **more: Any) -> QueuedJob:
        job = a_queued(name, "o/x", gpus=8, submitted_at=NOW - age_s, **more)
        return replace(job, features=frozenset({feature}))

    ends = (("o/v", 90), ("o/y", 100), ("o/v", 5_000), ("o/y", 10_000))
    world = a_snapshot(
        quotas={"o": 96, "o/x": 64, "o/y": 32, "o/v": 0},
        devices=[
            replace(device, features=frozenset({"first" if at < 2 else "second"}))
            for at, device in enumerate(devices(4))
        ],
        running=[
            a_running(f"r{at}", team, slots(at, 1), started_at=NOW, time_limit_s=limit_s)
            for at, (team, limit_s) in enumerate(ends)
        ],
        queued=[
            asks("g1", "first", 900, nodes=2),
            asks("g2", "second", 800, nodes=2),
            asks("endless", "second", 20),
            asks("shorter", "second", 10, time_limit_s=4_000),
        ],
    )
    plan = plan_of(world, min_run_s=0)
    begins = [(one.job, one.start_at - NOW) for one in plan.reservations]
    assert begins[:2] == [("g1", 100), ("g2", 10_000)]
    assert [(one.job, [victim.job for victim in one.victims]) for one in plan.reclaims] == [
        ("shorter", ["r2"])
    ]
    assert why(plan, "endless").code is Code.RESERVED_FOR_LARGER_JOB


@pytest.mark.parametrize(("known", "stopped"), [(True, ["v"]), (False, [])])
def test_a_claim_begins_after_the_longest_grace_that_anybody_has(
    known: bool, stopped: list[str]
) -> None:
    """The policy allows an hour, and classes give 300 s at most; whoever is of a class that nobody
    knows has the hour.

    Planted: every claim is thought to begin after the longest grace that could be given.
    """
    job = replace(a_queued("job", "o/x", gpus=8, time_limit_s=200), features=INFINIBAND)
    world = two_nodes_for_a_gang(job)
    if not known:
        odd = a_running("odd", "o/v", slots(9, 1, gpus=1), priority="gone")
        world = replace(world, running=(*world.running, odd))
    plan = plan_of(world, grace_period_s_default=3_600)
    assert plan.reservations[0].start_at == NOW + 800
    assert victims(plan) == stopped
