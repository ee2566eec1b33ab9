"""Jobs that accept several pools, in long random histories of worlds with three of them
(R-50 to R-52)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.api.plan import Code, Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Phase, QueuedJob, Snapshot
from arbiter.cycle.decide import decide
from arbiter.cycle.scheduler import Core
from builders.arbiter_histories import histories, policy
from builders.telling_a_core import tell

_SLOW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
_STEPS = 16
_HOPELESS = (Code.NEVER_FITS, Code.CLUSTER_UNAVAILABLE)
_SEEDS = st.integers(0, 2**32)


def _cycles(seed: int, **knobs: int) -> Iterator[tuple[Snapshot, Policy, Plan]]:
    """What cycles knew and did; `knobs` of the policy are as given."""
    dice = Random(seed)
    by = replace(policy(dice), **knobs)
    for snapshot in histories(dice, by, _STEPS, accept_several=True):
        yield snapshot, by, decide(snapshot, by)


def _alone(job: QueuedJob, pool: str) -> QueuedJob:
    """The job as if it accepted one of its pools only."""
    return replace(job.in_pool(pool), others=())


@_SLOW
@given(_SEEDS)
def test_nobody_is_served_in_two_pools(seed: int) -> None:
    """One start or one claim or one reservation of each job, in a pool that it accepts, on nodes
    of that pool and on a cluster that may run it there.

    Planted bugs that died of it: the pools are decided once and each keeps what it started; a job
    whose claim of an earlier cycle is dropped claims in another pool; a reservation in every pool.
    """
    for snapshot, _, plan in _cycles(seed):
        jobs = {job.id: job for job in snapshot.queued}
        nodes = {(one.cluster, one.node, one.pool) for one in snapshot.devices}
        for one in (*plan.starts, *plan.reclaims, *plan.reservations):
            job = jobs[one.job]
            assert (one.pool in job.pools) if job.others else one.pool is None
            pool = one.pool or job.pool
            assert all((one.cluster, slot.node, pool) in nodes for slot in one.slots)
            usable = job.in_pool(pool).clusters
            assert usable is None or one.cluster in usable
        started = Counter(start.job for start in plan.starts)
        kept = {claim.job for claim in snapshot.claims} - set(plan.dropped_claims)
        claimed = Counter(one.job for one in plan.reclaims)
        assert not claimed.keys() & {claim.job for claim in snapshot.claims}
        claimed.update(kept - started.keys())
        reserved = Counter(one.job for one in plan.reservations)
        assert max((started + claimed).values(), default=1) == 1
        assert max((started + reserved).values(), default=1) == 1
        waiting = Counter(one.job for one in plan.waiting)
        assert waiting + started == Counter(jobs.keys())


@_SLOW
@given(_SEEDS)
def test_each_pool_serves_its_line_as_if_it_were_alone(seed: int) -> None:
    """What a pool does is what it would do if nobody in its line accepted another one: so all laws
    of one pool hold in each, and nobody passes anybody by standing in other lines too. Who is
    served elsewhere is in no line here. Nobody's start is left out by a limit of all pools.

    Planted bugs that died of it: who is served elsewhere counts as waiting; a pool that is decided
    anew is not put back to how it was.
    """
    for snapshot, by, plan in _cycles(seed, reservations_max=0, starts_max=100, reclaims_max=100):
        claims = {claim.job: claim for claim in snapshot.claims}
        jobs = {job.id: job for job in snapshot.queued}
        served = {one.job: one.pool or jobs[one.job].pool for one in (*plan.reclaims, *plan.starts)}
        for job in claims.keys() - set(plan.dropped_claims) - served.keys():
            served[job] = claims[job].pool or jobs[job].pool
        for pool in sorted({one.pool for one in snapshot.devices}):
            if any(job in jobs and jobs[job].others for job in plan.dropped_claims):
                break  # Its slots are decided twice: with the claim, and without.
            line = tuple(
                _alone(job, pool)
                for job in snapshot.queued
                if pool in job.pools and served.get(job.id, pool) == pool
            )
            ids = {job.id for job in line}
            alone = decide(
                replace(
                    snapshot,
                    queued=line,
                    devices=tuple(one for one in snapshot.devices if one.pool == pool),
                    claims=tuple(
                        replace(claim, pool=None)
                        for claim in snapshot.claims
                        if claim.job in ids and (claim.pool or jobs[claim.job].pool) == pool
                    ),
                ),
                by,
            )
            here = [start for start in plan.starts if served[start.job] == pool]
            assert [start._replace(pool=None) for start in here] == list(alone.starts)
            stops = [one for one in plan.reclaims if served[one.job] == pool]
            assert [replace(one, pool=None) for one in stops] == list(alone.reclaims)
            assert [one for one in plan.use if one.pool == pool] == [
                one for one in alone.use if one.pool == pool
            ]


@_SLOW
@given(_SEEDS)
def test_accepting_several_is_no_matter_where_nobody_does(seed: int) -> None:
    """A job of one pool is told and decided as ever: nothing names a pool."""
    dice = Random(seed)
    by = policy(dice)
    for snapshot in histories(dice, by, _STEPS):
        plan = decide(snapshot, by)
        assert {one.pool for one in (*plan.starts, *plan.reclaims, *plan.waiting)} <= {None}


@_SLOW
@given(_SEEDS)
def test_the_order_of_what_is_known_is_no_matter(seed: int) -> None:
    """Planted bug that died of it: pools are decided in the order in which jobs came."""
    dice = Random(~seed)
    for snapshot, by, plan in _cycles(seed):
        shuffled = {
            name: tuple(dice.sample(part, len(part)))
            for name in ("quotas", "devices", "running", "queued", "claims", "usage", "balances")
            if (part := getattr(snapshot, name)) is not None
        }
        assert decide(replace(snapshot, **shuffled), by) == plan


@_SLOW
@given(_SEEDS)
def test_a_core_that_is_told_of_changes_plans_as_one_made_anew(seed: int) -> None:
    """With explanations and without.

    Planted bugs that died of it: who is withdrawn stays in the lines of the other pools; victims
    of a round that was decided anew stay marked.
    """
    core, known = None, None
    for snapshot, by, plan in _cycles(seed):
        if core is None or known is None:
            core = Core.of(snapshot, by)
        else:
            tell(core, known, snapshot)
        known = snapshot
        assert core.cycle(snapshot.taken_at) == plan
        bare = replace(plan, waiting=(), use=(), reservations=())
        assert core.cycle(snapshot.taken_at, explains=False) == bare


@_SLOW
@given(_SEEDS)
def test_who_waits_is_told_of_each_pool_once(seed: int) -> None:
    """The obstacle in each of its pools, the first in which it could ever start before others; of
    one for which GPUs are being given back, of that pool alone. Not so in a cycle that comes to a
    limit: there each job stands in one pool.

    Planted bug that died of it: the first pool is always the one that is told.
    """
    for snapshot, _, plan in _cycles(seed, starts_max=100, reclaims_max=100):
        jobs = {job.id: job for job in snapshot.queued}
        for one in plan.waiting:
            job = jobs[one.job]
            if not job.others:
                assert (one.pool, one.elsewhere) == (None, ())
                continue
            if one.code is Code.WAITING_FOR_RECLAIM:
                assert one.pool in job.pools
                assert one.elsewhere == ()
                continue
            told = [one.pool, *(other.pool for other in one.elsewhere)]
            assert sorted(filter(None, told)) == sorted(job.pools)
            assert [pool for pool in job.pools if pool != one.pool] == told[1:]
            codes = {other.pool: other.code for other in one.elsewhere}
            codes[one.pool or ""] = one.code
            hopes = [pool for pool in job.pools if codes[pool] not in _HOPELESS]
            assert one.pool == hopes[0] if hopes else one.code in _HOPELESS


@_SLOW
@given(_SEEDS)
def test_quota_and_devices_hold_in_every_pool(seed: int) -> None:
    """No node gives more than it has, a job once started is nowhere in line, and all pools together
    start and claim no more than one cycle may.

    Planted bug that died of it: a pool that is decided anew starts more, and those after it are not
    told.
    """
    for snapshot, by, plan in _cycles(seed):
        assert len(plan.starts) <= by.starts_max
        assert len(plan.reclaims) <= by.reclaims_max
        jobs = {job.id: job for job in snapshot.queued}
        used: Counter[tuple[str, str, str]] = Counter()
        for run in snapshot.running:
            for slot in run.slots:
                used[run.pool, run.cluster, slot.node] += slot.mgpu
        before = Counter(used)
        for start in plan.starts:
            for slot in start.slots:
                used[start.pool or jobs[start.job].pool, start.cluster, slot.node] += slot.mgpu
        room: Counter[tuple[str, str, str]] = Counter()
        for one in snapshot.devices:
            room[one.pool, one.cluster, one.node] += one.capacity_mgpu
        assert all(held <= max(room[at], before[at]) for at, held in used.items())
        running = {run.job for run in snapshot.running if run.phase is not Phase.STOPPING}
        assert not running & {start.job for start in plan.starts}
