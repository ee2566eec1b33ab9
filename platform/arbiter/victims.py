"""The victims that make room for one job on one cluster, in its devices and in quota.

Which nodes are cleared is worked out in `arbiter.clearing`. Where quota, or the guarantee that
gives the right, wants more to be gone than that, others follow in the order of victims. Whoever
turns out not to be needed is let off, the dearest first: without any one of the victims that are
left the job would not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from arbiter.clearing import Candidate, Cost, clearings, cost_of
from arbiter.holdings import Holding
from arbiter.placement import Shape
from arbiter.pool import Pool
from arbiter.protection import Guarantees
from arbiter.quota_tree import ROOT
from arbiter.rooms import node_of
from arbiter.topology import Domain


def give_back(
    pool: Pool, left: Guarantees, holding: Holding, nodes: Sequence[int], sign: int
) -> None:
    """Count `holding` out where it is protected among `nodes`; with a sign of -1, in again."""
    path, depths = pool.tree.paths[holding.team], pool.tree.depths
    for node in nodes:
        if node in path and holding.is_protected_at(depths[node]):
            left.take(node, holding.team, -sign * holding.mgpu)


#: What is in the way of a job: devices, the quota of a node, or the right that a node gives.
_Obstacle = tuple[str, int]
_DEVICES: _Obstacle = ("devices", ROOT)
#: What victims cost, their GPUs, and they themselves, in order.
_Found = tuple[Cost, int, list[Candidate]]
#: So many candidates at most are looked at again to find cheaper victims.
_SCANNED_MAX = 5_000
#: In so many domains at most, the cheapest of all, the job is tried.
_DOMAINS_MAX = 4


class Search:
    """Looks for victims on one cluster, and keeps the standing as it were without them."""

    __slots__ = (
        "_by",
        "_cluster",
        "_counts_rooms",
        "_extra",
        "_free",
        "_ledger",
        "_left",
        "_pool",
        "_ready",
        "_shape",
        "_short",
        "_slots_max",
        "_team",
    )

    def __init__(self, pool: Pool, team: int, shape: Shape, cluster: str) -> None:
        self._pool = pool
        self._team = team
        self._shape = shape
        self._cluster = cluster
        self._free = pool.free.free[cluster]
        self._counts_rooms = cluster in pool.free.beside
        #: What comes free on nodes and in rooms.
        self._extra: dict[str, int] = {}
        self._slots_max = 0
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
        self,
        candidates: Sequence[Candidate],
        slots_max: int,
        most: Mapping[str, int] | None = None,
    ) -> list[Candidate] | None:
        """The cheapest victims that were found, in order; None where even without all
        `candidates`, which are in order too, the job would not fit. Once per search. Each of them
        runs on `slots_max` nodes at most. `most`: what is free on each node without all of them,
        at most, where that is known."""
        if self._is_enough():
            return []
        lacks = self._lacks(most)
        self._slots_max = slots_max
        best: _Found | None = None
        for allowed in self._by_rights(candidates):
            found = self._cheapest(allowed, lacks)
            if found is not None and (best is None or found[:2] < best[:2]):
                best = self._improved(found, allowed, lacks)
        if best is None:
            return None
        for one in best[2]:
            self._stop(one, 1)
        return best[2]

    def _cheapest(self, candidates: Sequence[Candidate], lacks: Mapping[str, int]) -> _Found | None:
        """The best of what can be chosen at first; everybody runs on yet."""
        best: _Found | None = None
        for chosen in self._choices(candidates, lacks):
            victims = self._complete(candidates, chosen)
            if victims is None:
                continue
            for one in victims:
                self._stop(one, -1)
            found = (cost_of(victims), sum(one.holding.mgpu for one in victims), victims)
            if best is None or found[:2] < best[:2]:
                best = found
        return best

    def _improved(
        self, best: _Found, candidates: Sequence[Candidate], lacks: Mapping[str, int]
    ) -> _Found:
        """Where gangs run, whose nodes depend on each other: what comes out when one of the
        victims, the dearest first, must not be one. As often as there are few candidates."""
        tries = _SCANNED_MAX // len(candidates)
        if not tries or all(len(one.holding.run.slots) == 1 for one in candidates):
            return best
        at = len(best[2]) - 1
        while at >= 0 and tries > 0:
            tries -= 1
            spared = best[2][at]
            found = self._cheapest([one for one in candidates if one is not spared], lacks)
            if found is not None and found[:2] < best[:2]:
                best, at = found, len(found[2])
            at -= 1
        return best

    def nodes(self) -> tuple[str, ...]:
        """The nodes that the job gets once the victims are gone."""
        free, extra = self._pool.free, self._extra
        fitting = {node: mgpu for mgpu, node in free.with_room(self._cluster, self._shape)}
        for node in {node_of(room) for room in extra}:
            if free.has_room(self._cluster, node, self._shape, extra):
                fitting[node] = self._free[node] + extra.get(node, 0)
            else:
                fitting.pop(node, None)
        return free.placed(self._cluster, self._shape, fitting)

    def _by_rights(self, candidates: Sequence[Candidate]) -> Iterator[Sequence[Candidate]]:
        """`candidates` without those whom only a guarantee gives that does not cover the job as
        long as others below it run; then with the lowest such guarantee, and so on."""
        used = {one.by for one in candidates}
        left_out = [node for node in self._short if node in used]
        while left_out:
            allowed = [one for one in candidates if one.by not in left_out]
            if allowed:
                yield allowed
            del left_out[0]
        yield candidates

    def _choices(
        self, candidates: Sequence[Candidate], lacks: Mapping[str, int]
    ) -> Iterator[list[int]]:
        """Who goes first, for the devices; nobody, where these are free already."""
        if self._ready.is_enough:
            yield []
        elif not self._shape.is_bound:
            yield from self._clearings(candidates, range(len(candidates)), lacks)
        else:
            found = [
                (cost_of(candidates[at] for at in chosen), chosen)
                for nodes, inside in self._by_domain(candidates, lacks)
                for chosen in self._clearings(candidates, inside, nodes)
            ]
            found.sort()
            yield from (chosen for _, chosen in found[:_DOMAINS_MAX])

    def _clearings(
        self, candidates: Sequence[Candidate], those: Sequence[int], lacks: Mapping[str, int]
    ) -> Iterator[list[int]]:
        """The choices out of `those`, by number, that clear enough of the nodes in `lacks`."""
        count = self._shape.node_count - sum(1 for mgpu in lacks.values() if mgpu <= 0)
        if count > 0:
            is_all = len(those) == len(candidates)
            allowed = candidates if is_all else [candidates[at] for at in those]
            for chosen in clearings(allowed, self._cluster, lacks, count, self._slots_max):
                yield [those[at] for at in chosen]

    def _by_domain(
        self, candidates: Sequence[Candidate], lacks: Mapping[str, int]
    ) -> Iterator[tuple[dict[str, int], list[int]]]:
        """What the job lacks on the nodes of each domain that may hold all of it, and who runs on
        them, by number."""
        plan, topology = self._pool.free.plans.of(self._cluster), self._shape.topology
        if plan is None or topology is None:
            return
        nodes: dict[Domain, dict[str, int]] = {}
        domain_of: dict[str, Domain] = {}
        for node, lacking in lacks.items():
            domain = plan.domain(topology.level, node)
            if domain:
                domain_of[node] = domain
                nodes.setdefault(domain, {})[node] = lacking
        inside: dict[Domain, list[int]] = {}
        for at, candidate in enumerate(candidates):
            run = candidate.holding.run
            if run.cluster == self._cluster:
                for domain in {domain_of.get(slot.node, ()) for slot in run.slots}:
                    inside.setdefault(domain, []).append(at)
        for domain in sorted(inside):
            if domain and len(nodes[domain]) >= self._shape.node_count:
                yield nodes[domain], inside[domain]

    def _lacks(self, most: Mapping[str, int] | None) -> dict[str, int]:
        """What GPUs a rank lacks on each node that the job may use and that could hold one by
        `most`; 0 or less where it has room."""
        wanted, extra, kinds = self._shape.mgpu, self._extra, self._shape.kinds
        lacks = {
            node: wanted - free - extra.get(node, 0)
            for node, free in self._free.items()
            if most is None or most[node] >= wanted
        }
        if self._counts_rooms:
            has_room, shape = self._pool.free.has_room, self._shape
            for node, lacking in lacks.items():
                # Who is on a node that lacks something else holds some of that, too.
                if lacking <= 0 and not has_room(self._cluster, node, shape, extra):
                    lacks[node] = 1
        if kinds is not None:
            is_of = self._pool.free.is_of
            lacks = {
                node: mgpu for node, mgpu in lacks.items() if is_of(kinds, self._cluster, node)
            }
        return lacks

    def _complete(
        self, candidates: Sequence[Candidate], chosen: Sequence[int]
    ) -> list[Candidate] | None:
        """Stop those `chosen` by number, the first of the others that help until the job fits, and
        let off who is not needed. None, and nobody is stopped, where it never does."""
        taken = set(chosen)
        for at in chosen:
            self._stop(candidates[at], 1)
        helpers: dict[_Obstacle, Iterator[int]] = {}
        while (obstacle := self._obstacle()) is not None:
            if obstacle not in helpers:
                helpers[obstacle] = self._helpers(candidates, obstacle)
            helper = next((at for at in helpers[obstacle] if at not in taken), None)
            if helper is None:
                for at in taken:
                    self._stop(candidates[at], -1)
                return None
            taken.add(helper)
            self._stop(candidates[helper], 1)
        dropped = True
        while dropped:
            dropped = False
            for at in sorted(taken, reverse=True):
                # Most are needed for the devices already, which is told sooner than the rest.
                self._count_devices(candidates[at], -1)
                is_needed = not self._ready.is_enough
                self._count_devices(candidates[at], 1)
                if is_needed:
                    continue
                self._stop(candidates[at], -1)
                if self._is_enough():
                    taken.remove(at)
                    dropped = bool(self._short)
                else:
                    self._stop(candidates[at], 1)
        return [candidates[at] for at in sorted(taken)]

    def _stop(self, candidate: Candidate, sign: int) -> None:
        """Take a victim; or, with a sign of -1, let it run on."""
        holding = candidate.holding
        self._ledger.charge(holding.team, -sign * holding.mgpu)
        self._by[candidate.by] = self._by.get(candidate.by, 0) + sign
        if holding.protected:
            give_back(self._pool, self._left, holding, self._short, sign)
        self._count_devices(candidate, sign)

    def _count_devices(self, candidate: Candidate, sign: int) -> None:
        """The same for its devices alone."""
        holding = candidate.holding
        if holding.run.cluster == self._cluster:
            for slot in holding.run.slots:
                self._give(slot.node, sign * slot.mgpu)

    def _give(self, node: str, mgpu: int) -> None:
        """Count what comes free on a node or in a room, unless the job cannot use it there."""
        if self._counts_rooms:
            self._give_room(node, mgpu)
            return
        if node not in self._free or not self._pool.free.is_of(
            self._shape.kinds, self._cluster, node
        ):
            return
        extra = self._extra.get(node, 0)
        before = self._free[node] + extra
        self._extra[node] = extra + mgpu
        wanted = self._shape.mgpu
        change = (before + mgpu >= wanted) - (before >= wanted)
        if change:
            self._ready.add(node, change)

    def _give_room(self, room: str, amount: int) -> None:
        """The same where rooms are counted."""
        node, free, extra = node_of(room), self._pool.free, self._extra
        if node not in self._free or not free.is_of(self._shape.kinds, self._cluster, node):
            return
        had_room = free.has_room(self._cluster, node, self._shape, extra)
        extra[room] = extra.get(room, 0) + amount
        change = free.has_room(self._cluster, node, self._shape, extra) - had_room
        if change:
            self._ready.add(node, change)

    def _is_enough(self) -> bool:
        """Whether the job fits."""
        return self._obstacle() is None

    def _obstacle(self) -> _Obstacle | None:
        """What is in the job's way now: devices, quota, or a guarantee that is used against
        others and does not cover it."""
        if not self._ready.is_enough:
            return _DEVICES
        team, mgpu = self._team, self._shape.total_mgpu
        at = self._ledger.blocker(team, mgpu)
        if at is not None:
            return "quota", at
        for node in self._short:
            if self._by.get(node) and not self._left.fits(node, team, mgpu):
                return "right", node
        return None

    def _helpers(self, candidates: Sequence[Candidate], obstacle: _Obstacle) -> Iterator[int]:
        """The candidates, by number, without whom less is in the job's way there."""
        what, node = obstacle
        tree = self._pool.tree
        if obstacle == _DEVICES:
            cluster = self._cluster
            for at, one in enumerate(candidates):
                if one.holding.run.cluster == cluster:
                    yield at
        elif node == ROOT:
            yield from range(len(candidates))
        else:
            paths, depth = tree.paths, tree.depths[node]
            bit = 1 << depth
            for at, one in enumerate(candidates):
                holding = one.holding
                if what == "quota" or holding.protected & bit:
                    path = paths[holding.team]
                    if len(path) > depth and path[-1 - depth] == node:
                        yield at
