"""Waiting jobs of one pool, in lines of jobs that differ only in age, reused across cycles."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from arbiter.api.plan import Code
from arbiter.api.snapshot import OtherPool, QueuedJob
from arbiter.fairshare.fair_tree import FairShares
from arbiter.placement.free_devices import Shape
from arbiter.placement.resources import Demand, demand_of
from arbiter.queue.order import Age, JobClass, JobLine, Priority, TeamQueue


class Group(NamedTuple):
    """Properties of a line in the current pool configuration.

    These are its team (None: unknown), its request, its priority class, and the verdict on its jobs
    (see `PoolConfig.verdict`).
    """

    team: int | None
    shape: Shape
    priority: Priority
    code: Code | None
    could_ever_mgpu: int


@dataclass(slots=True, eq=False)
class Line:
    """Jobs like `first`, the oldest at the front.

    `kin` is the group of lines of the same class, including this one, once a cycle needed it.
    """

    first: QueuedJob
    ages: list[Age] = field(default_factory=list)
    kin: Kin | None = None


@dataclass(slots=True, eq=False)
class Kin:
    """Lines whose jobs differ only in user and age; there is always at least one.

    `at` is their queue and class, if they are queued in this cycle.
    """

    group: Group
    lines: list[Line] = field(default_factory=list)
    at: tuple[TeamQueue, JobClass] | None = None

    @property
    def others(self) -> tuple[OtherPool, ...]:
        """Return the other pools that the jobs accept."""
        return self.lines[0].first.others


#: The common properties of lines of one class. For jobs that accept several pools they include the
#: kind without the user, because one shape in this pool may be several shapes in another.
_KinKey = tuple[int | None, Shape, str, Hashable]


class Lines:
    """All queued jobs of one pool, by id and by kind.

    `demands` counts kinds of jobs by the CPU and memory that they request, for those that request
    any. `queues` are the jobs of known teams, as `line_up` prepares them for a cycle. They are
    reused by the next cycle, so call `touch` after changing one.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, QueuedJob] = {}
        self.by_kind: dict[Hashable, Line] = {}
        #: The lines of each shape by class, without the new ones.
        self._kin: dict[Shape, dict[_KinKey, Kin]] = {}
        self._new: dict[Hashable, Line] = {}
        self._of_team: dict[int | None, dict[_KinKey, Kin]] = {}
        self.queues: dict[int, TeamQueue] = {}
        #: The teams whose queues must be rebuilt, those whose first job may have changed, and those
        #: whose users are ordered by use.
        self._changed: set[int] = set()
        self._touched: set[int] = set()
        self._comparing: set[int] = set()
        self.demands: Counter[Demand] = Counter()

    def add(self, job: QueuedJob) -> None:
        """Add a waiting job."""
        self.jobs[job.id] = job
        kind = _kind(job)
        line = self.by_kind.get(kind)
        if line is None:
            line = self._open(kind, job)
        age = job.submitted_at, job.id
        if line.ages and age < line.ages[-1]:
            insort(line.ages, age)
            if line.ages[0] == age:
                self._touch_line(line)
        else:
            line.ages.append(age)

    def fill(self, jobs: Iterable[QueuedJob]) -> None:
        """Add all of `jobs` at once; there must be none before."""
        self.jobs = {job.id: job for job in jobs}
        by_kind = self.by_kind
        for job in self.jobs.values():
            kind = _kind(job)
            line = by_kind.get(kind)
            if line is None:
                line = self._open(kind, job)
            line.ages.append((job.submitted_at, job.id))
        for line in by_kind.values():
            line.ages.sort()

    def remove(self, job_id: str) -> QueuedJob:
        """Remove a job that no longer waits, and return it."""
        job = self.jobs.pop(job_id)
        kind = _kind(job)
        line = self.by_kind[kind]
        at = bisect_left(line.ages, (job.submitted_at, job_id))
        del line.ages[at]
        if at == 0:
            self._touch_line(line)
        if not line.ages:
            self._close(kind, line)
            demand = demand_of(job)
            if demand is not None:
                self.demands[demand] -= 1
                if not self.demands[demand]:
                    del self.demands[demand]
        return job

    def _open(self, kind: Hashable, first: QueuedJob) -> Line:
        line = self.by_kind[kind] = self._new[kind] = Line(first)
        demand = demand_of(first)
        if demand is not None:
            self.demands[demand] += 1
        return line

    def _close(self, kind: Hashable, line: Line) -> None:
        del self.by_kind[kind]
        kin = line.kin
        if kin is not None and kin.group.team is not None:
            self._changed.add(kin.group.team)
        if kin is None:
            del self._new[kind]
        elif len(kin.lines) > 1:
            kin.lines.remove(line)
        else:
            of_shape = self._kin[kin.group.shape]
            key = _kin_key(kin.group, line)
            del of_shape[key]
            if not of_shape:
                del self._kin[kin.group.shape]
            of_team = self._of_team[kin.group.team]
            del of_team[key]
            if not of_team:
                del self._of_team[kin.group.team]
            # They refer to each other, so only the garbage collector would free them.
            line.kin = None

    def of(self, job: QueuedJob) -> Line:
        """Return the line of a waiting job."""
        return self.by_kind[_kind(job)]

    def touch(self, team: int) -> None:
        """Note that jobs of a team were settled, or got a reason to wait."""
        self._touched.add(team)

    def _touch_line(self, line: Line) -> None:
        if line.kin is not None and line.kin.group.team is not None:
            self._touched.add(line.kin.group.team)

    def by_shape(
        self, group_of: Callable[[QueuedJob], Group]
    ) -> Mapping[Shape, Mapping[_KinKey, Kin]]:
        """Return all lines by shape and class; `group_of` classifies the first job of new lines."""
        for line in self._new.values():
            group = group_of(line.first)
            of_shape = self._kin.setdefault(group.shape, {})
            key = _kin_key(group, line)
            kin = of_shape.get(key)
            if kin is None:
                kin = of_shape[key] = Kin(group)
                self._of_team.setdefault(group.team, {})[key] = kin
            line.kin = kin
            kin.lines.append(line)
            if group.team is not None:
                self._changed.add(group.team)
        self._new.clear()
        return self._kin

    def line_up(
        self,
        group_of: Callable[[QueuedJob], Group],
        left_out: Iterable[str],
        shares: FairShares,
        reserves: Callable[[QueuedJob], bool],
    ) -> None:
        """Build `queues` from all jobs of known teams, without the jobs `left_out`.

        `reserves` returns whether a job that accepts several pools may hold its reservation here.
        """
        self.by_shape(group_of)
        out = self._by_line(left_out)
        for _, kin in out.values():
            if kin.group.team is not None:
                self._changed.add(kin.group.team)
        for team in self._touched | self._comparing:
            if team not in self._changed and team in self.queues:
                queue = self.queues[team]
                queue.reset()
                queue.open(shares)
        again: set[int] = set()
        for team in self._changed:
            found, is_for_once = self._queue_of(team, out, reserves)
            if is_for_once:
                again.add(team)
            self._comparing.discard(team)
            before = self.queues.get(team)
            if before is not None:
                before.close()
            if found is None:
                self.queues.pop(team, None)
                continue
            found.open(shares)
            self.queues[team] = found
            if found.compares:
                self._comparing.add(team)
        self._changed = again
        self._touched.clear()

    def _queue_of(
        self,
        team: int,
        out: Mapping[int, tuple[set[Age], Kin]],
        reserves: Callable[[QueuedJob], bool],
    ) -> tuple[TeamQueue | None, bool]:
        """Return the queue of a team (None: no jobs), and whether it is for this cycle only."""
        queue: TeamQueue | None = None
        is_for_once = False
        for kin in self._of_team.get(team, {}).values():
            group = kin.group
            cls: JobClass | None = None
            for line in kin.lines:
                ages = line.ages
                if id(line) in out:
                    ages = [age for age in ages if age not in out[id(line)][0]]
                    is_for_once = True
                if ages:
                    if cls is None:
                        cls = JobClass(group.shape, group.priority)
                        cls.code = cls.code_at_first = group.code
                        cls.could_ever_mgpu = group.could_ever_mgpu
                        if kin.others:
                            # The first job of the line may be gone; all its jobs accept the same
                            # pools.
                            cls.may_reserve = reserves(self.jobs[ages[0][1]])
                            is_for_once = True
                    cls.lines.append(JobLine(cls, line.first.user, ages))
            kin.at = None
            if cls is not None:
                if queue is None:
                    queue = TeamQueue(team)
                queue.classes.append(cls)
                kin.at = queue, cls
        return queue, is_for_once

    def _by_line(self, jobs: Iterable[str]) -> dict[int, tuple[set[Age], Kin]]:
        """Return the ages of `jobs` by the identity of their lines, with the class of each line."""
        found: dict[int, tuple[set[Age], Kin]] = {}
        for job_id in jobs:
            job = self.jobs[job_id]
            line = self.of(job)
            assert line.kin is not None
            of_line = found.setdefault(id(line), (set(), line.kin))
            of_line[0].add((job.submitted_at, job_id))
        return found

    def homeless(self, left_out: Collection[str]) -> Iterator[Age]:
        """Return the jobs of unknown teams, without the jobs `left_out`."""
        for kin in self._of_team.get(None, {}).values():
            for line in kin.lines:
                for age in line.ages:
                    if age[1] not in left_out:
                        yield age

    def forget_groups(self) -> None:
        """Drop all groups and queues, because the pool is set up anew."""
        self._kin.clear()
        self._of_team.clear()
        for queue in self.queues.values():
            queue.close()
        self.queues.clear()
        self._changed.clear()
        self._touched.clear()
        self._comparing.clear()
        self._new = dict(self.by_kind)
        for line in self._new.values():
            line.kin = None


def _kin_key(group: Group, line: Line) -> _KinKey:
    first = line.first
    kind = _kind(replace(first, user="")) if first.others else None
    return group.team, group.shape, group.priority.id, kind


def _kind(job: QueuedJob) -> Hashable:
    return (
        job.team,
        job.user,
        job.priority_class,
        job.mgpu_per_node,
        job.node_count,
        job.clusters,
        job.features,
        job.required_topology,
        job.preferred_topology,
        job.others,
        job.cpu_milli,
        job.memory_mib,
    )
