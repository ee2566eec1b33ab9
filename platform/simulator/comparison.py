"""One workload under several policies, and the figures of each."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from simulator.fleet import Fleet, counted
from simulator.observer import Observer
from simulator.quality import Quality, completion_times, judge
from simulator.scene import Scene
from simulator.schedulers.arbitrated import Arbitrated
from simulator.schedulers.cohorts import Cohorts
from simulator.schedulers.easy import Easy
from simulator.schedulers.karma import Karma
from simulator.schedulers.las import Las
from simulator.schedulers.simple import Drf, Fifo, Multifactor, Static
from simulator.workload import Settings, Work, fluid_bound_mgpu_s
from simulator.world import Outcome, Scheduler, World

Make = Callable[[Scene, Fleet, Settings], Scheduler]

OURS = Arbitrated.name
#: How each policy is made; the first are the baselines in the order in which tables show them.
POLICIES: Mapping[str, Make] = {
    Static.name: lambda scene, fleet, given: Static(fleet, given, scene.teams),
    Fifo.name: lambda scene, fleet, given: Fifo(fleet, given, scene.teams),
    Easy.name: lambda scene, fleet, given: Easy(fleet, given),
    Multifactor.name: lambda scene, fleet, given: Multifactor(fleet, given, scene.teams),
    Drf.name: lambda scene, fleet, given: Drf(fleet, given, scene.teams),
    Las.name: lambda scene, fleet, given: Las(fleet, given, _grace_s(scene)),
    Karma.name: lambda scene, fleet, given: Karma(fleet, given, scene.teams, _grace_s(scene)),
    Cohorts.name: lambda scene, fleet, given: Cohorts(fleet, given, scene.teams),
    OURS: lambda scene, fleet, given: Arbitrated(scene, fleet, given),
}
BASELINES = tuple(name for name in POLICIES if name != OURS)


@dataclass(frozen=True, slots=True)
class Result:
    """A policy's run and its figures."""

    policy: str
    outcome: Outcome
    quality: Quality


def compare(
    works: Sequence[Work],
    scene: Scene,
    settings: Settings,
    teams: Mapping[str, str],
    policies: Sequence[str],
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Result]:
    """Run `works` under each of `policies`, in the order of POLICIES.

    Static quotas run first if they are listed, because the finish-time fairness of the others
    refers to them. `progress` is called with the policy, the number of submitted jobs and the
    number of all jobs.
    """
    bound = bound_mgpu_s(works, scene)
    alone: Mapping[int, int] | None = None
    results = []
    for policy in (name for name in POLICIES if name in policies):
        outcome = simulate(
            works,
            scene,
            settings,
            teams,
            policy,
            None if progress is None else _of_policy(progress, policy),
        )
        if policy == Static.name:
            alone = completion_times(outcome)
        quality = judge(outcome, capacity_mgpu=scene.capacity_mgpu, bound_mgpu_s=bound, alone=alone)
        results.append(Result(policy, outcome, quality))
    return results


def without_place(works: Sequence[Work], scene: Scene) -> list[Work]:
    """Return the jobs that do not fit in the empty fleet for lack of CPU or memory alone."""
    fleet = Fleet(scene.machines, [work.job for work in works])
    return [work for work in works if fleet.lacks_resources(fleet.shape_of(work.job))]


def bound_mgpu_s(works: Sequence[Work], scene: Scene) -> int:
    """Return the most work of any policy until the last submission, in milli-GPU-seconds.

    Jobs that do not fit in the empty fleet do not count.
    """
    fleet = Fleet(scene.machines, [work.job for work in works])
    jobs = [work.job for work in works if fleet.could_hold(fleet.shape_of(work.job))]
    return fluid_bound_mgpu_s(jobs, scene.capacity_mgpu, works[-1].job.submit_s if works else 0)


def simulate(
    works: Sequence[Work],
    scene: Scene,
    settings: Settings,
    teams: Mapping[str, str],
    policy: str,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Run `works` under one policy."""
    works = counted(works, scene.machines)
    fleet = Fleet(scene.machines, [work.job for work in works])
    observer = Observer(
        scene,
        horizon_s=works[-1].job.submit_s if works else 0,
        tolerance_s=_grace_s(scene) + settings.cycle_s,
    )
    scheduler = POLICIES[policy](scene, fleet, settings)
    world = World(works, fleet, scheduler, settings, observer, teams)
    # The objects of a trace live to the end. Repeated searches for cyclic garbage would cost time.
    is_frozen = bool(gc.get_freeze_count())
    gc.freeze()
    try:
        return world.run(progress)
    finally:
        if not is_frozen:
            gc.unfreeze()


def _grace_s(scene: Scene) -> int:
    return scene.policy.grace_period_s_default


def _of_policy(
    progress: Callable[[str, int, int], None], policy: str
) -> Callable[[int, int], None]:
    return lambda done, total: progress(policy, done, total)
