"""Waiting jobs in line, and the loop that most policies without reclaim share."""

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


class Line:
    """Waiting jobs by submit time, those of one shape together. Only the first of a shape can be
    taken out: where it cannot start none of its shape can."""

    __slots__ = ("_heads", "_shapes")

    def __init__(self) -> None:
        self._shapes: dict[Shape, list[tuple[int, int, Task]]] = {}
        #: The first job of each shape, in order.
        self._heads: list[tuple[int, int, Task, Shape]] = []

    def push(self, shape: Shape, task: Task) -> None:
        """Put a job where its submit time belongs."""
        waiting = self._shapes.setdefault(shape, [])
        entry = task.submit_s, task.number, task
        if waiting and entry < waiting[0]:
            self._drop(waiting[0])
        heappush(waiting, entry)
        if waiting[0][1] == task.number:
            insort(self._heads, (*entry, shape))

    def pop(self, shape: Shape) -> Task:
        """Take the first job of a shape out."""
        waiting = self._shapes[shape]
        first = heappop(waiting)
        self._drop(first)
        if waiting:
            insort(self._heads, (*waiting[0], shape))
        else:
            del self._shapes[shape]
        return first[2]

    def head(self, *without: set[Shape], after: Task | None = None) -> tuple[Task, Shape] | None:
        """The first job of a shape that is not among `without`, and that comes after a certain one:
        who goes through the line and sets shapes aside need not look at these again."""
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


class LineScheduler:
    """Lines that are served one job at a time, the one with the smallest key first.

    A job that cannot start is passed by later ones, of its own line until it has waited for
    `strict_after_s`. The pieces that differ between policies: which line a job waits in, the
    line's `key`, and `room`, what quota lets a team start.
    """

    name: ClassVar[str] = "lines"

    def __init__(self, fleet: Fleet, settings: Settings, guaranteed: Mapping[str, int]) -> None:
        self.fleet = fleet
        self.settings = settings
        self.guaranteed = guaranteed
        self.use = dict.fromkeys(guaranteed, 0)
        self.lines: dict[str, Line] = {}

    def admits(self, task: Task) -> bool:
        """Whether quota could ever let the job start."""
        return True

    def line_of(self, task: Task) -> str:
        """The line that a job waits in: its team's."""
        return task.team

    def key(self, line: str, head: Task, now: int) -> tuple[int, ...]:
        """What orders the lines; ties go by submit time."""
        raise NotImplementedError

    def room(self, task: Task) -> bool:
        """Whether quota lets the job start now."""
        return True

    def note_start(self, task: Task) -> None:
        """The job has just been started."""

    def arrive(self, task: Task, now: int) -> None:
        """The job waits in its line."""
        line = self.lines.setdefault(self.line_of(task), Line())
        line.push(self.fleet.shape_of(task.work.job), task)

    def leave(self, task: Task, nodes: tuple[str, ...], now: int) -> None:
        """The job's GPUs are free."""
        self.use[task.team] -= task.mgpu

    def fail(self, node: str, now: int) -> None:
        """Nothing is kept free."""

    def tick(self, world: World) -> int | None:
        """Start what can be started, in order of the keys."""
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
            found = self.lines[name].head(blocked, aside, after=served.get(name))
            if found is not None:
                head = found[0]
                push((self.key(name, head, now), head.submit_s, head.number, name))

        if fleet.total_free:
            for name in self.lines:
                enlist(name, entries.append)
            heapify(entries)
        while entries and fleet.total_free:
            name = heappop(entries)[3]
            line = self.lines[name]
            found = line.head(blocked, refused.get(name, set()), after=served.get(name))
            if found is None:
                continue
            task, shape = found
            served[name] = task
            is_allowed = self.room(task)
            nodes = fleet.find(shape) if is_allowed else None
            if nodes is not None:
                line.pop(shape)
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
