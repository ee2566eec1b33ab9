"""Whose GPUs are taken back for a job (semantics sections 3 and 4).

Job j may take from a running job v of another team when, with x and y the children of the
lowest common ancestor on j's and v's side, j fits in what is left of x's guarantee and v is
not protected at y. "What is left" counts the victims below x as gone: otherwise a job that fits
in its team's guarantee could stay blocked by what a sister team borrows inside x. A
claim that is not protected at y is given up like a job, so that a promise made further up in
the tree does not delay one made further down. A class that preempts within its team may stop
lower classes there, and one that preempts across teams those of all its organization; what
runs in such a class is not taken back for a lower one of the same organization, or each would
stop the other by turns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

from arbiter.clearing import Candidate, Cost, cost_of
from arbiter.holdings import Holding, Node
from arbiter.node_kinds import Levels
from arbiter.placement import Place, Shape
from arbiter.pool import Pool
from arbiter.queue_order import Priority
from arbiter.quota_tree import ROOT
from arbiter.shelves import Shelves
from arbiter.snapshot import PriorityClass
from arbiter.victim_order import VictimKey
from arbiter.victims import Search, give_back

#: Marks a candidate of a lower priority class, which no ancestor's guarantee has to justify.
_LOWER = -2


@dataclass(frozen=True, slots=True)
class Taking:
    """What to stop and where the job then fits."""

    place: Place
    victims: tuple[Holding, ...]


class Reclaimer:
    """Finds victims in one pool; keeps the borrowed attempts sorted for the whole cycle."""

    __slots__ = (
        "_by_parent",
        "_claims",
        "_found",
        "_has_shields",
        "_held",
        "_in_teams",
        "_is_sorted",
        "_most",
        "_most_levels",
        "_most_shelves",
        "_most_sorted",
        "_of_sisters",
        "_pool",
        "_slots_max",
    )

    def __init__(self, pool: Pool, held: Mapping[Node, int]) -> None:
        """`held`: what is held back for reservations, as it changes."""
        self._pool = pool
        self._held = held
        self._claims = [earmark.stand_in for earmark in pool.earmarks.values()]
        self._in_teams: dict[int, list[Holding]] | None = None
        self._found: list[Holding] | None = None
        self._by_parent: dict[int, list[tuple[VictimKey, int, Holding]]] | None = None
        self._is_sorted: set[int] = set()
        self._slots_max: int | None = None
        self._of_sisters: dict[int, list[Candidate]] = {}
        self._has_shields = any(_shields(cls) for cls in pool.ground.classes.values())
        self._most: dict[str, dict[str, int]] | None = None
        self._most_sorted: dict[str, list[int]] = {}
        self._most_levels: dict[str, Levels] = {}
        self._most_shelves: dict[str, Shelves] = {}

    def may_find(self, team: int, priority: Priority) -> bool:
        """Whether there is anything at all that could come back for a job of `team`."""
        return bool(
            self._borrowers
            or self._pool.coming_back
            or (priority.preempts and team in self._by_team)
            or (priority.preempts_others and self._by_team)
        )

    def find(self, team: int, shape: Shape, priority: Priority) -> Taking | None:
        """The victims with which a job that cannot start now could, or None.

        Borrowers are asked first; then, if the job's class preempts within its team, lower
        classes there; then both, when only that makes the job fit in a guarantee; last, if the
        class preempts across teams, borrowers and all lower classes of the organization.
        """
        taking = None
        mgpu, order = shape.total_mgpu, priority.order
        if self._pool.source(team, mgpu) != ROOT and self.could_be_freed(shape):
            taking = self._choose(team, shape, self._outside(team, mgpu, order, []), self._most)
        if taking is None and priority.preempts:
            own = self._lower((team,), order)
            if own:
                taking = self._choose(team, shape, own) or self._choose(
                    team, shape, sorted(own + self._outside(team, mgpu, order, own))
                )
        if taking is None and priority.preempts_others:
            lower = self._lower(self._teams_beside(team, with_own=priority.preempts), order)
            if lower:
                stopped = {id(one.holding) for one in lower}
                others = self._outside(team, mgpu, order, lower)
                lower += [one for one in others if id(one.holding) not in stopped]
                taking = self._choose(team, shape, sorted(lower))
        if taking is not None and any(map(self._is_protected, taking.victims)):
            self._forget_most()
        return taking

    def _is_protected(self, holding: Holding) -> bool:
        return holding.is_protected_at(self._pool.tree.depths[holding.team])

    def _forget_most(self) -> None:
        """Somebody goes who is protected: what is left over is more than was thought possible."""
        self._most = None
        self._most_sorted.clear()
        self._most_levels.clear()
        self._most_shelves.clear()

    def could_be_freed(self, shape: Shape) -> bool:
        """Whether there is a place for the GPUs of `shape` if everything borrowed anywhere were
        gone.

        An upper bound that holds until somebody is stopped who is protected, and spares the
        search for every team that waits for what nobody can give.
        """
        return any(
            self._most_with(cluster, shape) >= shape.node_count
            and (not shape.is_bound or self._most_together(cluster, shape) >= shape.node_count)
            for cluster in self._pool.free.clusters(shape.clusters)
        )

    def _most_together(self, cluster: str, shape: Shape) -> int:
        """Nodes that `_most_free` makes large enough in one domain, at most."""
        shelves = self._most_shelves.get(cluster)
        if shelves is None:
            plan = self._pool.free.plans.of(cluster)
            if plan is None or self._most is None:
                return 0
            shelves = self._most_shelves[cluster] = Shelves(plan, self._most[cluster])
        if shape.topology is None:
            return 0
        return shelves.most_together(shape.topology.level, shape.mgpu, shape.kinds)

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
        """By cluster and node: the GPUs that are free, held back or not, or borrowed or coming
        back, at most."""
        free = {cluster: dict(nodes) for cluster, nodes in self._pool.free.free.items()}
        for (cluster, node), mgpu in self._held.items():
            if node in free[cluster]:
                free[cluster][node] += mgpu
        for cluster, nodes in self._pool.coming_back.items():
            for node, mgpu in nodes.items():
                if node in free.get(cluster, ()):
                    free[cluster][node] += mgpu
        for holding in self._borrowers:
            if not holding.is_going:
                for slot in holding.run.slots:
                    if slot.node in free[holding.run.cluster]:
                        free[holding.run.cluster][slot.node] += slot.mgpu
        return free

    def _outside(
        self, team: int, mgpu: int, order: int, own: Sequence[Candidate]
    ) -> list[Candidate]:
        """Attempts of other teams that the guarantees above `team` give a right to.

        From the team up: an ancestor gives it if the job fits in its guarantee, at the latest
        once what is stopped below it (by the rights found so far, or in `own`) is gone.
        In victim order.
        """
        pool = self._pool
        found: list[Candidate] = []
        for node in pool.tree.paths[team]:
            beside = self._beside(node)
            if not beside or not self._gives_right(node, team, mgpu, own, found):
                continue
            found += [
                one
                for one in beside
                if not one.holding.is_going
                and not (self._has_shields and self._is_shielded(one.holding, team, order))
            ]
        found.sort(key=_key)
        return found

    def _beside(self, node: int) -> list[Candidate]:
        """What is not protected at a sister of `node`, in victim order."""
        found = self._of_sisters.get(node)
        if found is None:
            parent = self._pool.tree.parents[node]
            borrowed = self._borrowed.get(parent, [])
            if parent not in self._is_sorted:
                self._is_sorted.add(parent)
                borrowed.sort(key=_key)
            found = self._of_sisters[node] = [
                Candidate(key, node, holding) for key, child, holding in borrowed if child != node
            ]
        return found

    def _is_shielded(self, holding: Holding, team: int, order: int) -> bool:
        """Whether it runs in a class that may preempt a job of this `order` across teams."""
        paths = self._pool.tree.paths
        return (
            holding.order > order
            and _shields(self._pool.ground.classes.get(holding.run.priority_class))
            and paths[holding.team][-1] == paths[team][-1]
        )

    def _gives_right(
        self, node: int, team: int, mgpu: int, own: Iterable[Candidate], found: Iterable[Candidate]
    ) -> bool:
        """Whether a job fits in the guarantee of `node` once `own` and `found` are gone."""
        pool = self._pool
        if pool.guarantees.fits(node, team, mgpu):
            return True
        left = pool.guarantees.copy()
        for one in chain(own, found):
            if one.holding.protected:
                give_back(pool, left, one.holding, (node,), 1)
        return left.fits(node, team, mgpu)

    @property
    def _borrowed(self) -> dict[int, list[tuple[VictimKey, int, Holding]]]:
        """By each parent: the attempts that are not protected at a child of it, with that child.

        Sorted out when the first victim of this cycle is sought.
        """
        if self._by_parent is None:
            self._by_parent = self._sort_out()
        return self._by_parent

    def _sort_out(self) -> dict[int, list[tuple[VictimKey, int, Holding]]]:
        """See `_borrowed`."""
        pool = self._pool
        depths, parents, paths = pool.tree.depths, pool.tree.parents, pool.tree.paths
        borrowed: dict[int, list[tuple[VictimKey, int, Holding]]] = {}
        for holding in self._borrowers:
            protected = holding.protected
            at_home, abroad = pool.victim_keys(holding)
            for node in paths[holding.team]:
                if not protected >> depths[node] & 1:
                    parent = parents[node]
                    key = at_home if parent != ROOT else abroad
                    borrowed.setdefault(parent, []).append((key, node, holding))
        return borrowed

    @property
    def _borrowers(self) -> list[Holding]:
        """All that borrow anywhere, claims included: as it was when first asked, before there is a
        victim in this cycle."""
        if self._found is None:
            depths = self._pool.tree.depths
            running = [
                job.what
                for job in self._pool.protection.jobs
                if isinstance(job.what, Holding)
                and job.what.claim_of is None
                and self._may_stop(job.what)
            ]
            self._found = [
                one
                for one in chain(self._claims, running)
                if one.protected != one.everywhere
                and (one.run.is_preemptible or not one.protected >> depths[one.team] & 1)
            ]
        return self._found

    def _most_slots(self) -> int:
        """On how many nodes one attempt or claim runs, at most."""
        if self._slots_max is None:
            every = chain(self._claims, self._pool.holdings.all.values())
            self._slots_max = max((len(one.run.slots) for one in every), default=0)
        return self._slots_max

    def _may_stop(self, holding: Holding) -> bool:
        """Whether it runs on a cluster that answers."""
        return holding.run.cluster in self._pool.free.free

    @property
    def _by_team(self) -> dict[int, list[Holding]]:
        """Attempts that run on clusters that answer, and claims, by team."""
        if self._in_teams is None:
            self._in_teams = {}
            for holding in self._claims:
                self._in_teams.setdefault(holding.team, []).append(holding)
            for team, line in self._pool.holdings.teams.items():
                for job in line.jobs:
                    if isinstance(job.what, Holding) and self._may_stop(job.what):
                        self._in_teams.setdefault(team, []).append(job.what)
        return self._in_teams

    def _teams_beside(self, team: int, *, with_own: bool) -> list[int]:
        """The teams of the organization of `team` in which something may be stopped."""
        paths = self._pool.tree.paths
        return [
            other
            for other in self._by_team
            if paths[other][-1] == paths[team][-1] and (with_own or other != team)
        ]

    def _lower(self, teams: Iterable[int], order: int) -> list[Candidate]:
        """Attempts of `teams` in lower priority classes, in victim order."""
        return sorted(
            Candidate(self._pool.victim_keys(holding)[0], _LOWER, holding)
            for team in teams
            for holding in self._by_team.get(team, ())
            if holding.order < order and not holding.is_going
        )

    def _choose(
        self,
        team: int,
        shape: Shape,
        candidates: Sequence[Candidate],
        most: Mapping[str, Mapping[str, int]] | None = None,
    ) -> Taking | None:
        """The cheapest cluster's victims: by what it costs to stop them, then by their GPUs.
        `most`: what is free by cluster and node without all candidates, at most."""
        best: tuple[Cost, int, str] | None = None
        found: Taking | None = None
        for cluster in self._pool.free.clusters(shape.clusters):
            search = Search(self._pool, team, shape, cluster)
            victims = search.run(
                candidates, self._most_slots(), None if most is None else most[cluster]
            )
            if victims is None:
                continue
            key = (cost_of(victims), sum(one.holding.mgpu for one in victims), cluster)
            if best is None or key < best:
                best = key
                found = Taking(
                    Place(cluster, search.nodes()), tuple(one.holding for one in victims)
                )
        return found


#: What orders candidates; no two have the same.
_key: Callable[[Sequence[Any]], Any] = itemgetter(0)


def _shields(cls: PriorityClass | None) -> bool:
    """Whether what runs in this class is not taken back for a lower class of its organization."""
    return cls is not None and cls.preempts_across_teams and cls.team_cap_mgpu is not None
