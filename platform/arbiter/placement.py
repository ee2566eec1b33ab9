"""Which devices a gang gets: one cluster, one pool, best fit, all or nothing."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from arbiter.node_kinds import NodeKinds
from arbiter.quota_tree import UNLIMITED


class Shape(NamedTuple):
    """What a job asks of the devices: `node_count` different nodes with `mgpu` each, on one of
    `clusters` (None: on any), all out of the set of `kinds` (see `NodeKinds`; None: of any)."""

    mgpu: int
    node_count: int
    clusters: frozenset[str] | None
    total_mgpu: int
    kinds: int | None = None


class Place(NamedTuple):
    """Nodes of one cluster that fit a shape."""

    cluster: str
    nodes: tuple[str, ...]


class FreeDevices:
    """The free milli-GPU of one pool, node by node, on the clusters that accept starts.

    `free[cluster][node]` may be negative (a drained node on which something still runs,
    earmarks on lost capacity); such a node takes nothing.

    Nodes stand sorted by what is free. Where jobs ask for some kinds of nodes only, these stand
    in a list of their own besides, from the first question on, so that such a question costs no
    more than any other, and nothing where nobody asks.
    """

    __slots__ = ("_all", "_besides", "_failed", "_kinds", "_of_kinds", "_totals", "free")

    def __init__(
        self, free: Mapping[str, Mapping[str, int]], kinds: NodeKinds | None = None
    ) -> None:
        self.free = {cluster: dict(nodes) for cluster, nodes in sorted(free.items())}
        self._kinds = NodeKinds(()) if kinds is None else kinds
        self._all = {
            cluster: sorted((mgpu, node) for node, mgpu in nodes.items())
            for cluster, nodes in self.free.items()
        }
        self._of_kinds: dict[tuple[str, int], list[tuple[int, str]]] = {}
        #: The lists of kinds in which a node stands.
        self._besides: dict[tuple[str, str], list[list[tuple[int, str]]]] = {}
        self._totals = {
            cluster: sum(mgpu for mgpu in nodes.values() if mgpu > 0)
            for cluster, nodes in self.free.items()
        }
        self._failed: set[Shape] = set()

    def clusters(self, allowed: frozenset[str] | None) -> Iterable[str]:
        """Those of the `allowed` clusters that accept starts, in order of id."""
        if allowed is None:
            return self.free
        return [cluster for cluster in self.free if cluster in allowed]

    def total_free(self, allowed: frozenset[str] | None = None, kinds: int | None = None) -> int:
        """Free milli-GPU on all nodes that a job may use."""
        return sum(self._total(cluster, kinds) for cluster in self.clusters(allowed))

    def largest_free(self, allowed: frozenset[str] | None = None, kinds: int | None = None) -> int:
        """Free milli-GPU of the cluster that has most on such nodes."""
        return max((self._total(cluster, kinds) for cluster in self.clusters(allowed)), default=0)

    def fitting_nodes(self, shape: Shape) -> int:
        """Nodes with room for one rank, on the cluster that has most of them."""
        return max(
            (
                self.count(cluster, shape.mgpu, shape.kinds)
                for cluster in self.clusters(shape.clusters)
            ),
            default=0,
        )

    def count(self, cluster: str, mgpu: int, kinds: int | None = None) -> int:
        """Nodes of a cluster with at least `mgpu` free."""
        nodes = self._by_free(cluster, kinds)
        return len(nodes) - bisect_left(nodes, (mgpu, ""))

    def with_room(self, cluster: str, mgpu: int, kinds: int | None = None) -> list[tuple[int, str]]:
        """(free milli-GPU, node) of every node of a cluster with at least `mgpu` free."""
        nodes = self._by_free(cluster, kinds)
        return nodes[bisect_left(nodes, (mgpu, "")) :]

    def is_of(self, kinds: int | None, cluster: str, node: str) -> bool:
        """Whether a node is of one of the `kinds`."""
        return kinds is None or node in self._kinds.nodes(kinds, cluster)

    def fits(self, shape: Shape) -> bool:
        """Whether some cluster has room for the whole gang now."""
        if shape in self._failed:
            return False
        for cluster in self.clusters(shape.clusters):
            if self.count(cluster, shape.mgpu, shape.kinds) >= shape.node_count:
                return True
        self._failed.add(shape)
        return False

    def find(self, shape: Shape) -> Place | None:
        """The tightest place for the whole gang, or None.

        On each cluster the fullest nodes that still fit are taken, so that the largest
        whole nodes stay free. Among clusters the one is chosen that leaves least over on
        the nodes taken, then the one with least free in all, then the first by id.
        """
        if not self.fits(shape):
            return None
        best: tuple[int, int, str] | None = None
        found: Place | None = None
        for cluster in self.clusters(shape.clusters):
            nodes = self._by_free(cluster, shape.kinds)
            start = bisect_left(nodes, (shape.mgpu, ""))
            chosen = nodes[start : start + shape.node_count]
            if len(chosen) < shape.node_count:
                continue
            key = (sum(mgpu for mgpu, _ in chosen), self._totals[cluster], cluster)
            if best is None or key < best:
                best = key
                found = Place(cluster, tuple(sorted(node for _, node in chosen)))
        return found

    def take(self, cluster: str, node: str, mgpu: int) -> None:
        """Use up `mgpu` of a node; a negative amount gives it back."""
        free = self.free[cluster]
        before = free[node]
        after = before - mgpu
        _move(self._all[cluster], before, after, node)
        for nodes in self._besides.get((cluster, node), ()):
            _move(nodes, before, after, node)
        free[node] = after
        self._totals[cluster] += max(0, after) - max(0, before)
        if mgpu < 0:
            self._failed.clear()

    def _by_free(self, cluster: str, kinds: int | None) -> list[tuple[int, str]]:
        """(free milli-GPU, node) of a cluster's nodes of these kinds, sorted."""
        if kinds is None:
            return self._all[cluster]
        found = self._of_kinds.get((cluster, kinds))
        if found is None:
            free = self.free[cluster]
            found = self._of_kinds[cluster, kinds] = sorted(
                (free[node], node) for node in self._kinds.nodes(kinds, cluster) if node in free
            )
            for _, node in found:
                self._besides.setdefault((cluster, node), []).append(found)
        return found

    def _total(self, cluster: str, kinds: int | None) -> int:
        if kinds is None:
            return self._totals[cluster]
        return sum(mgpu for mgpu, _ in self._by_free(cluster, kinds) if mgpu > 0)


