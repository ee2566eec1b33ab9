"""CPU and memory of nodes: never more than there is, none idle that could be used, and no cost
(R-44)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Device, Phase, QueuedJob, RunningJob, Snapshot
from arbiter.cycle.decide import decide
from arbiter.placement.free_devices import FreeDevices, Shape
from arbiter.placement.node_sets import NodeKinds
from arbiter.placement.resources import HostResources, Wants, cpu_and_memory_of, has_resources
from builders.arbiter_builders import GPU, World, a_quota, a_snapshot
from builders.arbiter_histories import histories, policy
from builders.arbiter_worlds import empty_worlds, teams

POLICY = Policy(grace_period_s_default=60)
_SLOW = settings(max_examples=150, suppress_health_check=list(HealthCheck))

Held = Counter[tuple[str, str, str]]


def with_resources(draw: st.DrawFn, base: Snapshot) -> Snapshot:
    """The world with some CPU and memory on its nodes, of which little is given with a GPU."""
    share = draw(st.integers(0, 2))
    amounts = st.sampled_from([None, 1, 2, 3, 5, 9])
    return replace(
        base,
        devices=tuple(
            replace(
                device,
                cpu_milli=draw(amounts),
                memory_mib=draw(amounts),
                cpu_milli_per_gpu=share,
                memory_mib_per_gpu=share,
            )
            for device in base.devices
        ),
    )


def a_job(draw: st.DrawFn, id: str, team: str, now: int, *, count: int) -> QueuedJob:
    amounts = st.sampled_from([None, None, 0, 1, 2, 4])
    return QueuedJob(
        id=id,
        team=team,
        user="u",
        pool="p",
        mgpu_per_node=draw(st.integers(1, 3)) * GPU,
        node_count=draw(st.integers(1, count)),
        priority_class=draw(st.sampled_from(["lo", "lo", "hi"])),
        submitted_at=now,
        time_limit_s=draw(st.sampled_from([None, 10, 30])),
        cpu_milli=draw(amounts),
        memory_mib=draw(amounts),
    )


def hold(
    held: Held, snapshot: Snapshot, cluster: str, node: str, mgpu: int, job: QueuedJob | RunningJob
) -> None:
    """Count one rank of `job`, the slow way."""
    device = next(one for one in snapshot.devices if (one.cluster, one.node) == (cluster, node))
    share = device.cpu_milli_per_gpu * mgpu // GPU
    held["gpu", cluster, node] += mgpu
    held["cpu", cluster, node] += share if job.cpu_milli is None else job.cpu_milli
    held["memory", cluster, node] += share if job.memory_mib is None else job.memory_mib


def is_within(held: Held, snapshot: Snapshot, cluster: str, node: str) -> bool:
    device = next(one for one in snapshot.devices if (one.cluster, one.node) == (cluster, node))
    return (
        held["gpu", cluster, node] <= device.capacity_mgpu
        and (device.cpu_milli is None or held["cpu", cluster, node] <= device.cpu_milli)
        and (device.memory_mib is None or held["memory", cluster, node] <= device.memory_mib)
    )


def check_capacity(snapshot: Snapshot, plan: Plan) -> None:
    """What runs and starts fits; so does what stays and all that is promised."""
    jobs = {job.id: job for job in snapshot.queued}
    settled = {start.job for start in plan.starts} | set(plan.dropped_claims)
    going = {victim.attempt for reclaim in plan.reclaims for victim in reclaim.victims}
    now: Held = Counter()
    later: Held = Counter()
    for run in snapshot.running:
        for slot in run.slots:
            hold(now, snapshot, run.cluster, slot.node, slot.mgpu, run)
            if run.phase is not Phase.STOPPING and run.attempt not in going:
                hold(later, snapshot, run.cluster, slot.node, slot.mgpu, run)
    for start in plan.starts:
        for slot in start.slots:
            for held in (now, later):
                hold(held, snapshot, start.cluster, slot.node, slot.mgpu, jobs[start.job])
    promised = [one for one in snapshot.claims if one.job not in settled]
    for one in (*promised, *plan.reclaims):
        for slot in one.slots:
            hold(later, snapshot, one.cluster, slot.node, slot.mgpu, jobs[one.job])
    for start in plan.starts:
        assert all(is_within(now, snapshot, start.cluster, slot.node) for slot in start.slots)
    for device in snapshot.devices:
        assert is_within(later, snapshot, device.cluster, device.node)


@given(st.data())
@_SLOW
def test_no_node_is_promised_more_than_it_has(data: st.DataObject) -> None:
    """Of GPUs, CPU and memory, at the end of each of a dozen cycles with starts, claims, victims
    and departures.

    Mutants that died: CPU and memory not taken by a start, not held by a claim, not counted as
    coming back or not given back at the end; victims let off once the GPUs do; what a job gets with
    its GPUs not counted; views that do not follow what changed.
    """
    world = World(with_resources(data.draw, data.draw(empty_worlds())), POLICY)
    for number in range(data.draw(st.integers(1, 12))):
        for i in range(data.draw(st.integers(0, 5))):
            team = data.draw(st.sampled_from(teams(world.base)))
            world.submit(a_job(data.draw, f"j{number:02d}{i}", team, world.now, count=2))
        for job in sorted(world.running):
            if data.draw(st.integers(0, 4)) == 0:
                world.leave(job)
        world.now += 10
        for run in list(world.running.values()):
            if run.grace_until is not None and run.grace_until <= world.now:
                world.leave(run.job)
        snapshot = world.snapshot()
        check_capacity(snapshot, world.step())


@given(st.data())
@_SLOW
def test_nobody_waits_who_fits_somewhere(data: st.DataObject) -> None:
    """Work conservation: where quota refuses nothing and nothing is reserved, no node has room for
    the GPUs, the CPU and the memory of a job that waits.

    Mutants that died: who asks for less than comes with its GPUs is counted by these; a view on
    which a node has nothing free that lacks nothing.
    """
    base = a_snapshot(quotas=[a_quota("t", 0, pool="p")], devices=())
    devices = tuple(
        Device("c", f"n{i}", "p", data.draw(st.integers(1, 4)) * GPU)
        for i in range(data.draw(st.integers(1, 4)))
    )
    base = replace(base, devices=devices, clusters=frozenset("c"))
    world = World(with_resources(data.draw, base), Policy(reservations_max=0))
    for number in range(data.draw(st.integers(1, 6))):
        for i in range(data.draw(st.integers(0, 5))):
            job = a_job(data.draw, f"j{number:02d}{i}", "t", world.now, count=1)
            world.submit(replace(job, priority_class="normal"))
        for job_id in sorted(world.running):
            if data.draw(st.integers(0, 2)) == 0:
                world.leave(job_id)
        world.now += 10
        check_capacity(world.snapshot(), world.step())
        after = world.snapshot()
        held: Held = Counter()
        for run in after.running:
            for slot in run.slots:
                hold(held, after, run.cluster, slot.node, slot.mgpu, run)
        for job in after.queued:
            for device in after.devices:
                then = held.copy()
                hold(then, after, "c", device.node, job.mgpu_per_node, job)
                assert not is_within(then, after, "c", device.node), (job, device)


@given(st.integers(0, 2**32))
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
def test_what_cannot_run_short_is_not_counted_and_nothing_else_comes_out(seed: int) -> None:
    """Where no job wants more CPU or memory for a GPU than any node has for each of its own, the
    pool is decided by GPUs alone, and word for word as if all were counted.

    Mutant that died: a pool is not counted while what a job gets with its GPUs is more than that.
    """
    dice = Random(seed)
    knobs = policy(dice)
    for snapshot in histories(dice, knobs, steps=12):
        modest = replace(
            snapshot,
            devices=tuple(
                replace(
                    device,
                    cpu_milli=6 * max(1, (device.capacity_mgpu + device.outside_mgpu) // GPU),
                    memory_mib=None,
                    memory_mib_per_gpu=0,
                )
                for device in snapshot.devices
            ),
            queued=tuple(replace(job, memory_mib=None) for job in snapshot.queued),
            running=tuple(replace(run, memory_mib=None) for run in snapshot.running),
        )
        resources = HostResources(modest.devices)
        assert not resources.is_counted
        by_gpus = decide(modest, knobs)
        with patch.object(
            HostResources, "suffices", lambda resources, demands: resources.is_counted
        ):
            assert decide(modest, knobs) == by_gpus


@given(st.data())
@settings(max_examples=200)
def test_every_answer_is_that_of_the_nodes_with_enough_cpu_and_memory(data: st.DataObject) -> None:
    """With takes and returns of GPUs, CPU and memory, and questions before, between and after."""
    nodes = [f"n{i}" for i in range(4)]
    amounts = st.integers(0, 6)
    devices = [
        Device("c", node, "p", 8, cpu_milli=data.draw(amounts), memory_mib=data.draw(amounts))
        for node in nodes
    ]
    # Somebody wants more than any node has, so that all is counted.
    resources = HostResources(devices, [Shape(1, 1, None, 1, cpu_milli=99).demand])
    assert resources.is_counted
    free = {node: data.draw(st.integers(-2, 8)) for node in nodes}
    free_resources = dict(resources.offered["c"])
    kinds = NodeKinds(devices)
    kept = FreeDevices(
        {"c": free}, kinds, resources=resources, free_resources={"c": free_resources}
    )
    for _ in range(data.draw(st.integers(1, 12))):
        if data.draw(st.booleans()):
            node, amount = data.draw(st.sampled_from(nodes)), data.draw(st.integers(-4, 4))
            resource = data.draw(st.sampled_from([node, *cpu_and_memory_of(node)]))
            kept.take("c", resource, amount)
            if resource in free:
                free[resource] -= amount
            else:
                free_resources[resource] -= amount
        wants = Wants(data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4)))
        mgpu, count = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
        shape = Shape(mgpu, count, None, mgpu * count, None, None, *wants)
        fitting = {
            node: left for node, left in free.items() if has_resources(free_resources, node, wants)
        }
        plain = FreeDevices({"c": fitting})
        assert kept.fits(shape) == plain.fits(shape.gpus_alone)
        assert kept.fitting_nodes(shape) == plain.fitting_nodes(shape.gpus_alone)
        place, wanted = kept.find(shape), plain.find(shape.gpus_alone)
        assert (place and place.nodes) == (wanted and wanted.nodes)
        for node in nodes:
            does_fit = free[node] >= mgpu and has_resources(free_resources, node, wants)
            assert kept.fits_on("c", node, shape) == does_fit
