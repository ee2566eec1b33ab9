"""Policies without reclaim that differ in their order: static quotas, FIFO, DRF, multifactor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from arbiter.api.policy import DAY_S
from arbiter.quota.ratio import exact_ratio
from arbiter.quota.tree import UNLIMITED
from simulator.decay import ONE, halving
from simulator.fleet import Fleet
from simulator.schedulers.queues import QueueScheduler
from simulator.workload import Settings
from simulator.world import Task, World

#: Constants of the multifactor priority.
_HALF_LIFE_S = 7 * DAY_S
_AGE_MAX_S = 7 * DAY_S
_FAIR_SHARE_WEIGHT = 10_000
_AGE_WEIGHT = 1_000


class Static(QueueScheduler):
    """Every team has its guarantee and never more; a larger job is refused."""

    name: ClassVar[str] = "static"

    def admits(self, task: Task) -> bool:
        """Return whether the job fits in the empty guarantee of its team."""
        return task.mgpu <= self.guaranteed[task.team]

    def key(self, queue: str, head: Task, now: int) -> tuple[int, ...]:
        """Return a constant: ties are broken by submit time."""
        return ()

    def quota_allows(self, task: Task) -> bool:
        """Return whether the job fits in the rest of the guarantee."""
        return self.use[task.team] + task.mgpu <= self.guaranteed[task.team]


class Fifo(QueueScheduler):
    """One queue for all; later jobs pass a job that does not fit."""

    name: ClassVar[str] = "fifo"

    def queue_of(self, task: Task) -> str:
        """Return the only queue."""
        return ""

    def key(self, queue: str, head: Task, now: int) -> tuple[int, ...]:
        """Return a constant: there is only one queue."""
        return ()


class Drf(QueueScheduler):
    """Dominant resource fairness with guarantees as weights (Ghodsi et al., NSDI 2011).

    GPUs are the only shared resource, so the team with the least use / guarantee goes next.
    """

    name: ClassVar[str] = "drf"

    def key(self, queue: str, head: Task, now: int) -> tuple[int, ...]:
        """Order by use over guarantee; teams without a guarantee come last."""
        guaranteed = self.guaranteed[queue]
        return (exact_ratio(self.use[queue], guaranteed) if guaranteed else UNLIMITED << 64,)


class Multifactor(QueueScheduler):
    """Slurm's multifactor priority with fair-share and age, 10 to 1, without time limits.

    Fair-share is 2^-(usage / share), both as parts of the total; usage is halved every week
    (priority_multifactor.html, "classic"). The age is capped at a week.
    """

    name: ClassVar[str] = "multifactor"

    def __init__(self, fleet: Fleet, settings: Settings, guaranteed: Mapping[str, int]) -> None:
        super().__init__(fleet, settings, guaranteed)
        self._usage = dict.fromkeys(guaranteed, 0)
        self._at = 0
        self._factors: dict[str, int] = {}
        self._shares = sum(guaranteed.values())

    def key(self, queue: str, head: Task, now: int) -> tuple[int, ...]:
        """Order by the priority of the first job of the queue, highest first."""
        age = (min(now - head.submit_s, _AGE_MAX_S) * ONE) // _AGE_MAX_S
        return (-(_FAIR_SHARE_WEIGHT * self._factor(queue) + _AGE_WEIGHT * age),)

    def leave(self, task: Task, nodes: tuple[str, ...], now: int) -> None:
        """Charge the usage up to `now`, then free the GPUs."""
        self.charge(now)
        super().leave(task, nodes, now)

    def tick(self, world: World) -> int | None:
        """Decide with usages charged up to now."""
        self.charge(world.now)
        self._factors = {}
        return super().tick(world)

    def charge(self, now: int) -> None:
        """Decay usages to `now` and add the use since the last call."""
        passed = now - self._at
        if passed <= 0:
            return
        self._at = now
        factor = halving(passed, _HALF_LIFE_S)
        for team, usage in self._usage.items():
            self._usage[team] = (usage * factor >> 64) + self.use[team] * passed

    def _factor(self, team: str) -> int:
        known = self._factors.get(team)
        if known is None:
            share, total = self.guaranteed[team], sum(self._usage.values())
            known = ONE
            if not share:
                known = 0
            elif total:
                known = halving(self._usage[team] * self._shares, total * share)
            self._factors[team] = known
        return known
