"""Laws of elastic jobs, over small worlds in which limits bind; those of every cycle, which elastic
jobs must not break either, are in `test_arbiter_laws` (R-47 to R-49)."""

from __future__ import annotations

import dataclasses
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import QueuedJob, Snapshot
from arbiter.cycle.decide import decide
from builders.arbiter_builders import GPU, World
from builders.arbiter_worlds import Tree, empty_worlds, teams

GRACE_S, CYCLE_S = 60, 10
POLICY = Policy(grace_period_s_default=GRACE_S)


def a_job(draw: st.DrawFn, name: str, world: World) -> QueuedJob:
    """Of one GPU on each of one or two nodes, or up to four."""
    nodes = draw(st.integers(1, 2))
    return QueuedJob(
        id=name,
        team=draw(st.sampled_from(teams(world.base))),
        user=draw(st.sampled_from(["u", "v"])),
        pool="p",
        mgpu_per_node=GPU,
        node_count=nodes,
        priority_class=draw(st.sampled_from(["lo", "lo", "hi"])),
        submitted_at=world.now,
        time_limit_s=draw(st.sampled_from([None, 20, 200])),
        node_count_max=draw(st.sampled_from([None, nodes, nodes + 1, 4])),
    )


def move(draw: st.DrawFn, world: World, number: int) -> None:
    """Something happens between two cycles."""
    for i in range(draw(st.integers(0, 4))):
        world.submit(a_job(draw, f"j{number:02d}{i}", world))
    for job in sorted(world.running):
        if draw(st.integers(0, 3)) == 0:
            world.leave(job)
    world.now += CYCLE_S


def fixed(snapshot: Snapshot) -> Snapshot:
    """The same with every job at its least."""
    return dataclasses.replace(
        snapshot,
        queued=tuple(dataclasses.replace(job, node_count_max=None) for job in snapshot.queued),
    )


def use_after(snapshot: Snapshot, plan: Plan) -> dict[str, int]:
    teams_of = {job.id: job.team for job in snapshot.queued}
    use: Counter[str] = Counter()
    for run in snapshot.running:
        use[run.team] += run.mgpu
    for start in plan.starts:
        use[teams_of[start.job]] += sum(slot.mgpu for slot in start.slots)
    return dict(use)


def permits(snapshot: Snapshot, use: dict[str, int], team: str, capacity: int) -> bool:
    """Whether quota lets `team` have one GPU more than is in `use`."""
    tree, then = Tree(snapshot), {**use, team: use.get(team, 0) + GPU}
    for node in tree.path(team):
        quota = tree.quotas[node]
        if quota.borrow_limit_mgpu is not None:
            held = tree.held(node, then)
            limit = quota.guaranteed_mgpu + quota.borrow_limit_mgpu
            if held > limit and held != tree.held(node, use):
                return False
    held = tree.held(None, then)
    return held <= capacity or held == tree.held(None, use)


@given(st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_most_that_is_the_least_changes_nothing(data: st.DataObject) -> None:
    """With as many nodes at most as at least, every plan is that of jobs that are not elastic.

    Mutant that dies here: whatever names a most is elastic, and gets one node more than that.
    """
    world = World(data.draw(empty_worlds()), POLICY)
    for number in range(data.draw(st.integers(1, 6))):
        move(data.draw, world, number)
        for job in world.queued.values():
            world.queued[job.id] = dataclasses.replace(job, node_count_max=job.node_count)
        snapshot = world.snapshot()
        assert world.step() == decide(fixed(snapshot), POLICY)


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_it_never_waits_for_more_than_its_least(data: st.DataObject) -> None:
    """A single elastic job starts in just those cycles in which it would as a job of its least
    size, and GPUs are taken back for it just as they would be then; and what is left over is given
    out only when everybody has had their turn: without a guarantee nobody else's start changes.

    Mutants that die here: it is queued with its most; GPUs are taken back for its most; it takes in
    its turn what is left over, too.
    """
    base = data.draw(empty_worlds())
    poor = data.draw(st.sampled_from(teams(base)))
    quotas = tuple(
        dataclasses.replace(quota, guaranteed_mgpu=0, lend_limit_mgpu=None, borrow_limit_mgpu=None)
        if quota.node == poor
        else quota
        for quota in base.quotas
    )
    world = World(dataclasses.replace(base, quotas=quotas), POLICY)
    for number in range(data.draw(st.integers(1, 6))):
        move(data.draw, world, number)
        if not world.queued:
            world.step()
            continue
        chosen = data.draw(st.sampled_from(sorted(world.queued)))
        for job in list(world.queued.values()):
            team = poor if job.id == chosen and job.id not in world.claims else job.team
            world.queued[job.id] = dataclasses.replace(job, node_count_max=None, team=team)
        snapshot = world.snapshot()
        elastic = dataclasses.replace(world.queued[chosen], node_count_max=4)
        world.queued[chosen] = elastic
        plan, least = decide(world.snapshot(), POLICY), decide(snapshot, POLICY)
        ids = {start.job for start in plan.starts}
        if any(start.job == chosen for start in least.starts):
            assert chosen in ids
        mine, then = ([one for one in each.reclaims if one.job == chosen] for each in (plan, least))
        assert mine == then
        if not Tree(snapshot).guaranteed(elastic.team):
            assert ids == {start.job for start in least.starts}
            assert plan.reclaims == least.reclaims
        world.step()


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_it_starts_with_as_many_nodes_as_it_may_have(data: st.DataObject) -> None:
    """An elastic job that starts with fewer than its most gets no further node of its cluster, as
    none has a GPU to spare that nobody claims, or as quota refuses it. (Where jobs of its team keep
    their place in its guarantee, or something is reserved, there may be one.)

    Mutants that die here: it gets half of what it may have; nodes left over are sought in its
    team's guarantee only; its own nodes are not left out, so that it takes one twice.
    """
    world = World(data.draw(empty_worlds()), POLICY)
    for number in range(data.draw(st.integers(1, 6))):
        move(data.draw, world, number)
        before = world.snapshot()
        most = {job.id: job.node_count_max or job.node_count for job in before.queued}
        team_of = {job.id: job.team for job in before.queued}
        plan = world.step()
        after = world.snapshot()
        if after.claims or plan.reservations:
            continue
        waiting = {job.team for job in after.queued}
        held: Counter[str] = Counter()
        for run in after.running:
            held.update({slot.node: slot.mgpu for slot in run.slots})
        use, capacity = use_after(before, plan), sum(one.capacity_mgpu for one in before.devices)
        for start in plan.starts:
            nodes = [slot.node for slot in start.slots]
            assert len(set(nodes)) == len(nodes)
            if len(nodes) == most[start.job] or team_of[start.job] in waiting:
                continue
            is_free = any(
                held[one.node] + GPU <= one.capacity_mgpu
                for one in before.devices
                if one.cluster == start.cluster and one.node not in nodes
            )
            assert not is_free or not permits(after, use, team_of[start.job], capacity)


@given(st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_plan_without_explanations_gives_the_same_sizes(data: st.DataObject) -> None:
    """A cycle that ends as soon as nobody can start any more gives each job the same nodes. (That
    it knows then what is reserved behind a job is in a unit test: it is too rare here.)"""
    world = World(data.draw(empty_worlds()), POLICY)
    for number in range(data.draw(st.integers(1, 6))):
        move(data.draw, world, number)
        snapshot = world.snapshot()
        bare = dataclasses.replace(world.step(), waiting=(), use=(), reservations=())
        assert decide(snapshot, POLICY, explains=False) == bare
