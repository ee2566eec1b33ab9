"""Sets of node kinds: nodes with the same features are of one kind, and jobs request sets of kinds.

A set is an integer for each cluster with a bit for each node. So no set needs its own sorted list,
however many different sets jobs request. Only the nodes are sorted, once for all sets (`Levels`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping

from arbiter.api.snapshot import Device, NodeName

_NO_FEATURES = frozenset[str]()
_NO_NODES = frozenset[NodeName]()


class NodeKinds:
    """The kinds of one pool's nodes, and the numbered sets of them that were requested.

    Nothing is computed before the first request. A new set then costs one operation on integers for
    each of its features and each cluster.
    """

    __slots__ = ("_devices", "_having", "_known", "_members", "_names", "_numbers", "_places")

    def __init__(self, devices: Iterable[Device]) -> None:
        self._devices = devices
        #: The nodes of each cluster in order of their names, and each one's number there;
        #: None before the first question.
        self._names: dict[str, list[str]] | None = None
        self._places: dict[str, dict[str, int]] = {}
        #: By feature, the nodes that have it, by cluster, as an integer with a bit for each.
        self._having: dict[str, dict[str, int]] = {}
        self._known: dict[tuple[frozenset[str], frozenset[NodeName]], int | None] = {}
        self._numbers: dict[tuple[int, ...], int] = {}
        self._members: list[dict[str, int]] = []

    def having(
        self, features: frozenset[str] | None, without: frozenset[NodeName] = _NO_NODES
    ) -> int | None:
        """Return the number of the set of nodes that have all of `features`, but for `without`.

        Return None when that excludes no node of the pool.
        """
        if not features and not without:
            return None
        asked = (features or _NO_FEATURES, without)
        if asked not in self._known:
            self._known[asked] = self._find(*asked)
        return self._known[asked]

    @property
    def asked_count(self) -> int:
        """Return how many different sets of nodes were requested."""
        return len(self._known)

    def nodes(self, kinds: int, cluster: str) -> int:
        """Return the nodes of a cluster in a set of kinds, as an integer with a bit for each."""
        return self._members[kinds].get(cluster, 0)

    def has(self, kinds: int, cluster: str, node: str) -> bool:
        """Return whether a node is in a set of kinds."""
        number = self._places.get(cluster, {}).get(node)
        return number is not None and self.nodes(kinds, cluster) >> number & 1 == 1

    def numbered(self, cluster: str, nodes: Iterable[str]) -> int:
        """Return these nodes of a cluster as an integer with a bit for each."""
        self._sorted_out()
        places = self._places[cluster]
        return sum(1 << places[node] for node in nodes)

    def named(self, cluster: str, nodes: int) -> Iterator[str]:
        """Return the names of nodes of a cluster, given as an integer with a bit for each."""
        names = self._sorted_out()[cluster]
        return (names[number] for number in _numbers(nodes))

    def levels(self, cluster: str, mgpu: Mapping[str, int]) -> Levels:
        """Return the nodes of a cluster ordered by these amounts, which are by node name."""
        names, places = self._sorted_out().get(cluster, []), self._places.get(cluster, {})
        return Levels(names, places, mgpu)

    def _find(self, features: frozenset[str], without: frozenset[NodeName]) -> int | None:
        clusters = self._sorted_out()
        members = {cluster: (1 << len(names)) - 1 for cluster, names in clusters.items()}
        every = tuple(members.values())
        for feature in features:
            having = self._having.get(feature, {})
            for cluster in members:
                members[cluster] &= having.get(cluster, 0)
        for cluster, node in without:
            number = self._places.get(cluster, {}).get(node)
            if number is not None:
                members[cluster] &= ~(1 << number)
        key = tuple(members.values())
        if key == every:
            return None
        if key not in self._numbers:
            self._numbers[key] = len(self._members)
            self._members.append(members)
        return self._numbers[key]

    def _sorted_out(self) -> Mapping[str, list[str]]:
        if self._names is not None:
            return self._names
        features: dict[str, dict[str, frozenset[str]]] = {}
        for device in self._devices:
            nodes = features.setdefault(device.cluster, {})
            known = nodes.get(device.node)
            nodes[device.node] = device.features if known is None else known | device.features
        self._names = {cluster: sorted(nodes) for cluster, nodes in features.items()}
        for cluster, names in self._names.items():
            self._places[cluster] = {node: number for number, node in enumerate(names)}
            by_kind: dict[frozenset[str], int] = {}
            for number, node in enumerate(names):
                kind = features[cluster][node]
                by_kind[kind] = by_kind.get(kind, 0) | 1 << number
            for kind, nodes_of_kind in by_kind.items():
                for feature in kind:
                    having = self._having.setdefault(feature, {})
                    having[cluster] = having.get(cluster, 0) | nodes_of_kind
        return self._names


class Levels:
    """The nodes of one cluster by an amount of milli-GPU (free, or in total).

    For each amount it has the nodes with it, as an integer with a bit for each. A request costs one
    operation on integers for each amount that occurs, whatever the set of nodes. Nodes of the same
    amount are in order of their names.
    """

    __slots__ = ("_amounts", "_names", "_nodes", "_places")

    def __init__(
        self, names: list[str], places: Mapping[str, int], mgpu: Mapping[str, int]
    ) -> None:
        self._names = names
        self._places = places
        self._nodes: dict[int, int] = {}
        for node, amount in mgpu.items():
            self._nodes[amount] = self._nodes.get(amount, 0) | 1 << places[node]
        self._amounts = sorted(self._nodes)

    def move(self, node: str, before: int, after: int) -> None:
        """Change the amount of a node."""
        bit = 1 << self._places[node]
        left = self._nodes[before] ^ bit
        if left:
            self._nodes[before] = left
        else:
            del self._nodes[before]
            del self._amounts[bisect_left(self._amounts, before)]
        if after in self._nodes:
            self._nodes[after] |= bit
        else:
            self._nodes[after] = bit
            insort(self._amounts, after)

    def count(self, mgpu: int, among: int, enough: int | None = None) -> int:
        """Return how many nodes of `among` have at least `mgpu`; it stops at `enough`."""
        counted = 0
        for _, nodes in self._at_least(mgpu, among):
            counted += nodes.bit_count()
            if enough is not None and counted >= enough:
                break
        return counted

    def total(self, among: int) -> int:
        """Return the sum of positive amounts on the nodes of `among`."""
        return sum(amount * nodes.bit_count() for amount, nodes in self._at_least(1, among))

    def least(self, mgpu: int, among: int, most: int | None = None) -> list[tuple[int, str]]:
        """Return the first `most` nodes of `among` with at least `mgpu`.

        They are (amount, node), in ascending order.
        """
        found: list[tuple[int, str]] = []
        for amount, nodes in self._at_least(mgpu, among):
            for number in _numbers(nodes):
                if most is not None and len(found) >= most:
                    return found
                found.append((amount, self._names[number]))
        return found

    def _at_least(self, mgpu: int, among: int) -> Iterator[tuple[int, int]]:
        amounts = self._amounts
        for i in range(bisect_left(amounts, mgpu), len(amounts)):
            nodes = self._nodes[amounts[i]] & among
            if nodes:
                yield amounts[i], nodes


def _numbers(bits: int) -> Iterator[int]:
    """Return the indexes of the bits that are set, in ascending order."""
    digits = f"{bits:b}"[::-1]
    at = digits.find("1")
    while at >= 0:
        yield at
        at = digits.find("1", at + 1)
