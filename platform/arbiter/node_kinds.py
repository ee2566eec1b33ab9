"""Nodes that have the same features are of one kind: what jobs ask for is then a set of kinds.

However many combinations of features people think of, those that the same nodes have are the same
set, so what the arbiter keeps for each set is bounded by the fleet, not by the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from arbiter.snapshot import Device

_NOBODY: frozenset[str] = frozenset()


class NodeKinds:
    """The kinds of one pool's nodes, and the sets of them that somebody asked for, numbered.

    Nothing is looked at before the first question. A new set then costs as much as it has nodes.
    """

    __slots__ = ("_devices", "_kinds_with", "_known", "_members", "_nodes", "_numbers")

    def __init__(self, devices: Iterable[Device]) -> None:
        self._devices = devices
        #: The nodes of each kind, by cluster; None before the first question.
        self._nodes: list[dict[str, list[str]]] | None = None
        #: Of each feature the kinds that have it, as an integer with a bit for each.
        self._kinds_with: dict[str, int] = {}
        self._known: dict[frozenset[str], int | None] = {}
        self._numbers: dict[int, int] = {}
        self._members: list[Mapping[str, frozenset[str]]] = []

    def having(self, features: frozenset[str] | None) -> int | None:
        """The number of the set of kinds that have all of `features`; None when that excludes no
        node of the pool."""
        if not features:
            return None
        if features not in self._known:
            self._known[features] = self._find(features)
        return self._known[features]

    def nodes(self, kinds: int, cluster: str) -> frozenset[str]:
        """The nodes of a cluster that are of a set of kinds."""
        return self._members[kinds].get(cluster, _NOBODY)

    def _find(self, features: frozenset[str]) -> int | None:
        nodes = self._nodes if self._nodes is not None else self._sort_out()
        every = bits = (1 << len(nodes)) - 1
        for feature in features:
            bits &= self._kinds_with.get(feature, 0)
        if bits == every:
            return None
        if bits not in self._numbers:
            self._numbers[bits] = len(self._members)
            self._members.append(_together(nodes, bits))
        return self._numbers[bits]

    def _sort_out(self) -> list[dict[str, list[str]]]:
        features: dict[tuple[str, str], frozenset[str]] = {}
        for device in self._devices:
            place = (device.cluster, device.node)
            known = features.get(place)
            features[place] = device.features if known is None else known | device.features
        by_kind: dict[frozenset[str], dict[str, list[str]]] = {}
        for (cluster, node), has in features.items():
            by_kind.setdefault(has, {}).setdefault(cluster, []).append(node)
        for number, has in enumerate(by_kind):
            for feature in has:
                self._kinds_with[feature] = self._kinds_with.get(feature, 0) | 1 << number
        self._nodes = list(by_kind.values())
        return self._nodes


def _together(kinds: list[dict[str, list[str]]], bits: int) -> Mapping[str, frozenset[str]]:
    """The nodes of the kinds whose bits are set, by cluster."""
    found: dict[str, list[str]] = {}
    while bits:
        lowest = bits & -bits
        for cluster, nodes in kinds[lowest.bit_length() - 1].items():
            found.setdefault(cluster, []).extend(nodes)
        bits ^= lowest
    return {cluster: frozenset(nodes) for cluster, nodes in found.items()}
