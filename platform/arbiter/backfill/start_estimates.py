"""Which reserved starts can be told as the latest ones, and whose turn comes before theirs (R-80).

A reservation is made beside those that were made before it, and not beside all that wait: of jobs
that are alike only the first holds one, and the policy has a bound. Who comes first without one may
take what a later one counts on; so may who is being stopped, as it waits again then.

Others come first only by then. A job that would fit in the guarantee of its team, or of a node
above that, if less ran there draws on more for now, behind whoever has a higher rank or has used
less. Once enough of what runs there has ended it draws on that guarantee, and goes before these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from arbiter.backfill.known_ends import Release
from arbiter.backfill.reserved import Reserved
from arbiter.cache.pool import Pool
from arbiter.placement.free_devices import Shape
from arbiter.placement.resources import is_beside
from arbiter.quota.tree import ROOT


@dataclass(frozen=True, slots=True)
class _Moment:
    """When a reserved job is to start: what below each node, and on each cluster, has come free by
    then, less what the other reserved jobs hold then, and the nodes whose guarantees have more room
    by that. `level`: how far up the guarantee stands that the job draws on by then."""

    one: Reserved
    ended: Mapping[int, int]
    freed: Mapping[str, int]
    roomier: frozenset[int]
    level: int


class Foresight:
    """What waits in one pool, against what is reserved there.

    Asked once a cycle is over and nothing is held back any more.
    """

    __slots__ = ("_asks", "_first", "_moments", "_pool", "_refills", "_requeued", "_use")

    def __init__(
        self, pool: Pool, made: Sequence[Reserved], ends: Iterable[Sequence[Release]]
    ) -> None:
        """`made` are the pool's reservations, and `ends` what comes free, in order of time."""
        self._pool = pool
        self._use = (pool.now if pool.later is None else pool.later).base
        #: By lot, whose it is and what each job of it asks for.
        self._asks: list[tuple[int, Shape]] = []
        #: By team, what jobs ask for that may draw on a lower guarantee once there is room, their
        #: number, and what they draw on now.
        self._refills: dict[int, list[tuple[Shape, int, int]]] = {}
        #: By team, what those hold who are being stopped for others: where in the order they will
        #: wait is not known yet.
        self._requeued = Counter[int]()
        for victim in (*(one for one in pool.leaving if one.run.beneficiary), *pool.stopped):
            if victim.team != ROOT and victim.claim_of is None:
                self._requeued[victim.team] += victim.mgpu
        #: What has ended below each node when the first job starts that has reserved more than what
        #: is left of its team's guarantee.
        self._first: Mapping[int, int] = {}
        self._moments = self._follow(sorted(made, key=_begin), ends) if made else {}

    def turn(self, team: int, need_mgpu: int, source: int) -> int:
        """On whose guarantee a job of `team`, which draws on that of `source` now, has its turn
        before, or when, the first job starts that has reserved more than its team's guarantee."""
        return self._lowest(self._first, team, need_mgpu, source)

    def add_lot(self, team: int, shape: Shape, count: int, source: int) -> None:
        """So many jobs of `team` wait that are alike and draw on the guarantee of `source`; lots
        are numbered as they are added."""
        self._asks.append((team, shape))
        if source != team:
            self._refills.setdefault(team, []).append((shape, count, source))

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
        paths, level = self._pool.tree.paths, self._pool.tree.level
        all_ended: dict[int, int] = {}
        all_freed: dict[str, int] = {}
        releases = (release for part in ends for release in part)
        release = next(releases, None)
        for one in made:
            while release is not None and release[0] <= one.start_at:
                _, team, mgpu, cluster, slots = release
                for node in () if team == ROOT else paths[team]:
                    all_ended[node] = all_ended.get(node, 0) + mgpu
                here = sum([slot.mgpu for slot in slots if not is_beside(slot.node)])
                all_freed[cluster] = all_freed.get(cluster, 0) + here
                release = next(releases, None)
            ended, freed = all_ended.copy(), all_freed.copy()
            for other in made:
                if other is not one and other.start_at <= one.start_at:
                    cluster, mgpu = other.place.cluster, other.job.mgpu
                    for node in paths[other.team]:
                        ended[node] = ended.get(node, 0) - mgpu
                    freed[cluster] = freed.get(cluster, 0) - mgpu
            roomier = frozenset(node for node in ended if self._more_room(ended, node) > 0)
            turn = self._lowest(ended, one.team, one.job.mgpu, one.source)
            moments[one.job.id] = _Moment(one, ended, freed, roomier, level(turn, one.team))
            if not self._first and turn != one.team:
                self._first = all_ended.copy()
        return moments

    def _lowest(self, ended: Mapping[int, int], team: int, mgpu: int, source: int) -> int:
        """The node on whose guarantee a job draws once so much has ended, which draws on that of
        `source` now."""
        for node in self._pool.tree.paths[team]:
            if node == source:
                break
            if mgpu <= self._more_room(ended, node):
                return node
        return source

    def _more_room(self, ended: Mapping[int, int], node: int) -> int:
        """What a guarantee has room for once so much has ended; 0 where nothing has."""
        more = ended.get(node, 0)
        return self._pool.quota.guaranteed[node] - self._use[node] + more if more > 0 else 0

    def _leaves_room(self, moment: _Moment, before: Mapping[int, int]) -> bool:
        """Whether a reserved job still fits, in sum, when who comes first has what it may: so many
        jobs `before` it of each lot, who waits again once it is stopped, and who draws on a
        guarantee by then that is as low."""
        one, cluster = moment.one, moment.one.place.cluster
        wanted: Counter[int] = Counter()
        for lot, count in before.items():
            team, shape = self._asks[lot]
            if shape.clusters is None or cluster in shape.clusters:
                wanted[team] += shape.total_mgpu * count
        wanted.update(self._requeued)
        taking = {team: min(mgpu, one.available(team)) for team, mgpu in wanted.items()}
        for team, mgpu in self._refilled(moment, cluster):
            taking[team] = max(taking.get(team, 0), mgpu)
        taken = [(team, mgpu) for team, mgpu in taking.items() if mgpu > 0]
        # Also where nobody comes first: one may have started since that waits for no reservation.
        free = self._pool.free.total_free(frozenset({cluster})) + moment.freed.get(cluster, 0)
        needed = one.job.mgpu + sum(mgpu for _, mgpu in taken)
        return needed <= free and one.leaves_room_beside(taken)

    def _refilled(self, moment: _Moment, cluster: str) -> Iterator[tuple[int, int]]:
        """Whose jobs draw on a guarantee by then that is not above that of the reserved one, and
        on more now, and how much of the cluster they may take by that."""
        tree, ended = self._pool.tree, moment.ended
        for team, refills in self._refills.items() if moment.roomier else ():
            if moment.roomier.isdisjoint(tree.paths[team]):
                continue
            if team == moment.one.team and moment.one.is_own:
                # They wait for what is reserved.
                continue
            asked: Counter[int] = Counter()
            for shape, count, source in refills:
                turn = self._lowest(ended, team, shape.total_mgpu, source)
                if (
                    turn != source
                    # Who stands level by then may be the first; inside the team it is not.
                    and tree.level(turn, team) < moment.level + (team != moment.one.team)
                    and (shape.clusters is None or cluster in shape.clusters)
                ):
                    asked[turn] += shape.total_mgpu * count
            if asked:
                room = [min(mgpu, self._more_room(ended, node)) for node, mgpu in asked.items()]
                yield team, sum(room)


def _begin(one: Reserved) -> int:
    return one.start_at
