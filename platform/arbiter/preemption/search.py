"""The victims that make room for one job on one cluster, in its devices and in quota.

Which nodes are cleared is worked out in `arbiter.preemption.node_selection`. Where quota, or the
guarantee that gives the right, wants more to be gone than that, others follow in the order of
victims. Whoever turns out not to be needed is let off, the dearest first: without any one of the
victims that are left the job would not fit.
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
    """Count `holding` out where it is protected among `nodes`; with a sign of -1, in again."""
    path, depths, protected = pool.tree.paths[holding.team], pool.tree.depths, holding.protected
    for node in nodes:
        if protected >> depths[node] & 1 and node in path:
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


class _Lacks(dict[str, int]):
    """What GPUs a rank lacks on nodes, looked up once: 0 or less where it has room, and 0 where it
    can have none."""

    __slots__ = ("_look_up",)

    def __init__(self, look_up: Callable[[str], int | None]) -> None:
        self._look_up = look_up

    def __missing__(self, node: str) -> int:
        lacking = self[node] = self._look_up(node) or 0
        return lacking


class Search:
    """Looks for victims on one cluster, and keeps the standing as it were without them."""

    __slots__ = (
        "_barred",
        "_by",
        "_cluster",
        "_counts_rooms",
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
        """On the nodes and rooms `barred` nothing that comes free is for the job."""
        self._pool = pool
        self._team = team
        self._shape = shape
        self._cluster = cluster
        self._free = pool.free.free[cluster]
        self._counts_rooms = cluster in pool.free.beside
        #: What comes free on nodes and in rooms.
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
        """The cheapest victims that were found, in order; None where even without all that are
        `asked` the job would not fit. Once per search. Each of them runs on `slots_max` nodes at
        most. `most`: what is free on each node without all of them, at most, where that is known.
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
        """The best of what can be chosen at first; everybody runs on yet."""
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
        """Where gangs run, whose nodes depend on each other: what comes out when one of the
        victims, the dearest first, must not be one. As often as there are few candidates."""
        count = asked.gangs_among(_SCANNED_MAX)
        if count is None:
            return best
        tries = _SCANNED_MAX // count
        at = len(best[2]) - 1
        while at >= 0 and tries > 0:
            tries -= 1
            found = self._cheapest(asked.sparing(best[2][at]), lacks)
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

    def _by_rights(self, asked: Asked) -> Iterator[Asked]:
        """Those `asked` without whom only a guarantee gives that does not cover the job as long as
        others below it run; then with the lowest such guarantee, and so on."""
        parents, used = self._pool.tree.parents, set(asked.aboves)
        left_out = [parents[node] for node in self._short if parents[node] in used]
        while left_out:
            if len(left_out) < len(used):
                yield asked.without(left_out)
            del left_out[0]
        yield asked

    def _choices(self, candidates: Iterable[Candidate], lacks: _Lacks) -> Iterator[list[Candidate]]:
        """Who goes first, for the devices; nobody, where these are free already."""
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
        """What the job lacks on the nodes of each domain that may hold all of it, and who runs on
        them."""
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
        """What GPUs a rank lacks on a node, 0 or less where it has room; None where the job may not
        use it, or where it could hold no rank by `most`."""
        free, wanted, most = self._free.get(node), self._shape.mgpu, self._most
        if (
            free is None
            or (most is not None and most[node] < wanted)
            or not self._pool.free.is_of(self._shape.kinds, self._cluster, node)
            or (
                node in self._barred
                and not self._pool.free.has_room(self._cluster, node, self._shape, {})
            )
        ):
            return None
        lacking = wanted - free - self._extra.get(node, 0)
        if (
            lacking <= 0
            and self._counts_rooms
            and not self._pool.free.has_room(self._cluster, node, self._shape, self._extra)
        ):
            # Who is on a node that lacks something else holds some of that, too.
            return 1
        return lacking

    def _complete(self, asked: Asked, chosen: Sequence[Candidate]) -> list[Candidate] | None:
        """Stop those `chosen`, the first of the others that help until the job fits, and let off
        who is not needed. None, and nobody is stopped, where it never does."""
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
                # Most are needed for the devices, or then for a right, which is told sooner than
                # the rest.
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
        """Take a victim; or, with a sign of -1, let it run on."""
        holding = candidate.holding
        self._ledger.charge(holding.team, -sign * holding.mgpu)
        self._by[candidate.above] = self._by.get(candidate.above, 0) + sign
        if holding.protected:
            give_back(self._pool, self._left, holding, self._short, sign)
        if holding.run.cluster == self._cluster:
            for slot in holding.run.slots:
                self._give(slot.node, sign * slot.mgpu)

    def _needs_devices_of(self, victim: Candidate) -> bool:
        """Whether the nodes would not do if this victim ran on."""
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
        """Whether a guarantee that is used against others would not cover the job if this victim,
        which is protected there, ran on."""
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

    def _is_lost(self, room: str, amount: int) -> bool:
        """Whether so much less of a node, or of a room of it, would leave no room for a rank."""
        extra, shape = self._extra, self._shape
        coming = extra.get(room)
        if coming is None:
            # It cannot be used anyway.
            return False
        if not self._counts_rooms:
            left = self._free[room] + coming
            return left >= shape.mgpu > left - amount
        node, has_room = node_of(room), self._pool.free.has_room
        return has_room(self._cluster, node, shape, extra) and not has_room(
            self._cluster, node, shape, {**extra, room: coming - amount}
        )

    def _give(self, node: str, mgpu: int) -> None:
        """Count what comes free on a node or in a room, unless the job cannot use it there."""
        if node in self._barred:
            return
        if self._counts_rooms:
            self._give_room(node, mgpu)
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

    def is_enough(self) -> bool:
        """Whether the job fits in what is free, is coming back or is held by the victims so far."""
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
        parents = self._pool.tree.parents
        for node in self._short:
            if self._by.get(parents[node]) and not self._left.fits(node, team, mgpu):
                return "right", node
        return None

    def _helpers(self, asked: Asked, obstacle: _Obstacle) -> Iterator[Candidate]:
        """The candidates without whom less is in the job's way there."""
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
            # Whoever is below `node` is asked by rights from there or from further down.
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
