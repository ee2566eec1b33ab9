"""Waiting jobs of one pool, grouped where they differ only in age, and reused across cycles."""

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
from arbiter.queue.order import Age, JobClass, Priority, TeamQueue, UserQueue


class Group(NamedTuple):
    """Properties of equal jobs in the current pool configuration.

    These are its team (None: unknown), its request, its priority class, and the verdict on its jobs
    (see `PoolConfig.verdict`).
    """

    team: int | None
    shape: Shape
    priority: Priority
    code: Code | None
    could_ever_mgpu: int


@dataclass(slots=True, eq=False)
class PendingJobs:
    """Jobs like `first`, the oldest at the front.

    `pending_class` is their class, with the jobs of other users, once a cycle needed it.
    """

    first: QueuedJob
    ages: list[Age] = field(default_factory=list)
    pending_class: PendingClass | None = None


@dataclass(slots=True, eq=False)
class PendingClass:
    """Jobs that differ only in user and age, by user; there is always at least one.

    `at` is their queue and class, if they are queued in this cycle.
    """

    group: Group
    by_user: list[PendingJobs] = field(default_factory=list)
    at: tuple[TeamQueue, JobClass] | None = None

    @property
    def others(self) -> tuple[OtherPool, ...]:
        """Return the other pools that the jobs accept."""
        return self.by_user[0].first.others


#: The common properties of the jobs of one class. For jobs that accept several pools they include
#: the kind without the user, because one shape in this pool may be several shapes in another.
_ClassKey = tuple[int | None, Shape, str, Hashable]


