"""What nobody is to lose by: a larger guarantee, and accepting a further pool; and the cases in
which the contract's own rules make it so all the same (R-29, R-54)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.api.plan import Code, Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import QueuedJob, Snapshot
from arbiter.cycle.decide import decide
from builders.arbiter_builders import (
    GPU,
    NOW,
    World,
    a_queued,
    a_quota,
    a_running,
    a_snapshot,
    devices,
    slots,
)
from builders.arbiter_histories import histories, policy
from builders.arbiter_worlds import Tree, empty_worlds, teams
from property.test_arbiter_laws import POLICY, move


def raised(snapshot: Snapshot, team: str, mgpu: int, taken_from: str | None = None) -> Snapshot:
    """The same with a larger guarantee of `team`, out of its parent's reserve or a sister's."""
    changes = {team: mgpu, taken_from: -mgpu}
    return replace(
        snapshot,
        quotas=tuple(
            replace(one, guaranteed_mgpu=one.guaranteed_mgpu + changes.get(one.node, 0))
            for one in snapshot.quotas
        ),
    )


def first_of(snapshot: Snapshot, team: str) -> QueuedJob | None:
    """The first in the line of `team`, where all have one user and one class."""
    line = [job for job in snapshot.queued if job.team == team]
    return min(line, key=lambda job: (job.submitted_at, job.id), default=None)


def turn(plan: Plan, job: str) -> int:
    """0: it starts; 1: GPUs are taken back for it; 2: neither."""
    if job in {start.job for start in plan.starts}:
        return 0
    taking_back = {one.job for one in plan.waiting if one.code is Code.WAITING_FOR_RECLAIM}
    return 1 if job in taking_back else 2


@given(st.data())
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_a_larger_guarantee_never_makes_the_next_start_later(data: st.DataObject) -> None:
    """With jobs of one GPU and without credits: taken out of its parent's reserve or a sister's
    guarantee, a larger guarantee makes the team's first job start in this cycle where it would have
    started, and GPUs be taken back for it, if it does not start, where they would have been.

    Planted: what may be borrowed shrinks by the guarantee.
    """
    world = World(data.draw(empty_worlds()), POLICY)
    for number in range(data.draw(st.integers(1, 8))):
        move(data.draw, world, number, gpus=1, count=1)
        before = world.snapshot()
        plan = world.step()
        for team, mgpu, giver in larger_guarantees(before):
            job = first_of(before, team)
            if job is not None:
                after = decide(raised(before, team, mgpu, giver), POLICY)
                assert turn(after, job.id) <= turn(plan, job.id), (team, mgpu, giver)


def larger_guarantees(snapshot: Snapshot) -> Iterator[tuple[str, int, str | None]]:
    """Every team, by how much its guarantee could be larger (milli-GPU, whole GPUs), and which
    sister would give it; None: the parent's reserve."""
    tree = Tree(snapshot)
    for team in teams(snapshot):
        parent = tree.parents[team]
        assert parent is not None
        sisters = [one for one in tree.children(parent) if one != team]
        reserve = tree.guaranteed(parent) - sum(map(tree.guaranteed, tree.children(parent)))
        for giver in (None, *sisters):
            most = reserve if giver is None else tree.guaranteed(giver)
            for gpus in range(1, most // GPU + 1):
                yield team, gpus * GPU, giver


def with_job(snapshot: Snapshot, job: QueuedJob) -> Snapshot:
    """The same in which `job` asks as it is here."""
    queued = tuple(job if one.id == job.id else one for one in snapshot.queued)
    return replace(snapshot, queued=queued)


def pool_of_start(plan: Plan, job: QueuedJob) -> int | None:
    """Which of its pools the job starts in, by its own order."""
    for start in plan.starts:
        if start.job == job.id:
            return job.pools.index(start.pool or job.pool)
    return None


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_who_accepts_a_further_pool_starts_where_it_would_have_started(seed: int) -> None:
    """A job that starts in this cycle also starts, in the same pool, if it accepts one more after
    those that it accepts; where nobody else accepts several. Where others do, pools may agree to
    serve two jobs the other way round (see `arbiter.cycle.multi_pool`).

    Planted bugs that died of it: the last pool that would start a job does; a claim in one pool
    goes before a start in another.
    """
    dice = Random(seed)
    by = replace(policy(dice), starts_max=100, reclaims_max=100)
    for snapshot in histories(dice, by, 12, accept_several=True):
        claimed = {claim.job for claim in snapshot.claims}
        several = [job for job in snapshot.queued if job.others and job.id not in claimed]
        for job in dice.sample(several, min(3, len(several))):
            alone = replace(
                snapshot,
                queued=tuple(
                    one if one is job or one.id in claimed else replace(one, others=())
                    for one in snapshot.queued
                ),
            )
            fewer = replace(job, others=job.others[:-1])
            before = pool_of_start(decide(with_job(alone, fewer), by), fewer)
            if before is not None:
                assert pool_of_start(decide(alone, by), job) == before


# -- where it is otherwise, by the contract's own rules ------------------------------------------


def test_a_larger_guarantee_keeps_later_jobs_behind_one_that_fits_in_it_now() -> None:
    """The team's first job keeps its place in the guarantee from then on, and GPUs are taken back
    for it; those behind it could have had what is free meanwhile."""
    snapshot = a_snapshot(
        quotas={"o": 8, "o/a": 4, "o/b": 0},
        devices=devices(1),
        running=[a_running("r", "o/b", slots(0, 1, gpus=4))],
        queued=[
            a_queued("large", "o/a", gpus=8, submitted_at=NOW - 90),
            a_queued("small", "o/a", submitted_at=NOW - 80),
        ],
    )
    before, after = (decide(one, Policy()) for one in (snapshot, raised(snapshot, "o/a", 4 * GPU)))
    assert ([one.job for one in before.starts], before.reclaims) == (["small"], ())
    assert ([one.job for one in after.reclaims], after.starts) == (["large"], ())


def test_a_larger_guarantee_may_be_filled_by_a_large_job_that_was_borrowed() -> None:
    """Jobs are protected whole: the large one does not fit in 3 GPUs and leaves two of them to the
    next; in 4 it fits, and leaves none. The team uses 5 either way."""
    snapshot = a_snapshot(
        quotas={"o": 8, "o/a": 3, "o/b": 0},
        devices=devices(1),
        running=[
            a_running("large", "o/a", slots(0, 1, gpus=4), started_at=NOW - 90),
            a_running("one", "o/a", slots(0, 1, gpus=1), started_at=NOW - 80),
            a_running("other", "o/b", slots(0, 1, gpus=3)),
        ],
        queued=[a_queued("two", "o/a", gpus=2)],
    )
    before, after = (decide(one, Policy()) for one in (snapshot, raised(snapshot, "o/a", GPU)))
    assert [one.job for one in before.reclaims] == ["two"]
    assert (after.starts, after.reclaims) == ((), ())


def test_a_larger_guarantee_makes_the_same_credits_fewer() -> None:
    """Credits are compared in days of the guarantee: ten GPU-days are ten days of one GPU and two
    and a half of four."""
    snapshot = a_snapshot(
        quotas={"o": 6, "o/a": 1, "o/b": 1},
        devices=devices(1, gpus=6),
        running=[
            a_running("a", "o/a", slots(0, 1, gpus=4)),
            a_running("b", "o/b", slots(0, 1, gpus=1)),
        ],
        queued=[a_queued("mine", "o/a"), a_queued("theirs", "o/b")],
        credits={"o/a": 10, "o/b": 4},
    )
    before, after = (decide(one, Policy()) for one in (snapshot, raised(snapshot, "o/a", 3 * GPU)))
    assert [one.job for one in before.starts] == ["mine"]
    assert [one.job for one in after.starts] == ["theirs"]


def test_whoever_takes_gpus_back_in_a_further_pool_waits_for_these() -> None:
    """Others were stopped for it, so it takes no GPU of a better pool that comes free meanwhile: it
    may start a grace later than if it had accepted that pool alone."""
    at_once = []
    for others in ([], ["a100"]):
        world = World(
            a_snapshot(
                quotas=[
                    a_quota(node, gpus, pool=pool)
                    for pool, of_x in (("h100", 8), ("a100", 0))
                    for node, gpus in (("o", 8), ("o/x", of_x), ("o/y", 8 - of_x))
                ],
                devices=[*devices(1), *devices(1, cluster="beta", pool="a100")],
                running=[
                    a_running("r", "o/x", slots(0, 1)),
                    a_running("s", "o/x", slots(0, 1, cluster="beta"), cluster="beta", pool="a100"),
                ],
                queued=[a_queued("job", "o/y", gpus=8, others=others)],
            )
        )
        world.step()
        world.leave("r")
        at_once.append([one.job for one in world.step(NOW + 10).starts])
    assert at_once == [["job"], []]
