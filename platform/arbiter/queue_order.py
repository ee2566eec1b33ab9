"""The order of service (semantics section 4): between teams, and inside a team.

Between teams, guaranteed demand comes first. A team's next job draws on the lowest guarantee
on its path that it fits in: its team's own, else an ancestor's idle one (its reserve or what
a sister team leaves idle), else spare GPUs of the pool. What could be reclaimed from others
anyway is thus served before it is lent to them. Lower levels come first, then the lowest
protected use over guarantee, then rank, submit time and id.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from arbiter.decisions import Code
from arbiter.placement import Shape

#: Scale of an exactly ordered ratio: above the product of any two guarantees (2^62 each).
_RATIO_BITS = 124


def exact_ratio(numerator: int, denominator: int) -> int:
    """An integer that orders like `numerator / denominator`, equal for equal ratios.

    Two different fractions with denominators below 2^62 differ by more than 2^-124, so
    their scaled floors differ too. A denominator of 0 gives 0.
    """
    return (numerator << _RATIO_BITS) // denominator if denominator else 0


class Standing(NamedTuple):
    """Where a job stands between the teams; smaller is served earlier."""

    level: int
    ratio: int
    minus_rank: int


#: Standing of jobs that are not in the order of service.
NOWHERE = Standing(1 << 40, 0, 0)


@dataclass(slots=True)
class Reason:
    """Why a job class waits; see `Waiting`."""

    code: Code
    numbers: dict[str, int]
    node: str | None
    standing: Standing


@dataclass(slots=True)
class JobClass:
    """The jobs of one team that differ only in age, first come first: `jobs` are places in the
    pool's list by age. Once one of them cannot start, none of them can in this cycle."""

    shape: Shape
    mgpu: int
    priority_class: str
    order: int
    preempts: bool
    jobs: list[int] = field(default_factory=list)
    at: int = 0
    reason: Reason | None = None

    @property
    def key(self) -> tuple[int, int]:
        """Place of its next job in the team's order."""
        return (-self.order, self.jobs[self.at])


class TeamQueue:
    """One team's waiting jobs in one pool: priority class first, then submit time, then id."""

    __slots__ = ("_heap", "blocked_mgpu", "classes", "team")

    def __init__(self, team: int) -> None:
        self.team = team
        self.classes: list[JobClass] = []
        self.blocked_mgpu = 0
        self._heap: list[tuple[int, int, JobClass]] = []

    def open(self) -> None:
        """Put the classes that may still start into order."""
        self._heap = [(*cls.key, cls) for cls in self.classes if cls.reason is None]
        heapify(self._heap)

    def head(self) -> JobClass | None:
        """The class whose next job is the team's next."""
        return self._heap[0][2] if self._heap else None

    def advance(self) -> None:
        """The next job is settled (started, or its GPUs are being freed): on to the one after."""
        cls = heappop(self._heap)[2]
        cls.at += 1
        if cls.at < len(cls.jobs):
            heappush(self._heap, (*cls.key, cls))

    def fail(self, reason: Reason) -> None:
        """The next job cannot start in this cycle, and so none of its class can."""
        heappop(self._heap)[2].reason = reason


class Agenda:
    """All teams of one pool by the standing of their next job.

    Teams that draw on the same guarantee wait in one group: a start there moves the group
    as a whole, so that it costs as many steps as the tree is deep, not as there are teams.
    A group is known by its level and the node that it draws on.
    """

    __slots__ = ("_entries", "_groups", "_keys")

    def __init__(self) -> None:
        self._groups: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self._keys: dict[tuple[int, int], tuple[int, int, int]] = {}
        self._entries: list[tuple[int, int, int, int, int]] = []

    def enlist(self, source: int, standing: Standing, job: int, team: int) -> None:
        """Add `team`, whose next job is `job` and draws on the guarantee of node `source`."""
        group = self._groups.setdefault((standing.level, source), [])
        heappush(group, (standing.minus_rank, job, team))
        self.refresh(source, standing.level, standing.ratio)

    def refresh(self, source: int, level: int, ratio: int) -> None:
        """Renew the standing of a group, if it is one, after its ratio or first team changed."""
        group = self._groups.get((level, source))
        if not group:
            self._keys.pop((level, source), None)
            return
        key = (ratio, group[0][0], group[0][1])
        if self._keys.get((level, source)) != key:
            self._keys[level, source] = key
            heappush(self._entries, (level, *key, source))

    def pop(self) -> tuple[int, int] | None:
        """Take out the (source, team) that is served next; None when nobody is left."""
        while self._entries:
            level, ratio, minus_rank, job, source = heappop(self._entries)
            if self._keys.get((level, source)) != (ratio, minus_rank, job):
                continue
            team = heappop(self._groups[level, source])[2]
            self.refresh(source, level, ratio)
            return source, team
        return None


def service_order(lines: Iterable[Iterable[tuple[int, int, int]]]) -> list[int]:
    """Merge the teams' lines into one order of service; returns places by age.

    A line gives its jobs in team order as (minus priority, place by age, standing).
    At every step the team whose next job has the smallest (standing, age) goes; since a line is
    never reordered, that is the order by the largest key up to and including each job.
    """
    keys: list[int] = []
    jobs: list[int] = []
    for line in lines:
        highest = -1
        for _, job, standing in line:
            key = (standing << 40) | job
            if key > highest:
                highest = key
            keys.append(highest)
            jobs.append(job)
    return [jobs[i] for i in sorted(range(len(jobs)), key=keys.__getitem__)]
