"""Least attained service, discretised as in Tiresias (Gu et al., NSDI 2019)."""

from __future__ import annotations

from bisect import bisect_right
from typing import ClassVar

from arbiter.placement.free_devices import Shape
from simulator.fleet import Fleet
from simulator.schedulers.claims import Claims
from simulator.schedulers.queues import JobQueue
from simulator.workload import Settings
from simulator.world import Task, World


class Las:
    """Jobs in levels by attained GPU time; lower levels go first and reclaim GPUs from higher ones.

    A job falls to the next level whenever its GPU time passes one of `steps_mgpu_s`. The grace is
    the same as in other policies. Within a level the order is by submit time, without preemption.
    The policy ignores teams and guarantees.
    """

    name: ClassVar[str] = "las"
    steps_mgpu_s: ClassVar[tuple[int, ...]] = (3_600_000, 36_000_000)

    def __init__(self, fleet: Fleet, settings: Settings, grace_s: int) -> None:
        self.fleet = fleet
        self.settings = settings
        self._grace_s = grace_s
        self._claims = Claims(fleet)
        self._levels = [JobQueue() for _ in range(len(self.steps_mgpu_s) + 1)]
        self._running: dict[int, Task] = {}
        self._attained: dict[int, int] = {}
        self._now = 0

    def admits(self, task: Task) -> bool:
        """Return True: there is no quota."""
        return True

    def level(self, task: Task) -> int:
        """Return how many steps the attained service of the job has passed."""
        attained = self._attained.get(task.number, 0)
        if task.is_running:
            attained += task.mgpu * (self._now - task.started_s)
        return bisect_right(self.steps_mgpu_s, attained)

    def arrive(self, task: Task, now: int) -> None:
        """Put the job in the queue of its level."""
        self._levels[self.level(task)].push(self.fleet.shape_of(task.work.job), task)

    def leave(self, task: Task, nodes: tuple[str, ...], now: int) -> None:
        """Add the GPU time of the attempt, including lost work."""
        held = task.mgpu * (now - task.started_s)
        self._attained[task.number] = self._attained.get(task.number, 0) + held
        if task.stop_s is not None:
            self._claims.returned(task, nodes)
        del self._running[task.number]

    def fail(self, node: str, now: int) -> None:
        """Drop the claims on the node; their jobs queue again."""
        for task in self._claims.fail(node):
            self.arrive(task, now)

    def tick(self, world: World) -> int | None:
        """Start or claim for every waiting job, in order of level and submit time."""
        self._now = world.now
        for claim in self._claims.ready():
            self._start(world, claim.task, claim.nodes)
        candidates: list[Task] | None = None
        for level, queue in enumerate(self._levels):
            blocked: set[Shape] = set()
            task: Task | None = None
            while (found := queue.head(blocked, after=task)) is not None:
                task, shape = found
                nodes = self.fleet.find(shape)
                if nodes is not None:
                    queue.pop(shape)
                    self._start(world, task, nodes)
                    continue
                if candidates is None:
                    candidates = self._stoppable()
                if not self._claim(world, task, shape, level, candidates):
                    blocked.add(shape)
                else:
                    queue.pop(shape)
        return self._next_step() if any(queue.head() for queue in self._levels) else None

    def _start(self, world: World, task: Task, nodes: tuple[str, ...]) -> None:
        world.start(task, nodes)
        self._running[task.number] = task

    def _stoppable(self) -> list[Task]:
        """Return the running jobs above the lowest level: highest level first, then youngest."""
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
        """Return when the next running job falls a level, because others may start then."""
        soonest: int | None = None
        for task in self._running.values():
            attained = self._attained.get(task.number, 0)
            at = self.level(task)
            if at < len(self.steps_mgpu_s) and task.stop_s is None:
                left = self.steps_mgpu_s[at] - attained
                falls_s = task.started_s - (-left // task.mgpu)
                soonest = falls_s if soonest is None else min(soonest, falls_s)
        return soonest
