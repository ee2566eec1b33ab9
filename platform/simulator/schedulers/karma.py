"""Karma (Vuppalapati et al., OSDI 2023) with the whole guarantee protected.

Lent GPUs earn credits and the richest teams borrow first. A guarantee reclaims GPUs from the
poorest borrowers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from arbiter.placement.free_devices import Shape
from arbiter.quota.ratio import exact_ratio
from simulator.fleet import Fleet
from simulator.schedulers.claims import Claims
from simulator.schedulers.queues import QueueScheduler
from simulator.workload import Settings
from simulator.world import Task, World


class Karma(QueueScheduler):
    """Guaranteed demand first (least use / guarantee), then borrowers by credits / guarantee.

    Every `quantum_s` a borrower pays a credit per GPU-second, and the lenders earn it, the poorest
    first. A job within its team's guarantee that finds no nodes reclaims them from other teams,
    which stay at or above their guarantees. Victims are jobs of the poorest team first, then the
    jobs with the least work to lose.
    """

    name: ClassVar[str] = "karma"
    quantum_s: ClassVar[int] = 900

    def __init__(
        self, fleet: Fleet, settings: Settings, guaranteed: Mapping[str, int], grace_s: int
    ) -> None:
        super().__init__(fleet, settings, guaranteed)
        self.credits = dict.fromkeys(guaranteed, 0)
        self._grace_s = grace_s
        self._claims = Claims(fleet)
        self._claimed = dict.fromkeys(guaranteed, 0)
        self._staying = dict.fromkeys(guaranteed, 0)
        self._running: dict[int, Task] = {}
        self._borrowed = dict.fromkeys(guaranteed, 0)
        self._idle = dict.fromkeys(guaranteed, 0)
        self._at = 0
        self._settles_s = self.quantum_s

    def is_entitled(self, team: str, mgpu: int) -> bool:
        """Return whether a job fits in the rest of the team's guarantee."""
        return self._staying[team] + self._claimed[team] + mgpu <= self.guaranteed[team]

    def key(self, queue: str, head: Task, now: int) -> tuple[int, ...]:
        """Order guaranteed demand first, then by credits in tenths of a day of the guarantee."""
        if self.is_entitled(queue, head.mgpu):
            return (0, exact_ratio(self._staying[queue], self.guaranteed[queue]))
        return (1, -self.wealth(queue))

    def wealth(self, team: str) -> int:
        """Return a team's credits in whole tenths of a day of its guarantee; 0 if it has none."""
        guaranteed = self.guaranteed[team]
        return self.credits[team] * 10_000 // (guaranteed * 86_400) if guaranteed else 0

    def leave(self, task: Task, nodes: tuple[str, ...], now: int) -> None:
        """Free the GPUs of the job, or pass them to the claim that reclaimed them."""
        self._integrate(now)
        super().leave(task, nodes, now)
        if task.stop_s is None:
            self._staying[task.team] -= task.mgpu
        else:
            self._claims.returned(task, nodes)
        del self._running[task.number]

    def fail(self, node: str, now: int) -> None:
        """Drop the claims on the node; their jobs queue again."""
        for task in self._claims.fail(node):
            self._claimed[task.team] -= task.mgpu
            self.arrive(task, now)

    def tick(self, world: World) -> int | None:
        """Settle credits, start complete claims, serve the queues, then reclaim."""
        self._integrate(world.now)
        for claim in self._claims.ready():
            self._claimed[claim.task.team] -= claim.task.mgpu
            self.use[claim.task.team] += claim.task.mgpu
            world.start(claim.task, claim.nodes)
            self.note_start(claim.task)
        super().tick(world)
        for team in sorted(self.queues, key=lambda name: self.key_of_guarantee(name)):
            self._reclaim(world, team)
        return None

    def key_of_guarantee(self, team: str) -> tuple[int, str]:
        """Return the sort key of a team: least use of the guarantee first."""
        return exact_ratio(self._staying[team], self.guaranteed[team]), team

    def note_start(self, task: Task) -> None:
        """Record that a job of the team runs."""
        self._running[task.number] = task
        self._staying[task.team] += task.mgpu

    def _reclaim(self, world: World, team: str) -> None:
        queue = self.queues[team]
        refused: set[Shape] = set()
        task: Task | None = None
        while (found := queue.head(refused, after=task)) is not None:
            task, shape = found
            chosen = None
            if self.is_entitled(team, task.mgpu):
                chosen = self._victims(world, team, shape)
            if chosen is None:
                refused.add(shape)
                continue
            nodes, victims = chosen
            queue.pop(shape)
            for victim in victims:
                world.stop(victim, self._grace_s)
                self._staying[victim.team] -= victim.mgpu
                self._claims.notice(victim)
            self._claims.add(task, nodes)
            self._claimed[team] += task.mgpu

    def _victims(
        self, world: World, team: str, shape: Shape
    ) -> tuple[tuple[str, ...], list[Task]] | None:
        interval_s = self.settings.checkpoint_interval_s

        def cost(task: Task) -> tuple[int, int, int, int]:
            lost = task.mgpu * (world.now - task.saved_s(world.now, interval_s))
            return self.wealth(task.team), lost, -task.started_s, task.number

        over = {
            name: self._staying[name] - guaranteed
            for name, guaranteed in self.guaranteed.items()
            if name != team and self._staying[name] > guaranteed
        }
        if not over:
            return None

        def may_stop(task: Task) -> bool:
            if over[task.team] < task.mgpu:
                return False
            over[task.team] -= task.mgpu
            return True

        candidates = sorted(
            (
                task
                for task in self._running.values()
                if task.stop_s is None and over.get(task.team, 0) >= task.mgpu
            ),
            key=cost,
        )
        return self._claims.choose(shape, candidates, may_stop)

    def _integrate(self, now: int) -> None:
        """Integrate up to `now` and settle credits at every quantum."""
        while self._settles_s <= now:
            self._add(self._settles_s)
            self._settle()
            self._settles_s += self.quantum_s
        self._add(now)

    def _add(self, now: int) -> None:
        passed = now - self._at
        if passed <= 0:
            return
        self._at = now
        for team, guaranteed in self.guaranteed.items():
            over = self.use[team] - guaranteed
            if over > 0:
                self._borrowed[team] += over * passed
            elif over < 0:
                self._idle[team] -= over * passed

    def _settle(self) -> None:
        """Charge the borrowers and pay the poorest lenders.

        GPUs outside all guarantees have no lender, so their credits are lost.
        """
        paid = 0
        for team, borrowed in self._borrowed.items():
            self.credits[team] -= borrowed // 1_000
            paid += borrowed // 1_000
            self._borrowed[team] = borrowed % 1_000
        lenders = sorted(
            (exact_ratio(self.credits[team], self.guaranteed[team]), team)
            for team, idle in self._idle.items()
            if idle
        )
        for _, team in lenders:
            earned = min(paid, self._idle[team] // 1_000)
            self.credits[team] += earned
            paid -= earned
        self._idle = dict.fromkeys(self._idle, 0)
