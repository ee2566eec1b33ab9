"""When nodes can hold a rank, and when quota allows a start, as running jobs end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from arbiter.backfill.known_ends import Release
from arbiter.cache.running import Node
from arbiter.placement.free_devices import FreeDevices, Shape
from arbiter.placement.resources import node_of
from arbiter.quota.ledger import Ledger


class ComingFree:
    """The nodes that become able to hold a rank, in order of time, as of the first request.

    Ends are followed only as far as needed, and once for all gangs with equal ranks, because the
    reservations of a cycle look at much the same ends. A caller must check nodes that changed since
    by itself. `shape` represents all jobs that want as much of each node; kinds of nodes are
    ignored.
    """

    __slots__ = ("_ends", "_free", "_last", "_more", "_next", "_ready", "_shape")

    def __init__(self, free: FreeDevices, ends: Iterator[Release], shape: Shape) -> None:
        """Follow `ends`, which are in order of time."""
        self._free = free
        self._ends = ends
        self._shape = shape
        self._next = next(ends, None)
        self._ready: list[tuple[int, Node]] = []
        #: The last end that was followed, and what has come free by then by cluster, of nodes and
        #: of their CPU and memory.
        self._last: int | None = None
        self._more: dict[str, dict[str, int]] = {cluster: {} for cluster in free.free}

    def node(self, place: int) -> tuple[int, Node] | None:
        """Return the node at an index of the order (from 0), and when it is ready.

        Return None if there are never so many nodes.
        """
        while place >= len(self._ready):
            if not self._follow(None):
                return None
        return self._ready[place]

    def nodes(self, first: int, until: int) -> list[tuple[int, Node]]:
        """Return the nodes from an index on that are ready by `until`, and when."""
        while self._follow(until):
            pass
        return self._ready[first : bisect_right(self._ready, until, key=itemgetter(0))]

    def freed(self, cluster: str, until: int) -> tuple[Mapping[str, int], bool]:
        """Return the milli-GPU that has come free by `until`, by node, and whether it is exact.

        Ends up to `until` must have been followed. It is not exact if later ends were followed too.
        """
        return self._more[cluster], self._last is None or self._last <= until

    def _follow(self, until: int | None) -> bool:
        """Follow the ends to the next one that makes a node ready.

        Return False if there is none by `until`.
        """
        known = len(self._ready)
        free, wanted, release = self._free, self._shape.mgpu, self._next
        while release is not None and (until is None or release[0] <= until):
            end, _, _, cluster, slots = release
            more = self._more.get(cluster)
            if more is not None:
                nodes = free.free[cluster]
                counts_resources = cluster in free.free_resources
                for slot in slots:
                    resource, mgpu = slot.node, slot.mgpu
                    name = node_of(resource) if counts_resources else resource
                    left = nodes.get(name)
                    if left is None:
                        continue
                    before = more.get(resource, 0)
                    if counts_resources:
                        did_fit = free.fits_on(cluster, name, self._shape, more)
                        more[resource] = before + mgpu
                        does_fit = free.fits_on(cluster, name, self._shape, more)
                    else:
                        more[resource] = before + mgpu
                        did_fit = left + before >= wanted
                        does_fit = left + before + mgpu >= wanted
                    if does_fit and not did_fit:
                        self._ready.append((end, (cluster, name)))
            self._last = end
            release = self._next = next(self._ends, None)
            if len(self._ready) > known:
                return True
        return False


class QuotaOutlook:
    """The state of quota while jobs with a known end finish: `ledger`, moment by moment."""

    __slots__ = ("_at", "_part", "_parts", "ledger")

    def __init__(self, ledger: Ledger, parts: Iterator[Sequence[Release]]) -> None:
        """Start with `ledger`; `parts` have the ends in order of time."""
        self.ledger = ledger
        self._parts = parts
        #: The current part, and the index of the next end in it.
        self._part: Sequence[Release] = ()
        self._at = 0

    def advance(self, until: int) -> None:
        """Remove all use that has ended by `until`."""
        ended: dict[int, int] = {}
        while self._is_more():
            part, at = self._part, self._at
            while at < len(part) and part[at][0] <= until:
                _, team, mgpu, _, _ = part[at]
                ended[team] = ended.get(team, 0) + mgpu
                at += 1
            self._at = at
            if at < len(part):
                break
        for team, mgpu in ended.items():
            self.ledger.charge(team, -mgpu)

    def allowed_from(self, first: int, team: int, mgpu: int) -> int | None:
        """Return the time from which quota lets `team` start `mgpu`, at the earliest `first`.

        Return None if that is unknown. An end frees for any node at most what the job held. So
        quota is checked again only once as much has ended as is missing.
        """
        self.advance(first)
        while (missing := mgpu - self.ledger.available(team)) > 0:
            ended: dict[int, int] = {}
            while self._is_more():
                part, at = self._part, self._at
                while at < len(part):
                    end, of, less, _, _ = part[at]
                    if missing <= 0 and end != first:
                        break
                    first = end
                    ended[of] = ended.get(of, 0) + less
                    missing -= less
                    at += 1
                self._at = at
                if at < len(part):
                    break
            if missing > 0:
                return None
            for of, less in ended.items():
                self.ledger.charge(of, -less)
        return first

    def _is_more(self) -> bool:
        """Return whether more ends follow."""
        while self._at >= len(self._part):
            part = next(self._parts, None)
            if part is None:
                return False
            self._part, self._at = part, 0
        return True
