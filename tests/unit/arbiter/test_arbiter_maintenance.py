"""Maintenance windows in the arbiter: who may start, reasons, claims and reservations (R-118)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from arbiter.api.plan import Code, Plan, Waiting
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Maintenance, QueuedJob, RunningJob, Snapshot
from arbiter.cycle.decide import decide
from arbiter.explain.sentences import Names, sentence
from arbiter.placement.maintenance import Closed, Windows
from arbiter.replay.record import Record, from_document, to_document
from builders.arbiter_builders import (
    GPU,
    NOW,
    a_queued,
    a_running,
    a_snapshot,
    devices,
    slots,
)
from simulator.start_time import start_time

_HOUR_S = 3_600
#: Maintenance of alpha from one hour from now on, for two hours.
_SOON = Maintenance("alpha", NOW + _HOUR_S, NOW + 3 * _HOUR_S)
_OPEN = Maintenance("alpha", NOW - _HOUR_S, NOW + _HOUR_S)


def _world(
    queued: Sequence[QueuedJob],
    *windows: Maintenance,
    running: Sequence[RunningJob] = (),
    beta: int = 0,
) -> Snapshot:
    """A node of 8 GPUs on alpha, `beta` such nodes on beta, all for team o/a."""
    return a_snapshot(
        quotas={"o": 8 + 8 * beta, "o/a": 8 + 8 * beta},
        devices=(*devices(1), *devices(beta, cluster="beta")),
        queued=queued,
        running=running,
        maintenance=windows,
    )


def _started(plan: Plan) -> list[tuple[str, str]]:
    return [(one.job, one.cluster) for one in plan.starts]


def _waits(snapshot: Snapshot, policy: Policy | None = None) -> Waiting:
    """Return the reason of the only job that waits."""
    (waiting,) = decide(snapshot, policy or Policy()).waiting
    return waiting


@pytest.mark.parametrize(
    ("limit_s", "starts"), [(_HOUR_S - 1, True), (_HOUR_S, True), (_HOUR_S + 1, False)]
)
def test_a_job_starts_if_it_ends_when_the_window_begins(limit_s: int, starts: bool) -> None:
    """Planted: a limit that ends one second inside the window passes."""
    plan = decide(_world([a_queued("j", "o/a", time_limit_s=limit_s)], _SOON), Policy())
    assert _started(plan) == ([("j", "alpha")] if starts else [])


@pytest.mark.parametrize(("ahead_s", "starts"), [(7 * 86_400, True), (7 * 86_400 - 1, False)])
def test_a_job_without_a_limit_counts_as_one_of_the_horizon(ahead_s: int, starts: bool) -> None:
    """Against: such a job counts as endless, so that it waits from the announcement on."""
    window = Maintenance("alpha", NOW + ahead_s, NOW + ahead_s + 60)
    plan = decide(_world([a_queued("j", "o/a")], window), Policy())
    assert _started(plan) == ([("j", "alpha")] if starts else [])


def test_nothing_starts_in_a_window_and_all_goes_on_at_its_end() -> None:
    """Planted: a cluster stays closed after the end of its window."""
    world = _world([a_queued("j", "o/a", time_limit_s=1)], _OPEN)
    assert _started(decide(world, Policy())) == []
    last = replace(world, taken_at=_OPEN.end_at - 1)
    assert _started(decide(last, Policy())) == []
    ended = replace(world, taken_at=_OPEN.end_at)
    assert _started(decide(ended, Policy())) == [("j", "alpha")]


def test_a_job_goes_to_another_cluster() -> None:
    """Alpha alone would be tighter; the job takes beta, where there is no window."""
    plan = decide(_world([a_queued("j", "o/a")], _SOON, beta=2), Policy())
    assert _started(plan) == [("j", "beta")]


def test_a_window_of_a_pool_leaves_other_pools_alone() -> None:
    """Planted: the windows of all pools count in each pool."""
    job = a_queued("j", "o/a", time_limit_s=2 * _HOUR_S)
    assert _started(decide(_world([job], replace(_SOON, pool="a100")), Policy())) == [
        ("j", "alpha")
    ]
    assert _started(decide(_world([job], replace(_SOON, pool="h100")), Policy())) == []


def test_a_job_that_still_runs_when_the_window_begins_is_left_alone() -> None:
    run = a_running("r", "o/a", slots(0, 1), time_limit_s=10 * _HOUR_S)
    plan = decide(_world([], _SOON, running=[run]), Policy())
    assert (plan.starts, plan.reclaims, plan.dropped_claims) == ((), (), ())


def _lent(limit_s: int) -> Snapshot:
    """All of alpha is lent to o/b; a job of o/a is entitled to it, after a grace of 300 s."""
    return a_snapshot(
        quotas={"o": 8, "o/a": 8, "o/b": 0},
        devices=devices(1),
        running=[a_running("r", "o/b", slots(0, 1))],
        queued=[a_queued("j", "o/a", gpus=8, time_limit_s=limit_s)],
        maintenance=[_SOON],
    )


@pytest.mark.parametrize(("limit_s", "claims"), [(_HOUR_S - 300, 1), (_HOUR_S - 299, 0)])
def test_nothing_is_reclaimed_for_a_job_that_would_be_too_long_after_the_grace(
    limit_s: int, claims: int
) -> None:
    """Planted: the job claims by its end from now on, so that its victim is stopped in vain."""
    plan = decide(_lent(limit_s), Policy())
    assert len(plan.reclaims) == claims


def test_a_reservation_goes_to_a_cluster_where_the_job_ends_in_time() -> None:
    """Alpha is free sooner, but the job could still run there when the window begins.

    Planted: reservations are made as if there was no window.
    """
    running = [
        a_running("r", "o/a", slots(0, 1), time_limit_s=1_000, started_at=NOW),
        a_running(
            "s",
            "o/a",
            slots(0, 1, cluster="beta"),
            cluster="beta",
            time_limit_s=9_000,
            started_at=NOW,
        ),
    ]
    job = a_queued("j", "o/a", gpus=8, time_limit_s=_HOUR_S)
    (found,) = decide(_world([job], _SOON, running=running, beta=1), Policy()).reservations
    assert (found.cluster, found.start_at) == ("beta", NOW + 9_000)
    short = replace(job, time_limit_s=_HOUR_S - 1_000)
    (found,) = decide(_world([short], _SOON, running=running, beta=1), Policy()).reservations
    assert (found.cluster, found.start_at) == ("alpha", NOW + 1_000)
    # With alpha alone it holds none, and keeps no GPUs from others.
    alone = decide(_world([job], _SOON, running=running[:1]), Policy())
    assert alone.reservations == ()


def test_the_reason_says_when_starts_resume_and_what_helps() -> None:
    """Planted: the job is said to fit nowhere, because no cluster is left."""
    job = a_queued("j", "o/a", gpus=2, time_limit_s=2 * _HOUR_S)
    waiting = _waits(_world([job], _SOON))
    assert (waiting.code, waiting.numbers) == (
        Code.MAINTENANCE,
        {
            "need_mgpu": 2 * GPU,
            "maintenance_start_at": NOW + _HOUR_S,
            "maintenance_end_at": NOW + 3 * _HOUR_S,
        },
    )
    assert sentence(waiting, job, Names({})) == (
        "It needs 2 GPUs and could still run when the maintenance of the cluster begins at"
        " 1970-01-12 14:46 UTC. Starts resume at 1970-01-12 16:46 UTC. With a shorter time limit"
        " that ends before 1970-01-12 14:46 UTC, or on another cluster, it could start sooner."
    )
    endless = replace(job, time_limit_s=None)
    assert "With a time limit that ends before" in sentence(
        _waits(_world([endless], _SOON)), endless, Names({})
    )


def test_the_reason_in_an_open_window_names_its_end_alone() -> None:
    job = a_queued("j", "o/a", time_limit_s=1)
    waiting = _waits(_world([job], _OPEN))
    assert waiting.numbers == {"need_mgpu": GPU, "maintenance_end_at": NOW + _HOUR_S}
    assert sentence(waiting, job, Names({})) == (
        "It needs 1 GPU on a cluster under maintenance. Starts resume at 1970-01-12 14:46 UTC."
        " Another cluster may help."
    )


def test_a_cluster_that_is_silent_in_its_window_is_under_maintenance() -> None:
    """Against: the job says that no cluster accepts jobs, although its end is known."""
    world = _world([a_queued("j", "o/a", time_limit_s=1)], _OPEN)
    assert _waits(replace(world, clusters=frozenset())).code is Code.MAINTENANCE


def test_a_job_that_would_never_fit_says_so_in_a_window_too() -> None:
    world = _world([a_queued("j", "o/a", gpus=9, time_limit_s=1)], _OPEN)
    assert _waits(world).code is Code.NEVER_FITS


def test_a_job_that_waits_elsewhere_says_that_free_gpus_are_closed_to_it() -> None:
    """Beta is full and alpha idle: a shorter time limit helps.

    Planted: the job says that no GPUs are free.
    """
    full = a_running("r", "o/a", slots(0, 1, cluster="beta"), cluster="beta")
    job = a_queued("j", "o/a", gpus=4, time_limit_s=2 * _HOUR_S)
    waiting = _waits(_world([job], _SOON, running=[full], beta=1))
    assert waiting.code is Code.MAINTENANCE
    assert waiting.numbers["maintenance_end_at"] == NOW + 3 * _HOUR_S
    both = [full, a_running("s", "o/a", slots(0, 1))]
    waiting = _waits(_world([job], _SOON, running=both, beta=1))
    assert waiting.code is Code.WAITING_FOR_FREE_GPUS


def test_of_several_closed_clusters_the_latest_start_and_the_earliest_end_count() -> None:
    windows = Windows(
        [_SOON, replace(_SOON, start_at=NOW + 9_000, end_at=NOW + 99_000), replace(_OPEN)],
        unlimited_s=1,
    )
    assert windows.numbers(Closed(frozenset({"alpha"})), NOW) == {
        "maintenance_end_at": NOW + _HOUR_S
    }
    two = Windows([_SOON, Maintenance("beta", NOW + 60, NOW + 120)], unlimited_s=1)
    assert two.numbers(Closed(frozenset({"alpha", "beta"})), NOW) == {
        "maintenance_start_at": NOW + _HOUR_S,
        "maintenance_end_at": NOW + 120,
    }


def test_a_record_keeps_the_windows_and_gives_the_same_plan_again() -> None:
    some = replace(_SOON, nodes=frozenset({"node0"}))
    world = _world([a_queued("j", "o/a", time_limit_s=2 * _HOUR_S)], _SOON, some)
    record = Record("1.0", Policy(), world, decide(world, Policy()))
    read = from_document(to_document(record))
    assert read == record
    assert read.snapshot.maintenance == (_SOON, some)
    assert decide(read.snapshot, read.policy) == record.plan


def test_a_look_ahead_starts_the_job_at_the_end_of_the_window() -> None:
    """Planted: the look-ahead ends, because nothing happens any more."""
    world = _world([a_queued("j", "o/a", time_limit_s=600)], _OPEN)
    found = start_time(world, Policy(), "j", 2 * _HOUR_S)
    assert found.earliest == _OPEN.end_at
    assert found.latest is not None
    assert _OPEN.end_at <= found.latest <= _OPEN.end_at + 144


def _nodes(count: int, queued: Sequence[QueuedJob], *windows: Maintenance) -> Snapshot:
    """`count` nodes of 8 GPUs on alpha, all for team o/a."""
    return a_snapshot(
        quotas={"o": 8 * count, "o/a": 8 * count},
        devices=devices(count),
        queued=queued,
        maintenance=windows,
    )


def _of_nodes(window: Maintenance, *numbers: int) -> Maintenance:
    """Return the window for the nodes of these numbers of alpha."""
    names = [device.node for device in devices(8)]
    return replace(window, nodes=frozenset(names[number] for number in numbers))


def test_a_window_of_nodes_leaves_the_other_nodes_alone() -> None:
    """Planted: a window of nodes closes its whole cluster; it closes nothing."""
    long = [a_queued(f"j{number}", "o/a", gpus=8) for number in range(4)]
    plan = decide(_nodes(4, long, _of_nodes(_SOON, 0, 2)), Policy())
    names = [device.node for device in devices(4)]
    assert [slot.node for one in plan.starts for slot in one.slots] == [names[1], names[3]]
    short = [replace(job, time_limit_s=_HOUR_S) for job in long]
    assert len(decide(_nodes(4, short, _of_nodes(_SOON, 0, 2)), Policy()).starts) == 4


def test_a_job_that_waits_for_closed_nodes_says_so() -> None:
    """A shorter time limit helps it. Planted: it says that no GPUs are free."""
    jobs = [a_queued("j", "o/a", gpus=8), a_queued("k", "o/a", gpus=8)]
    waiting = _waits(_nodes(2, jobs, _of_nodes(_SOON, 0)))
    assert waiting.code is Code.MAINTENANCE
    assert waiting.numbers == {
        "need_mgpu": 8 * GPU,
        "maintenance_nodes": 1,
        "maintenance_start_at": _SOON.start_at,
        "maintenance_end_at": _SOON.end_at,
    }
    assert sentence(waiting, jobs[1], Names({})) == (
        "It needs 8 GPUs and could still run when the maintenance of 1 node begins at"
        " 1970-01-12 14:46 UTC. Starts resume at 1970-01-12 16:46 UTC. With a time limit that ends"
        " before 1970-01-12 14:46 UTC, or on other nodes, it could start sooner."
    )


def test_a_job_of_more_nodes_than_are_left_waits_for_the_end_of_the_window() -> None:
    """Planted: it is said never to fit."""
    job = a_queued("j", "o/a", gpus=8, nodes=3)
    waiting = _waits(_nodes(3, [job], _of_nodes(_OPEN, 1)))
    assert waiting.code is Code.MAINTENANCE
    assert waiting.numbers["maintenance_end_at"] == _OPEN.end_at
    assert sentence(waiting, job, Names({})) == (
        "It needs 24 GPUs (3 nodes with 8 each), and 1 node is under maintenance."
        " Starts resume at 1970-01-12 14:46 UTC."
    )
    ended = replace(_nodes(3, [job], _of_nodes(_OPEN, 1)), taken_at=_OPEN.end_at)
    assert _started(decide(ended, Policy())) == [("j", "alpha")]


def test_a_window_of_a_whole_cluster_counts_before_one_of_its_nodes() -> None:
    closed = Windows([_SOON, _of_nodes(_SOON, 0)], unlimited_s=1).closed(2 * _HOUR_S, NOW)
    assert closed == Closed(frozenset({"alpha"}))


def test_a_reservation_goes_to_a_node_where_the_job_ends_in_time() -> None:
    """The first node is free sooner, but the job could still run there when the window begins.

    Planted: reservations are made as if there was no window of nodes.
    """
    running = [
        a_running("r", "o/a", slots(0, 1), time_limit_s=1_000, started_at=NOW),
        a_running("s", "o/a", slots(1, 1), time_limit_s=9_000, started_at=NOW),
    ]
    job = a_queued("j", "o/a", gpus=8, time_limit_s=_HOUR_S)
    world = replace(_nodes(2, [job], _of_nodes(_SOON, 0)), running=tuple(running))
    (found,) = decide(world, Policy()).reservations
    first, second = (device.node for device in devices(2))
    assert (found.slots[0].node, found.start_at) == (second, NOW + 9_000)
    short = replace(world, queued=(replace(job, time_limit_s=_HOUR_S - 1_000),))
    (found,) = decide(short, Policy()).reservations
    assert (found.slots[0].node, found.start_at) == (first, NOW + 1_000)


def test_nothing_is_reclaimed_on_nodes_that_close_before_the_job_ends() -> None:
    """Planted: claims are made as if there was no window of nodes."""
    world = _lent(_HOUR_S - 299)
    node = world.devices[0].node
    some = replace(world, maintenance=(replace(_SOON, nodes=frozenset({node})),))
    assert decide(some, Policy()).reclaims == ()
    other = replace(world, maintenance=(replace(_SOON, nodes=frozenset({"other"})),))
    assert len(decide(other, Policy()).reclaims) == 1


def test_a_plan_names_the_closed_nodes_to_a_cluster_that_chooses_nodes_itself() -> None:
    """A short job may run everywhere. Planted: nodes of other clusters are named, or none."""
    long, short = a_queued("j", "o/a", gpus=8), a_queued("k", "o/a", gpus=8, time_limit_s=60)
    alpha, beta = _of_nodes(_SOON, 0, 2), replace(_of_nodes(_SOON, 1), cluster="beta")
    plan = decide(_nodes(4, [long, short], alpha, beta), Policy())
    names = [device.node for device in devices(4)]
    assert {one.job: one.closed_nodes for one in plan.starts} == {
        "j": (names[0], names[2]),
        "k": (),
    }


@pytest.mark.parametrize(("ahead_s", "named"), [(1_299, ("other",)), (1_300, ())])
def test_a_claim_names_the_nodes_that_are_closed_at_the_end_of_its_grace(
    ahead_s: int, named: tuple[str, ...]
) -> None:
    """Its job ends 1,300 s from now. Planted: it names those that are closed to it now."""
    window = replace(_SOON, start_at=NOW + ahead_s, nodes=frozenset({"other"}))
    (claim,) = decide(replace(_lent(1_000), maintenance=(window,)), Policy()).reclaims
    assert (claim.grace_until, claim.closed_nodes) == (NOW + 300, named)
