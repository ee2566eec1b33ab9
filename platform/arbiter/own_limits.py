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
from collections.abc import Callable, Collection
from dataclasses import dataclass

from arbiter.holdings import Holding
from arbiter.placement import Shape
from arbiter.pool import Pool
from arbiter.quota_tree import UNLIMITED
from arbiter.rooms import is_beside
from arbiter.snapshot import QueuedJob
from arbiter.team_use import Held, TeamUse

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
