"""Room inside a team's own limits that is kept for its first job which only these refuse (R-78).

Such a job waits for its own team's jobs and for nobody else, so it needs no reservation of
devices: those would stay idle while quota refuses it. But jobs of the team behind it that are small
enough would fill what ends there again and again, and it would wait for good. So the same rule
holds for them as for whoever comes after a reservation: one starts only where it is gone when the
first job fits, by what is known of the ends of what the team runs, or where room is left for both.
This is EASY backfill (Lifka, 1995) with the limit as the machine.

Nothing is kept for who would have to borrow: what fits in the team's guarantee goes before that,
again and again, and who borrows would make room for nobody.
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
from arbiter.placement.resources import is_beside
from arbiter.quota.tree import UNLIMITED


@dataclass(slots=True, eq=False)
class Held:
    """What one job of a team holds or is promised of a pool, in milli-GPU, of which class it is,
    and when it is gone at the latest in epoch seconds (None: nobody knows). `comes_first` says
    whether the job that is asked for comes after it in the team's order (class, submit time, id);
    what starts in this cycle or is claimed counts as if."""

    mgpu: int
    priority_class: str
    end: int | None
    comes_first: bool


class TeamUse:
    """What the jobs of each team hold, and until when."""

    def __init__(self, pool: Pool, ends: KnownEnds) -> None:
        self._pool = pool
        self._ends = ends
        self._new: dict[int, list[QueuedJob]] = {}

    def note_start(self, job: QueuedJob, team: int) -> None:
        """`job` starts in this cycle."""
        self._new.setdefault(team, []).append(job)

    def held(self, team: int, job: QueuedJob, *, before: bool = False) -> Iterator[Held]:
        """What the others of the team of `job` hold, or of those that run only who come `before`
        it; what is being stopped is gone at the end of its grace, or of its time limit before that.
        A claim takes the place of those of its own team who are stopped for it."""
        pool, ends = self._pool, self._ends
        replaced: dict[Holding, int] = {}
        for earmark in self._claims(team):
            claimed = earmark.job
            yield Held(claimed.mgpu, claimed.priority_class, ends.of_claim(earmark), True)
            left = claimed.mgpu
            for one in earmark.going:
                if one.team == team:
                    replaced[one] = min(left, one.mgpu)
                    left -= replaced[one]
        for new in self._new.get(team, ()):
            yield Held(new.mgpu, new.priority_class, ends.of_start(new, pool.taken_at), True)
        for leaving in (*pool.leaving, *pool.stopped):
            if leaving.team == team:
                gone_by = max(pool.taken_at, pool.grace_until(leaving))
                if (over := ends.of(leaving)) is not None:
                    gone_by = min(gone_by, over)
                mgpu = leaving.mgpu - replaced.get(leaving, 0)
                yield Held(mgpu, leaving.run.priority_class, gone_by, False)
        place = -pool.ground.priority(job.priority_class).order, job.submitted_at, job.id
        for held in self._running(team):
            if held not in pool.stopped:
                run = held.run
                is_first = (-held.order, run.submitted_at, run.job) < place
                if is_first or not before:
                    yield Held(held.mgpu, run.priority_class, ends.of(held), is_first)

    def counted_mgpu(self, team: int) -> int:
        """What of the team's use is known job by job: of claims, what is free for them."""
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
        for held in () if jobs is None else (one.what for one in jobs.jobs):
            if isinstance(held, Holding):
                yield held

    def end_of(self, holding: Holding) -> int | None:
        """When an attempt that nobody stops is gone at the latest, if that is known."""
        return self._ends.of(holding)

    def on_nodes(self, team: int) -> Counter[Node]:
        """What the team's running jobs hold of each node and room."""
        found = Counter[Node]()
        for held in self._running(team):
            for slot in held.run.slots:
                found[held.run.cluster, slot.node] += slot.mgpu
        return found

    def is_in_guarantee_by(self, at: int, job: QueuedJob, team: int) -> bool:
        """Whether `job` fits in its team's guarantee at a moment, beside what still runs then of
        those jobs of the team that come before it. Others, which have passed it, do not count."""
        left = self._pool.quota.guaranteed[team]
        if job.mgpu > left:
            return False
        for held in self.held(team, job, before=True):
            is_there = held.comes_first and (held.end is None or held.end > at)
            if is_there and held.mgpu <= left:
                left -= held.mgpu
        return job.mgpu <= left