def _move(nodes: list[tuple[int, str]], before: int, after: int, node: str) -> None:
    del nodes[bisect_left(nodes, (before, node))]
    insort(nodes, (after, node))


class Layout:
    """What the devices of a pool could hold when nothing runs, to tell "not now" from "never".

    A device that offers nothing now (drained, unhealthy) counts as if it were as large as
    the largest device known in the pool, or as unlimited when none is known, and a cluster that
    does not answer counts too: both may come back, and "never" must not be said of what an
    operator can undo.
    """

    __slots__ = ("_capacities", "_kinds", "_largest", "_of_kinds", "_sizes", "capacity_mgpu")

    def __init__(
        self, capacities: Mapping[str, Mapping[str, int]], kinds: NodeKinds | None = None
    ) -> None:
        largest = max((max(nodes.values(), default=0) for nodes in capacities.values()), default=0)
        self._largest = largest or UNLIMITED
        self._capacities = capacities
        self._kinds = NodeKinds(()) if kinds is None else kinds
        self._sizes = {
            cluster: self._sorted(nodes.values()) for cluster, nodes in capacities.items()
        }
        self._of_kinds: dict[tuple[str, int], list[int]] = {}
        self.capacity_mgpu = sum(sum(sizes) for sizes in self._sizes.values())

    def holds(self, shape: Shape) -> bool:
        """Whether one cluster, empty, has enough nodes that are large enough."""
        return self._nodes_with(shape, shape.mgpu) >= shape.node_count

    def most_mgpu(self, shape: Shape) -> int:
        """The most that nodes of one cluster could give in pieces of the shape's size."""
        return self._nodes_with(shape, shape.mgpu) * shape.mgpu

    def nodes_of_kinds(self, shape: Shape) -> int:
        """Nodes of the shape's kinds, of any size, on the cluster that has most of them."""
        return self._nodes_with(shape, 0)

    def _nodes_with(self, shape: Shape, mgpu: int) -> int:
        allowed = shape.clusters
        sizes = (
            self._by_size(cluster, shape.kinds)
            for cluster in self._sizes
            if allowed is None or cluster in allowed
        )
        return max((len(size) - bisect_left(size, mgpu) for size in sizes), default=0)

    def _by_size(self, cluster: str, kinds: int | None) -> list[int]:
        if kinds is None:
            return self._sizes[cluster]
        found = self._of_kinds.get((cluster, kinds))
        if found is None:
            nodes = self._capacities[cluster]
            found = self._of_kinds[cluster, kinds] = self._sorted(
                nodes[node] for node in self._kinds.nodes(kinds, cluster)
            )
        return found

    def _sorted(self, sizes: Iterable[int]) -> list[int]:
        return sorted(mgpu if mgpu > 0 else self._largest for mgpu in sizes)

    @property
    def is_empty(self) -> bool:
        """Whether no device of the pool is known."""
        return not any(self._sizes.values())
