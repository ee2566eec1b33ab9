"""Which nodes have room for a rank, and when, as what runs on them ends."""

from __future__ import annotations

from collections.abc import Iterator

from arbiter.holdings import Node
from arbiter.placement import FreeDevices, Shape
from arbiter.rooms import node_of
from arbiter.time_limits import Release


class ComingFree:
    """The nodes that get room for a rank, in order of time, as things stood at the first question.

    Ends are followed as far as somebody asks, and once for all gangs with such ranks: a cycle that
    makes several reservations asks about much the same ends each time. Whoever asks knows on which
    nodes something has changed since, and looks at those by itself. `shape` stands for all that
    want as much of each node; of what kinds these are is not looked at.
    """

    __slots__ = ("_ends", "_free", "_last", "_more", "_next", "_ready", "_shape")

    def __init__(self, free: FreeDevices, ends: Iterator[Release], shape: Shape) -> None:
        """`ends` in order of time."""
        self._free = free
        self._ends = ends
        self._shape = shape
        self._next = next(ends, None)
        self._ready: list[tuple[int, Node]] = []
        #: The last of the ends that were followed, and what has come free by then of nodes and
        #: rooms, by cluster.
        self._last: int | None = None
        self._more: dict[str, dict[str, int]] = {cluster: {} for cluster in free.free}

    def node(self, place: int, until: int | None) -> tuple[int, Node] | None:
        """The node at that place in the order (the first is 0), and when it has room; None where
        that many do not by `until` (None: ever)."""
        while place >= len(self._ready):
            if not self._follow(until):
                return None
        found = self._ready[place]
        return None if until is not None and found[0] > until else found

    def freed(self, node: Node, until: int) -> int | None:
        """What milli-GPU of a node have come free by `until`, up to which somebody has asked; None
        where that cannot be told, as somebody has asked further."""
        more = self._more[node[0]].get(node[1], 0)
        return more if not more or self._last is None or self._last <= until else None

    def _follow(self, until: int | None) -> bool:
        """Follow the ends to the next one after which a node has room; False where there is none
        by `until`."""
        known = len(self._ready)
        free, wanted, release = self._free, self._shape.mgpu, self._next
        while release is not None and (until is None or release[0] <= until):
            end, _, _, cluster, slots = release
            more = self._more.get(cluster)
            if more is not None:
                nodes = free.free[cluster]
                has_rooms = cluster in free.beside
                for slot in slots:
                    room, mgpu = slot.node, slot.mgpu
                    name = node_of(room) if has_rooms else room
                    left = nodes.get(name)
                    if left is None:
                        continue
                    before = more.get(room, 0)
                    if has_rooms:
                        had_room = free.has_room(cluster, name, self._shape, more)
                        more[room] = before + mgpu
                        has_room = free.has_room(cluster, name, self._shape, more)
                    else:
                        more[room] = before + mgpu
                        had_room = left + before >= wanted
                        has_room = left + before + mgpu >= wanted
                    if has_room and not had_room:
                        self._ready.append((end, (cluster, name)))
            self._last = end
            release = self._next = next(self._ends, None)
            if len(self._ready) > known:
                return True
        return False
