"""Whose GPUs are taken back for a job (semantics sections 3 and 4).

Job j may take from a running job v of another team when, with x and y the children of the
lowest common ancestor on j's and v's side, j fits in what is left of x's guarantee and v is
not protected at y. "What is left" counts the victims below x as gone: otherwise a job that fits
in its team's guarantee could stay blocked by what a sister team borrows inside x. A
claim that is not protected at y is given up like a job, so that a promise made further up in
the tree does not delay one made further down. A class that preempts within its team may stop
lower classes there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from arbiter.node_kinds import Levels
from arbiter.placement import Place, Shape
from arbiter.pool import Holding, Pool
from arbiter.queue_order import Priority
from arbiter.quota_tree import ROOT

#: Marks a candidate of the job's own team, which no ancestor's guarantee has to justify.
_OWN = -2


@dataclass(frozen=True, slots=True)
class Candidate:
    """An attempt that may be stopped. `by`: the node x whose guarantee gives the right to."""

    holding: Holding
    by: int


@dataclass(frozen=True, slots=True)
class Taking:
    """What to stop and where the job then fits."""

    place: Place
    victims: tuple[Holding, ...]


class Reclaimer:
    """Finds victims in one pool; keeps the borrowed attempts sorted for the whole cycle."""

    __slots__ = ("_borrowed", "_by_team", "_most", "_most_levels", "_most_sorted", "_pool")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._by_team: dict[int, list[Holding]] = {}
        self._borrowed = self._sort_borrowed()
        self._most: dict[str, dict[str, int]] | None = None
        self._most_sorted: dict[str, list[int]] = {}
        self._most_levels: dict[str, Levels] = {}

    def may_find(self, team: int, *, preempts: bool) -> bool:
        """Whether there is anything at all that could come back for a job of `team`."""
        return bool(
            self._borrowed or self._pool.coming_back or (preempts and team in self._by_team)
        )

    def find(self, team: int, shape: Shape, priority: Priority) -> Taking | None:
        """The victims with which a job that cannot start now could, or None.

        Borrowers are asked first; then, if the job's class preempts within its team, lower
        classes there; then both, when only that makes the job fit in a guarantee.
        """
        taking = None
        if self._pool.source(team, shape.total_mgpu) != ROOT and self._could_be_freed(shape):
            taking = self._choose(team, shape, self._outside(team, shape.total_mgpu, []))
        if taking is not None or not priority.preempts:
            return taking
        own = self._own(team, priority.order)
        if not own:
            return None
        return self._choose(team, shape, own) or self._choose(
            team, shape, own + self._outside(team, shape.total_mgpu, own)
        )

    def _could_be_freed(self, shape: Shape) -> bool:
        """Whether there is a place for `shape` if everything borrowed anywhere were gone.

        An upper bound that holds for the whole cycle, and spares the search for
        every team that waits for what nobody can give.
        """
        return any(
            self._most_with(cluster, shape) >= shape.node_count
            for cluster in self._pool.free.clusters(shape.clusters)
        )

    def _most_with(self, cluster: str, shape: Shape) -> int:
        """Nodes of a cluster that `_most_free` makes large enough for one rank."""
        if self._most is None:
            self._most = self._most_free()
        most, kinds = self._most[cluster], self._pool.kinds
        if shape.kinds is None:
            ordered = self._most_sorted.get(cluster)
            if ordered is None:
                ordered = self._most_sorted[cluster] = sorted(most.values())
            return len(ordered) - bisect_left(ordered, shape.mgpu)
        levels = self._most_levels.get(cluster)
        if levels is None:
            levels = self._most_levels[cluster] = kinds.levels(cluster, most)
        return levels.count(shape.mgpu, kinds.nodes(shape.kinds, cluster), shape.node_count)

    def _most_free(self) -> dict[str, dict[str, int]]:
        """By cluster and node: the GPUs that are free or borrowed or coming back."""
        free = {cluster: dict(nodes) for cluster, nodes in self._pool.free.free.items()}
        for cluster, nodes in self._pool.coming_back.items():
            for node, mgpu in nodes.items():
                if node in free.get(cluster, ()):
                    free[cluster][node] += mgpu
        borrowed = {
            id(holding): holding for found in self._borrowed.values() for _, holding in found
        }
        for holding in borrowed.values():
            if not holding.is_going:
                for slot in holding.run.slots:
                    if slot.node in free[holding.run.cluster]:
                        free[holding.run.cluster][slot.node] += slot.mgpu
        return free

    def _outside(self, team: int, mgpu: int, own: Sequence[Candidate]) -> list[Candidate]:
        """Attempts of other teams that the guarantees above `team` give a right to.

        From the team up: an ancestor gives it if the job fits in its guarantee, at the latest
        once what is stopped below it (by the rights found so far, or in `own`) is gone.
        In victim order.
        """
        pool = self._pool
        found: list[Candidate] = []
        for node in pool.tree.paths[team]:
            relief = sum(self._relief(one.holding, node) for one in (*own, *found))
            if pool.protected[node] + mgpu - relief > pool.quota.guaranteed[node]:
                continue
            for child, holding in self._borrowed.get(pool.tree.parents[node], ()):
                if child != node and not holding.is_going:
                    found.append(Candidate(holding, node))
        found.sort(key=lambda one: one.holding.victim_key)
        return found

    def _relief(self, holding: Holding, node: int) -> int:
        """What of the protected use of `node`, an ancestor of `holding`, ends with it."""
        return holding.mgpu if holding.protected >> self._pool.tree.depths[node] & 1 else 0

    def _sort_borrowed(self) -> dict[int, list[tuple[int, Holding]]]:
        """By each parent: the attempts that are not protected at a child of it, with that child.

        Fills the list of each team's attempts on the way; both are in victim order.
        """
        pool = self._pool
        depths, parents = pool.tree.depths, pool.tree.parents
        borrowed: dict[int, list[tuple[int, Holding]]] = {}
        for holding in sorted(self._stoppable(), key=lambda one: one.victim_key):
            self._by_team.setdefault(holding.team, []).append(holding)
            accepts = holding.run.is_preemptible or not (
                holding.protected >> depths[holding.team] & 1
            )
            if not accepts:
                continue
            for node in pool.tree.paths[holding.team]:
                if not holding.protected >> depths[node] & 1:
                    borrowed.setdefault(parents[node], []).append((node, holding))
        return borrowed

    def _stoppable(self) -> Iterator[Holding]:
        """Attempts that run on a cluster that answers, and claims."""
        free = self._pool.free.free
        yield from (earmark.stand_in for earmark in self._pool.earmarks.values())
        yield from (
            holding
            for holding in self._pool.holdings
            if not holding.is_going and holding.team != ROOT and holding.run.cluster in free
        )

    def _own(self, team: int, order: int) -> list[Candidate]:
        """The team's attempts of lower priority classes, in victim order."""
        return [
            Candidate(holding, _OWN)
            for holding in self._by_team.get(team, ())
            if holding.order < order and not holding.is_going
        ]

    def _choose(self, team: int, shape: Shape, candidates: Sequence[Candidate]) -> Taking | None:
        """The cheapest cluster's victims: by the most valuable victim, then work lost, GPUs."""
        best: tuple[tuple[int, int], int, int, str] | None = None
        found: Taking | None = None
        for cluster in self._pool.free.clusters(shape.clusters):
            search = _Search(self._pool, team, shape, cluster)
            chosen = search.run(candidates)
            if chosen is None:
                continue
            victims = tuple(sorted(chosen, key=lambda one: one.victim_key))
            key = (
                max(((one.victim_key[0], one.victim_key[1]) for one in victims), default=(0, 0)),
                sum(one.victim_key[2] for one in victims),
                sum(one.mgpu for one in victims),
                cluster,
            )
            if best is None or key < best:
                best = key
                found = Taking(Place(cluster, search.nodes()), victims)
        return found


