"""Laws of taking back over long random runs, among them what once went wrong in Kueue: quota given
out by a tree that had changed, use counted twice after a restart, a preemption that waited for
ever, and an end that was booked where another thing has the same name (R-53, R-54)."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from copy import copy
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.api.plan import Plan, Start
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Phase, QueuedJob, Slot, Snapshot
from arbiter.cache.pool import Pool
from arbiter.cycle.decide import decide
from arbiter.cycle.scheduler import Core
from arbiter.placement.free_devices import Shape
from arbiter.preemption.reclaim import Reclaimer
from arbiter.replay.record import Record, from_document, to_document
from builders.arbiter_builders import GPU, World
from builders.arbiter_crowds import crowds
from builders.arbiter_histories import histories
from builders.arbiter_histories import policy as a_policy
from builders.telling_a_core import tell
from property.test_arbiter_laws import (
    CYCLE_S,
    GRACE_S,
    POLICY,
    Tree,
    check_account,
    check_devices,
    check_quota,
    check_reclaims,
    empty_worlds,
    move,
    teams,
)

RULES = st.builds(
    Policy,
    grace_period_s_default=st.just(GRACE_S),
    min_run_s=st.sampled_from([0, 2 * CYCLE_S, 600]),
    preemptions_max=st.integers(1, 3),
)


def count_up(world: World, stops: Counter[str]) -> None:
    """Tell what runs how often its job was stopped before."""
    for job, run in world.running.items():
        world.running[job] = dataclasses.replace(run, preemptions=stops[job])


@given(st.data())
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
def test_no_job_is_stopped_twice_without_having_run_and_all_comes_to_rest(
    data: st.DataObject,
) -> None:
    """Whoever is stopped has run since its last stop, for a cycle at least; and once nothing comes
    and nothing ends by itself nobody is stopped a second time, also where nodes were lost and more
    is guaranteed than there is.

    Planted: everybody's use counts as borrowed.
    """
    world = World(data.draw(empty_worlds()), data.draw(RULES))
    stops: Counter[str] = Counter()
    stopped_at: dict[str, int] = {}
    for number in range(data.draw(st.integers(1, 12))):
        move(data.draw, world, number, gpus=3, count=2)
        count_up(world, stops)
        snapshot = world.snapshot()
        plan = world.step()
        check_reclaims(snapshot, plan)
        note(snapshot, plan, stops, stopped_at)
    lose(world, data.draw(st.integers(0, len(world.base.devices) - 1)))
    before = stops.copy()
    for _ in range(40):
        world.now += CYCLE_S
        count_up(world, stops)
        snapshot = world.snapshot()
        note(snapshot, world.step(), stops, stopped_at)
    assert all(stops[job] - before[job] <= 1 for job in stops)
    assert not world.plan.reclaims


def lose(world: World, count: int) -> None:
    """The last `count` nodes are gone; what ran on them is queued again."""
    devices = world.base.devices
    world.base = dataclasses.replace(world.base, devices=devices[: len(devices) - count])
    left = {(device.cluster, device.node) for device in world.base.devices}
    for job, run in list(world.running.items()):
        if any((run.cluster, slot.node) not in left for slot in run.slots):
            world.leave(job)
            world.queued[job] = world.shapes[job]


def note(snapshot: Snapshot, plan: Plan, stops: Counter[str], stopped_at: dict[str, int]) -> None:
    """Count the plan's victims, who have all run since their last stop."""
    running = {run.attempt: run for run in snapshot.running}
    for reclaim in plan.reclaims:
        for victim in reclaim.victims:
            run = running[victim.attempt]
            assert run.phase is Phase.RUNNING
            assert stopped_at.get(run.job, -1) < run.started_at < snapshot.taken_at
            stopped_at[run.job] = snapshot.taken_at
            stops[run.job] += 1


@given(st.data())
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
def test_nobody_is_stopped_without_need(data: st.DataObject) -> None:
    """With all victims gone but one the job could not start, or that one is protected at a node
    whose guarantee gives the right.
    """
    world = World(data.draw(empty_worlds()), data.draw(RULES))
    for number in range(data.draw(st.integers(1, 10))):
        move(data.draw, world, number, gpus=3, count=2)
        snapshot = world.snapshot()
        plan = world.step()
        if snapshot.claims or any(run.phase is Phase.STOPPING for run in snapshot.running):
            continue
        for reclaim in plan.reclaims[:1]:
            if plan.starts:
                break
            check_need(snapshot, reclaim.job, {one.attempt for one in reclaim.victims})


