"""The largest jobs that the devices of a pool could hold when nothing runs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from arbiter.placement.domains import NodeBuckets
from arbiter.placement.free_devices import Shape
from arbiter.placement.node_sets import Levels, NodeKinds
from arbiter.placement.resources import HostResources, has_resources
from arbiter.placement.topology import TopologyPlans
from arbiter.quota.tree import UNLIMITED


class Layout:
    """Distinguishes "not now" from "never".

    A device that offers nothing now (drained, unhealthy) counts as large as the largest known
    device in the pool, or as unlimited when none is known. A cluster that does not respond counts
    too. Both may come back, and a job that an operator can make possible must not be called
    impossible.
    """

    __slots__ = (
        *(
            "_capacities",
            "_kinds",
            "_largest",
            "_levels",
            "_plans",
            "_resources",
            "_buckets",
            "_sizes",
        ),
        "capacity_mgpu",
    )

    def __init__(
        self,
        capacities: Mapping[str, Mapping[str, int]],
        kinds: NodeKinds | None = None,
        plans: TopologyPlans | None = None,
        resources: HostResources | None = None,
    ) -> None:
        self._resources = HostResources(()) if resources is None else resources
        largest = max((max(nodes.values(), default=0) for nodes in capacities.values()), default=0)
        self._largest = largest or UNLIMITED
        self._capacities = capacities
        self._kinds = NodeKinds(()) if kinds is None else kinds
        self._plans = TopologyPlans((), self._kinds) if plans is None else plans
        self._buckets: dict[str, NodeBuckets] = {}
        self._sizes = {
            cluster: sorted(map(self._size, nodes.values()))
            for cluster, nodes in capacities.items()
        }
        self._levels: dict[str, Levels] = {}
        self.capacity_mgpu = sum(sum(sizes) for sizes in self._sizes.values())

    def holds(self, shape: Shape) -> bool:
        """Return whether one cluster, empty, has enough nodes that are large enough."""
        if self.nodes_with(shape) < shape.node_count:
            return False
        return not shape.is_bound or self.together(shape) >= shape.node_count

    def most_mgpu(self, shape: Shape) -> int:
        """Return the most that nodes of one cluster could give in pieces of the shape's size.

        If the shape must be in one domain, these are the nodes of one domain.
        """
        nodes = self.together(shape) if shape.is_bound else self.nodes_with(shape)
        return nodes * shape.mgpu

    def together(self, shape: Shape) -> int:
        """Return the number of large enough nodes in the domain that has most of them.

        The domain is of the level that the shape requests.
        """
        if shape.topology is None:
            return 0
        level, most = shape.topology.level, 0
        for cluster in self._sizes:
            plan = self._plans.of(cluster)
            if plan is None or (shape.clusters is not None and cluster not in shape.clusters):
                continue
            if self._are_short(cluster, shape):
                buckets = NodeBuckets(plan, self._sized_for(cluster, shape))
            elif cluster in self._buckets:
                buckets = self._buckets[cluster]
            else:
                buckets = self._buckets[cluster] = NodeBuckets(plan, self._sized(cluster))
            most = max(most, buckets.most_together(level, shape.mgpu, shape.kinds))
        return most

    def nodes_of_kinds(self, shape: Shape) -> int:
        """Return the number of nodes of the shape's kinds, of any size, on the best cluster."""
        return self.nodes_with(shape.gpus_alone._replace(mgpu=0))

    def nodes_with(self, shape: Shape) -> int:
        """Return the number of nodes that are large enough for one rank, on the best cluster."""
        allowed = shape.clusters
        return max(
            (
                self._count(cluster, shape)
                for cluster in self._sizes
                if allowed is None or cluster in allowed
            ),
            default=0,
        )

    def _count(self, cluster: str, shape: Shape) -> int:
        mgpu, kinds = shape.mgpu, shape.kinds
        if self._are_short(cluster, shape):
            among = None if kinds is None else self._kinds.nodes(kinds, cluster)
            sizes = self._sized_for(cluster, shape)
            if among is None:
                return sum(size >= mgpu for size in sizes.values())
            return self._kinds.levels(cluster, sizes).count(mgpu, among)
        if kinds is None:
            of_all = self._sizes[cluster]
            return len(of_all) - bisect_left(of_all, mgpu)
        levels = self._levels.get(cluster)
        if levels is None:
            levels = self._levels[cluster] = self._kinds.levels(cluster, self._sized(cluster))
        return levels.count(mgpu, self._kinds.nodes(kinds, cluster))

    def _are_short(self, cluster: str, shape: Shape) -> bool:
        """Return whether nodes with enough GPUs for a rank may lack CPU or memory."""
        return bool(self._resources.sizes.get(cluster)) and any(
            self._resources.wants(cluster, shape.demand)
        )

    def _sized_for(self, cluster: str, shape: Shape) -> dict[str, int]:
        """Return the sizes of all nodes; -1 for nodes without enough CPU or memory."""
        sizes, wants = self._resources.sizes[cluster], self._resources.wants(cluster, shape.demand)
        return {
            node: size if has_resources(sizes, node, wants) else -1
            for node, size in self._sized(cluster).items()
        }

    def _sized(self, cluster: str) -> dict[str, int]:
        return {node: self._size(mgpu) for node, mgpu in self._capacities[cluster].items()}

    def _size(self, mgpu: int) -> int:
        return mgpu if mgpu > 0 else self._largest

    @property
    def is_empty(self) -> bool:
        """Return whether no device of the pool is known."""
        return not any(self._sizes.values())
