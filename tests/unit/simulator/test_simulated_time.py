"""What happens to jobs in virtual time: restarts, checkpoints, grace, failures, refusals."""

from __future__ import annotations

import pytest

from arbiter.api.policy import Policy
from builders.simulator_builders import PLAIN, a_job, a_scene, play
from simulator.fleet import Fleet
from simulator.observer import Observer
from simulator.schedulers.simple import Fifo
from simulator.workload import Settings, prepare
from simulator.world import VAIN_MAX, Scheduler, Task, World

LENT = {"a": 4, "b": 0}


def reclaimed(**settings: int) -> tuple[dict[str, int | None], Task, int, int]:
    """b borrows all 4 GPUs from 0 for 1,000 s; a's 100 s come at 500 and take them back."""
    jobs = [a_job("b", gpus=4, runs=1_000, team="b"), a_job("a", gpus=4, runs=100, at=500)]
    played = play("tidegate", jobs, guarantees=LENT, **settings)
    outcome = played.outcome
    return played.ends(), played.tasks["b"], outcome.lost_mgpu_s, outcome.overhead_mgpu_s


def test_a_victim_without_checkpoints_begins_anew() -> None:
    """Notice at 500, gone at 800, a until 900, then b's 1,000 s again."""
    ends, task, lost, overhead = reclaimed()
    assert ends == {"b": 1_900, "a": 900}
    assert (task.attempt, task.preemptions) == (2, 1)
    assert (lost, overhead) == (4_000 * 800, 0)


def test_a_victim_with_checkpoints_saves_in_its_grace_and_goes_on() -> None:
    """It works until 60 s before the end of its grace: 740 s are safe, 60 lost; then 120 s of
    restart and the 260 that are left."""
    ends, _, lost, overhead = reclaimed(checkpointable_percent=100, save_s=60, restart_s=120)
    assert ends == {"b": 900 + 120 + 260, "a": 900}
    assert (lost, overhead) == (4_000 * 60, 4_000 * 120)


def test_a_grace_too_short_to_save_leaves_the_last_checkpoint() -> None:
    """Saving takes 301 s: of 800 s only the two checkpoints of 350 s each count."""
    ends, _, lost, _ = reclaimed(checkpointable_percent=100, save_s=301, checkpoint_interval_s=350)
    assert ends == {"b": 900 + 300, "a": 900}
    assert lost == 4_000 * 100


def test_a_victim_that_is_done_within_its_grace_loses_nothing() -> None:
    jobs = [a_job("b", gpus=4, runs=600, team="b"), a_job("a", gpus=4, at=500)]
    played = play("tidegate", jobs, guarantees=LENT)
    assert played.ends() == {"b": 600, "a": 610}
    assert played.outcome.lost_mgpu_s == 0
    assert played.outcome.preemptions == 1


def test_grace_is_the_policy_s() -> None:
    jobs = [a_job("b", gpus=4, runs=1_000, team="b"), a_job("a", gpus=4, at=500)]
    played = play("tidegate", jobs, guarantees=LENT, knobs=Policy(grace_period_s_default=30))
    assert played.starts()["a"] == 530


def test_decisions_fall_on_multiples_of_the_cycle() -> None:
    played = play("fifo", [a_job("x", at=61, gpus=4, runs=30), a_job("y", gpus=4)], cycle_s=60)
    assert played.starts() == {"x": 120, "y": 0}


@pytest.mark.parametrize("policy", ["fifo", "tidegate", "karma", "las", "easy", "static"])
def test_a_failed_node_takes_its_jobs_and_comes_back(policy: str) -> None:
    """Whatever a policy keeps free or has stopped at that moment, every job is done at last."""
    jobs = [
        a_job(f"j{i}", at=i * 40, gpus=1 + i % 2, runs=300, team="ab"[i % 2]) for i in range(30)
    ]
    played = play(
        policy,
        jobs,
        gpus=6,
        per_node=2,
        guarantees={"a": 3, "b": 3},
        failure_interval_s=900,
        repair_s=100,
    )
    assert played.outcome.failures >= 5
    assert all(end is not None for end in played.ends().values())
    assert sum(task.attempt for task in played.tasks.values()) > len(jobs)


def test_a_failure_leaves_the_last_checkpoint_and_no_more() -> None:
    """One node that fails once in the run: what was worked since the last 10 s are lost."""
    settings = {"failure_interval_s": 100, "repair_s": 7, "seed": 3}
    played = play(
        "fifo",
        [a_job("x", runs=90)],
        checkpointable_percent=100,
        checkpoint_interval_s=10,
        **settings,
    )
    task, outcome = played.tasks["x"], played.outcome
    assert outcome.failures == task.attempt - 1 > 0
    assert outcome.useful_mgpu_s == 90_000
    assert outcome.lost_mgpu_s < 10_000 * outcome.failures
    assert task.finish_s == 90 + outcome.lost_mgpu_s // 1_000 + 7 * outcome.failures


def test_a_job_larger_than_the_fleet_is_refused_by_every_policy() -> None:
    for policy in ("fifo", "easy", "las", "karma", "cohorts", "tidegate"):
        played = play(policy, [a_job("x", gpus=5), a_job("y")])
        assert (played.outcome.refused, played.ends()) == (1, {"x": None, "y": 10})


def test_work_that_was_done_before_the_horizon_is_kept() -> None:
    """The horizon is the last submission, at 4: 4 of the 10 s count."""
    played = play("fifo", [a_job("x", gpus=4), a_job("y", at=4)])
    assert played.outcome.saved_mgpu_s == 16_000
    assert played.outcome.useful_mgpu_s == 50_000


