"""Space inside a team's own limits, reserved for its first job that only these refuse (R-78).

Such a job waits for its own team's jobs only, so it needs no reservation of devices. These would
stay idle while quota refuses the job. But small jobs of the team behind it would use up again and
again what ends there, and it would wait for good. So these jobs follow the same rule as any job
behind a reservation. Such a job starts only if it is gone when the first job fits, by the known
ends of the team's jobs, or if there is space for both. This is EASY backfill (Lifka, 1995) with the
limit as the machine.

Nothing is reserved for a job that would have to borrow. Jobs that fit in the team's guarantee pass
it again and again, so a reservation for it would help no job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from arbiter.api.snapshot import QueuedJob
from arbiter.backfill.known_ends import KnownEnds
from arbiter.cache.claims import Earmark
from arbiter.cache.pool import Pool
from arbiter.cache.running import Holding, Node
from arbiter.placement.free_devices import Shape
from arbiter.placement.resources import is_cpu_or_memory
from arbiter.quota.tree import UNLIMITED


@dataclass(slots=True, eq=False)
class JobUse:
    """The milli-GPU that one job of a team holds or will get, its class, and its end.

    `end` is when it is gone at the latest (epoch seconds; None: unknown). `comes_first` says
    whether the job comes before the requesting job in the team's order (class, submit time, id). It
    is True for starts of this cycle and for claims, and False for stopping attempts.
    """

    mgpu: int
    priority_class: str
    end: int | None
    comes_first: bool


class TeamUse:
    """The use of each team's jobs, and when it ends."""

    def __init__(self, pool: Pool, ends: KnownEnds) -> None:
        self._pool = pool
        self._ends = ends
        self._new: dict[int, list[QueuedJob]] = {}

    def note_start(self, job: QueuedJob, team: int) -> None:
        """Note that `job` starts in this cycle."""
        self._new.setdefault(team, []).append(job)

    def job_uses(self, team: int, job: QueuedJob, *, before: bool = False) -> Iterator[JobUse]:
        """Return the use of all other jobs of the team of `job`.

        With `before`, running jobs that come after it are left out. A stopping attempt is gone at
        the end of its grace, or of its time limit before that. A claim replaces attempts of its own
        team that are stopped for it.
        """
        pool, ends = self._pool, self._ends
        replaced: dict[Holding, int] = {}
        for earmark in self._claims(team):
            claimed = earmark.job
            yield JobUse(claimed.mgpu, claimed.priority_class, ends.of_claim(earmark), True)
            left = claimed.mgpu
            for one in earmark.going:
                if one.team == team:
                    replaced[one] = min(left, one.mgpu)
                    left -= replaced[one]
        for new in self._new.get(team, ()):
            yield JobUse(new.mgpu, new.priority_class, ends.of_start(new, pool.taken_at), True)
        for leaving in (*pool.leaving, *pool.stopped):
            if leaving.team == team:
                gone_by = max(pool.taken_at, pool.grace_until(leaving))
                if (over := ends.of(leaving)) is not None:
                    gone_by = min(gone_by, over)
                mgpu = leaving.mgpu - replaced.get(leaving, 0)
                yield JobUse(mgpu, leaving.run.priority_class, gone_by, False)
        place = -pool.config.priority(job.priority_class).order, job.submitted_at, job.id
        for holding in self._running(team):
            if holding not in pool.stopped:
                run = holding.run
                is_first = (-holding.order, run.submitted_at, run.job) < place
                if is_first or not before:
                    yield JobUse(holding.mgpu, run.priority_class, ends.of(holding), is_first)

    def counted_mgpu(self, team: int) -> int:
        """Return the part of the team's use that is known job by job; of claims, the free part."""
        leaving = (one.mgpu for one in self._pool.leaving if one.team == team)
        return (
            sum(one.mgpu for one in self._running(team))
            + sum(leaving)
            + sum(new.mgpu for new in self._new.get(team, ()))
            + sum(one.uncovered_mgpu for one in self._claims(team))
        )

    def _claims(self, team: int) -> list[Earmark]:
        return [one for one in self._pool.earmarks.values() if one.team == team]

    def _running(self, team: int) -> Iterator[Holding]:
        jobs = self._pool.holdings.teams.get(team)
        for holding in () if jobs is None else (one.what for one in jobs.jobs):
            if isinstance(holding, Holding):
                yield holding

    def end_of(self, holding: Holding) -> int | None:
        """Return when an attempt that is not being stopped is gone at the latest, if known."""
        return self._ends.of(holding)

    def on_nodes(self, team: int) -> Counter[Node]:
        """Return what the team's running jobs hold of each node and of its CPU and memory."""
        found = Counter[Node]()
        for holding in self._running(team):
            for slot in holding.run.slots:
                found[holding.run.cluster, slot.node] += slot.mgpu
        return found

    def is_in_guarantee_by(self, at: int, job: QueuedJob, team: int) -> bool:
        """Return whether `job` fits in its team's guarantee at a time, after earlier jobs.

        These are the jobs that come before it and still run then. Later jobs, which have passed it,
        do not count.
        """
        left = self._pool.quota.guaranteed[team]
        if job.mgpu > left:
            return False
        for use in self.job_uses(team, job, before=True):
            is_there = use.comes_first and (use.end is None or use.end > at)
            if is_there and use.mgpu <= left:
                left -= use.mgpu
        return job.mgpu <= left