class _Search:
    """Which victims make room on one cluster, and in quota, for one job."""

    def __init__(self, pool: Pool, team: int, shape: Shape, cluster: str) -> None:
        self._pool = pool
        self._team = team
        self._shape = shape
        self._cluster = cluster
        self._free = pool.free.free[cluster]
        self._extra: dict[str, int] = {}
        self._ready = pool.free.count(cluster, shape.mgpu, shape.kinds)
        self._ledger = (pool.now if pool.later is None else pool.later).copy()
        self._by: dict[int, int] = {}
        self._over = {
            node: pool.protected[node] + shape.total_mgpu - pool.quota.guaranteed[node]
            for node in pool.tree.paths[team]
        }
        self._is_conditional = any(over > 0 for over in self._over.values())
        for node, coming in pool.coming_back.get(cluster, {}).items():
            self._give(node, coming)

    def run(self, candidates: Sequence[Candidate]) -> list[Holding] | None:
        """Add candidates in order until the job fits, then drop those that are not needed."""
        chosen: list[Candidate] = []
        if not self._is_enough():
            for candidate in candidates:
                chosen.append(candidate)
                self._stop(candidate, 1)
                if self._is_enough():
                    break
            else:
                return None
        dropped = True
        while dropped:
            dropped = False
            for candidate in chosen[::-1]:
                self._stop(candidate, -1)
                if self._is_enough():
                    chosen.remove(candidate)
                    dropped = self._is_conditional
                else:
                    self._stop(candidate, 1)
        return [candidate.holding for candidate in chosen]

    def nodes(self) -> tuple[str, ...]:
        """The fullest nodes that fit once the victims are gone."""
        wanted = self._shape.mgpu
        fitting = [
            (free, node)
            for free, node in self._pool.free.with_room(self._cluster, wanted, self._shape.kinds)
            if node not in self._extra
        ]
        fitting += [
            (self._free[node] + extra, node)
            for node, extra in self._extra.items()
            if self._free[node] + extra >= wanted
        ]
        fitting.sort()
        return tuple(sorted(node for _, node in fitting[: self._shape.node_count]))

    def _stop(self, candidate: Candidate, sign: int) -> None:
        """Take a victim; or, with a sign of -1, let it run on."""
        holding, tree = candidate.holding, self._pool.tree
        self._ledger.charge(holding.team, -sign * holding.mgpu)
        self._by[candidate.by] = self._by.get(candidate.by, 0) + sign
        for node in tree.paths[holding.team]:
            if node in self._over and holding.protected >> tree.depths[node] & 1:
                self._over[node] -= sign * holding.mgpu
        if holding.run.cluster == self._cluster:
            for slot in holding.run.slots:
                self._give(slot.node, sign * slot.mgpu)

    def _give(self, node: str, mgpu: int) -> None:
        """Count what comes free on a node, unless the job cannot use it there."""
        if node not in self._free or not self._pool.free.is_of(
            self._shape.kinds, self._cluster, node
        ):
            return
        extra = self._extra.get(node, 0)
        before = self._free[node] + extra
        self._extra[node] = extra + mgpu
        wanted = self._shape.mgpu
        self._ready += (before + mgpu >= wanted) - (before >= wanted)

    def _is_enough(self) -> bool:
        """Whether gang and quota fit, and every guarantee used against others covers the job."""
        return (
            self._ready >= self._shape.node_count
            and self._ledger.allows(self._team, self._shape.total_mgpu)
            and not any(self._by.get(node) and over > 0 for node, over in self._over.items())
        )
