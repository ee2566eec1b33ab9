"""Least attained service, discretised as in Tiresias (Gu et al., NSDI 2019)."""

from __future__ import annotations

from bisect import bisect_right
from typing import ClassVar

from arbiter.placement.free_devices import Shape
from simulator.fleet import Fleet
from simulator.schedulers.claims import Claims
from simulator.schedulers.lines import Line
from simulator.workload import Settings
from simulator.world import Task, World


class Las:
    """A job falls to the next level whenever its GPU time passes one of `steps_mgpu_s`; lower
    levels go first and take GPUs from higher ones, after the same grace as everywhere. Inside a
    level submit time counts and nobody is stopped. Teams and guarantees do not exist here.
    """

    name: ClassVar[str] = "las"
    steps_mgpu_s: ClassVar[tuple[int, ...]] = (3_600_000, 36_000_000)

    def __init__(self, fleet: Fleet, settings: Settings, grace_s: int) -> None:
        self.fleet = fleet
        self.settings = settings
        self._grace_s = grace_s
        self._claims = Claims(fleet)
        self._levels = [Line() for _ in range(len(self.steps_mgpu_s) + 1)]
        self._running: dict[int, Task] = {}
        self._attained: dict[int, int] = {}
        self._now = 0

    def admits(self, task: Task) -> bool:
        """There is no quota."""
        return True

    def level(self, task: Task) -> int:
        """How many steps its attained service has passed."""
        attained = self._attained.get(task.number, 0)
        if task.is_running:
            attained += task.mgpu * (self._now - task.started_s)
        return bisect_right(self.steps_mgpu_s, attained)

    def arrive(self, task: Task, now: int) -> None:
        """The job waits at its level."""
        self._levels[self.level(task)].push(self.fleet.shape_of(task.work.job), task)

    def leave(self, task: Task, nodes: tuple[str, ...], now: int) -> None:
        """Its GPU time counts, also that of lost work."""
        held = task.mgpu * (now - task.started_s)
        self._attained[task.number] = self._attained.get(task.number, 0) + held
        if task.stop_s is not None:
            self._claims.returned(task, nodes)
        del self._running[task.number]

    def fail(self, node: str, now: int) -> None:
        """Claims on the node are void."""
        for task in self._claims.fail(node):
            self.arrive(task, now)

    def tick(self, world: World) -> int | None:
        """Start or claim for every waiting job in order of level and submit time."""
        self._now = world.now
        for claim in self._claims.ready():
            self._start(world, claim.task, claim.nodes)
        candidates: list[Task] | None = None
        for level, line in enumerate(self._levels):
            blocked: set[Shape] = set()
            task: Task | None = None
            while (found := line.head(blocked, after=task)) is not None:
                task, shape = found
                nodes = self.fleet.find(shape)
                if nodes is not None:
                    line.pop(shape)
                    self._start(world, task, nodes)
                    continue
                if candidates is None:
                    candidates = self._stoppable()
                if not self._claim(world, task, shape, level, candidates):
                    blocked.add(shape)
                else:
                    line.pop(shape)
        return self._next_step() if any(line.head() for line in self._levels) else None

    def _start(self, world: World, task: Task, nodes: tuple[str, ...]) -> None:
        world.start(task, nodes)
        self._running[task.number] = task

    def _stoppable(self) -> list[Task]:
        """What runs above the lowest level: the highest first, there the youngest."""
        found = [
            (-self.level(task), -task.started_s, -task.number, task)
            for task in self._running.values()
            if task.stop_s is None
        ]
        return [entry[3] for entry in sorted(entry for entry in found if entry[0] < 0)]

    def _claim(
        self, world: World, task: Task, shape: Shape, level: int, candidates: list[Task]
    ) -> bool:
        above = [one for one in candidates if one.stop_s is None and self.level(one) > level]
        chosen = self._claims.choose(shape, above, lambda _: True)
        if chosen is None:
            return False
        nodes, victims = chosen
        for victim in victims:
            world.stop(victim, self._grace_s)
            self._claims.notice(victim)
        self._claims.add(task, nodes)
        return True

    def _next_step(self) -> int | None:
        """When the next running job falls a level: that may let others in."""
        soonest: int | None = None
        for task in self._running.values():
            attained = self._attained.get(task.number, 0)
            at = self.level(task)
            if at < len(self.steps_mgpu_s) and task.stop_s is None:
                left = self.steps_mgpu_s[at] - attained
                falls_s = task.started_s - (-left // task.mgpu)
                soonest = falls_s if soonest is None else min(soonest, falls_s)
        return soonest
