"""What waits in one pool, in lines of jobs that differ in age alone, kept from cycle to cycle."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from arbiter.decisions import Code
from arbiter.placement import Shape
from arbiter.queue_order import Age, Priority
from arbiter.rooms import Demand, demand_of
from arbiter.snapshot import OtherPool, QueuedJob


class Group(NamedTuple):
    """What a line is to the pool as it is laid out: its team (None: an unknown one), what it asks
    of the devices, its priority class, and the word on its jobs (see `Ground.verdict`)."""

    team: int | None
    shape: Shape
    priority: Priority
    code: Code | None
    could_ever_mgpu: int


@dataclass(slots=True, eq=False)
class Line:
    """Jobs like `first`, the oldest at the front. `kin` are lines of the same class, this one among
    them, once a cycle has asked."""

    first: QueuedJob
    ages: list[Age] = field(default_factory=list)
    kin: Kin | None = None


@dataclass(slots=True, eq=False)
class Kin:
    """Lines whose jobs differ in user and age alone; there is always one."""

    group: Group
    lines: list[Line] = field(default_factory=list)

    @property
    def others(self) -> tuple[OtherPool, ...]:
        """The other pools that the jobs accept."""
        return self.lines[0].first.others


#: What jobs have in common whose lines are kin.
_KinKey = tuple[int | None, Shape, str, tuple[OtherPool, ...]]


class Lines:
    """All queued jobs of one pool, by id and by kind. `demands` counts the kinds that say how much
    CPU or memory they want, by that."""

    def __init__(self) -> None:
        self.jobs: dict[str, QueuedJob] = {}
        self.by_kind: dict[Hashable, Line] = {}
        #: The lines of each shape by what they are to the pool, but for those that are new.
        self._kin: dict[Shape, dict[_KinKey, Kin]] = {}
        self._new: dict[Hashable, Line] = {}
        #: All by age as they were when somebody last asked (None: nobody has), and since then.
        self._by_age: list[Age] | None = None
        self._come: set[Age] = set()
        self._gone: set[Age] = set()
        self.demands: Counter[Demand] = Counter()

    def add(self, job: QueuedJob) -> None:
        """`job` waits from now on."""
        self.jobs[job.id] = job
        kind = _kind(job)
        line = self.by_kind.get(kind)
        if line is None:
            line = self._open(kind, job)
        age = job.submitted_at, job.id
        if line.ages and age < line.ages[-1]:
            insort(line.ages, age)
        else:
            line.ages.append(age)
        if self._by_age is not None:
            _note(age, self._come, self._gone)

    def fill(self, jobs: Iterable[QueuedJob]) -> None:
        """All of `jobs` wait from now on; nobody did before."""
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
        """The job waits no more."""
        job = self.jobs.pop(job_id)
        kind = _kind(job)
        line = self.by_kind[kind]
        del line.ages[bisect_left(line.ages, (job.submitted_at, job_id))]
        if not line.ages:
            self._close(kind, line)
            demand = demand_of(job)
            if demand is not None:
                self.demands[demand] -= 1
                if not self.demands[demand]:
                    del self.demands[demand]
        if self._by_age is not None:
            _note((job.submitted_at, job_id), self._gone, self._come)
        return job

    def by_age(self) -> Sequence[Age]:
        """All of them, the oldest first; until the next change. Sorted once and put right later."""
        if self._by_age is None:
            self._by_age = sorted((job.submitted_at, job.id) for job in self.jobs.values())
        if self._gone:
            self._by_age = [age for age in self._by_age if age not in self._gone]
        if self._come:
            self._by_age += self._come
            self._by_age.sort()
        self._come.clear()
        self._gone.clear()
        return self._by_age

    def _open(self, kind: Hashable, first: QueuedJob) -> Line:
        line = self.by_kind[kind] = self._new[kind] = Line(first)
        demand = demand_of(first)
        if demand is not None:
            self.demands[demand] += 1
        return line

    def _close(self, kind: Hashable, line: Line) -> None:
        del self.by_kind[kind]
        kin = line.kin
        if kin is None:
            del self._new[kind]
        elif len(kin.lines) > 1:
            kin.lines.remove(line)
        else:
            of_shape = self._kin[kin.group.shape]
            del of_shape[_kin_key(kin.group, line)]
            if not of_shape:
                del self._kin[kin.group.shape]

    def of(self, job: QueuedJob) -> Line:
        """The line of a job that waits."""
        return self.by_kind[_kind(job)]

    def by_shape(
        self, group_of: Callable[[QueuedJob], Group]
    ) -> Mapping[Shape, Mapping[_KinKey, Kin]]:
        """All lines by the shape of their jobs and by what these are to the pool, which `group_of`
        says of those that are new."""
        for line in self._new.values():
            group = group_of(line.first)
            of_shape = self._kin.setdefault(group.shape, {})
            key = _kin_key(group, line)
            line.kin = of_shape.get(key)
            if line.kin is None:
                line.kin = of_shape[key] = Kin(group)
            line.kin.lines.append(line)
        self._new.clear()
        return self._kin

    def forget_groups(self) -> None:
        """The pool is laid out anew."""
        self._kin.clear()
        self._new = dict(self.by_kind)
        for line in self._new.values():
            line.kin = None


def _kin_key(group: Group, line: Line) -> _KinKey:
    return group.team, group.shape, group.priority.id, line.first.others


def _note(age: Age, now: set[Age], before: set[Age]) -> None:
    """`age` has come or gone `now`; undone is what was noted of it `before`."""
    if age in before:
        before.discard(age)
    else:
        now.add(age)


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
