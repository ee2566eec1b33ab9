"""The reserved starts that are safe upper bounds, given the jobs served before them (R-80).

A reservation takes earlier reservations into account, but not all waiting jobs: of equal jobs only
the first has one, and the policy limits their number. A job that is served first without a
reservation may take what a later one counts on. So may a preempted job, which queues again.

Some jobs come first only by the reserved time. Such a job would fit in the guarantee of its team,
or of a node above, if less was in use there. Now it draws on more, and comes behind jobs of a
higher rank or with less use. Once enough jobs there have ended it draws on that guarantee and
overtakes these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from arbiter.backfill.known_ends import Release
from arbiter.backfill.reserved import Reserved
from arbiter.cache.pool import Pool
from arbiter.placement.free_devices import Shape
from arbiter.placement.resources import is_cpu_or_memory
from arbiter.quota.tree import ROOT


@dataclass(frozen=True, slots=True)
class _Moment:
    """The state at the start of a reserved job.

    `ended` and `freed` are the milli-GPU that have come free by then, below each node and on each
    cluster, less what other reserved jobs hold then. `roomier` are the nodes whose guarantees have
    more space by that. `level` is the level of the guarantee that the job draws on by then.
    """

    one: Reserved
    ended: Mapping[int, int]
    freed: Mapping[str, int]
    roomier: frozenset[int]
    level: int


class Foresight:
    """Waiting jobs of one pool, compared with the reservations there.

    Use it once a cycle is over and nothing is held back any more.
    """

    __slots__ = ("_asks", "_first", "_moments", "_pool", "_refills", "_requeued", "_use")

    def __init__(
        self, pool: Pool, reservations: Sequence[Reserved], ends: Iterable[Sequence[Release]]
    ) -> None:
        """Take the `reservations` in a pool, and what comes free, in order of time."""
        self._pool = pool
        self._use = (pool.now if pool.later is None else pool.later).base
        #: By batch, its team and the shape of its jobs.
        self._asks: list[tuple[int, Shape]] = []
        #: By team, jobs that may draw on a lower guarantee once there is space: their shape, their
        #: number, and the node on which they draw now.
        self._refills: dict[int, list[tuple[Shape, int, int]]] = {}
        #: By team, the milli-GPU of attempts that are being stopped for other jobs. Their position
        #: once they queue again is not known yet.
        self._requeued = Counter[int]()
        for victim in (*(one for one in pool.leaving if one.run.beneficiary), *pool.stopped):
            if victim.team != ROOT and victim.claim_of is None:
                self._requeued[victim.team] += victim.mgpu
        #: The ended use below each node at the start of the first job that reserved more than what
        #: is left of its team's guarantee.
        self._first: Mapping[int, int] = {}
        self._moments = self._follow(sorted(reservations, key=_begin), ends) if reservations else {}

    def serving_node(self, team: int, need_mgpu: int, source: int) -> int:
        """Return the node whose guarantee sets the position of a job that draws on `source` now.

        It is the position by the time at which the first job starts that reserved more than its
        team's guarantee.
        """
        return self._lowest(self._first, team, need_mgpu, source)

    def add_batch(self, team: int, shape: Shape, count: int, source: int) -> None:
        """Add waiting jobs of `team` that are equal and draw on the guarantee of `source`.

        Batches are numbered as they are added.
        """
        self._asks.append((team, shape))
        if source != team:
            self._refills.setdefault(team, []).append((shape, count, source))

    def latest(self, jobs: Sequence[tuple[int, str]], batches: Sequence[int]) -> dict[str, int]:
        """Return the latest start of each reserved job for which that is certain (epoch seconds).

        `jobs` are all waiting jobs in the order of service, and `batches` their batches.
        """
        found: dict[str, int] = {}
        if not self._moments:
            return found
        before: Counter[int] = Counter()
        seen, reserved = 0, {one.job.id for one in (m.one for m in self._moments.values())}
        for at, (_, job) in enumerate(jobs):
            if job not in reserved:
                continue
            before.update(batches[seen:at])
            seen, moment = at, self._moments[job]
            reserved.discard(job)
            if self._leaves_enough(moment, before):
                found[job] = moment.one.start_at
                seen += 1
            if not reserved:
                break
        return found

    def _follow(
        self, reservations: Sequence[Reserved], ends: Iterable[Sequence[Release]]
    ) -> dict[str, _Moment]:
        """Return the state at the start of each reserved job, in order of time."""
        moments: dict[str, _Moment] = {}
        paths, level = self._pool.tree.paths, self._pool.tree.level
        all_ended: dict[int, int] = {}
        all_freed: dict[str, int] = {}
        releases = (release for part in ends for release in part)
        release = next(releases, None)
        for one in reservations:
            while release is not None and release[0] <= one.start_at:
                _, team, mgpu, cluster, slots = release
                for node in () if team == ROOT else paths[team]:
                    all_ended[node] = all_ended.get(node, 0) + mgpu
                here = sum([slot.mgpu for slot in slots if not is_cpu_or_memory(slot.node)])
                all_freed[cluster] = all_freed.get(cluster, 0) + here
                release = next(releases, None)
            ended, freed = all_ended.copy(), all_freed.copy()
            for other in reservations:
                if other is not one and other.start_at <= one.start_at:
                    cluster, mgpu = other.place.cluster, other.job.mgpu
                    for node in paths[other.team]:
                        ended[node] = ended.get(node, 0) - mgpu
                    freed[cluster] = freed.get(cluster, 0) - mgpu
            roomier = frozenset(node for node in ended if self._free_guarantee(ended, node) > 0)
            serving_node = self._lowest(ended, one.team, one.job.mgpu, one.source)
            moments[one.job.id] = _Moment(one, ended, freed, roomier, level(serving_node, one.team))
            if not self._first and serving_node != one.team:
                self._first = all_ended.copy()
        return moments

    def _lowest(self, ended: Mapping[int, int], team: int, mgpu: int, source: int) -> int:
        """Return the node on whose guarantee a job draws once so much has ended.

        It draws on `source` now.
        """
        for node in self._pool.tree.paths[team]:
            if node == source:
                break
            if mgpu <= self._free_guarantee(ended, node):
                return node
        return source

    def _free_guarantee(self, ended: Mapping[int, int], node: int) -> int:
        """Return the free part of a guarantee once so much has ended; 0 where nothing has."""
        more = ended.get(node, 0)
        return self._pool.quota.guaranteed[node] - self._use[node] + more if more > 0 else 0

    def _leaves_enough(self, moment: _Moment, before: Mapping[int, int]) -> bool:
        """Return whether a reserved job still fits, in sum, after all jobs that come first.

        These are the jobs `before` it by batch, preempted jobs that queue again, and jobs that draw
        on an equally low guarantee by then.
        """
        one, cluster = moment.one, moment.one.place.cluster
        wanted: Counter[int] = Counter()
        for batch, count in before.items():
            team, shape = self._asks[batch]
            if shape.clusters is None or cluster in shape.clusters:
                wanted[team] += shape.total_mgpu * count
        wanted.update(self._requeued)
        taking = {team: min(mgpu, one.available(team)) for team, mgpu in wanted.items()}
        for team, mgpu in self._refilled(moment, cluster):
            taking[team] = max(taking.get(team, 0), mgpu)
        taken = [(team, mgpu) for team, mgpu in taking.items() if mgpu > 0]
        # Check it even without such jobs: a job may have started since that is not bound by
        # reservations.
        free = self._pool.free.total_free(frozenset({cluster})) + moment.freed.get(cluster, 0)
        needed = one.job.mgpu + sum(mgpu for _, mgpu in taken)
        return needed <= free and one.leaves_enough_after(taken)

    def _refilled(self, moment: _Moment, cluster: str) -> Iterator[tuple[int, int]]:
        """Return teams whose jobs move to a guarantee not above that of the reserved job by then.

        The jobs draw on more now. Each team comes with the milli-GPU of the cluster that they may
        take.
        """
        tree, ended = self._pool.tree, moment.ended
        for team, refills in self._refills.items() if moment.roomier else ():
            if moment.roomier.isdisjoint(tree.paths[team]):
                continue
            if team == moment.one.team and moment.one.is_own:
                # They must wait for the reservation.
                continue
            asked: Counter[int] = Counter()
            for shape, count, source in refills:
                serving_node = self._lowest(ended, team, shape.total_mgpu, source)
                if (
                    serving_node != source
                    # At an equal level another team may be the first; inside the team it is not.
                    and tree.level(serving_node, team) < moment.level + (team != moment.one.team)
                    and (shape.clusters is None or cluster in shape.clusters)
                ):
                    asked[serving_node] += shape.total_mgpu * count
            if asked:
                amounts = [
                    min(mgpu, self._free_guarantee(ended, node)) for node, mgpu in asked.items()
                ]
                yield team, sum(amounts)


def _begin(one: Reserved) -> int:
    return one.start_at
