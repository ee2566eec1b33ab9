"""The choice of jobs to reclaim GPUs from (R-53, R-63).

Let x and y be the children of the lowest common ancestor of job j and a running job v of another
team, on the side of each. Job j may reclaim from v if j fits in what is left of x's guarantee and v
is not protected at y. Victims below x count as gone for that. Otherwise a job that fits in its
team's guarantee could stay blocked by borrowing of a sister team inside x.

A claim that is not protected at y can be dropped like a job. So a promise made further up in the
tree does not delay one made further down.

A class that preempts within its team may stop lower classes there. One that preempts across teams
may stop those of its whole organization. Attempts of such a class are not reclaimed for a lower
class of the same organization; otherwise each could stop the other in turn.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from arbiter.api.snapshot import Slot
from arbiter.cache.pool import Pool
from arbiter.cache.running import Holding, Node, use_by_node
from arbiter.placement.domains import NodeBuckets
from arbiter.placement.free_devices import Place, Shape
from arbiter.placement.node_sets import Levels
from arbiter.placement.resources import node_of
from arbiter.preemption.candidates import LOWER, Asked, Asker, Borrowers, Candidate, Group, Seen
from arbiter.preemption.node_selection import Cost, cost_of
from arbiter.preemption.search import Search, give_back
from arbiter.queue.order import Priority
from arbiter.quota.tree import ROOT

#: An upper bound of the free milli-GPU, by cluster and node.
_Most = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Taking:
    """The attempts to stop, and the place where the job then fits."""

    place: Place
    victims: tuple[Candidate, ...]


class Reclaimer:
    """Finds victims in one pool; keeps the borrowed attempts in order for the whole cycle."""

    __slots__ = (
        "_all_answer",
        "_claims",
        "_has_shields",
        "_in_teams",
        "_is_anybody",
        "_most",
        "_most_buckets",
        "_most_levels",
        "_most_sorted",
        "_nearby",
        "_pool",
        "_slots_max",
        "_sorted_out",
        "_stopped_count",
        "_too_few",
        "_without_right",
        "withheld",
    )

    def __init__(self, pool: Pool, withheld: Mapping[Node, int]) -> None:
        """Prepare the search in `pool`. The caller updates `withheld`, the reserved GPUs."""
        self._pool = pool
        self.withheld = withheld
        self._claims = [earmark.stand_in for earmark in pool.earmarks.values()]
        self._in_teams: dict[int, list[Holding]] | None = None
        self._is_anybody: bool | None = None
        self._all_answer = True
        self._sorted_out: Borrowers | None = None
        self._nearby: dict[int, Borrowers] = {}
        self._slots_max: int | None = None
        self._stopped_count = 0
        #: Shapes for which too little comes back, until an attempt is stopped; and teams and sizes
        #: without a right by any guarantee, until a protected attempt is stopped.
        self._too_few: set[Shape] = set()
        self._without_right: set[tuple[int, int]] = set()
        self._has_shields = pool.config.has_shields
        self._most: dict[str, dict[str, int]] | None = None
        self._most_sorted: dict[str, list[int]] = {}
        self._most_levels: dict[str, Levels] = {}
        self._most_buckets: dict[str, NodeBuckets] = {}

    def may_find(self, team: int, priority: Priority) -> bool:
        """Return whether there is anything at all to reclaim for a job of `team`."""
        return bool(
            self._anybody
            or self._pool.coming_back
            or (priority.preempts and team in self._by_team)
            or (priority.preempts_others and self._by_team)
        )

    def could_help(self, team: int, shape: Shape) -> bool:
        """Return whether the guarantees above a blocked job of `team` could help it to start.

        That is so if it may stop any attempt, or if what comes back anyway might be enough.
        """
        pool, mgpu = self._pool, shape.total_mgpu
        return self._has_right(team, mgpu) or (
            pool.later is not None
            and self._is_coming_back(shape)
            and pool.later.blocker(team, mgpu) is None
        )

    def _has_right(self, team: int, mgpu: int) -> bool:
        """Return whether a guarantee above a job lets it stop any attempt.

        For the lowest such guarantee the job fits before any attempt below is stopped. So a job
        without a right gets one only after a protected attempt was stopped.
        """
        if (team, mgpu) in self._without_right:
            return False
        parents, fits = self._pool.tree.parents, self._pool.guarantees.fits
        for node in self._pool.tree.paths[team]:
            if fits(node, team, mgpu) and self._borrowed.is_any_at_sisters(node, parents[node]):
                return True
        self._without_right.add((team, mgpu))
        return False

    def _is_coming_back(self, shape: Shape) -> bool:
        """Return whether enough nodes could hold a rank, now or once unclaimed GPUs are back.

        It is an upper bound that ignores reservations and topology. A False holds until an attempt
        is stopped.
        """
        if shape in self._too_few:
            return False
        free = self._pool.free
        for cluster in free.clusters(shape.clusters):
            left, is_known = free.free[cluster], cluster not in free.free_resources
            count = free.count(cluster, shape)
            for node, mgpu in self._more_on(cluster).items():
                if left[node] + mgpu >= shape.mgpu and not (is_known and left[node] >= shape.mgpu):
                    count += 1
            if count >= shape.node_count:
                return True
        self._too_few.add(shape)
        return False

    def _more_on(self, cluster: str) -> dict[str, int]:
        """Return the milli-GPU that nodes have held back, or coming back unclaimed.

        It is 0 for a node with only CPU or memory among these.
        """
        nodes = self._pool.free.free[cluster]
        found: dict[str, int] = {}
        withheld = ((name, more) for (at, name), more in self.withheld.items() if at == cluster)
        for name, more in (*self._pool.coming_back.get(cluster, {}).items(), *withheld):
            node = node_of(name)
            if node in nodes:
                found[node] = found.get(node, 0) + (more if name == node else 0)
        return found

    def find(
        self, team: int, shape: Shape, priority: Priority, barred: Collection[Node] = ()
    ) -> Taking | None:
        """Return the victims that let a blocked job start, or None.

        It reclaims nothing on the nodes `barred`. Borrowers come first; then, if the job's class
        preempts within its team, lower classes there; then both, if only that makes the job fit in
        a guarantee. Last, if the class preempts across teams, come borrowers and all lower classes
        of the organization.
        """
        taking = self._look(team, shape, priority, barred)
        if taking is not None:
            self._stopped_count += len(taking.victims)
            self._too_few.clear()
            if any(one.holding.protected for one in taking.victims):
                self._without_right.clear()
            if any(self._is_protected(one.holding) for one in taking.victims):
                self._forget_most()
        return taking

    def could_find(self, team: int, shape: Shape, priority: Priority) -> bool:
        """Return whether there would be victims if no node was barred; no attempt is stopped."""
        return self._look(team, shape, priority, ()) is not None

    def _look(
        self, team: int, shape: Shape, priority: Priority, barred: Collection[Node]
    ) -> Taking | None:
        taking = None
        mgpu, order = shape.total_mgpu, priority.order
        if self._pool.source(team, mgpu) != ROOT and self.could_be_freed(shape):
            asked = Asked(self._outside(team, shape, order, most=self._most))
            taking = self._choose(team, shape, asked, barred, self._most)
        if taking is None and priority.preempts:
            own = self._lower((team,), order, mgpu)
            if own:
                groups = {LOWER: Group.of(own), **self._outside(team, shape, order, own)}
                taking = self._choose(
                    team, shape, Asked({LOWER: groups[LOWER]}), barred
                ) or self._choose(team, shape, Asked(groups), barred)
        if taking is None and priority.preempts_others:
            lower = self._lower(
                self._teams_of_organization(team, with_own=priority.preempts), order, mgpu
            )
            if lower:
                groups = {LOWER: Group.of(lower), **self._outside(team, shape, order, lower)}
                taking = self._choose(team, shape, Asked(groups), barred)
        return taking

    def note_taken(self, cluster: str, slots: Iterable[Slot]) -> None:
        """Count `slots` as taken by a start or a claim of this cycle."""
        if self._most is None:
            return
        most, ordered = self._most[cluster], self._most_sorted.get(cluster)
        levels, buckets = self._most_levels.get(cluster), self._most_buckets.get(cluster)
        for node, mgpu in slots:
            before = most.get(node)
            if before is None:
                # CPU or memory of a node.
                continue
            after = most[node] = before - mgpu
            if ordered is not None:
                del ordered[bisect_left(ordered, before)]
                insort(ordered, after)
            if levels is not None:
                levels.move(node, before, after)
            if buckets is not None:
                buckets.move(node, before, after)

    def _is_protected(self, holding: Holding) -> bool:
        return holding.is_protected_at(self._pool.tree.depths[holding.team])

    def _forget_most(self) -> None:
        """Drop the upper bounds, because a protected attempt is stopped."""
        self._most = None
        self._most_sorted = {}
        self._most_levels = {}
        self._most_buckets = {}
        self._nearby = {}

    def could_be_freed(self, shape: Shape) -> bool:
        """Return whether `shape` would have a place if all borrowed attempts were gone.

        It avoids a search for each team whose request cannot be met. A job without such a place
        does not keep its place in its team's guarantee either. So the answer must be exact at every
        moment of a cycle.
        """
        return any(
            self._most_with(cluster, shape) >= shape.node_count
            and (not shape.is_bound or self._most_together(cluster, shape) >= shape.node_count)
            for cluster in self._pool.free.clusters(shape.clusters)
        )

    def _most_together(self, cluster: str, shape: Shape) -> int:
        """Return the most nodes in one domain that `_most_free` makes large enough."""
        buckets = self._most_buckets.get(cluster)
        if buckets is None:
            plan = self._pool.free.plans.of(cluster)
            if plan is None or self._most is None:
                return 0
            buckets = self._most_buckets[cluster] = NodeBuckets(plan, self._most[cluster])
        if shape.topology is None:
            return 0
        return buckets.most_together(shape.topology.level, shape.mgpu, shape.kinds)

    def _most_with(self, cluster: str, shape: Shape) -> int:
        """Return how many nodes of a cluster `_most_free` makes large enough for one rank."""
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
        """Return an upper bound of the free milli-GPU, by cluster and node.

        It is the sum of what is free, held back, borrowed or coming back.
        """
        free = {cluster: dict(nodes) for cluster, nodes in self._pool.free.free.items()}
        for (cluster, node), mgpu in self.withheld.items():
            if node in free[cluster]:
                free[cluster][node] += mgpu
        for cluster, nodes in self._pool.coming_back.items():
            for node, mgpu in nodes.items():
                if node in free.get(cluster, ()):
                    free[cluster][node] += mgpu
        borrowed = self._pool.holdings.borrowed
        claimed = use_by_node(
            one for one in self._claims if not one.is_going and one.protected != one.everywhere
        )
        gone = use_by_node(one for one in self._pool.stopped if one in borrowed.of)
        for by_cluster, sign in ((borrowed.by_node, 1), (claimed, 1), (gone, -1)):
            for cluster, nodes in free.items():
                for node, mgpu in by_cluster.get(cluster, {}).items():
                    if node in nodes:
                        nodes[node] += sign * mgpu
        return free

    def _outside(
        self,
        team: int,
        shape: Shape,
        order: int,
        own: Sequence[Candidate] = (),
        most: _Most | None = None,
    ) -> dict[int, Group]:
        """Return the attempts of other teams that the guarantees above `team` give a right to.

        They are grouped by the lowest node above both. `own` are candidates already. `most` is as
        in `_choose`. It goes up from the team: an ancestor gives the right if the job fits in its
        guarantee without the candidates below it, that is those found so far and `own`.
        """
        stopped = [one.holding for one in own]
        asker = Asker(self.may_ask, team, order, stopped)
        parents = self._pool.tree.parents
        near = self._borrowed if most is None else self._near(shape.mgpu, most)
        found: dict[int, Group] = {}
        for node in self._pool.tree.paths[team]:
            group = self._group_at_sisters(node, shape.total_mgpu, near, asker)
            gone = chain(stopped, *(one.holdings() for one in found.values()))
            if any(group.holdings()) and self._gives_right(node, team, shape.total_mgpu, gone):
                found[parents[node]] = group
        return found

    def _group_at_sisters(self, node: int, mgpu: int, near: Borrowers, asker: Asker) -> Group:
        """Return the attempts that `asker` may stop, for a job of `mgpu`, at sisters of `node`.

        These are not protected at a sister. The group's near part has only those in `near`.
        """
        parent = self._pool.tree.parents[node]
        attempts = self._borrowed.at_sisters(node, parent)
        everybody = Seen(asker.in_order(self._borrowed, parent, node, mgpu))
        at_least = 0
        if self._all_answer and not self._has_shields:
            at_least = sum(map(len, attempts)) - self._stopped_count - asker.asked_count
        return Group(
            everybody,
            everybody if near is self._borrowed else Seen(asker.in_order(near, parent, node, mgpu)),
            attempts,
            asker.may_ask,
            at_least,
        )

    def may_ask(self, holding: Holding, team: int, order: int) -> bool:
        """Return whether an attempt runs, responds and is not shielded from this priority value."""
        return (
            not holding.is_going
            and (self._all_answer or self._answers(holding))
            and not (self._has_shields and self._is_shielded(holding, team, order))
        )

    def _is_shielded(self, holding: Holding, team: int, order: int) -> bool:
        """Return whether an attempt is shielded from jobs of this priority value.

        That is so if its class may preempt such a job across teams, and its team does not exceed
        the cap of that class. A guarantee yields to such a class only up to the cap.
        """
        pool, name = self._pool, holding.run.priority_class
        priority, paths = pool.config.priority(name), pool.tree.paths
        return (
            holding.order > order
            and priority.preempts_others
            and paths[holding.team][-1] == paths[team][-1]
            and pool.class_use.get((holding.team, name), 0) <= (priority.cap_mgpu or 0)
        )

    def _gives_right(self, node: int, team: int, mgpu: int, stopped: Iterable[Holding]) -> bool:
        """Return whether a job fits in the guarantee of `node` once the `stopped` ones are gone."""
        pool = self._pool
        if pool.guarantees.fits(node, team, mgpu):
            return True
        left = pool.guarantees.copy()
        for holding in stopped:
            if holding.protected:
                give_back(pool, left, holding, (node,), 1)
        return left.fits(node, team, mgpu)

    @property
    def _borrowed(self) -> Borrowers:
        """Return all borrowers, as they were when the first victim of this cycle was sought."""
        if self._sorted_out is None:
            self._sorted_out = self._sort_out(self._pool.holdings.borrowed.alike.items())
        return self._sorted_out

    def _near(self, mgpu: int, most: _Most) -> Borrowers:
        """Return the borrowers on nodes that could hold a rank of this size.

        There are few of these where a rank takes whole nodes.
        """
        found = self._nearby.get(mgpu)
        if found is None:
            holdings = self._pool.holdings
            of, on_node, every = holdings.borrowed.of, holdings.on_node, holdings.all
            alike: dict[tuple[int, int], dict[Holding, None]] = {}
            for cluster, nodes in most.items():
                for node, at_most in nodes.items():
                    if at_most >= mgpu:
                        for attempt in on_node.get((cluster, node), ()):
                            holding = every[attempt]
                            if holding in of:
                                alike.setdefault(of[holding], {})[holding] = None
            found = self._nearby[mgpu] = self._sort_out(alike.items())
        return found

    def _sort_out(self, alike: Iterable[tuple[tuple[int, int], Collection[Holding]]]) -> Borrowers:
        """Return `alike` attempts and all claims as borrowers."""
        pool = self._pool
        claims = (((one.team, one.protected), (one,)) for one in self._claims)
        return Borrowers(pool, chain(alike, claims))

    def _answers(self, holding: Holding) -> bool:
        """Return whether it runs on a cluster that responds, or is a claim."""
        return holding.run.cluster in self._pool.free.free or holding.claim_of is not None

    @property
    def _anybody(self) -> bool:
        """Return whether any attempt or claim borrows, as of the first call in this cycle.

        The first call comes before the first victim.
        """
        if self._is_anybody is None:
            borrowed = self._pool.holdings.borrowed
            self._all_answer = all(cluster in self._pool.free.free for cluster in borrowed.by_node)
            self._is_anybody = any(
                self._answers(one) for those in borrowed.alike.values() for one in those
            ) or any(one.protected != one.everywhere for one in self._claims)
        return self._is_anybody

    def _most_slots(self) -> int:
        """Return the most nodes of any attempt or claim."""
        if self._slots_max is None:
            widths = (len(one.run.slots) for one in self._claims)
            self._slots_max = max((1, *self._pool.holdings.widths, *widths))
        return self._slots_max

    @property
    def _by_team(self) -> dict[int, list[Holding]]:
        """Return attempts on clusters that respond, and claims, by team."""
        if self._in_teams is None:
            self._in_teams = {}
            for holding in self._claims:
                self._in_teams.setdefault(holding.team, []).append(holding)
            for team, jobs in self._pool.holdings.teams.items():
                for job in jobs.jobs:
                    if isinstance(job.what, Holding) and self._answers(job.what):
                        self._in_teams.setdefault(team, []).append(job.what)
        return self._in_teams

    def _teams_of_organization(self, team: int, *, with_own: bool) -> list[int]:
        """Return the teams in the organization of `team` that have attempts or claims to stop."""
        paths = self._pool.tree.paths
        return [
            other
            for other in self._by_team
            if paths[other][-1] == paths[team][-1] and (with_own or other != team)
        ]

    def _lower(self, teams: Iterable[int], order: int, mgpu: int) -> list[Candidate]:
        """Return attempts of `teams` in lower classes, in victim order for a job of `mgpu`."""
        key = self._pool.victim_order.key
        return sorted(
            Candidate(key(holding, mgpu, is_abroad=False), LOWER, other, holding)
            for other in teams
            for holding in self._by_team.get(other, ())
            if holding.order < order and not holding.is_going
        )

    def _choose(
        self,
        team: int,
        shape: Shape,
        asked: Asked,
        barred: Collection[Node],
        most: _Most | None = None,
    ) -> Taking | None:
        """Return the victims of the cheapest cluster: by the cost of stopping, then by their GPUs.

        `most` bounds the free milli-GPU by cluster and node without all candidates.
        """
        best: tuple[Cost, int, str] | None = None
        found: Taking | None = None
        for cluster in self._pool.free.clusters(shape.clusters):
            search = Search(self._pool, team, shape, cluster, barred)
            victims = search.run(asked, self._most_slots(), None if most is None else most[cluster])
            if victims is None:
                continue
            key = (cost_of(victims), sum(one.holding.mgpu for one in victims), cluster)
            if best is None or key < best:
                best = key
                found = Taking(Place(cluster, search.nodes()), tuple(victims))
        return found
