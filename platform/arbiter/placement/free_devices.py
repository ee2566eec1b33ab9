"""The choice of devices for a gang: one cluster and pool, best fit, all or nothing.

Rules R-38 to R-41.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from arbiter.api.snapshot import NodeName, Topology
from arbiter.placement.domains import Chosen, NodeBuckets
from arbiter.placement.node_sets import Levels, NodeKinds
from arbiter.placement.resources import (
    Demand,
    HostResources,
    Wants,
    cpu_and_memory_of,
    has_resources,
    node_of,
)
from arbiter.placement.topology import Tally, TopologyPlan, TopologyPlans, levels_from

#: The most views of a pool's clusters that are kept (see `FreeDevices`), and the most pending
#: changes of a cluster per node, which views have yet to apply.
VIEWS_MAX = 64
_CHANGES_MAX = 4

#: The number of equally full nodes that are compared by their lent amount.
_COMPANIES_MAX = 16

#: A cluster, or a view of it: the cluster, and how much CPU and memory its nodes must have left.
_At = str | tuple[str, Wants]


class Shape(NamedTuple):
    """The request of a job to the devices: `node_count` different nodes with `mgpu` each.

    All are on one of `clusters` (None: any), and of the set of `kinds` (see `NodeKinds`; None:
    any). They are as close together as `topology` says (None: anywhere). `cpu_milli` and
    `memory_mib` are needed on each node in addition (None: the share that comes with the GPUs).

    `closed` are clusters that are none of `clusters` because of maintenance. `closed_nodes` are
    nodes that are not of `kinds` because of it; `all_kinds` is the set with them.
    """

    mgpu: int
    node_count: int
    clusters: frozenset[str] | None
    total_mgpu: int
    kinds: int | None = None
    topology: Topology | None = None
    cpu_milli: int | None = None
    memory_mib: int | None = None
    closed: frozenset[str] = frozenset()
    closed_nodes: frozenset[NodeName] = frozenset()
    all_kinds: int | None = None

    @property
    def demand(self) -> Demand:
        """Return the request of each rank on its node."""
        return Demand(self.mgpu, self.cpu_milli, self.memory_mib)

    @property
    def with_closed_nodes(self) -> Shape:
        """Return the shape as if maintenance closed no single node."""
        return self._replace(kinds=self.all_kinds, closed_nodes=frozenset())

    @property
    def gpus_alone(self) -> Shape:
        """Return the shape without CPU and memory."""
        return self._replace(cpu_milli=0, memory_mib=0)

    @property
    def is_bound(self) -> bool:
        """Return whether its nodes must be in one domain."""
        return self.topology is not None and self.topology.is_required


class Place(NamedTuple):
    """Nodes of one cluster that fit a shape."""

    cluster: str
    nodes: tuple[str, ...]


class FreeDevices:
    """The free milli-GPU of one pool, node by node, on the clusters that accept starts.

    `free[cluster][node]` may be negative: on a drained node with running attempts, or for claims on
    lost capacity. Such a node takes nothing.

    Nodes are sorted by free amount. A cluster's nodes are also in `Levels`, from the first job on
    that requests a set of kinds. They are also in `NodeBuckets`, from the first search on, if their
    positions are known. Neither is built before it is needed.

    Where CPU and memory are counted, `free_resources[cluster]` has what is left of them. A job that
    needs some uses a *view* of the cluster. In it, nodes with too little CPU or memory have nothing
    free. Views apply pending changes when they are used again.
    """

    __slots__ = (
        "_all",
        "_amounts",
        "_buckets",
        "_changed",
        "_failed",
        "_fitting",
        "_kinds",
        "_levels",
        "_resources",
        "_seen",
        "_totals",
        "free",
        "free_resources",
        "plans",
        "taken",
    )

    def __init__(
        self,
        free: Mapping[str, Mapping[str, int]],
        kinds: NodeKinds | None = None,
        plans: TopologyPlans | None = None,
        resources: HostResources | None = None,
        free_resources: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        self.free = {cluster: dict(nodes) for cluster, nodes in sorted(free.items())}
        self._resources = HostResources(()) if resources is None else resources
        self.free_resources = {
            cluster: dict(left) for cluster, left in (free_resources or {}).items() if left
        }
        self._kinds = NodeKinds(()) if kinds is None else kinds
        #: The free amount of each node of a cluster, or of a view of it.
        self._amounts: dict[_At, dict[str, int]] = dict(self.free.items())
        self._all: dict[_At, list[tuple[int, str]]] = {
            cluster: sorted((mgpu, node) for node, mgpu in nodes.items())
            for cluster, nodes in self.free.items()
        }
        #: The nodes that changed, by cluster, and how many of these changes each view has applied;
        #: the view that was used last comes last.
        self._changed: dict[str, list[str]] = {}
        self._seen: dict[tuple[str, Wants], int] = {}
        self.plans = TopologyPlans((), self._kinds) if plans is None else plans
        self._levels: dict[_At, Levels] = {}
        self._buckets: dict[_At, NodeBuckets] = {}
        self._totals = {
            cluster: sum(mgpu for mgpu in nodes.values() if mgpu > 0)
            for cluster, nodes in self.free.items()
        }
        #: Shapes that fit, since devices were last taken; and shapes that do not, since any were
        #: last freed.
        self._fitting: set[Shape] = set()
        self._failed: set[Shape] = set()
        #: The nodes and host resources that changed since the last `mark`.
        self.taken: set[tuple[str, str]] = set()

    def clusters(self, allowed: frozenset[str] | None) -> Iterable[str]:
        """Return those of the `allowed` clusters that accept starts, in order of id."""
        if allowed is None:
            return self.free
        return [cluster for cluster in self.free if cluster in allowed]

    def total_free(self, allowed: frozenset[str] | None = None, kinds: int | None = None) -> int:
        """Return the free milli-GPU on all nodes that a job may use."""
        return sum(self._total(cluster, kinds) for cluster in self.clusters(allowed))

    def largest_free(self, allowed: frozenset[str] | None = None, kinds: int | None = None) -> int:
        """Return the free milli-GPU of the cluster that has most on such nodes."""
        return max((self._total(cluster, kinds) for cluster in self.clusters(allowed)), default=0)

    def fitting_nodes(self, shape: Shape) -> int:
        """Return the number of nodes that can hold one rank, on the best cluster."""
        return max(
            (self.count(cluster, shape) for cluster in self.clusters(shape.clusters)),
            default=0,
        )

    def together(self, shape: Shape) -> int:
        """Return the number of such nodes in the domain that has most of them.

        The domain is of the level that the shape requests.
        """
        return max(
            (self._together(cluster, shape) for cluster in self.clusters(shape.clusters)), default=0
        )

    def tally(self, cluster: str, shape: Shape) -> Tally:
        """Return a count of a cluster's nodes that can hold one rank, for the whole gang."""
        if shape.topology is None or not shape.is_bound:
            ready = self.count(cluster, shape)
            return Tally(shape.node_count, None, None, ready)
        tally = Tally(shape.node_count, shape.topology.level, self.plans.of(cluster))
        for _, node in self.nodes_for(cluster, shape):
            tally.add(node)
        return tally

    def placed(self, cluster: str, shape: Shape, nodes: Mapping[str, int]) -> tuple[str, ...]:
        """Return the nodes that the gang takes of `nodes`, which have the free milli-GPU by name.

        The gang must fit.
        """
        plan = self.plans.of(cluster)
        if plan is None:
            chosen = sorted((mgpu, node) for node, mgpu in nodes.items())[: shape.node_count]
        else:
            found = NodeBuckets(plan, nodes).choose(
                shape.mgpu, shape.node_count, None, shape.topology
            )
            assert found is not None
            chosen = found.nodes
        return tuple(sorted(node for _, node in chosen))

    def count(self, cluster: str, shape: Shape) -> int:
        """Return the number of a cluster's nodes that can hold one rank."""
        at = self._at(cluster, shape)
        if shape.kinds is not None:
            among = self._kinds.nodes(shape.kinds, cluster)
            return self._levels_of(at, cluster).count(shape.mgpu, among)
        nodes = self._all[at]
        return len(nodes) - bisect_left(nodes, (shape.mgpu, ""))

    def nodes_for(self, cluster: str, shape: Shape) -> list[tuple[int, str]]:
        """Return (free milli-GPU, node) for every node of a cluster that can hold one rank."""
        return self._fullest(self._at(cluster, shape), cluster, shape.kinds, shape.mgpu, None)

    def fits_on(
        self, cluster: str, node: str, shape: Shape, more: Mapping[str, int] | None = None
    ) -> bool:
        """Return whether a node can hold a rank if `more` was free there, CPU and memory included.

        The kind of the node is ignored.
        """
        left = self.free[cluster][node]
        if more:
            left += more.get(node, 0)
        if left < shape.mgpu:
            return False
        free_resources = self.free_resources.get(cluster)
        if free_resources is None:
            return True
        wants = self._resources.wants(cluster, shape.demand)
        if more:
            free_resources = {
                resource: free_resources[resource] + more.get(resource, 0)
                for resource in cpu_and_memory_of(node)
                if resource in free_resources
            }
        return has_resources(free_resources, node, wants)

    def left(self, cluster: str, resource: str) -> int:
        """Return the free amount of a node, or of a host resource that is counted."""
        nodes = self.free[cluster]
        return nodes[resource] if resource in nodes else self.free_resources[cluster][resource]

    def is_of(self, kinds: int | None, cluster: str, node: str) -> bool:
        """Return whether a node is of one of the `kinds`."""
        return kinds is None or self._kinds.has(kinds, cluster, node)

    def fits(self, shape: Shape) -> bool:
        """Return whether some cluster can hold the whole gang now."""
        if shape in self._fitting:
            return True
        if shape in self._failed:
            return False
        for cluster in self.clusters(shape.clusters):
            if self._has_place(cluster, shape):
                self._fitting.add(shape)
                return True
        self._failed.add(shape)
        return False

    def find(
        self,
        shape: Shape,
        lent: Mapping[str, Mapping[str, int]] | None = None,
        *,
        joins_lent: bool = False,
    ) -> Place | None:
        """Return the tightest place for the whole gang, or None.

        On each cluster the fullest nodes that still fit are taken, so that the largest whole nodes
        stay free. Where positions are known, the largest whole domains stay free too (see
        `NodeBuckets.choose`). Among clusters the order is: nodes closest together if requested,
        least left over on the nodes taken, least free in all, and then id.

        `lent` has the reclaimable amount of each node, by cluster. It decides among equally full
        nodes for a job of one node. A job that may be stopped itself (`joins_lent`) goes where most
        is lent, and another one where least is. So lent GPUs stay together, and whole nodes of them
        can be reclaimed for jobs that need whole nodes.
        """
        if not self.fits(shape):
            return None
        found = [
            (cluster, chosen)
            for cluster in self.clusters(shape.clusters)
            if (chosen := self._choose(cluster, shape)) is not None
        ]
        if not found:
            return None
        cluster, (_, nodes) = found[0] if len(found) == 1 else min(found, key=self._tightness)
        if shape.node_count > 1:
            return Place(cluster, tuple(sorted([node for _, node in nodes])))
        chosen_one = nodes[0]
        if shape.topology is None and lent and lent.get(cluster):
            here = lent[cluster]
            chosen_one = self._in_company(cluster, chosen_one, shape, here, joins_lent=joins_lent)
        return Place(cluster, (chosen_one[1],))

    def _tightness(self, found: tuple[str, Chosen]) -> tuple[int, int, int, str]:
        """Return the sort key of a cluster with a place; the least is best."""
        cluster, (spread, nodes) = found
        return spread, sum([mgpu for mgpu, _ in nodes]), self._totals[cluster], cluster

    def _in_company(
        self,
        cluster: str,
        chosen: tuple[int, str],
        shape: Shape,
        lent: Mapping[str, int],
        *,
        joins_lent: bool,
    ) -> tuple[int, str]:
        """Return the best node among the first that are as full as the `chosen` one.

        It is the one with most of `lent`, or least without `joins_lent`. At a tie it is the chosen
        one.
        """
        as_full, node = best = chosen
        most = lent.get(node, 0)
        if not most and not joins_lent:
            return chosen
        at = self._at(cluster, shape)
        for one in self._fullest(at, cluster, shape.kinds, as_full, _COMPANIES_MAX):
            mgpu, node = one
            if mgpu != as_full:
                break
            here = lent.get(node, 0)
            if here > most if joins_lent else here < most:
                best, most = one, here
        return best

    def take(self, cluster: str, node: str, mgpu: int) -> None:
        """Take `mgpu` of a node, or that amount of a host resource; a negative amount frees it."""
        before = self.free[cluster].get(node)
        if before is None:
            self.free_resources[cluster][node] -= mgpu
        else:
            after = before - mgpu
            self._move(cluster, node, before, after)
            if before < 0 or after < 0:
                self._totals[cluster] += max(0, after) - max(0, before)
            else:
                self._totals[cluster] -= mgpu
        if self._seen:
            self._note_change(cluster, node_of(node))
        if mgpu < 0:
            self._failed.clear()
        else:
            self._fitting.clear()
        self.taken.add((cluster, node))

    def leave(self, cluster: str, resource: str, amount: int) -> None:
        """Set the free amount of a node or a host resource, if it is known."""
        nodes = self.free.get(cluster)
        if nodes is None:
            return
        before = nodes.get(resource)
        if before is None:
            before = self.free_resources.get(cluster, {}).get(resource)
        if before is not None and before != amount:
            self.take(cluster, resource, before - amount)

    def mark(self) -> None:
        """Reset `taken`, and drop cached answers so that they do not outlive one cycle."""
        self.taken.clear()
        self._fitting.clear()
        self._failed.clear()

    def _move(self, at: _At, node: str, before: int, after: int) -> None:
        """Change the free amount of a node of a cluster, or of a view of it."""
        nodes = self._all[at]
        del nodes[bisect_left(nodes, (before, node))]
        insort(nodes, (after, node))
        if at in self._levels:
            self._levels[at].move(node, before, after)
        if at in self._buckets:
            self._buckets[at].move(node, before, after)
        self._amounts[at][node] = after

    def _at(self, cluster: str, shape: Shape) -> _At:
        """Return where to look for nodes that can hold a rank: the cluster, or a view of it."""
        if not self.free_resources or cluster not in self.free_resources:
            return cluster
        wants = self._resources.wants(cluster, shape.demand)
        if not any(wants):
            return cluster
        view = cluster, wants
        free, free_resources = self.free[cluster], self.free_resources[cluster]
        changed = self._changed.setdefault(cluster, [])
        seen = self._seen.pop(view, None)
        if seen is None:
            if len(self._seen) >= VIEWS_MAX:
                self._drop(next(iter(self._seen)))
            amounts = {
                node: mgpu if has_resources(free_resources, node, wants) else min(mgpu, 0)
                for node, mgpu in free.items()
            }
            self._amounts[view] = amounts
            self._all[view] = sorted((mgpu, node) for node, mgpu in amounts.items())
        else:
            amounts = self._amounts[view]
            for node in dict.fromkeys(changed[seen:]):
                mgpu = (
                    free[node] if has_resources(free_resources, node, wants) else min(free[node], 0)
                )
                if mgpu != amounts[node]:
                    self._move(view, node, amounts[node], mgpu)
        self._seen[view] = len(changed)
        return view

    def _note_change(self, cluster: str, node: str) -> None:
        """Note that views of a cluster have to look at a node again."""
        changed = self._changed.get(cluster)
        if changed is None:
            return
        changed.append(node)
        if len(changed) > _CHANGES_MAX * len(self.free[cluster]):
            for view in [one for one in self._seen if one[0] == cluster]:
                self._drop(view)
            changed.clear()

    def _drop(self, view: tuple[str, Wants]) -> None:
        del self._seen[view], self._all[view], self._amounts[view]
        self._levels.pop(view, None)
        self._buckets.pop(view, None)

    def _has_place(self, cluster: str, shape: Shape) -> bool:
        at, needed = self._at(cluster, shape), shape.node_count
        if shape.kinds is None:
            nodes = self._all[at]
            if len(nodes) < needed or nodes[-needed][0] < shape.mgpu:
                return False
        else:
            among = self._kinds.nodes(shape.kinds, cluster)
            if self._levels_of(at, cluster).count(shape.mgpu, among, needed) < needed:
                return False
        return not shape.is_bound or self._together(cluster, shape) >= shape.node_count

    def _together(self, cluster: str, shape: Shape) -> int:
        plan = self.plans.of(cluster)
        if plan is None or shape.topology is None:
            return 0
        buckets = self._buckets_of(self._at(cluster, shape), plan)
        return buckets.most_together(shape.topology.level, shape.mgpu, shape.kinds)

    def _choose(self, cluster: str, shape: Shape) -> Chosen | None:
        """Return the nodes for a gang on a cluster, or None without a place."""
        plan, at = self.plans.of(cluster), self._at(cluster, shape)
        if plan is not None:
            buckets = self._buckets_of(at, plan)
            return buckets.choose(shape.mgpu, shape.node_count, shape.kinds, shape.topology)
        if shape.is_bound:
            return None
        nodes = self._fullest(at, cluster, shape.kinds, shape.mgpu, shape.node_count)
        if len(nodes) < shape.node_count:
            return None
        wish = shape.topology
        return Chosen(0 if wish is None else len(levels_from(wish.level)), nodes)

    def _fullest(
        self, at: _At, cluster: str, kinds: int | None, mgpu: int, most: int | None
    ) -> list[tuple[int, str]]:
        """Return (free milli-GPU, node) of the first `most` nodes of `kinds` with so much free."""
        if kinds is not None:
            among = self._kinds.nodes(kinds, cluster)
            return self._levels_of(at, cluster).least(mgpu, among, most)
        nodes = self._all[at]
        start = bisect_left(nodes, (mgpu, ""))
        return nodes[start:] if most is None else nodes[start : start + most]

    def _buckets_of(self, at: _At, plan: TopologyPlan) -> NodeBuckets:
        found = self._buckets.get(at)
        if found is None:
            found = self._buckets[at] = NodeBuckets(plan, self._amounts[at])
        return found

    def _levels_of(self, at: _At, cluster: str) -> Levels:
        found = self._levels.get(at)
        if found is None:
            found = self._levels[at] = self._kinds.levels(cluster, self._amounts[at])
        return found

    def _total(self, cluster: str, kinds: int | None) -> int:
        if kinds is None:
            return self._totals[cluster]
        return self._levels_of(cluster, cluster).total(self._kinds.nodes(kinds, cluster))