def check_need(snapshot: Snapshot, wanted: str, victims: set[str]) -> None:
    tree = Tree(snapshot)
    (job,) = (one for one in snapshot.queued if one.id == wanted)
    sharing = {run.attempt for node in tree.path(job.team) for run in tree.protected(node)}
    for kept in victims - sharing:
        left = dataclasses.replace(
            snapshot,
            queued=(job,),
            running=tuple(
                run for run in snapshot.running if run.attempt not in victims or run.attempt == kept
            ),
        )
        assert not decide(left, POLICY).starts
    left = dataclasses.replace(
        snapshot,
        queued=(job,),
        running=tuple(run for run in snapshot.running if run.attempt not in victims),
    )
    assert [start.job for start in decide(left, POLICY).starts] == [wanted]


@given(st.data())
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
def test_a_tree_that_changes_gives_nothing_out_twice(data: st.DataObject) -> None:
    """Teams move to other parents and limits change between cycles: no start breaks a limit of
    the tree as it is now, also of a core that lives on and is told what changed.

    Dies here: a core that goes on with the tree, or with the sums of it, that it was told first.
    """
    world = World(data.draw(empty_worlds()), POLICY)
    whole, known = world.base, world.snapshot()
    core = Core.of(known, POLICY)
    leaves = teams(whole)
    inner = [node.id for node in whole.nodes if node.id not in leaves]
    for number in range(data.draw(st.integers(1, 6))):
        move(data.draw, world, number, gpus=3, count=2)
        moved = {leaf: data.draw(st.sampled_from(inner)) for leaf in leaves}
        world.base = dataclasses.replace(
            whole,
            nodes=tuple(
                dataclasses.replace(node, parent=moved[node.id])
                if node.id in moved and data.draw(st.integers(0, 3)) == 0
                else node
                for node in whole.nodes
            ),
            quotas=tuple(
                dataclasses.replace(quota, borrow_limit_mgpu=data.draw(st.integers(0, 2)) * GPU)
                if data.draw(st.integers(0, 5)) == 0
                else quota
                for quota in whole.quotas
            ),
        )
        snapshot = world.snapshot()
        tell(core, known, snapshot)
        known, plan = snapshot, core.cycle(snapshot.taken_at)
        world.apply(plan)
        check_devices(snapshot, plan)
        check_quota(snapshot, plan)
        check_account(snapshot, plan)


@given(st.data())
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
def test_a_new_leader_counts_everything_once(data: st.DataObject) -> None:
    """Whoever reads the same state anew, in the middle of claims and stops, decides the same, and
    what it counts as in use is what runs and starts; so does a core that is told all of it twice.

    Dies here: a core that adds what holds GPUs, or waits, to what it knows of the same already.
    """
    world, other = (
        World(data.draw(empty_worlds()), POLICY),
        World(data.draw(empty_worlds()), POLICY),
    )
    for number in range(data.draw(st.integers(1, 8))):
        move(data.draw, world, number, gpus=3, count=2)
        move(data.draw, other, number, gpus=3, count=2)
        snapshot = world.snapshot()
        other.step()
        plan = world.step()
        written = json.dumps(to_document(Record("1", POLICY, snapshot, plan)))
        anew = from_document(json.loads(written))
        assert decide(anew.snapshot, anew.policy) == plan
        core = Core.of(snapshot, POLICY)
        core.cycle(snapshot.taken_at)
        tell(core, dataclasses.replace(snapshot, running=(), queued=()), snapshot)
        assert core.cycle(snapshot.taken_at) == plan
        check_account(snapshot, plan)


@given(st.data())
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
def test_no_claim_waits_for_ever(data: st.DataObject) -> None:
    """However its victims go (early, late, not at all, while nodes vanish), a claim ends within
    grace, patience and two cycles, and where nothing is being stopped any more no claim is left.
    Not sooner: a claim's own GPUs can all be free while a limit on its team's path is still used
    up by a job that is being stopped elsewhere. Dies here: claims that are never given up.
    """
    policy = Policy(grace_period_s_default=2 * CYCLE_S, claim_overdue_s=2 * CYCLE_S)
    world = World(data.draw(empty_worlds()), policy)
    made: dict[str, int] = {}
    sticks = data.draw(st.sampled_from([(False,), (True, False), (True,)]))
    for number in range(data.draw(st.integers(10, 20))):
        move_on(data, world, number, sticky=data.draw(st.sampled_from(sticks)))
        world.apply(decide(world.snapshot(), policy))
        made = {job: made.get(job, world.now) for job in world.claims}
        most_s = policy.grace_period_s_default + policy.claim_overdue_s + 2 * CYCLE_S
        assert all(world.now - since <= most_s for since in made.values())
        assert not world.claims or any(
            run.phase is Phase.STOPPING for run in world.running.values()
        )


