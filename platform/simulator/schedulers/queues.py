"""Waiting jobs in queues, and the loop shared by most policies without preemption."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import ClassVar

from arbiter.placement.free_devices import Shape
from simulator.fleet import Fleet
from simulator.workload import Settings
from simulator.world import Task, World


class JobQueue:
    """Waiting jobs by submit time, grouped by shape.

    Only the first job of a shape can be taken out: if it cannot start, no other job of its shape
    can.
    """

    __slots__ = ("_heads", "_shapes")

    def __init__(self) -> None:
        self._shapes: dict[Shape, list[tuple[int, int, Task]]] = {}
        #: The first job of each shape, in order.
        self._heads: list[tuple[int, int, Task, Shape]] = []

    def push(self, shape: Shape, task: Task) -> None:
        """Insert a job by its submit time."""
        waiting = self._shapes.setdefault(shape, [])
        entry = task.submit_s, task.number, task
        if waiting and entry < waiting[0]:
            self._drop(waiting[0])
        heappush(waiting, entry)
        if waiting[0][1] == task.number:
            insort(self._heads, (*entry, shape))

    def pop(self, shape: Shape) -> Task:
        """Remove and return the first job of a shape."""
        waiting = self._shapes[shape]
        first = heappop(waiting)
        self._drop(first)
        if waiting:
            insort(self._heads, (*waiting[0], shape))
        else:
            del self._shapes[shape]
        return first[2]

    def head(self, *without: set[Shape], after: Task | None = None) -> tuple[Task, Shape] | None:
        """Return the first job whose shape is not in `without`, behind the job `after`, or None.

        A caller that walks through the queue gives its last job, and so skips jobs already refused.
        """
        begin = 0
        if after is not None:
            begin = bisect_left(self._heads, (after.submit_s, after.number + 1))
        for _, _, task, shape in islice(self._heads, begin, None):
            for one in without:
                if shape in one:
                    break
            else:
                return task, shape
        return None

    def _drop(self, entry: tuple[int, int, Task]) -> None:
        del self._heads[bisect_left(self._heads, entry[:2])]


class QueueScheduler:
    """Queues served one job at a time; the queue with the smallest key goes first.

    Later jobs may pass a job that cannot start. After `strict_after_s` of waiting, jobs of its own
    queue no longer pass it. Policies differ in three methods: `queue_of` chooses a job's queue,
    `key` orders the queues, and `quota_allows` checks the quota.
    """

    name: ClassVar[str] = "queues"

    def __init__(self, fleet: Fleet, settings: Settings, guaranteed: Mapping[str, int]) -> None:
        self.fleet = fleet
        self.settings = settings
        self.guaranteed = guaranteed
        self.use = dict.fromkeys(guaranteed, 0)
        self.queues: dict[str, JobQueue] = {}

    def admits(self, task: Task) -> bool:
        """Return whether quota could ever let the job start."""
        return True

    def queue_of(self, task: Task) -> str:
        """Return the queue of a job; here it is the team."""
        return task.team

    def key(self, queue: str, head: Task, now: int) -> tuple[int, ...]:
        """Return the sort key of a queue; ties are broken by submit time."""
        raise NotImplementedError

    def quota_allows(self, task: Task) -> bool:
        """Return whether quota lets the job start now."""
        return True

    def note_start(self, task: Task) -> None:
        """Handle a start that just happened; the default does nothing."""

    def arrive(self, task: Task, now: int) -> None:
        """Put the job in its queue."""
        queue = self.queues.setdefault(self.queue_of(task), JobQueue())
        queue.push(self.fleet.shape_of(task.work.job), task)

    def leave(self, task: Task, nodes: tuple[str, ...], now: int) -> None:
        """Free the GPUs of the job."""
        self.use[task.team] -= task.mgpu

    def fail(self, node: str, now: int) -> None:
        """Do nothing: no GPUs are kept free."""

    def tick(self, world: World) -> int | None:
        """Start all jobs that can start, in order of the keys."""
        if not world.has_waiting:
            return None
        fleet, now = self.fleet, world.now
        blocked: set[Shape] = set()
        refused: dict[str, set[Shape]] = {}
        served: dict[str, Task] = {}
        entries: list[tuple[tuple[int, ...], int, int, str]] = []

        def enlist(
            name: str, push: Callable[[tuple[tuple[int, ...], int, int, str]], None]
        ) -> None:
            aside = refused.get(name, set())
            found = self.queues[name].head(blocked, aside, after=served.get(name))
            if found is not None:
                head = found[0]
                push((self.key(name, head, now), head.submit_s, head.number, name))

        if fleet.total_free:
            for name in self.queues:
                enlist(name, entries.append)
            heapify(entries)
        while entries and fleet.total_free:
            name = heappop(entries)[3]
            queue = self.queues[name]
            found = queue.head(blocked, refused.get(name, set()), after=served.get(name))
            if found is None:
                continue
            task, shape = found
            served[name] = task
            is_allowed = self.quota_allows(task)
            nodes = fleet.find(shape) if is_allowed else None
            if nodes is not None:
                queue.pop(shape)
                self.use[task.team] += task.mgpu
                world.start(task, nodes)
                self.note_start(task)
            elif now - task.submit_s >= self.settings.strict_after_s:
                continue
            elif is_allowed:
                blocked.add(shape)
            else:
                refused.setdefault(name, set()).add(shape)
            enlist(name, lambda entry: heappush(entries, entry))
        return None