class Wilful:
    """Starts what it is told on what nodes it is told."""

    def __init__(self, nodes: tuple[str, ...]) -> None:
        self.waits: list[Task] = []
        self.nodes = nodes

    def admits(self, task: Task) -> bool:
        return True

    def leave(self, task: Task, nodes: tuple[str, ...], now: int) -> None:
        raise AssertionError("nothing ends")

    def fail(self, node: str, now: int) -> None:
        raise AssertionError("nothing fails")

    def arrive(self, task: Task, now: int) -> None:
        self.waits.append(task)

    def tick(self, world: World) -> int | None:
        for task in self.waits:
            world.start(task, self.nodes)
        world.stop(self.waits[0], 10)
        world.stop(self.waits[0], 10)
        return None


@pytest.mark.parametrize(
    ("count", "nodes", "words"),
    [
        (3, ("n00000",), "n00000 has 0 of 2000 free, not 1000"),
        (1, ("n00000", "n00001"), "job j0 needs 1 nodes, not 2"),
        (1, ("n00000",), "job j0 does not run and cannot be stopped"),
    ],
)
def test_the_world_refuses_what_cannot_be(count: int, nodes: tuple[str, ...], words: str) -> None:
    scene = a_scene({"a": 0}, gpus=4, per_node=2)
    fleet = Fleet(scene.machines)
    works = prepare([a_job(f"j{i}") for i in range(count)], Settings())
    observer = Observer(scene, horizon_s=0, tolerance_s=0)
    world = World(works, fleet, Wilful(nodes), Settings(), observer, {"a": "a"})
    with pytest.raises(ValueError, match=words):
        world.run()


class Choosy:
    """Starts jobs of one node only, and must not be asked after `until_s`."""

    until_s = 20 * 86_400

    def __init__(self, others: Scheduler) -> None:
        self.others = others

    def admits(self, task: Task) -> bool:
        return True

    def arrive(self, task: Task, now: int) -> None:
        if task.work.job.node_count == 1:
            self.others.arrive(task, now)

    def leave(self, task: Task, nodes: tuple[str, ...], now: int) -> None:
        self.others.leave(task, nodes, now)

    def fail(self, node: str, now: int) -> None:
        self.others.fail(node, now)

    def tick(self, world: World) -> int | None:
        assert world.now <= self.until_s
        return self.others.tick(world)


def test_a_run_with_failures_ends_although_a_job_waits_for_ever() -> None:
    """48 nodes that fail once a day each are up all at once in one of 3,000 moments. x runs; once
    it is done no further node fails, and those that are down come back within 4 h.

    Planted: nodes that fail while nothing runs and nobody is to come.
    """
    given = Settings(
        **{**PLAIN, "cycle_s": 60, "checkpointable_percent": 100},
        failure_interval_s=86_400,
        repair_s=14_400,
    )
    scene = a_scene({"a": 0}, gpus=48, per_node=1)
    fleet = Fleet(scene.machines)
    works = prepare([a_job("x", runs=100_000), a_job("y", nodes=2)], given)
    observer = Observer(scene, horizon_s=0, tolerance_s=0)
    scheduler = Choosy(Fifo(fleet, given, scene.teams))
    outcome = World(works, fleet, scheduler, given, observer, {"a": "a"}).run()
    x, y = outcome.tasks
    assert x.finish_s is not None
    assert outcome.failures > 40
    assert x.finish_s <= outcome.ended_s <= x.finish_s + 14_400 + 60
    assert y.first_start_s is None


def test_what_waits_for_the_whole_fleet_has_it_when_all_nodes_are_back() -> None:
    """Nobody else runs, so nothing fails until all 48 are up."""
    jobs = [a_job("x", runs=100_000), a_job("y", at=1, nodes=48, runs=60)]
    played = play(
        "fifo",
        jobs,
        gpus=48,
        per_node=1,
        checkpointable_percent=100,
        failure_interval_s=86_400,
        repair_s=14_400,
    )
    x, y = played.tasks["x"], played.tasks["y"]
    assert x.finish_s is not None
    assert y.first_start_s is not None
    assert x.finish_s <= y.first_start_s <= x.finish_s + 14_400
    assert y.finish_s is not None


def test_a_job_that_outlasts_its_node_is_given_up() -> None:
    """It needs 20,000 s in one piece of a node that lasts 100 s: e^200 attempts. With a checkpoint
    every 10 s it is done.

    Planted: an attempt that left a checkpoint counted as vain.
    """
    settings = {"failure_interval_s": 100, "repair_s": 7}
    jobs = [a_job("x", runs=20_000)]
    played = play("fifo", jobs, per_node=4, **settings)
    assert played.tasks["x"].attempt == VAIN_MAX
    assert played.ends() == {"x": None}
    saving = {"checkpointable_percent": 100, "checkpoint_interval_s": 10}
    played = play("fifo", jobs, **saving, **settings)
    assert played.tasks["x"].finish_s is not None


def test_jobs_are_numbered_by_submit_time_and_id() -> None:
    """Rows of one second in another order draw the same; j9 comes before j10. Second 0 is the
    first submission's."""
    found = [a_job(f"j{i}", at=1_000 + i // 30) for i in range(60)]
    works = prepare(found, Settings())
    assert [work.job.id for work in works] == [f"j{i}" for i in range(60)]
    assert [work.job.submit_s for work in works] == [0] * 30 + [1] * 30
    assert prepare(found[::-1], Settings()) == works