def move_on(data: st.DataObject, world: World, number: int, *, sticky: bool) -> None:
    """As `move`; but those whose grace is over stay where they are `sticky`."""
    late = {
        job: run
        for job, run in world.running.items()
        if run.grace_until is not None and run.grace_until <= world.now + CYCLE_S
    }
    move(data.draw, world, number, gpus=2, count=1)
    if sticky:
        for job, run in late.items():
            if job not in world.running:
                world.running[job] = run
                world.queued.pop(job, None)


@given(st.data())
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
def test_the_same_name_on_another_cluster_is_another_node(data: st.DataObject) -> None:
    """Clusters that call their nodes alike get the plans that they would get with names of their
    own.
    """
    world = World(data.draw(empty_worlds()), POLICY)
    clusters = len(world.base.clusters)
    alike = {device.node: f"n{int(device.node[1:]) // clusters}" for device in world.base.devices}
    for number in range(data.draw(st.integers(1, 8))):
        move(data.draw, world, number, gpus=3, count=2)
        snapshot = world.snapshot()
        plan = world.step()
        assert decide(renamed(snapshot, alike), POLICY) == renamed(plan, alike)


def renamed(thing: Any, names: Mapping[str, str]) -> Any:
    """The same with other names of the clusters' nodes."""

    def slotted(one: Any) -> Any:
        slots = tuple(Slot(names[slot.node], slot.mgpu) for slot in one.slots)
        if isinstance(one, Start):
            return one._replace(slots=slots)
        return dataclasses.replace(one, slots=slots)

    if isinstance(thing, Plan):
        return dataclasses.replace(
            thing,
            starts=tuple(map(slotted, thing.starts)),
            reclaims=tuple(map(slotted, thing.reclaims)),
        )
    return dataclasses.replace(
        thing,
        devices=tuple(dataclasses.replace(one, node=names[one.node]) for one in thing.devices),
        running=tuple(map(slotted, thing.running)),
        claims=tuple(map(slotted, thing.claims)),
    )


@given(st.integers(0, 100_000), st.booleans())
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
def test_what_could_be_freed_is_what_it_would_be_if_it_were_first_asked_now(
    seed: int, is_told: bool
) -> None:
    """Within a cycle starts, claims and victims change what could be had if all that is borrowed
    were gone; at every question the answer, also for other sizes, is that of who knew nothing.

    Planted, one by one: starts not noted; claims not noted; nodes moved by neither size, kinds nor
    racks.
    """
    make, asked = Reclaimer.__init__, Reclaimer.could_be_freed
    wishes: dict[int, set[Shape]] = {}
    queued: list[QueuedJob] = []

    def made(reclaimer: Reclaimer, pool: Pool, held: Mapping[tuple[str, str], int]) -> None:
        make(reclaimer, pool, held)
        shapes = (pool.config.shape_of(job) for job in queued)
        wishes[id(reclaimer)] = {one._replace(mgpu=0, node_count=0) for one in shapes}

    def checked(reclaimer: Reclaimer, shape: Shape) -> bool:
        found = asked(reclaimer, shape)
        fresh = copy(reclaimer)
        fresh._forget_most()
        for wish in wishes[id(reclaimer)]:
            for gpus, nodes in product((1, 2, 4), (1, 2, 3)):
                other = wish._replace(mgpu=gpus * GPU, node_count=nodes)
                assert asked(reclaimer, other) == asked(fresh, other), (shape, other)
        return found

    dice = Random(seed)
    policy = a_policy(dice)
    worlds = crowds(dice, policy, 6) if seed % 2 else histories(dice, policy, 12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reclaimer, "__init__", made)
        patch.setattr(Reclaimer, "could_be_freed", checked)
        for snapshot in worlds:
            queued[:] = snapshot.queued
            decide(snapshot, policy, explains=is_told)
