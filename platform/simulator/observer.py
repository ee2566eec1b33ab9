"""The measurements of a running simulation: integrals per team, and how long entitled jobs wait.

For a team with guarantee q, use a and pending demand p the entitlement is e = min(q, a + p). Its
shortfall is (e - a)+. A department is metered like one team that owns all jobs below it; the limits
of its teams do not count. All integrals are exact, in milli-GPU-seconds, and end at the horizon.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Protocol

from simulator.scene import Scene


class Measured(Protocol):
    """The attributes of a task that the observer reads."""

    team: str
    mgpu: int

    @property
    def number(self) -> int: ...

    @property
    def submit_s(self) -> int: ...


class Skyline:
    """The integral of the lasting part of a step function.

    At each height only the time beyond the first `tolerance_s` seconds counts. That is the integral
    over t of the minimum over [t - tolerance_s, t]. Each rise is a block that lasts until the
    function falls below it; the youngest block ends first.
    """

    __slots__ = ("_blocks", "_height", "tolerance_s", "total")

    def __init__(self, tolerance_s: int) -> None:
        self.tolerance_s = tolerance_s
        self.total = 0
        self._height = 0
        self._blocks: list[list[int]] = []

    def set(self, height: int, now: int) -> None:
        """Set the value of the function from `now` on to `height`."""
        change = height - self._height
        self._height = height
        if change > 0:
            self._blocks.append([now, change])
        while change < 0:
            block = self._blocks[-1]
            size = min(block[1], -change)
            self.total += size * max(0, now - block[0] - self.tolerance_s)
            block[1] -= size
            change += size
            if block[1] == 0:
                self._blocks.pop()


class Team:
    """The meters of one team.

    `entitled_s` has the total seconds that each job was due before its start. A job is due while it
    fits in the unused guarantee. Another job of the team that overtakes it interrupts this time but
    does not reset it.
    """

    __slots__ = (
        "_at",
        "_due",
        "_due_mgpu",
        "_gone",
        "_sizes",
        "_waited_s",
        "_waiting",
        "divisible",
        "entitled_mgpu_s",
        "entitled_s",
        "guaranteed",
        "lasting",
        "pending",
        "short_mgpu_s",
        "use",
        "used_mgpu_s",
    )

    def __init__(self, guaranteed: int, tolerance_s: int) -> None:
        self.guaranteed = guaranteed
        self.use = self.pending = 0
        self.used_mgpu_s = self.entitled_mgpu_s = self.short_mgpu_s = 0
        self.lasting = Skyline(tolerance_s)
        self.divisible = Skyline(tolerance_s)
        self.entitled_s: list[int] = []
        self._at = 0
        self._sizes: dict[int, int] = {}
        #: Keys of started jobs that are still in a queue.
        self._gone: set[tuple[int, int]] = set()
        self._waiting: dict[int, list[tuple[int, int]]] = {}
        self._due: dict[tuple[int, int], tuple[int, int]] = {}
        self._due_mgpu = 0
        #: The past seconds in which a waiting job was due; a present interval is not included.
        self._waited_s: dict[tuple[int, int], int] = {}

    def queued(self, task: Measured) -> None:
        """Count a job of the team as waiting."""
        self.pending += task.mgpu
        self._sizes[task.mgpu] = self._sizes.get(task.mgpu, 0) + 1
        key = (task.submit_s, task.number)
        if key in self._gone:
            self._gone.remove(key)
        else:
            heappush(self._waiting.setdefault(task.mgpu, []), key)

    def started(self, task: Measured, now: int) -> None:
        """Count a waiting job of the team as running."""
        self.pending -= task.mgpu
        self.use += task.mgpu
        left = self._sizes[task.mgpu] - 1
        if left:
            self._sizes[task.mgpu] = left
        else:
            del self._sizes[task.mgpu]
        key = (task.submit_s, task.number)
        waited_s = self._waited_s.pop(key, None)
        due = self._due.pop(key, None)
        if due is not None:
            self._due_mgpu -= task.mgpu
            self.entitled_s.append((waited_s or 0) + now - due[0])
            return
        self._gone.add(key)
        if waited_s is not None or self._due_mgpu + self.use <= self.guaranteed:
            self.entitled_s.append(waited_s or 0)

    def advance(self, now: int) -> None:
        """Integrate the present state up to `now`."""
        passed = now - self._at
        if passed > 0:
            self._at = now
            entitled = min(self.guaranteed, self.use + self.pending)
            self.used_mgpu_s += self.use * passed
            self.entitled_mgpu_s += entitled * passed
            self.short_mgpu_s += max(0, entitled - self.use) * passed

    def settle(self, now: int, horizon: int) -> None:
        """Close the instant `now`; its state lasts until the next one."""
        unused = self.guaranteed - self.use
        short = max(0, min(unused, self.pending))
        until = min(now, horizon)
        self.lasting.set(short, until)
        fits = short > 0 and min(self._sizes) <= unused
        self.divisible.set(short if fits else 0, until)
        if self._sizes or self._due:
            self._mark(unused, now)

    def _mark(self, unused: int, now: int) -> None:
        """Update which waiting jobs are due.

        Jobs become due in order of submission while they fit in the unused guarantee, together with
        the jobs that are due already.
        """
        while self._due_mgpu > max(0, unused):
            key = max(self._due)
            since, mgpu = self._due.pop(key)
            self._due_mgpu -= mgpu
            self._waited_s[key] = self._waited_s.get(key, 0) + now - since
            heappush(self._waiting[mgpu], key)
        left = unused - self._due_mgpu
        while left > 0:
            first: tuple[tuple[int, int], int] | None = None
            for mgpu in self._sizes:
                waiting = self._waiting[mgpu]
                while waiting and waiting[0] in self._gone:
                    self._gone.remove(heappop(waiting))
                if mgpu <= left and waiting and (first is None or waiting[0] < first[0]):
                    first = (waiting[0], mgpu)
            if first is None:
                return
            key, mgpu = first
            heappop(self._waiting[mgpu])
            self._due[key] = (now, mgpu)
            self._due_mgpu += mgpu
            left -= mgpu

    def still_due_s(self, now: int) -> list[int]:
        """Return the seconds until `now` in which each waiting job was due, if it ever was."""
        waited_s = dict(self._waited_s)
        for key, (since, _) in self._due.items():
            waited_s[key] = waited_s.get(key, 0) + now - since
        return list(waited_s.values())


class Observer:
    """The meters of all teams and departments, and of the whole fleet over time.

    `series` has tuples: second, milli-GPU in use, milli-GPU requested by waiting jobs.
    """

    def __init__(self, scene: Scene, *, horizon_s: int, tolerance_s: int) -> None:
        self.teams = {name: Team(mgpu, tolerance_s) for name, mgpu in scene.teams.items()}
        self.departments = {
            name: Team(mgpu, tolerance_s) for name, mgpu in scene.departments.items()
        }
        self._meters = {
            name: (team, *(self.departments[node] for node in scene.above(name)))
            for name, team in self.teams.items()
        }
        self.horizon_s = horizon_s
        self.series: list[tuple[int, int, int]] = []
        self._use = self._pending = 0
        self._touched: dict[Team, None] = {}

    def queued(self, task: Measured, now: int) -> None:
        """Record that a job waits."""
        for meter in self._touch(task, now):
            meter.queued(task)
        self._pending += task.mgpu

    def started(self, task: Measured, now: int) -> None:
        """Record that a job starts."""
        for meter in self._touch(task, now):
            meter.started(task, now)
        self._pending -= task.mgpu
        self._use += task.mgpu

    def released(self, task: Measured, now: int) -> None:
        """Record that a job no longer holds its GPUs."""
        for meter in self._touch(task, now):
            meter.use -= task.mgpu
        self._use -= task.mgpu

    def settle(self, now: int) -> None:
        """Close the instant `now`."""
        if not self._touched:
            return
        for meter in self._touched:
            meter.settle(now, self.horizon_s)
        self._touched = {}
        self.series.append((now, self._use, self._pending))

    def close(self) -> None:
        """Complete the integrals up to the horizon at the end of the run."""
        for meter in (*self.teams.values(), *self.departments.values()):
            meter.advance(self.horizon_s)
            meter.lasting.set(0, self.horizon_s)
            meter.divisible.set(0, self.horizon_s)

    def _touch(self, task: Measured, now: int) -> tuple[Team, ...]:
        """Return the meters of the task's team and of its departments.

        The meters are integrated up to `now` and marked for the next `settle`.
        """
        meters = self._meters[task.team]
        until = min(now, self.horizon_s)
        for meter in meters:
            meter.advance(until)
            self._touched[meter] = None
        return meters
