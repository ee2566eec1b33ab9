"""Nodes that have the same features are of one kind: what jobs ask for is then a set of kinds.

However many combinations of features people think of, those that the same nodes have are the same
set, so what the arbiter keeps for each set is bounded by the fleet, not by the queue.
"""

from __future__ import annotations

from collections.abc import Iterable

from arbiter.snapshot import Device


class NodeKinds:
    """The kinds of one pool's nodes, numbered; a set of them is an integer with a bit for each.

    Nothing is looked at before the first question.
    """

    __slots__ = ("_bits", "_devices", "_features", "_sets")

    def __init__(self, devices: Iterable[Device]) -> None:
        self._devices = devices
        self._bits: dict[tuple[str, str], int] | None = None
        self._features: list[frozenset[str]] = []
        self._sets: dict[frozenset[str], int | None] = {}

    def having(self, features: frozenset[str] | None) -> int | None:
        """The kinds that have all of `features`; None when that excludes no node of the pool.

        0 when no node has them all.
        """
        if not features:
            return None
        if features not in self._sets:
            self._number()
            found = sum(1 << i for i, has in enumerate(self._features) if features <= has)
            self._sets[features] = None if found == (1 << len(self._features)) - 1 else found
        return self._sets[features]

    def bit(self, cluster: str, node: str) -> int:
        """The set that holds only the kind of a node; 0 for a node that is not known."""
        return self._number().get((cluster, node), 0)

    def _number(self) -> dict[tuple[str, str], int]:
        if self._bits is None:
            features: dict[tuple[str, str], frozenset[str]] = {}
            for device in self._devices:
                place = (device.cluster, device.node)
                features[place] = features.get(place, frozenset()) | device.features
            number: dict[frozenset[str], int] = {}
            self._bits = {
                place: 1 << number.setdefault(has, len(number)) for place, has in features.items()
            }
            self._features = list(number)
        return self._bits
