"""Small worlds for the simulator: GPUs and seconds as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Quota, TreeNode
from simulator.comparison import simulate
from simulator.scene import POOL, QuotaTree, Scene, stage, uniform_fleet
from simulator.workload import Settings, TraceJob, prepare
from simulator.world import Outcome, Task

#: No restarts, no checkpoints, decisions every second, true limits, nobody waits too long.
PLAIN = {
    "cycle_s": 1,
    "checkpointable_percent": 0,
    "restart_s": 0,
    "save_s": 0,
    "limit_error_percent": 0,
    "strict_after_s": 1_000_000,
}


def a_job(
    id: str,
    *,
    at: int = 0,
    runs: int = 10,
    gpus: int = 1,
    nodes: int = 1,
    team: str = "a",
    limit: int | None = None,
    cpus: int | None = None,
    memory_mib: int | None = None,
) -> TraceJob:
    """`gpus`, `cpus` and memory on each of `nodes` for `runs` seconds from second `at` on."""
    return TraceJob(
        id,
        team,
        "u",
        at,
        runs,
        gpus * 1_000,
        nodes,
        limit,
        cpu_milli=None if cpus is None else cpus * 1_000,
        memory_mib=memory_mib,
    )


def a_scene(
    guarantees: Mapping[str, int],
    *,
    gpus: int,
    per_node: int,
    policy: Policy | None = None,
    cpus: int | None = None,
    memory_mib: int | None = None,
) -> Scene:
    """Teams, and departments where names are paths (`d` above `d/x`); `cpus` and memory of each
    node."""
    tree = QuotaTree(
        tuple(TreeNode(name, name.rpartition("/")[0] or None) for name in guarantees),
        tuple(Quota(name, POOL, gpus * 1_000) for name, gpus in guarantees.items()),
    )
    cpu_milli = None if cpus is None else cpus * 1_000
    fleet = tuple(
        replace(machine, cpu_milli=cpu_milli, memory_mib=memory_mib)
        for machine in uniform_fleet(gpus, per_node)
    )
    scene, _ = stage(tree, fleet, policy or Policy(), (), scale=False)
    return scene


@dataclass
class Played:
    """A run, by the jobs' ids."""

    outcome: Outcome
    tasks: dict[str, Task]

    def starts(self) -> dict[str, int | None]:
        """When each job first started."""
        return {id: task.first_start_s for id, task in self.tasks.items()}

    def ends(self) -> dict[str, int | None]:
        """When each job was done."""
        return {id: task.finish_s for id, task in self.tasks.items()}


def play(
    policy: str,
    jobs: Sequence[TraceJob],
    *,
    gpus: int = 4,
    per_node: int = 4,
    guarantees: Mapping[str, int] | None = None,
    knobs: Policy | None = None,
    cpus: int | None = None,
    memory_mib: int | None = None,
    **settings: Any,
) -> Played:
    """Run `jobs` under `policy`; every team is guaranteed nothing unless said."""
    given = Settings(**{**PLAIN, **settings})
    teams = dict.fromkeys((job.team for job in jobs), 0) | dict(guarantees or {})
    scene = a_scene(
        teams, gpus=gpus, per_node=per_node, policy=knobs, cpus=cpus, memory_mib=memory_mib
    )
    works = prepare(jobs, given)
    outcome = simulate(works, scene, given, {team: team for team in teams}, policy)
    return Played(outcome, {task.work.job.id: task for task in outcome.tasks})
