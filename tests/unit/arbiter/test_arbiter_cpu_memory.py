"""CPU and memory of nodes: who fits, who is promised them, what is said where they lack (R-44)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arbiter.api.plan import Code, Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Device, QueuedJob, RunningJob, Slot, Snapshot
from arbiter.cycle.decide import decide
from arbiter.cycle.scheduler import Core
from arbiter.explain.sentences import sentence
from arbiter.placement.resources import Demand, HostResources
from builders.arbiter_builders import (
    GPU,
    NOW,
    World,
    a_queued,
    a_running,
    a_snapshot,
    slots,
)
from builders.arbiter_plans import why

CPU = 1_000
GIB = 1_024
NOTHING = {"o": 0, "o/a": 0, "o/b": 0}
NAMES = {"h100": "h100", "alpha": "alpha"}


def nodes(count: int = 1, **more: object) -> tuple[Device, ...]:
    """Nodes of 8 GPUs, 64 CPUs and 512 GiB, of which a job gets 8 CPUs and 64 GiB with a GPU."""
    fields: dict[str, object] = {
        "cpu_milli": 64 * CPU,
        "memory_mib": 512 * GIB,
        "cpu_milli_per_gpu": 8 * CPU,
        "memory_mib_per_gpu": 64 * GIB,
        **more,
    }
    return tuple(
        Device("alpha", f"alpha-{i:03d}", "h100", 8 * GPU, **fields)  # type: ignore[arg-type]
        for i in range(count)
    )


def a_job(
    id: str, *, cpus: int | None = None, gib: int | None = None, team: str = "o/a", **more: object
) -> QueuedJob:
    job = a_queued(id, team, **more)  # type: ignore[arg-type]
    return replace(
        job,
        cpu_milli=None if cpus is None else cpus * CPU,
        memory_mib=None if gib is None else gib * GIB,
    )


def a_run(
    id: str, on: tuple[Slot, ...], *, cpus: int | None = None, team: str = "o/a", **more: object
) -> RunningJob:
    cpu_milli = None if cpus is None else cpus * CPU
    return a_running(id, team, on, cpu_milli=cpu_milli, **more)  # type: ignore[arg-type]


def a_world(*jobs: QueuedJob, **more: object) -> Snapshot:
    fields: dict[str, object] = {"quotas": NOTHING, "devices": nodes(), "queued": jobs, **more}
    return a_snapshot(**fields)  # type: ignore[arg-type]


def started(plan: Plan) -> dict[str, list[str]]:
    return {start.job: [slot.node for slot in start.slots] for start in plan.starts}


def test_all_three_have_to_fit() -> None:
    jobs = [
        a_job("a", gpus=1, cpus=40),
        a_job("b", gpus=1, cpus=20, submitted_at=NOW - 90),
        a_job("c", gpus=6, cpus=5, submitted_at=NOW - 80),
        a_job("d", gpus=1, cpus=4, submitted_at=NOW - 70),
    ]
    # 40 + 20 of 64 CPUs: c is one too many, though its GPUs are free; d takes the rest.
    assert set(started(decide(a_world(*jobs), Policy()))) == {"a", "b", "d"}
    memory = [a_job("a", gpus=1, gib=449), a_job("b", gpus=1, submitted_at=NOW - 90)]
    assert set(started(decide(a_world(*memory), Policy()))) == {"a"}


def test_what_comes_with_the_gpus_is_counted_too() -> None:
    """Mutant: who does not say what it wants takes nothing."""
    running = [a_run("r", slots(0, 1, gpus=1), cpus=56)]
    jobs = [a_job("a", gpus=2), a_job("b", gpus=1, submitted_at=NOW - 90)]
    plan = decide(a_world(*jobs, running=running), Policy())
    assert set(started(plan)) == {"b"}


def test_the_tightest_node_that_has_all_is_taken() -> None:
    running = [
        a_run("r", slots(0, 1, gpus=6), cpus=60),
        a_run("s", slots(1, 1, gpus=4), cpus=8),
    ]
    plan = decide(a_world(a_job("a", gpus=1, cpus=5), devices=nodes(3), running=running), Policy())
    assert started(plan) == {"a": ["alpha-001"]}


def test_a_gang_has_all_on_every_node() -> None:
    gang = a_job("a", gpus=1, nodes=3, cpus=33)
    running = [a_run("r", slots(0, 1, gpus=1), cpus=32)]
    assert not decide(a_world(gang, devices=nodes(3), running=running), Policy()).starts
    plan = decide(a_world(gang, devices=nodes(4), running=running), Policy())
    assert started(plan) == {"a": ["alpha-001", "alpha-002", "alpha-003"]}


def test_what_nobody_knows_is_not_counted() -> None:
    devices = (*nodes(1, cpu_milli=None, memory_mib=None), replace(nodes(2)[1], memory_mib=None))
    job = a_job("a", gpus=1, nodes=2, cpus=64, gib=9_999)
    assert decide(a_world(job, devices=devices), Policy()).starts
    cpus = a_job("a", gpus=1, nodes=2, cpus=65)
    assert why(decide(a_world(cpus, devices=devices), Policy()), "a").code is Code.NEVER_FITS


def test_what_others_hold_there_takes_what_comes_with_it() -> None:
    """Mutant: only the GPUs of workloads that nobody here knows are taken off a node."""
    devices = tuple(replace(one, capacity_mgpu=4 * GPU, outside_mgpu=4 * GPU) for one in nodes())
    assert not decide(a_world(a_job("a", gpus=1, cpus=33), devices=devices), Policy()).starts
    assert decide(a_world(a_job("a", gpus=1, cpus=32), devices=devices), Policy()).starts
    # It comes back some day.
    waits = decide(a_world(a_job("a", gpus=1, cpus=64), devices=devices), Policy())
    assert why(waits, "a").code is Code.TOPOLOGY_FRAGMENTED


def test_what_lacks_is_told_with_its_numbers() -> None:
    running = [a_run("r", slots(0, 1, gpus=1), cpus=60), a_run("s", slots(1, 1, gpus=1), cpus=50)]
    job = a_job("a", gpus=2, cpus=16, gib=100)
    one = why(decide(a_world(job, devices=nodes(2), running=running), Policy()), "a")
    assert one.code is Code.TOPOLOGY_FRAGMENTED
    told = {
        name: value for name, value in one.numbers.items() if "_node" in name or "nodes" in name
    }
    assert told == {
        "mgpu_per_node": 2 * GPU,
        "nodes_needed": 1,
        "nodes_fitting": 0,
        "nodes_fitting_by_gpus": 2,
        "cpu_milli_per_node": 16 * CPU,
        "memory_mib_per_node": 100 * GIB,
    }
    assert sentence(one, job, NAMES) == (
        "14 GPUs are free on one cluster, but without enough CPU or memory: it needs 1 node with"
        " 2 GPUs and 16 CPUs and 100 GiB of memory free, and none has; 2 have the GPUs free."
    )


def test_more_than_a_node_has_never_fits() -> None:
    job = a_job("a", gpus=1, nodes=2, cpus=100)
    devices = (*nodes(2), *(replace(one, node="large", cpu_milli=128 * CPU) for one in nodes()))
    one = why(decide(a_world(job, devices=devices), Policy()), "a")
    assert (one.code, one.numbers["nodes_large_enough"]) == (Code.NEVER_FITS, 1)
    assert sentence(one, job, NAMES) == (
        "This job will never start as it is: of pool h100 at most 1 node of one cluster has 1 GPU"
        " and 100 CPUs and 64 GiB of memory, and it needs 2."
    )
    other = replace(a_job("a", gpus=1), memory_mib=600 * GIB + 1)
    told = sentence(why(decide(a_world(other, devices=devices), Policy()), "a"), other, NAMES)
    assert told == (
        "This job will never start as it is: no node of pool h100 has 1 GPU and 8 CPUs and"
        " 614,401 MiB of memory."
    )


def test_a_drained_node_may_come_back_with_its_cpus() -> None:
    devices = (*nodes(1), *(replace(nodes(2)[1], capacity_mgpu=0, cpu_milli=128 * CPU),))
    plan = decide(a_world(a_job("a", gpus=1, cpus=100), devices=devices), Policy())
    assert why(plan, "a").code is Code.TOPOLOGY_FRAGMENTED


def test_cpus_are_taken_back_for_whom_the_guarantee_is() -> None:
    """Mutants: GPUs that are free count as room without CPUs; victims let off that hold only these;
    the CPUs that come free left to others before the job has them."""
    running = [
        a_run("big", slots(0, 1, gpus=1), cpus=40, team="o/b"),
        a_run("small", slots(0, 1, gpus=1), cpus=4, team="o/b", started_at=NOW - 10),
    ]
    quotas = {"o": 8, "o/a": 8, "o/b": 0}
    world = World(a_world(a_job("a", gpus=1, cpus=40), quotas=quotas, running=running), Policy())
    plan = world.step()
    (reclaim,) = plan.reclaims
    assert [victim.job for victim in reclaim.victims] == ["big"]
    assert reclaim.slots == slots(0, 1, gpus=1)
    # Until they are there, nobody else gets them, nor those that are free already.
    world.leave("big")
    world.submit(a_job("thief", gpus=1, cpus=25, team="o/b"))
    world.submit(a_job("modest", gpus=1, cpus=20, team="o/b"))
    plan = world.step(NOW + 10)
    assert set(started(plan)) == {"a", "modest"}


def test_a_claim_keeps_what_is_free_of_its_nodes() -> None:
    """Mutant: only the claimed GPUs are kept."""
    running = [a_run("r", slots(0, 1, gpus=8), cpus=20, team="o/b")]
    quotas = {"o": 8, "o/a": 8, "o/b": 0}
    world = World(
        a_world(a_job("a", gpus=4, cpus=60), quotas=quotas, running=running, devices=nodes(1)),
        Policy(),
    )
    assert len(world.step().reclaims) == 1
    # r gives some GPUs back before its end: they are nobody's, but the free CPUs are a's.
    world.running["r"] = replace(world.running["r"], slots=slots(0, 1, gpus=2))
    world.submit(a_job("b", gpus=1, cpus=10, team="o/b"))
    assert not world.step(NOW + 10).starts
    world.leave("r")
    assert started(world.step(NOW + 20)) == {"a": ["alpha-000"]}


def test_nobody_delays_a_reservation_by_its_cpus() -> None:
    """Mutants: reservations keep GPUs alone; they begin when the GPUs are there."""
    running = [
        a_run("r", slots(0, 1, gpus=1), cpus=60, started_at=NOW, time_limit_s=1_000),
        a_run("s", slots(1, 1, gpus=1), cpus=60, started_at=NOW, time_limit_s=5_000),
    ]
    jobs = [
        a_job("gang", gpus=1, nodes=2, cpus=60, team="o/b", submitted_at=NOW - 900),
        a_job("endless", gpus=1, cpus=8),
        a_job("long", gpus=1, cpus=4, submitted_at=NOW - 80),
        a_job("third", gpus=1, cpus=4, submitted_at=NOW - 70),
        a_job("late", gpus=1, cpus=8, time_limit_s=4_000, submitted_at=NOW - 60),
    ]
    world = a_world(*jobs, devices=nodes(2), running=running)
    plan = decide(world, Policy())
    (reserved,) = plan.reservations
    assert (reserved.job, reserved.start_at) == ("gang", NOW + 5_000)
    # Of each node 4 CPUs are free now, and 4 are left beside the gang.
    assert set(started(plan)) == {"long", "third"}
    assert why(plan, "endless").code is Code.TOPOLOGY_FRAGMENTED
    ended = replace(world, running=(running[1],))
    plan = decide(ended, Policy())
    assert started(plan)["late"] == ["alpha-000"]
    assert why(plan, "endless").code is Code.RESERVED_FOR_LARGER_JOB


def test_a_reservation_begins_when_the_last_that_is_wanted_comes_free() -> None:
    """Mutant: when the first GPUs come free there."""
    running = [
        a_run("r", slots(0, 1, gpus=1), cpus=40, started_at=NOW, time_limit_s=1_000),
        a_run("s", slots(0, 1, gpus=1), cpus=4, started_at=NOW, time_limit_s=100),
    ]
    plan = decide(a_world(a_job("a", gpus=1, cpus=60), running=running), Policy())
    assert [(one.job, one.start_at) for one in plan.reservations] == [("a", NOW + 1_000)]


@pytest.mark.parametrize(
    ("demand", "is_counted"),
    [
        (Demand(GPU), False),
        (Demand(GPU, 8 * CPU), False),
        (Demand(2 * GPU, 16 * CPU, 128 * GIB), False),
        (Demand(GPU // 2, 4 * CPU), False),
        (Demand(GPU, 8 * CPU + 1), True),
        (Demand(GPU, None, 64 * GIB + 1), True),
        (Demand(GPU // 2, 4 * CPU + 1), True),
        (Demand(GPU, 0, 0), False),
    ],
)
def test_only_what_may_run_short_is_counted(demand: Demand, is_counted: bool) -> None:
    assert HostResources(nodes(), [demand]).is_counted is is_counted


def test_a_node_that_has_less_than_is_given_with_its_gpus_is_counted() -> None:
    short = (*nodes(), replace(nodes()[0], node="short", cpu_milli=63 * CPU))
    assert HostResources(short).is_counted
    assert not HostResources([replace(one, cpu_milli_per_gpu=0) for one in short]).is_counted


def test_where_nodes_of_a_cluster_differ_a_gpu_comes_with_the_most() -> None:
    """As while a cluster changes what it gives: a node that is gone is still known as it was.

    Mutants: the share of the last node that is named, and so another plan in another order; the
    CPU and the memory of one and the same node.
    """
    many, much = nodes(2)
    many = replace(many, cpu_milli_per_gpu=9 * CPU)
    much = replace(much, memory_mib_per_gpu=65 * GIB)
    for order in ((many, much), (much, many)):
        assert HostResources(order).wants("alpha", Demand(2 * GPU)) == (18 * CPU, 130 * GIB)


@pytest.mark.parametrize(
    ("second", "code"),
    [
        # Drained, and with 32 CPUs: as large as the other one it could not give 8 with each GPU.
        ({"capacity_mgpu": 0, "cpu_milli": 32 * CPU}, Code.NEVER_FITS),
        ({"capacity_mgpu": 0}, Code.WAITING_FOR_FREE_GPUS),
        # Others hold 6 of its GPUs with 8 CPUs each; the 2 GPUs that are left have enough.
        ({"capacity_mgpu": 2 * GPU, "outside_mgpu": 6 * GPU}, Code.WAITING_FOR_FREE_GPUS),
    ],
)
def test_whether_a_job_could_ever_run_does_not_depend_on_what_waited_before(
    second: dict[str, int], code: Code
) -> None:
    """A core that knew a job that wants more CPUs than go with its GPUs says of another one what
    a core says that never knew it. Planted: nodes that offer no GPUs are left
    out."""
    one, other = nodes(2)
    world = a_world(
        a_job("wide", gpus=8, nodes=2),
        devices=(one, replace(other, **second)),  # type: ignore[arg-type]
    )
    core = Core.of(world, Policy())
    core.queue(a_job("many", cpus=60))
    core.cycle(NOW)
    core.withdraw("many")
    assert why(core.cycle(NOW), "wide").code is why(decide(world, Policy()), "wide").code is code


def test_a_pool_is_counted_from_the_first_job_on_that_wants_more() -> None:
    """And again by GPUs alone once it is laid out without such jobs.

    Mutant: a core that was told of such a job goes on by GPUs alone.
    """
    snapshot = a_world(running=[a_run("r", slots(0, 1, gpus=1))])
    core = Core.of(snapshot, Policy())
    assert not core.cycle(NOW).starts
    core.queue(a_job("a", gpus=1, cpus=57))
    core.queue(a_job("b", gpus=7, submitted_at=NOW - 50))
    plan = core.cycle(NOW)
    assert set(started(plan)) == {"b"}
    core.withdraw("a")
    core.hold(a_run("x", slots(0, 1, gpus=1), cpus=56))
    assert not core.cycle(NOW).starts
    core.release("x.1")
    assert set(started(core.cycle(NOW))) == {"b"}