class PendingQueue:
    """All queued jobs of one pool, by id and by kind.

    `demands` counts kinds of jobs by the CPU and memory that they request, for those that request
    any. `queues` are the jobs of known teams, as `prepare_queues` builds them for a cycle. They are
    reused by the next cycle, so call `touch` after changing one.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, QueuedJob] = {}
        self.by_kind: dict[Hashable, PendingJobs] = {}
        #: The jobs of each shape by class, without the new kinds.
        self._classes: dict[Shape, dict[_ClassKey, PendingClass]] = {}
        self._new: dict[Hashable, PendingJobs] = {}
        self._of_team: dict[int | None, dict[_ClassKey, PendingClass]] = {}
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
        pending = self.by_kind.get(kind)
        if pending is None:
            pending = self._open(kind, job)
        age = job.submitted_at, job.id
        if pending.ages and age < pending.ages[-1]:
            insort(pending.ages, age)
            if pending.ages[0] == age:
                self._touch_team_of(pending)
        else:
            pending.ages.append(age)

    def fill(self, jobs: Iterable[QueuedJob]) -> None:
        """Add all of `jobs` at once; there must be none before."""
        self.jobs = {job.id: job for job in jobs}
        by_kind = self.by_kind
        for job in self.jobs.values():
            kind = _kind(job)
            pending = by_kind.get(kind)
            if pending is None:
                pending = self._open(kind, job)
            pending.ages.append((job.submitted_at, job.id))
        for pending in by_kind.values():
            pending.ages.sort()

    def remove(self, job_id: str) -> QueuedJob:
        """Remove a job that no longer waits, and return it."""
        job = self.jobs.pop(job_id)
        kind = _kind(job)
        pending = self.by_kind[kind]
        at = bisect_left(pending.ages, (job.submitted_at, job_id))
        del pending.ages[at]
        if at == 0:
            self._touch_team_of(pending)
        if not pending.ages:
            self._close(kind, pending)
            demand = demand_of(job)
            if demand is not None:
                self.demands[demand] -= 1
                if not self.demands[demand]:
                    del self.demands[demand]
        return job

    def _open(self, kind: Hashable, first: QueuedJob) -> PendingJobs:
        pending = self.by_kind[kind] = self._new[kind] = PendingJobs(first)
        demand = demand_of(first)
        if demand is not None:
            self.demands[demand] += 1
        return pending

    def _close(self, kind: Hashable, pending: PendingJobs) -> None:
        del self.by_kind[kind]
        pending_class = pending.pending_class
        if pending_class is not None and pending_class.group.team is not None:
            self._changed.add(pending_class.group.team)
        if pending_class is None:
            del self._new[kind]
        elif len(pending_class.by_user) > 1:
            pending_class.by_user.remove(pending)
        else:
            of_shape = self._classes[pending_class.group.shape]
            key = _class_key(pending_class.group, pending)
            del of_shape[key]
            if not of_shape:
                del self._classes[pending_class.group.shape]
            of_team = self._of_team[pending_class.group.team]
            del of_team[key]
            if not of_team:
                del self._of_team[pending_class.group.team]
            # They refer to each other, so only the garbage collector would free them.
            pending.pending_class = None

    def of(self, job: QueuedJob) -> PendingJobs:
        """Return all jobs of the kind of a waiting job."""
        return self.by_kind[_kind(job)]

    def touch(self, team: int) -> None:
        """Note that jobs of a team were settled, or got a reason to wait."""
        self._touched.add(team)

    def _touch_team_of(self, pending: PendingJobs) -> None:
        if pending.pending_class is not None and pending.pending_class.group.team is not None:
            self._touched.add(pending.pending_class.group.team)

    def by_shape(
        self, group_of: Callable[[QueuedJob], Group]
    ) -> Mapping[Shape, Mapping[_ClassKey, PendingClass]]:
        """Return all jobs by shape and class; `group_of` classifies the first job of new kinds."""
        for pending in self._new.values():
            group = group_of(pending.first)
            of_shape = self._classes.setdefault(group.shape, {})
            key = _class_key(group, pending)
            pending_class = of_shape.get(key)
            if pending_class is None:
                pending_class = of_shape[key] = PendingClass(group)
                self._of_team.setdefault(group.team, {})[key] = pending_class
            pending.pending_class = pending_class
            pending_class.by_user.append(pending)
            if group.team is not None:
                self._changed.add(group.team)
        self._new.clear()
        return self._classes

    def prepare_queues(
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
        out = self._by_pending(left_out)
        for _, pending_class in out.values():
            if pending_class.group.team is not None:
                self._changed.add(pending_class.group.team)
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
        out: Mapping[int, tuple[set[Age], PendingClass]],
        reserves: Callable[[QueuedJob], bool],
    ) -> tuple[TeamQueue | None, bool]:
        """Return the queue of a team (None: no jobs), and whether it is for this cycle only."""
        queue: TeamQueue | None = None
        is_for_once = False
        for pending_class in self._of_team.get(team, {}).values():
            group = pending_class.group
            cls: JobClass | None = None
            for pending in pending_class.by_user:
                ages = pending.ages
                if id(pending) in out:
                    ages = [age for age in ages if age not in out[id(pending)][0]]
                    is_for_once = True
                if ages:
                    if cls is None:
                        cls = JobClass(group.shape, group.priority)
                        cls.code = cls.code_at_first = group.code
                        cls.could_ever_mgpu = group.could_ever_mgpu
                        if pending_class.others:
                            # The first job of the kind may be gone; all its jobs accept the same
                            # pools.
                            cls.may_reserve = reserves(self.jobs[ages[0][1]])
                            is_for_once = True
                    cls.user_queues.append(UserQueue(cls, pending.first.user, ages))
            pending_class.at = None
            if cls is not None:
                if queue is None:
                    queue = TeamQueue(team)
                queue.classes.append(cls)
                pending_class.at = queue, cls
        return queue, is_for_once

    def _by_pending(self, jobs: Iterable[str]) -> dict[int, tuple[set[Age], PendingClass]]:
        """Return the ages of `jobs` by the identity of their `PendingJobs`, with their class."""
        found: dict[int, tuple[set[Age], PendingClass]] = {}
        for job_id in jobs:
            job = self.jobs[job_id]
            pending = self.of(job)
            assert pending.pending_class is not None
            of_pending = found.setdefault(id(pending), (set(), pending.pending_class))
            of_pending[0].add((job.submitted_at, job_id))
        return found

    def homeless(self, left_out: Collection[str]) -> Iterator[Age]:
        """Return the jobs of unknown teams, without the jobs `left_out`."""
        for pending_class in self._of_team.get(None, {}).values():
            for pending in pending_class.by_user:
                for age in pending.ages:
                    if age[1] not in left_out:
                        yield age

    def forget_groups(self) -> None:
        """Drop all groups and queues, because the pool is set up anew."""
        self._classes.clear()
        self._of_team.clear()
        for queue in self.queues.values():
            queue.close()
        self.queues.clear()
        self._changed.clear()
        self._touched.clear()
        self._comparing.clear()
        self._new = dict(self.by_kind)
        for pending in self._new.values():
            pending.pending_class = None


def _class_key(group: Group, pending: PendingJobs) -> _ClassKey:
    first = pending.first
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
        job.closed_clusters,
        job.closed_nodes,
    )
