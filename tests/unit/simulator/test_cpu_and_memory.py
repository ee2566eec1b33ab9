"""Jobs that want CPU and memory of their nodes besides, on cases that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arbiter.api.policy import Policy
from builders.simulator_builders import a_job, play
from simulator.comparison import POLICIES
from simulator.fleet import Fleet, counted
from simulator.scene import uniform_fleet
from simulator.schedulers.claims import Claims
from simulator.traces import unstated
from simulator.workload import Settings, prepare
from simulator.world import Task

GRACE = Policy(grace_period_s_default=20)
HOUR = 3_600


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("wanted", [{"cpus": 8}, {"memory_mib": 64}])
def test_what_the_nodes_lack_of_either_keeps_a_job_waiting(
    policy: str, wanted: dict[str, Any]
) -> None:
    """One node of 4 GPUs, 8 CPUs and 64 MiB. "x" has all of one of them, "y" wants a little of it
    and waits, "z" wants none. Nobody could ever hold "w".

    Planted: rooms that are never taken; jobs whose CPU is not told to the arbiter."""
    (kind,) = wanted
    jobs = [
        a_job("x", **wanted),
        a_job("y", **{kind: 1}),
        a_job("z"),
        a_job("w", **{kind: 65}),
    ]
    played = play(policy, jobs, guarantees={"a": 4}, cpus=8, memory_mib=64)
    assert played.starts() == {"x": 0, "y": 10, "z": 0, "w": None}
    assert played.outcome.refused == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_a_node_with_cpus_left_is_chosen(policy: str) -> None:
    """Two nodes of 2 GPUs and 4 CPUs: the fullest one has a GPU left and no CPU."""
    jobs = [a_job("x", cpus=4), a_job("y", at=1, cpus=1), a_job("gang", at=2, nodes=2, cpus=1)]
    played = play(policy, jobs, per_node=2, guarantees={"a": 4}, cpus=4)
    assert played.starts() == {"x": 0, "y": 1, "gang": 10}


def test_easy_backfills_what_leaves_the_head_its_cpus() -> None:
    """8 GPUs and 16 CPUs. "a" has 8 of them until 10, when "b" will have 12. "c" fits beside
    both, "d" would take the same 4 CPUs as "c", and "e" is over by then.

    Planted: the CPUs that are left beside "b" not counted, or not used up by "c"."""
    jobs = [
        a_job("a", cpus=8),
        a_job("b", cpus=12),
        a_job("c", runs=50, cpus=4),
        a_job("d", runs=50, cpus=4),
        a_job("e", cpus=4),
    ]
    played = play("easy", jobs, gpus=8, per_node=8, cpus=16)
    assert played.starts() == {"a": 0, "b": 10, "c": 0, "d": 20, "e": 0}


@pytest.mark.parametrize(("policy", "at"), [("karma", 1), ("tidegate", 1), ("las", 2 * HOUR)])
def test_who_takes_gpus_back_takes_the_cpus_with_them_and_keeps_those_that_are_free(
    policy: str, at: int
) -> None:
    """6 GPUs and 7 CPUs, of which b's jobs have 3 and 5. "a1" wants 4 CPUs: with those of "b1",
    which is stopped, one is left over. So "b4", which wants the two that are free, waits for "a1";
    under LAS it has "b3" stopped, too.

    Planted: a claim that keeps GPUs alone; victims counted by their GPUs."""
    jobs = [
        a_job("b1", team="b", runs=10 * HOUR, cpus=3),
        a_job("b2", team="b", runs=10 * HOUR, cpus=1),
        a_job("b3", team="b", runs=10 * HOUR, cpus=1),
        a_job("a1", team="a", at=at, runs=100, cpus=4),
        a_job("b4", team="b", at=at + 1, runs=100, cpus=2),
    ]
    guaranteed = {"a": 2}
    played = play(policy, jobs, gpus=6, per_node=6, guarantees=guaranteed, knobs=GRACE, cpus=7)
    starts = played.starts()
    assert (starts["a1"], played.tasks["b1"].preemptions) == (at + 20, 1)
    assert starts["b4"] == at + (21 if policy == "las" else 120)


def test_what_was_kept_of_a_failed_node_is_free_again() -> None:
    """Of a node of 10 CPUs others hold 8; two are kept for a claim that waits for two more.

    Planted: the CPUs of the dropped claim not given back."""
    others, claimant = a_job("b", gpus=3, cpus=8), a_job("a", cpus=4)
    machines = [replace(machine, cpu_milli=10_000) for machine in uniform_fleet(6, 6)]
    fleet = Fleet(machines, [others, claimant])
    (node,) = fleet.sizes
    fleet.take(fleet.slots(others, [node]))
    before = dict(fleet.free)
    (work,) = prepare([claimant], Settings())
    claims = Claims(fleet)
    claims.add(Task(work, "a", claimant.mgpu), (node,))
    assert sorted(fleet.free.values()) == [0, 2_000]
    assert [task.work.job.id for task in claims.fail(node)] == ["a"]
    assert fleet.free == before


def test_what_no_node_can_run_short_of_is_as_if_the_trace_did_not_tell_it() -> None:
    """Planted: memory that nobody has told to our policy, beside CPUs that are counted; both told
    to it where all GPUs of a node have enough."""
    works = prepare([a_job("x", gpus=2, cpus=5, memory_mib=7)], Settings())
    bare = uniform_fleet(8, 8)[0]

    def wants(**stated: int) -> tuple[int | None, int | None]:
        (work,) = counted(works, [replace(bare, **stated)])
        return work.job.cpu_milli, work.job.memory_mib

    assert wants() == (None, None)
    assert wants(cpu_milli=19_999) == (5_000, None)
    assert wants(cpu_milli=20_000) == (None, None)
    assert wants(cpu_milli=20_000, memory_mib=27) == (5_000, 7)


def test_what_jobs_want_of_nodes_that_do_not_say_what_they_have_is_told() -> None:
    """Planted: a column of zeros told; a fleet of which one node says it not told."""
    fleet = uniform_fleet(16, 8)
    jobs = [a_job("x", cpus=0), a_job("y", cpus=1, memory_mib=1)]
    assert unstated(jobs, fleet) == {"cpu_milli": 2, "memory_mib": 2}
    assert unstated(jobs[:1], fleet) == {}
    one = [replace(fleet[0], cpu_milli=0), replace(fleet[1], cpu_milli=1, memory_mib=1)]
    assert unstated(jobs, one) == {"memory_mib": 1}
