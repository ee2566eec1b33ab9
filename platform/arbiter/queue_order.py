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


@dataclass(frozen=True, slots=True)
class Priority:
    """What the arbiter needs of a priority class; `cap_mgpu` of None is no cap."""

    id: str
    order: int = 0
    preempts: bool = False
    cap_mgpu: int | None = None


@dataclass(slots=True, eq=False)
class JobClass:
    """The jobs of one team that differ only in age, first come first: `jobs` are places in the
    pool's list by age, `at` is the next of them. Once that one cannot start, none of them can
    in this cycle: `code` says why, and WAITING_FOR_FREE_GPUS that quota or placement refused
    it. `could_ever_mgpu` goes with NEVER_FITS."""

    shape: Shape
    priority: Priority
    jobs: list[int] = field(default_factory=list)
    at: int = 0
    code: Code | None = None
    could_ever_mgpu: int = 0


class TeamQueue:
    """One team's waiting jobs in one pool: priority class first, then submit time, then id.

    `blocked_mgpu` is what jobs ask for that fit in the team's guarantee and keep their
    place in it although they cannot start now.
    """

    __slots__ = ("_heap", "blocked_mgpu", "classes", "team")

    def __init__(self, team: int) -> None:
        self.team = team
        self.classes: list[JobClass] = []
        self.blocked_mgpu = 0
        self._heap: list[tuple[int, int, JobClass]] = []

    def open(self) -> None:
        """Put the classes that may still start into order."""
        self._heap = [
            (-cls.priority.order, cls.jobs[0], cls) for cls in self.classes if cls.code is None
        ]
        heapify(self._heap)

    def head(self) -> JobClass | None:
        """The class whose next job is the team's next."""
        return self._heap[0][2] if self._heap else None

    def advance(self) -> None:
        """The next job is settled (started, or its GPUs are being freed): on to the one after."""
        minus_order, _, cls = heappop(self._heap)
        cls.at += 1
        if cls.at < len(cls.jobs):
            heappush(self._heap, (minus_order, cls.jobs[cls.at], cls))

    def fail(self, code: Code) -> None:
        """The next job cannot start in this cycle, and so none of its class can."""
        heappop(self._heap)[2].code = code


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


class ServiceOrder:
    """Merges the waiting jobs of all teams into the one order in which they are served.

    At every step the team whose next job has the smallest (standing, age) goes; since no
    job passes an earlier one of its team, that is the order by the largest of these up to and
    including each job. `standings` has the standing for each key given with jobs.
    """

    __slots__ = ("_jobs", "_line", "_line_ends", "_stand_of", "standings")

    def __init__(self) -> None:
        self.standings: dict[tuple[int, int], Standing] = {}
        self._stand_of: dict[int, tuple[int, int]] = {}
        self._line: dict[int, list[int]] = {}
        self._jobs: list[int] = []
        self._line_ends: list[int] = []

    def add(self, priority: int, jobs: Iterable[int], stand: tuple[int, int]) -> None:
        """Add jobs (places by age) of one priority and standing to the current team's line."""
        self._line.setdefault(priority, []).extend(jobs)
        self._stand_of.update(dict.fromkeys(jobs, stand))

    def end_line(self) -> None:
        """The current team's line is complete."""
        for priority in sorted(self._line, reverse=True):
            jobs = self._line[priority]
            jobs.sort()
            self._jobs.extend(jobs)
        self._line = {}
        self._line_ends.append(len(self._jobs))

    def merged(self) -> list[int]:
        """All jobs, by their places by age, in the order of service."""
        number = {
            standing: i << 40 for i, standing in enumerate(sorted(set(self.standings.values())))
        }
        place = {key: number[standing] for key, standing in self.standings.items()}
        keys: list[int] = []
        start = 0
        for end in self._line_ends:
            highest = -1
            for job in self._jobs[start:end]:
                key = place[self._stand_of[job]] | job
                if key > highest:
                    highest = key
                keys.append(highest)
            start = end
        return [self._jobs[i] for i in sorted(range(len(keys)), key=keys.__getitem__)]
