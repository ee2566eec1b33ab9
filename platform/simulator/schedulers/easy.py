"""EASY backfilling (Lifka, JSSPP 1995) on nodes.

The first job that cannot start has a reservation, computed from time limits. Later jobs may not
delay it.
"""

from __future__ import annotations

from bisect import insort
from heapq import heapify, heappop, heappush
from typing import ClassVar

from arbiter.placement.free_devices import Shape
from simulator.fleet import Fleet
from simulator.workload import Settings
from simulator.world import Task, World

Entry = tuple[int, int, Task]


class Easy:
    """One queue by submit time, with a reservation for the head.

    The head reserves the nodes on which it can start first by the limits of the running jobs. A
    later job starts if its limit ends before that, or if it needs no reserved GPU. One cycle looks
    at `depth` jobs at most.
    """

    name: ClassVar[str] = "easy"
    depth: ClassVar[int] = 1_000

    def __init__(self, fleet: Fleet, settings: Settings) -> None:
        self.fleet = fleet
        self.settings = settings
        self._waiting: dict[Shape, list[Entry]] = {}
        self._running: dict[int, Task] = {}

    def admits(self, task: Task) -> bool:
        """Return True: there is no quota."""
        return True

    def arrive(self, task: Task, now: int) -> None:
        """Put the job at its place in the queue."""
        shape = self.fleet.shape_of(task.work.job)
        insort(self._waiting.setdefault(shape, []), (task.submit_s, task.number, task))

    def leave(self, task: Task, nodes: tuple[str, ...], now: int) -> None:
        """Remove the job from the running jobs."""
        del self._running[task.number]

    def fail(self, node: str, now: int) -> None:
        """Do nothing: every cycle makes its reservations anew."""

    def tick(self, world: World) -> int | None:
        """Start jobs from the front; then reserve for the head, and backfill."""
        while self.fleet.total_free:
            heads = [(entries[0], shape) for shape, entries in self._waiting.items()]
            if not heads:
                return None
            (_, _, task), shape = min(heads, key=lambda one: one[0][:2])
            nodes = self.fleet.find(shape)
            if nodes is None:
                self._backfill(world, shape)
                return None
            self._start(world, shape, 0, task, nodes)
        return None

    def _start(
        self, world: World, shape: Shape, at: int, task: Task, nodes: tuple[str, ...]
    ) -> None:
        entries = self._waiting[shape]
        del entries[at]
        if not entries:
            del self._waiting[shape]
        self._running[task.number] = task
        world.start(task, nodes)

    def shadow(self, shape: Shape, now: int) -> tuple[int | None, dict[str, int]]:
        """Return when `shape` can start by time limits, and the spare part of its nodes.

        The time is None if the shape can never start. The spare part is what its nodes have left
        beside it at that time, by node, CPU and memory. A job over its limit counts as ending now.
        """
        fleet = self.fleet
        free = dict(fleet.free)
        usable = {node for node in fleet.sizes if fleet.is_of(shape, node)}
        ready = {node for node in usable if fleet.fits_on(shape, node, free)}
        ends = sorted(
            (max(now, task.limit_end_s()), task.number, task) for task in self._running.values()
        )
        for end_s, _, task in ends:
            for name, amount in fleet.slots(task.work.job, task.nodes):
                free[name] += amount
            ready.update(
                node for node in task.nodes if node in usable and fleet.fits_on(shape, node, free)
            )
            if len(ready) >= shape.node_count:
                fullest = sorted((free[node], node) for node in ready)[: shape.node_count]
                chosen = [node for _, node in fullest]
                return end_s, {
                    name: free[name] - amount for name, amount in fleet.slots_of(shape, chosen)
                }
        return None, {}

    def _backfill(self, world: World, head: Shape) -> None:
        shadow_s, spare = self.shadow(head, world.now)
        pointers = [(entries[0][:2], 0, shape) for shape, entries in self._waiting.items()]
        pointers = [
            (key, at, shape) for key, at, shape in pointers if self.fleet.find(shape) is not None
        ]
        order = [(key, i) for i, (key, _, _) in enumerate(pointers)]
        heapify(order)
        places = [at for _, at, _ in pointers]
        for _ in range(self.depth):
            if not order or not self.fleet.total_free:
                return
            _, i = heappop(order)
            shape = pointers[i][2]
            task = self._waiting[shape][places[i]][2]
            nodes = self.fleet.find(shape)
            if nodes is None:
                continue
            if not self._is_over(task, world.now, shadow_s):
                nodes = self._nodes_for_backfill(shape, spare)
            if nodes is None:
                places[i] += 1
            else:
                if not self._is_over(task, world.now, shadow_s):
                    for name, amount in self.fleet.slots_of(shape, nodes):
                        if name in spare:
                            spare[name] -= amount
                self._start(world, shape, places[i], task, nodes)
            entries = self._waiting.get(shape)
            if entries is not None and places[i] < len(entries):
                heappush(order, (entries[places[i]][:2], i))

    def _is_over(self, task: Task, now: int, shadow_s: int | None) -> bool:
        """Return whether the limit of a job started now ends before the head starts."""
        if shadow_s is None:
            return True
        restart_s = self.settings.restart_s if task.attempt else 0
        return now + restart_s + task.work.limit_s - task.saved_work_s <= shadow_s

    def _nodes_for_backfill(self, shape: Shape, spare: dict[str, int]) -> tuple[str, ...] | None:
        """Return the fullest nodes where a job may still run when the head starts, or None."""
        fleet = self.fleet
        fitting = sorted(
            (fleet.free[node], node)
            for node in fleet.sizes
            if fleet.fits_on(shape, node, fleet.free)
            and (node not in spare or fleet.fits_on(shape, node, spare))
            and fleet.is_of(shape, node)
        )
        if len(fitting) < shape.node_count:
            return None
        return tuple(sorted(node for _, node in fitting[: shape.node_count]))