#: So many jobs of a team are looked at whether something can be kept for one of them, and for each
#: so many moments at which it may fit in the guarantee, too.
_TRIES = 4
_MOMENTS = 8
#: So often for each reservation that the policy allows it is asked when devices come free; who
#: comes after that is taken to have a place.
_LOOKS = 4


@dataclass(slots=True)
class Kept:
    """From `start_at` on the team's limits have room for `job`, and for `spare_mgpu` more in its
    quota and `spare_of_class_mgpu` in its class; it fits in the team's guarantee then."""

    job: QueuedJob
    start_at: int
    spare_mgpu: int
    spare_of_class_mgpu: int

    def leaves_room(self, mgpu: int, priority_class: str) -> bool:
        """Whether it still has room if `mgpu` of its team in such a class is in use then."""
        return mgpu <= self.spare_mgpu and (
            priority_class != self.job.priority_class or mgpu <= self.spare_of_class_mgpu
        )

    def charge(self, mgpu: int, priority_class: str) -> None:
        """`mgpu` more of its team in such a class is in use then."""
        self.spare_mgpu -= mgpu
        if priority_class == self.job.priority_class:
            self.spare_of_class_mgpu -= mgpu


class OwnLimits:
    """What is kept in the limits of teams in one pool and cycle: for one job of each team at most,
    the first in its order for which something can be."""

    def __init__(
        self, pool: Pool, use: TeamUse, ready_at: Callable[[Shape, int], int | None]
    ) -> None:
        """`ready_at`: from when on, a moment at the earliest, there are devices for a shape by
        known ends, if that is known."""
        self._pool = pool
        self._use = use
        self._ready_at = ready_at
        self._looks_left = _LOOKS * pool.policy.reservations_max
        #: Reserved of devices: team, job and end, if that is known.
        self._reserved: list[tuple[int, QueuedJob, int | None]] = []
        #: Whom their limits have refused, by team, and what is kept for one of them once somebody
        #: has asked (None: nothing can be).
        self._refused: dict[int, list[tuple[QueuedJob, Shape, bool]]] = {}
        self._kept: dict[int, Kept | None] = {}

    def refuse(self, job: QueuedJob, team: int, shape: Shape, *, has_place: bool) -> None:
        """The team's own limit, or its cap in the class of `job`, refuses the job. `has_place`: its
        devices are free, or would be if nothing were lent."""
        refused = self._refused.setdefault(team, [])
        if len(refused) < _TRIES:
            refused.append((job, shape, has_place))
            if self._kept.get(team, self) is None:
                del self._kept[team]

    def __contains__(self, team: int) -> bool:
        """Whether something may be kept in the limits of a team."""
        return team in self._refused

    def of(self, team: int) -> Kept | None:
        """What is kept in the limits of a team."""
        if team not in self._refused:
            return None
        if team not in self._kept:
            found = (self._look(team, *refused) for refused in self._refused[team])
            self._kept[team] = next((kept for kept in found if kept is not None), None)
        return self._kept[team]

    def longest_s(self, team: int, mgpu: int, priority_class: str) -> tuple[int, Kept | None]:
        """How long such a job of the team may run that starts now, and for whom room is kept that
        allows no more; (UNLIMITED, None) where nothing is in its way."""
        kept = self.of(team)
        if kept is None or kept.leaves_room(mgpu, priority_class):
            return UNLIMITED, None
        return kept.start_at - self._pool.taken_at, kept

    def claim_delays(
        self, job: QueuedJob, team: int, end: int, victims: Collection[Holding]
    ) -> bool:
        """Whether `job`, if GPUs were taken back for it and it ran until `end`, would take what is
        kept; `victims` of its team that run beyond that moment make room for as much."""
        kept = self.of(team)
        if kept is None or end <= kept.start_at:
            return False
        mgpu = {job.priority_class: job.mgpu}
        for one in victims:
            over = self._use.end_of(one)
            if one.team == team and (over is None or over > kept.start_at):
                cls = one.run.priority_class
                mgpu[cls] = mgpu.get(cls, 0) - one.mgpu
        of_class = mgpu.get(kept.job.priority_class, 0)
        return sum(mgpu.values()) > max(0, kept.spare_mgpu) or of_class > max(
            0, kept.spare_of_class_mgpu
        )

    def note(self, team: int, job: QueuedJob, end: int | None) -> None:
        """A job of the team starts, or is promised GPUs, until `end`."""
        kept = self._kept.get(team)
        if kept is not None and (end is None or end > kept.start_at):
            kept.charge(job.mgpu, job.priority_class)

    def note_reservation(self, team: int, job: QueuedJob, end: int | None) -> None:
        """Devices are reserved for a job of the team."""
        self._reserved.append((team, job, end))
        self.note(team, job, end)

    def forget(self, team: int) -> None:
        """Of what the team holds something goes sooner than it was known to."""
        self._kept.pop(team, None)

    def close(self) -> None:
        """Nobody asks any more: what was asked for devices is not known any more either."""
        self._ready_at = _nobody_knows

    def _look(self, team: int, job: QueuedJob, shape: Shape, has_place: bool) -> Kept | None:
        pool = self._pool
        held = list(self._use.held(team, job))
        later = [
            Held(other.mgpu, other.priority_class, end, True)
            for of, other, end in self._reserved
            if of == team
        ]
        cls, cap = job.priority_class, pool.ground.priority(job.priority_class).cap_mgpu
        of_class = sum(one.mgpu for one in (*held, *later) if one.priority_class == cls)
        used = sum(one.mgpu for one in (*held, *later))
        # What the ledger knows besides is gone nobody knows when.
        used += max(0, pool.now.base[team] - self._use.counted_mgpu(team))
        kept = Kept(
            job,
            pool.taken_at,
            pool.quota.limits[team] - job.mgpu - used,
            UNLIMITED if cap is None else cap - job.mgpu - of_class,
        )
        known = sorted((one for one in (*held, *later) if one.end is not None), key=_end)
        moments = 0
        for at, one in enumerate(known):
            assert one.end is not None
            kept.start_at = max(kept.start_at, one.end)
            kept.charge(-one.mgpu, one.priority_class)
            is_last = at + 1 == len(known) or _end(known[at + 1]) > kept.start_at
            if is_last and kept.leaves_room(0, cls):
                if self._use.is_in_guarantee_by(kept.start_at, job, team):
                    return (
                        kept if has_place or self._has_place(team, shape, kept.start_at) else None
                    )
                moments += 1
                if moments == _MOMENTS:
                    break
        return None

    def _has_place(self, team: int, shape: Shape, at: int) -> bool:
        """Whether there may be devices at that moment: by known ends, or in sum, as far as GPUs
        say, what is free, what is lent and what the team's own jobs hold. Who has no place then
        waits for others than its team."""
        pool, more = self._pool, Counter[str]()
        free, lent = pool.free, pool.holdings.borrowed.by_node
        clusters = free.clusters(shape.clusters)
        for (cluster, node), mgpu in self._use.on_nodes(team).items():
            if (
                cluster in clusters
                and not is_beside(node)
                and free.is_of(shape.kinds, cluster, node)
                and not free.has_room(cluster, node, shape)
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


def _end(one: Held) -> int:
    assert one.end is not None
    return one.end
