"""Policies without reclaim that differ in their order: static quotas, FIFO, DRF, multifactor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from arbiter.api.policy import DAY_S
from arbiter.quota.ratio import exact_ratio
from arbiter.quota.tree import UNLIMITED
from simulator.decay import ONE, halving
from simulator.fleet import Fleet
from simulator.schedulers.lines import LineScheduler
from simulator.workload import Settings
from simulator.world import Task, World

#: Of the multifactor priority.
_HALF_LIFE_S = 7 * DAY_S
_AGE_MAX_S = 7 * DAY_S
_FAIR_SHARE_WEIGHT = 10_000
_AGE_WEIGHT = 1_000


class Static(LineScheduler):
    """Every team has its guarantee and never more; a job larger than that is refused."""

    name: ClassVar[str] = "static"

    def admits(self, task: Task) -> bool:
        """Whether the job fits in the team's guarantee when nothing of it runs."""
        return task.mgpu <= self.guaranteed[task.team]

    def key(self, line: str, head: Task, now: int) -> tuple[int, ...]:
        """By submit time."""
        return ()

    def room(self, task: Task) -> bool:
        """What is left of the guarantee."""
        return self.use[task.team] + task.mgpu <= self.guaranteed[task.team]


class Fifo(LineScheduler):
    """One line for all; what does not fit is passed."""

    name: ClassVar[str] = "fifo"

    def line_of(self, task: Task) -> str:
        """The one line."""
        return ""

    def key(self, line: str, head: Task, now: int) -> tuple[int, ...]:
        """There is one line only."""
        return ()


class Drf(LineScheduler):
    """Dominant resource fairness with guarantees as weights (Ghodsi et al., NSDI 2011): with GPUs
    as the one resource that is shared, the team with the least use / guarantee goes next."""

    name: ClassVar[str] = "drf"

    def key(self, line: str, head: Task, now: int) -> tuple[int, ...]:
        """Use over guarantee; without a guarantee last."""
        guaranteed = self.guaranteed[line]
        return (exact_ratio(self.use[line], guaranteed) if guaranteed else UNLIMITED << 64,)


class Multifactor(LineScheduler):
    """Slurm's multifactor priority with fair-share and age, 10 to 1, without time limits.

    Fair-share is 2^-(usage / share), both as parts of all, usage halved every week
    (priority_multifactor.html, "classic"); the age counts up to as much.
    """

    name: ClassVar[str] = "multifactor"

    def __init__(self, fleet: Fleet, settings: Settings, guaranteed: Mapping[str, int]) -> None:
        super().__init__(fleet, settings, guaranteed)
        self._usage = dict.fromkeys(guaranteed, 0)
        self._at = 0
        self._factors: dict[str, int] = {}
        self._shares = sum(guaranteed.values())

    def key(self, line: str, head: Task, now: int) -> tuple[int, ...]:
        """The priority of the line's first job, highest first."""
        age = (min(now - head.submit_s, _AGE_MAX_S) * ONE) // _AGE_MAX_S
        return (-(_FAIR_SHARE_WEIGHT * self._factor(line) + _AGE_WEIGHT * age),)

    def leave(self, task: Task, nodes: tuple[str, ...], now: int) -> None:
        """Usage up to now first."""
        self.charge(now)
        super().leave(task, nodes, now)

    def tick(self, world: World) -> int | None:
        """As usages stand now."""
        self.charge(world.now)
        self._factors = {}
        return super().tick(world)

    def charge(self, now: int) -> None:
        """Decay usages to `now` and add what was used since."""
        passed = now - self._at
        if passed <= 0:
            return
        self._at = now
        kept = halving(passed, _HALF_LIFE_S)
        for team, usage in self._usage.items():
            self._usage[team] = (usage * kept >> 64) + self.use[team] * passed

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
