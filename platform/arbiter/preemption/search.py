"""The victims that free enough for one job on one cluster, in its devices and in quota.

`arbiter.preemption.node_selection` selects the nodes to clear. If quota, or the guarantee that
gives the right, needs more victims, others follow in victim order. Unnecessary victims are then
spared, the most expensive first: without any one of the remaining victims the job would not fit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from arbiter.cache.pool import Pool
from arbiter.cache.running import Holding, Node
from arbiter.placement.free_devices import Shape
from arbiter.placement.resources import node_of
from arbiter.placement.topology import Domain
from arbiter.preemption.candidates import LOWER, Asked, Candidate
from arbiter.preemption.node_selection import Cost, clearings, cost_of
from arbiter.quota.entitlement import Guarantees
from arbiter.quota.tree import ROOT


def give_back(
    pool: Pool, left: Guarantees, holding: Holding, nodes: Sequence[int], sign: int
) -> None:
    """Remove `holding` from protected use at those of `nodes` where it counts.

    With a `sign` of -1 it is added again.
    """
    path, depths, protected = pool.tree.paths[holding.team], pool.tree.depths, holding.protected
    for node in nodes:
        if protected >> depths[node] & 1 and node in path:
            left.take(node, holding.team, -sign * holding.mgpu)


#: The obstacle of a job: devices, the quota of a node, or the right that a node gives.
_Obstacle = tuple[str, int]
_DEVICES: _Obstacle = ("devices", ROOT)
#: The cost of victims, their milli-GPU, and the victims in order.
_Found = tuple[Cost, int, list[Candidate]]
#: At most so many candidates are looked at again to find cheaper victims.
_SCANNED_MAX = 5_000
#: The job is tried in at most so many domains, the cheapest ones.
_DOMAINS_MAX = 4


class _Lacks(dict[str, int]):
    """The milli-GPU that a rank lacks on nodes, looked up once.

    It is 0 or less where the node has enough, and 0 where the job cannot use the node.
    """

    __slots__ = ("_look_up",)

    def __init__(self, look_up: Callable[[str], int | None]) -> None:
        self._look_up = look_up

    def __missing__(self, node: str) -> int:
        lacking = self[node] = self._look_up(node) or 0
        return lacking


class Search:
    """The search for victims on one cluster, with the state as if they were gone."""

    __slots__ = (
        "_barred",
        "_by",
        "_cluster",
        "_counts_resources",
        "_extra",
        "_free",
        "_ledger",
        "_left",
        "_most",
        "_pool",
        "_ready",
        "_shape",
        "_short",
        "_slots_max",
        "_team",
    )

    def __init__(
        self, pool: Pool, team: int, shape: Shape, cluster: str, barred: Collection[Node] = ()
    ) -> None:
        """Prepare the search; GPUs that come free on `barred` nodes are not for the job."""
        self._pool = pool
        self._team = team
        self._shape = shape
        self._cluster = cluster
        self._free = pool.free.free[cluster]
        self._counts_resources = cluster in pool.free.free_resources
        #: The amount that comes free on nodes, and of their CPU and memory.
        self._extra: dict[str, int] = {}
        self._barred = frozenset(name for at, name in barred if at == cluster)
        self._slots_max = 0
        self._most: Mapping[str, int] | None = None
        self._ready = pool.free.tally(cluster, shape)
        self._ledger = (pool.now if pool.later is None else pool.later).copy()
        self._by: dict[int, int] = {}
        self._short = [
            node
            for node in pool.tree.paths[team]
            if not pool.guarantees.fits(node, team, shape.total_mgpu)
        ]
        self._left = pool.guarantees.copy() if self._short else pool.guarantees
        for node, coming in pool.coming_back.get(cluster, {}).items():
            self._give(node, coming)

    def run(
        self, asked: Asked, slots_max: int, most: Mapping[str, int] | None = None
    ) -> list[Candidate] | None:
        """Return the cheapest victims found, in order, or None if the job would never fit.

        Call it once per search. Each candidate runs on at most `slots_max` nodes. `most`, if known,
        bounds the free milli-GPU of each node without all candidates.
        """
        if self.is_enough():
            return []
        self._most = most
        self._slots_max = slots_max
        lacks = _Lacks(self._lacking)
        best: _Found | None = None
        for allowed in self._by_rights(asked):
            found = self._cheapest(allowed, lacks)
            if found is not None and (best is None or found[:2] < best[:2]):
                best = self._improved(found, allowed, lacks)
        if best is None:
            return None
        for one in best[2]:
            self._stop(one, 1)
        return best[2]

    def _cheapest(self, asked: Asked, lacks: _Lacks) -> _Found | None:
        """Return the best first choice of victims; all candidates still run."""
        best: _Found | None = None
        for chosen in self._choices(asked.near, lacks):
            victims = self._complete(asked, chosen)
            if victims is None:
                continue
            for one in victims:
                self._stop(one, -1)
            found = (cost_of(victims), sum(one.holding.mgpu for one in victims), victims)
            if best is None or found[:2] < best[:2]:
                best = found
        return best

    def _improved(self, best: _Found, asked: Asked, lacks: _Lacks) -> _Found:
        """Return a cheaper choice where gangs run, whose nodes depend on each other.

        It excludes one victim after the other, the most expensive first, and searches again. The
        number of tries is bounded, and smaller with more candidates.
        """
        count = asked.gangs_among(_SCANNED_MAX)
        if count is None:
            return best
        tries = _SCANNED_MAX // count
        at = len(best[2]) - 1
        while at >= 0 and tries > 0:
            tries -= 1
            found = self._cheapest(asked.excluding(best[2][at]), lacks)
            if found is not None and found[:2] < best[:2]:
                best, at = found, len(found[2])
            at -= 1
        return best

    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that the job gets once the victims are gone."""
        free, extra = self._pool.free, self._extra
        fitting = {node: mgpu for mgpu, node in free.nodes_for(self._cluster, self._shape)}
        for node in {node_of(resource) for resource in extra}:
            if free.fits_on(self._cluster, node, self._shape, extra):
                fitting[node] = self._free[node] + extra.get(node, 0)
            else:
                fitting.pop(node, None)
        return free.placed(self._cluster, self._shape, fitting)

    def _by_rights(self, asked: Asked) -> Iterator[Asked]:
        """Return smaller sets of candidates first, then all that may be `asked`.

        Some guarantees do not cover the job as long as other jobs below them run. The first set
        excludes all candidates of such guarantees. The next ones add the candidates of the lowest
        one, and so on.
        """
        parents, used = self._pool.tree.parents, set(asked.aboves)
        left_out = [parents[node] for node in self._short if parents[node] in used]
        while left_out:
            if len(left_out) < len(used):
                yield asked.without(left_out)
            del left_out[0]
        yield asked

    def _choices(self, candidates: Iterable[Candidate], lacks: _Lacks) -> Iterator[list[Candidate]]:
        """Return the first victims to clear devices; an empty choice if these are free already."""
        shape = self._shape
        if self._ready.is_enough:
            yield []
            return
        if not shape.is_bound:
            count = shape.node_count - self._ready.count
            yield from clearings(candidates, self._cluster, lacks, count, self._slots_max)
        else:
            found = []
            for here, inside in self._by_domain(candidates):
                count = shape.node_count - sum(1 for mgpu in here.values() if mgpu <= 0)
                if count > 0:
                    for chosen in clearings(inside, self._cluster, here, count, self._slots_max):
                        found.append((cost_of(chosen), [one.key for one in chosen], chosen))
            found.sort()
            yield from (chosen for _, _, chosen in found[:_DOMAINS_MAX])

    def _by_domain(
        self, candidates: Iterable[Candidate]
    ) -> Iterator[tuple[Mapping[str, int], list[Candidate]]]:
        """Return for each domain that may hold the job its lacking milli-GPU and its candidates."""
        plan, topology = self._pool.free.plans.of(self._cluster), self._shape.topology
        if plan is None or topology is None:
            return
        nodes: dict[Domain, dict[str, int]] = {}
        domain_of: dict[str, Domain] = {}
        for node in self._free:
            lacking, domain = self._lacking(node), plan.domain(topology.level, node)
            if domain and lacking is not None:
                domain_of[node] = domain
                nodes.setdefault(domain, defaultdict(int))[node] = lacking
        inside: dict[Domain, list[Candidate]] = {}
        for candidate in candidates:
            run = candidate.holding.run
            if run.cluster == self._cluster:
                for domain in {domain_of.get(slot.node, ()) for slot in run.slots}:
                    inside.setdefault(domain, []).append(candidate)
        for domain in sorted(inside):
            if domain and len(nodes[domain]) >= self._shape.node_count:
                yield nodes[domain], inside[domain]

    def _lacking(self, node: str) -> int | None:
        """Return the milli-GPU that a rank lacks on a node, 0 or less where it has enough.

        Return None where the job may not use the node, or where it could hold no rank by `most`.
        """
        free, wanted, most = self._free.get(node), self._shape.mgpu, self._most
        if (
            free is None
            or (most is not None and most[node] < wanted)
            or not self._pool.free.is_of(self._shape.kinds, self._cluster, node)
            or (
                node in self._barred
                and not self._pool.free.fits_on(self._cluster, node, self._shape, {})
            )
        ):
            return None
        lacking = wanted - free - self._extra.get(node, 0)
        if (
            lacking <= 0
            and self._counts_resources
            and not self._pool.free.fits_on(self._cluster, node, self._shape, self._extra)
        ):
            # Attempts on a node that lacks CPU or memory hold some of that, too.
            return 1
        return lacking

    def _complete(self, asked: Asked, chosen: Sequence[Candidate]) -> list[Candidate] | None:
        """Stop the `chosen` ones and then helpers until the job fits; spare unnecessary ones.

        Return the victims in order. If the job never fits, return None and stop no attempt.
        """
        taken = {one.key: one for one in chosen}
        for one in chosen:
            self._stop(one, 1)
        helpers: dict[_Obstacle, Iterator[Candidate]] = {}
        while (obstacle := self._obstacle()) is not None:
            if obstacle not in helpers:
                helpers[obstacle] = self._helpers(asked, obstacle)
            helper = next((one for one in helpers[obstacle] if one.key not in taken), None)
            if helper is None:
                for one in taken.values():
                    self._stop(one, -1)
                return None
            taken[helper.key] = helper
            self._stop(helper, 1)
        dropped = True
        while dropped:
            dropped = False
            for key in sorted(taken, reverse=True):
                one = taken[key]
                # Most are needed for the devices, or else for a right. Both are cheaper to check
                # than the rest.
                if self._needs_devices_of(one) or self._needs_right_of(one):
                    continue
                self._stop(one, -1)
                if self.is_enough():
                    del taken[key]
                    dropped = bool(self._short)
                else:
                    self._stop(one, 1)
        return [taken[key] for key in sorted(taken)]

    def _stop(self, candidate: Candidate, sign: int) -> None:
        """Count a candidate as a victim; with a `sign` of -1, as running again."""
        holding = candidate.holding
        self._ledger.charge(holding.team, -sign * holding.mgpu)
        self._by[candidate.above] = self._by.get(candidate.above, 0) + sign
        if holding.protected:
            give_back(self._pool, self._left, holding, self._short, sign)
        if holding.run.cluster == self._cluster:
            for slot in holding.run.slots:
                self._give(slot.node, sign * slot.mgpu)

    def _needs_devices_of(self, victim: Candidate) -> bool:
        """Return whether the job would lack nodes if this victim kept running."""
        run = victim.holding.run
        if run.cluster != self._cluster:
            return False
        lost = {
            node_of(slot.node)
            for slot in run.slots
            if slot.node not in self._barred and self._is_lost(slot.node, slot.mgpu)
        }
        for node in lost:
            self._ready.add(node, -1)
        is_needed = not self._ready.is_enough
        for node in lost:
            self._ready.add(node)
        return is_needed

    def _needs_right_of(self, victim: Candidate) -> bool:
        """Return whether a guarantee would not cover the job if this victim kept running.

        The victim is protected in that guarantee, which is used as a right against other attempts.
        """
        tree, holding, left = self._pool.tree, victim.holding, self._left
        mgpu, guaranteed = self._shape.total_mgpu + holding.mgpu, left.quota.guaranteed
        path, protected = tree.paths[holding.team], holding.protected
        return any(
            protected >> tree.depths[node] & 1
            and node in path
            and left.used_mgpu[node] + mgpu > guaranteed[node]
            and self._by.get(tree.parents[node], 0) > (victim.above == tree.parents[node])
            for node in self._short
        )

    def _is_lost(self, resource: str, amount: int) -> bool:
        """Return whether a node would have no space for a rank with so much less of it free.

        `resource` is the node, or its CPU or memory.
        """
        extra, shape = self._extra, self._shape
        coming = extra.get(resource)
        if coming is None:
            # The job cannot use it in any case.
            return False
        if not self._counts_resources:
            left = self._free[resource] + coming
            return left >= shape.mgpu > left - amount
        node, fits_on = node_of(resource), self._pool.free.fits_on
        return fits_on(self._cluster, node, shape, extra) and not fits_on(
            self._cluster, node, shape, {**extra, resource: coming - amount}
        )

    def _give(self, node: str, mgpu: int) -> None:
        """Count what comes free on a node, or of its CPU or memory, if the job can use it there."""
        if node in self._barred:
            return
        if self._counts_resources:
            self._give_resource(node, mgpu)
            return
        kinds = self._shape.kinds
        if node not in self._free or (
            kinds is not None and not self._pool.free.is_of(kinds, self._cluster, node)
        ):
            return
        extra = self._extra.get(node, 0)
        before = self._free[node] + extra
        self._extra[node] = extra + mgpu
        wanted = self._shape.mgpu
        change = (before + mgpu >= wanted) - (before >= wanted)
        if change:
            self._ready.add(node, change)

    def _give_resource(self, resource: str, amount: int) -> None:
        """Do the same where CPU and memory count."""
        node, free, extra = node_of(resource), self._pool.free, self._extra
        if node not in self._free or not free.is_of(self._shape.kinds, self._cluster, node):
            return
        did_fit = free.fits_on(self._cluster, node, self._shape, extra)
        extra[resource] = extra.get(resource, 0) + amount
        change = free.fits_on(self._cluster, node, self._shape, extra) - did_fit
        if change:
            self._ready.add(node, change)

    def is_enough(self) -> bool:
        """Return whether the job fits in what is free, coming back or held by victims so far."""
        return self._obstacle() is None

    def _obstacle(self) -> _Obstacle | None:
        """Return the job's current obstacle, or None.

        It is devices, quota, or a guarantee that is used against other attempts and does not cover
        the job.
        """
        if not self._ready.is_enough:
            return _DEVICES
        team, mgpu = self._team, self._shape.total_mgpu
        at = self._ledger.blocker(team, mgpu)
        if at is not None:
            return "quota", at
        parents = self._pool.tree.parents
        for node in self._short:
            if self._by.get(parents[node]) and not self._left.fits(node, team, mgpu):
                return "right", node
        return None

    def _helpers(self, asked: Asked, obstacle: _Obstacle) -> Iterator[Candidate]:
        """Return the candidates that reduce this obstacle."""
        what, node = obstacle
        if obstacle == _DEVICES:
            yield from (
                one for one in asked.everybody() if one.holding.run.cluster == self._cluster
            )
        elif node == ROOT:
            yield from asked.everybody()
        else:
            paths, depths = self._pool.tree.paths, self._pool.tree.depths
            depth = depths[node]
            bit = 1 << depth
            # Candidates below `node` belong to rights from there or from further down.
            lower = [
                above
                for above in asked.aboves
                if above == LOWER or (above != ROOT and depths[above] >= depth)
            ]
            for one in asked.everybody(lower):
                holding = one.holding
                if what == "quota" or holding.protected & bit:
                    path = paths[holding.team]
                    if len(path) > depth and path[-1 - depth] == node:
                        yield one
