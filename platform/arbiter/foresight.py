"""Which reserved starts can be told as the latest ones, and whose turn comes before theirs.

A reservation is made beside those that were made before it, and not beside all that wait: of jobs
that are alike only the first holds one, and the policy has a bound. Who comes first without one may
take what a later one counts on.

Others come first only by then. A job that would fit in its team's guarantee if less of its team ran
draws on spare GPUs for now, behind whoever has a higher rank or has used less. Once enough of its
team's own jobs have ended it draws on the guarantee, and goes before all of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from arbiter.placement import Shape
from arbiter.pool import Pool
from arbiter.reservations import Reserved
from arbiter.rooms import is_beside
from arbiter.time_limits import Release


@dataclass(frozen=True, slots=True)
class _Moment:
    """When a reserved job is to start: what of each team, and on each cluster, has come free by
    then, less what the other reserved jobs hold then. `is_own`: it draws on its own team's
    guarantee by then."""

    one: Reserved
    ended: Mapping[int, int]
    freed: Mapping[str, int]
    is_own: bool


class Foresight:
    """What waits in one pool, against what is reserved there.

    Asked once a cycle is over and nothing is held back any more.
    """

    __slots__ = ("_asks", "_first", "_moments", "_pool", "_refills", "_use")

    def __init__(
        self, pool: Pool, made: Sequence[Reserved], ends: Iterable[Sequence[Release]]
    ) -> None:
        """`made` are the pool's reservations, and `ends` what comes free, in order of time."""
        self._pool = pool
        self._use = (pool.now if pool.later is None else pool.later).base
        #: By lot, whose it is and what each job of it asks for.
        self._asks: list[tuple[int, Shape]] = []
        #: By team, what jobs ask for that will draw on its guarantee once there is room, and their
        #: number.
        self._refills: dict[int, list[tuple[Shape, int]]] = {}
        #: What of each team has ended when the first job starts that has reserved spare GPUs.
        self._first: Mapping[int, int] | None = None
        self._moments = self._follow(sorted(made, key=_begin), ends) if made else {}

    def comes_first(self, team: int, need_mgpu: int) -> bool:
        """Whether a job of `team` draws on its own guarantee before, or when, the first job starts
        that has reserved spare GPUs."""
        return self._first is not None and need_mgpu <= self._room(self._first, team)

    def add_lot(self, team: int, shape: Shape, count: int, *, is_refill: bool) -> None:
        """So many jobs of `team` wait that are alike; lots are numbered as they are added.
        `is_refill`: they do not draw on the team's own guarantee now."""
        self._asks.append((team, shape))
        if is_refill:
            self._refills.setdefault(team, []).append((shape, count))

    def latest(self, jobs: Sequence[tuple[int, str]], lots: Sequence[int]) -> dict[str, int]:
        """By when the reserved ones of `jobs` start at the latest, which are all that wait in the
        order of service, of these `lots`: of those of which it can be told."""
        found: dict[str, int] = {}
        if not self._moments:
            return found
        before: Counter[int] = Counter()
        seen, reserved = 0, {one.job.id for one in (m.one for m in self._moments.values())}
        for at, (_, job) in enumerate(jobs):
            if job not in reserved:
                continue
            before.update(lots[seen:at])
            seen, moment = at, self._moments[job]
            reserved.discard(job)
            if self._leaves_room(moment, before):
                found[job] = moment.one.start_at
                seen += 1
            if not reserved:
                break
        return found

    def _follow(
        self, made: Sequence[Reserved], ends: Iterable[Sequence[Release]]
    ) -> dict[str, _Moment]:
        """How things stand when each of `made`, the first to begin first, is to start."""
        moments: dict[str, _Moment] = {}
        all_ended: dict[int, int] = {}
        all_freed: dict[str, int] = {}
        releases = (release for part in ends for release in part)
        release = next(releases, None)
        for one in made:
            while release is not None and release[0] <= one.start_at:
                _, team, mgpu, cluster, slots = release
                all_ended[team] = all_ended.get(team, 0) + mgpu
                here = sum([slot.mgpu for slot in slots if not is_beside(slot.node)])
                all_freed[cluster] = all_freed.get(cluster, 0) + here
                release = next(releases, None)
            ended, freed = all_ended.copy(), all_freed.copy()
            for other in made:
                if other is not one and other.start_at <= one.start_at:
                    cluster, mgpu = other.place.cluster, other.job.mgpu
                    ended[other.team] = ended.get(other.team, 0) - mgpu
                    freed[cluster] = freed.get(cluster, 0) - mgpu
            is_own = one.source == one.team or one.job.mgpu <= self._room(ended, one.team)
            moments[one.job.id] = _Moment(one, ended, freed, is_own)
            if self._first is None and not is_own:
                self._first = all_ended.copy()
        return moments

    def _room(self, ended: Mapping[int, int], team: int) -> int:
        """What a team's guarantee has room for once so much has ended."""
        return self._pool.quota.guaranteed[team] - self._use[team] + ended.get(team, 0)

    def _leaves_room(self, moment: _Moment, before: Mapping[int, int]) -> bool:
        """Whether a reserved job still fits, in sum, when who comes first has what it may: so many
        jobs `before` it of each lot, and who fits in its team's guarantee by then."""
        one, cluster = moment.one, moment.one.place.cluster
        wanted: Counter[int] = Counter()
        for lot, count in before.items():
            team, shape = self._asks[lot]
            if shape.clusters is None or cluster in shape.clusters:
                wanted[team] += shape.total_mgpu * count
        taking = {team: min(mgpu, one.available(team)) for team, mgpu in wanted.items()}
        if not moment.is_own:
            for team in moment.ended.keys() & self._refills.keys():
                room = self._room(moment.ended, team)
                refill = sum(
                    shape.total_mgpu * count
                    for shape, count in self._refills[team]
                    if shape.total_mgpu <= room
                    and (shape.clusters is None or cluster in shape.clusters)
                )
                taking[team] = max(taking.get(team, 0), min(refill, room))
        taken = [(team, mgpu) for team, mgpu in taking.items() if mgpu > 0]
        if not taken:
            return True
        free = self._pool.free.total_free(frozenset({cluster})) + moment.freed.get(cluster, 0)
        needed = one.job.mgpu + sum(mgpu for _, mgpu in taken)
        return needed <= free and one.leaves_room_beside(taken)


def _begin(one: Reserved) -> int:
    return one.start_at