#: The number of a team's jobs for which space may be reserved, and for each the number of times at
#: which it may fit in the guarantee.
_TRIES = 4
_MOMENTS = 8
#: The number of device checks per reservation that the policy allows; later jobs are assumed to
#: have a place.
_LOOKS = 4


@dataclass(slots=True)
class ReservedSpace:
    """Space in a team's limits for `job` from `start_at` on, when it fits in the team's guarantee.

    Its quota has `spare_mgpu` more then, and its class `spare_of_class_mgpu` more.
    """

    job: QueuedJob
    start_at: int
    spare_mgpu: int
    spare_of_class_mgpu: int

    def leaves_enough(self, mgpu: int, priority_class: str) -> bool:
        """Return whether it has space if `mgpu` of its team in such a class is in use then."""
        return mgpu <= self.spare_mgpu and (
            priority_class != self.job.priority_class or mgpu <= self.spare_of_class_mgpu
        )

    def charge(self, mgpu: int, priority_class: str) -> None:
        """Add `mgpu` of its team in such a class to the use then."""
        self.spare_mgpu -= mgpu
        if priority_class == self.job.priority_class:
            self.spare_of_class_mgpu -= mgpu


class OwnLimits:
    """Reserved space in the limits of teams, in one pool and cycle.

    There is at most one per team, for the first job in its order for which it is possible.
    """

    def __init__(
        self, pool: Pool, use: TeamUse, ready_at: Callable[[Shape, int], int | None]
    ) -> None:
        """Start without reserved space.

        `ready_at` returns when there are devices for a shape by known ends, at the earliest at a
        given time.
        """
        self._pool = pool
        self._use = use
        self._ready_at = ready_at
        self._looks_left = _LOOKS * pool.policy.reservations_max
        #: Jobs with reserved devices: team, job and end, if that is known.
        self._reserved: list[tuple[int, QueuedJob, int | None]] = []
        #: Jobs that limits refused, by team; and the reserved space for one of them, once needed
        #: (None: not possible).
        self._refused: dict[int, list[tuple[QueuedJob, Shape, bool]]] = {}
        self._spaces: dict[int, ReservedSpace | None] = {}

    def refuse(self, job: QueuedJob, team: int, shape: Shape, *, has_place: bool) -> None:
        """Note that the team's own limit, or its cap in the class of `job`, refuses the job.

        `has_place`: its devices are free, or would be if nothing was lent.
        """
        refused = self._refused.setdefault(team, [])
        if len(refused) < _TRIES:
            refused.append((job, shape, has_place))
            if self._spaces.get(team, self) is None:
                del self._spaces[team]

    def __contains__(self, team: int) -> bool:
        """Return whether space may be reserved in the limits of a team."""
        return team in self._refused

    def of(self, team: int) -> ReservedSpace | None:
        """Return the reserved space in the limits of a team, or None."""
        if team not in self._refused:
            return None
        if team not in self._spaces:
            found = (self._look(team, *refused) for refused in self._refused[team])
            self._spaces[team] = next((space for space in found if space is not None), None)
        return self._spaces[team]

    def longest_s(
        self, team: int, mgpu: int, priority_class: str
    ) -> tuple[int, ReservedSpace | None]:
        """Return how long such a job of the team may run from now on, and the space that limits it.

        Return (UNLIMITED, None) where nothing limits it.
        """
        space = self.of(team)
        if space is None or space.leaves_enough(mgpu, priority_class):
            return UNLIMITED, None
        return space.start_at - self._pool.taken_at, space

    def claim_delays(
        self, job: QueuedJob, team: int, end: int, victims: Collection[Holding]
    ) -> bool:
        """Return whether a claim of `job` would take the reserved space; it would run until `end`.

        `victims` of its team that would run beyond the reserved start offset it.
        """
        space = self.of(team)
        if space is None or end <= space.start_at:
            return False
        mgpu = {job.priority_class: job.mgpu}
        for one in victims:
            over = self._use.end_of(one)
            if one.team == team and (over is None or over > space.start_at):
                cls = one.run.priority_class
                mgpu[cls] = mgpu.get(cls, 0) - one.mgpu
        of_class = mgpu.get(space.job.priority_class, 0)
        return sum(mgpu.values()) > max(0, space.spare_mgpu) or of_class > max(
            0, space.spare_of_class_mgpu
        )

    def note(self, team: int, job: QueuedJob, end: int | None) -> None:
        """Note that a job of the team starts, or gets a claim, and runs until `end`."""
        space = self._spaces.get(team)
        if space is not None and (end is None or end > space.start_at):
            space.charge(job.mgpu, job.priority_class)

    def note_reservation(self, team: int, job: QueuedJob, end: int | None) -> None:
        """Note that devices are reserved for a job of the team."""
        self._reserved.append((team, job, end))
        self.note(team, job, end)

    def forget(self, team: int) -> None:
        """Compute the reserved space again: a job of the team ends sooner than was known."""
        self._spaces.pop(team, None)

    def close(self) -> None:
        """End the cycle: no device check is possible any more."""
        self._ready_at = _nobody_knows

    def _look(
        self, team: int, job: QueuedJob, shape: Shape, has_place: bool
    ) -> ReservedSpace | None:
        pool = self._pool
        uses = list(self._use.job_uses(team, job))
        later = [
            JobUse(other.mgpu, other.priority_class, end, True)
            for of, other, end in self._reserved
            if of == team
        ]
        cls, cap = job.priority_class, pool.config.priority(job.priority_class).cap_mgpu
        of_class = sum(one.mgpu for one in (*uses, *later) if one.priority_class == cls)
        used = sum(one.mgpu for one in (*uses, *later))
        # Any other use in the ledger has no known end.
        used += max(0, pool.now.base[team] - self._use.counted_mgpu(team))
        space = ReservedSpace(
            job,
            pool.taken_at,
            pool.quota.limits[team] - job.mgpu - used,
            UNLIMITED if cap is None else cap - job.mgpu - of_class,
        )
        known = sorted((one for one in (*uses, *later) if one.end is not None), key=_end)
        moments = 0
        for at, one in enumerate(known):
            assert one.end is not None
            space.start_at = max(space.start_at, one.end)
            space.charge(-one.mgpu, one.priority_class)
            is_last = at + 1 == len(known) or _end(known[at + 1]) > space.start_at
            if is_last and space.leaves_enough(0, cls):
                if self._use.is_in_guarantee_by(space.start_at, job, team):
                    return (
                        space if has_place or self._has_place(team, shape, space.start_at) else None
                    )
                moments += 1
                if moments == _MOMENTS:
                    break
        return None

    def _has_place(self, team: int, shape: Shape, at: int) -> bool:
        """Return whether there may be devices at that time.

        They may come from known ends, or in sum from free, lent and the team's own GPUs. A job
        without a place then waits for other teams, not for its own.
        """
        pool, more = self._pool, Counter[str]()
        free, lent = pool.free, pool.holdings.borrowed.by_node
        clusters = free.clusters(shape.clusters)
        for (cluster, node), mgpu in self._use.on_nodes(team).items():
            if (
                cluster in clusters
                and not is_cpu_or_memory(node)
                and free.is_of(shape.kinds, cluster, node)
                and not free.fits_on(cluster, node, shape)
            ):
                back = mgpu + lent.get(cluster, {}).get(node, 0)
                more[cluster] += free.left(cluster, node) + back >= shape.mgpu
        if any(
            free.count(cluster, shape) + more[cluster] >= shape.node_count for cluster in clusters
        ):
            return True
        if self._looks_left <= 0:
            return True
        self._looks_left -= 1
        ready_at = self._ready_at(shape, at)
        return ready_at is not None and ready_at <= at


def _nobody_knows(shape: Shape, first: int) -> int | None:
    return None


def _end(one: JobUse) -> int:
    assert one.end is not None
    return one.end
