"""Laws of maintenance windows in long random histories (R-118)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.api.snapshot import Device, Maintenance, OtherPool, QueuedJob, Snapshot
from arbiter.cycle.decide import decide
from arbiter.cycle.scheduler import Core
from builders.arbiter_histories import histories, policy
from builders.telling_a_core import tell

_SLOW = settings(max_examples=25, suppress_health_check=list(HealthCheck))


def _met(snapshot: Snapshot, pool: str, run_s: int) -> Iterator[Maintenance]:
    """The windows in which a job that starts now in the pool would still run."""
    now = snapshot.taken_at
    for one in snapshot.maintenance:
        if one.pool in (None, pool) and max(now, one.start_at) < min(now + run_s, one.end_at):
            yield one


def _overlaps(
    snapshot: Snapshot, cluster: str, pool: str, run_s: int, nodes: Iterable[str] = ()
) -> bool:
    """Return whether a job that starts now on these nodes would still run in a window."""
    return any(
        one.cluster == cluster and (one.nodes is None or not one.nodes.isdisjoint(nodes))
        for one in _met(snapshot, pool, run_s)
    )


@_SLOW
@given(st.integers(0, 2**32), st.booleans())
def test_nothing_starts_that_would_run_into_a_window(seed: int, accept_several: bool) -> None:
    """Each start ends by its time limit before each window, or begins after it.

    A job without a time limit counts as one of the horizon of reservations. Claims and elastic jobs
    are included.

    Planted: a claim of a job that has since become too long is kept; jobs without a limit count by
    the horizon, and so do all others; a claim on nodes that a window has since closed is kept.
    """
    dice = Random(seed)
    knobs = policy(dice)
    for snapshot in histories(
        dice, knobs, steps=25, accept_several=accept_several, maintenance=True
    ):
        jobs = {job.id: job for job in snapshot.queued}
        for start in decide(snapshot, knobs).starts:
            job = jobs[start.job]
            run_s = job.time_limit_s
            if run_s is None:
                run_s = knobs.reservation_horizon_s
            nodes = [slot.node for slot in start.slots]
            assert not _overlaps(snapshot, start.cluster, start.pool or job.pool, run_s, nodes)


def _marked(device: Device, windows: Sequence[Maintenance]) -> Device:
    """Return the device with a feature for each window of nodes that leaves it alone."""
    free = frozenset(
        f"free{number}"
        for number, one in enumerate(windows)
        if one.cluster != device.cluster
        or one.pool not in (None, device.pool)
        or device.node not in (one.nodes or ())
    )
    return replace(device, features=device.features | free)


def _pinned(job: QueuedJob, snapshot: Snapshot, unlimited_s: int) -> QueuedJob:
    """Return the job restricted by hand to the clusters and nodes that its windows leave to it."""
    run_s = unlimited_s if job.time_limit_s is None else job.time_limit_s

    def left(clusters: frozenset[str] | None, pool: str) -> frozenset[str]:
        all_of = frozenset({"c0", "c1"}) if clusters is None else clusters
        return frozenset(one for one in all_of if not _overlaps(snapshot, one, pool, run_s))

    others = tuple(OtherPool(one.pool, left(one.clusters, one.pool)) for one in job.others)
    met = {id(one) for pool in job.pools for one in _met(snapshot, pool, run_s)}
    free = {
        f"free{number}"
        for number, one in enumerate(snapshot.maintenance)
        if id(one) in met and one.nodes is not None
    }
    features = (job.features or frozenset()) | free
    clusters = left(job.clusters, job.pool)
    return replace(job, clusters=clusters, others=others, features=features or None)


@_SLOW
@given(st.integers(0, 2**32), st.booleans())
def test_windows_restrict_jobs_to_the_other_places_and_do_nothing_else(
    seed: int, accept_several: bool
) -> None:
    """Jobs that end before a window, or fit on other nodes, start as if there was no window.

    The same jobs pinned by hand to the clusters and nodes left to them start at the same places. A
    start names the closed nodes of its cluster.
    Without reservations and reclaims, which look ahead in time.

    Planted: windows of a pool close the cluster in all pools; they close it in none; a cluster
    stays closed after the end of its window; a window of nodes closes its cluster.
    """
    dice = Random(seed)
    knobs = replace(policy(dice), reservations_max=0, reclaims_max=0)
    for snapshot in histories(
        dice, knobs, steps=16, accept_several=accept_several, maintenance=True
    ):
        by_hand = replace(
            snapshot,
            maintenance=(),
            devices=tuple(_marked(one, snapshot.maintenance) for one in snapshot.devices),
            queued=tuple(
                _pinned(job, snapshot, knobs.reservation_horizon_s) for job in snapshot.queued
            ),
        )
        starts = decide(snapshot, knobs).starts
        assert [start._replace(closed_nodes=()) for start in starts] == [
            *decide(by_hand, knobs).starts
        ]
        jobs = {job.id: job for job in snapshot.queued}
        for start in starts:
            job = jobs[start.job]
            run_s = job.time_limit_s or knobs.reservation_horizon_s
            met = _met(snapshot, start.pool or job.pool, run_s)
            named = {
                node for one in met if one.cluster == start.cluster for node in one.nodes or ()
            }
            assert start.closed_nodes == tuple(sorted(named))


@_SLOW
@given(st.integers(0, 2**32), st.booleans())
def test_a_core_that_is_told_of_windows_plans_as_one_made_anew(
    seed: int, accept_several: bool
) -> None:
    """At every step, with and without explanations.

    Planted: clusters are closed to waiting jobs only when a window is announced; a job that
    queues while its cluster is closed misses the change of its time limit; cancelled windows stay.
    """
    dice = Random(seed)
    knobs = policy(dice)
    core, known = None, None
    for snapshot in histories(
        dice, knobs, steps=25, accept_several=accept_several, maintenance=True
    ):
        if core is None or known is None:
            core = Core.of(snapshot, knobs)
        else:
            tell(core, known, snapshot)
        known = snapshot
        told = decide(snapshot, knobs)
        assert core.cycle(snapshot.taken_at) == told
        bare = replace(told, waiting=(), use=(), reservations=())
        assert core.cycle(snapshot.taken_at, explains=False) == bare


@_SLOW
@given(st.integers(0, 2**32))
def test_no_reservation_promises_a_start_that_a_window_forbids(seed: int) -> None:
    """Each reserved job ends by its time limit before each window, or begins after it.

    Planted: reservations are made as if there was no window; as if there was none of nodes.
    """
    dice = Random(seed)
    knobs = policy(dice)
    for snapshot in histories(dice, knobs, steps=25, maintenance=True):
        jobs = {job.id: job for job in snapshot.queued}
        for one in decide(snapshot, knobs).reservations:
            job = jobs[one.job]
            run_s = job.time_limit_s
            if run_s is None:
                run_s = knobs.reservation_horizon_s
            then = replace(snapshot, taken_at=one.start_at)
            nodes = [slot.node for slot in one.slots]
            assert not _overlaps(then, one.cluster, one.pool or job.pool, run_s, nodes)
