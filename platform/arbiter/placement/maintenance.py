"""Maintenance windows of one pool: the places where a job may not start now (R-118)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from arbiter.api.snapshot import Maintenance, NodeName
from arbiter.placement.free_devices import Place


class Closed(NamedTuple):
    """The clusters that are closed as a whole, and the closed nodes of others."""

    clusters: frozenset[str] = frozenset()
    nodes: frozenset[NodeName] = frozenset()


OPEN = Closed()


def names_on(cluster: str, nodes: Iterable[NodeName]) -> tuple[str, ...]:
    """Return the names of those of the `nodes` that are on a cluster, sorted."""
    return tuple(sorted(one.node for one in nodes if one.cluster == cluster))


class Windows:
    """The maintenance windows of one pool, the earliest first.

    A job without a time limit counts as one that runs for `unlimited_s` seconds.
    """

    __slots__ = ("_unlimited_s", "_windows")

    def __init__(self, windows: Iterable[Maintenance], unlimited_s: int) -> None:
        self._windows = sorted(
            windows,
            key=lambda one: (one.start_at, one.end_at, one.cluster, sorted(one.nodes or ())),
        )
        self._unlimited_s = unlimited_s

    @property
    def are_any(self) -> bool:
        """Return whether the pool has any window, ended or not."""
        return bool(self._windows)

    def closed(self, time_limit_s: int | None, at: int) -> Closed:
        """Return where a job that starts at `at` could still run in a window.

        That includes the places where a window is open at `at`. Nodes of a cluster that is closed
        as a whole are left out.
        """
        met = self._met(time_limit_s, at)
        if not met:
            return OPEN
        clusters = frozenset(one.cluster for one in met if one.nodes is None)
        nodes = frozenset(
            NodeName(one.cluster, node)
            for one in met
            if one.cluster not in clusters
            for node in one.nodes or ()
        )
        return Closed(clusters, nodes)

    def _met(self, time_limit_s: int | None, at: int) -> list[Maintenance]:
        run_s = self._unlimited_s if time_limit_s is None else time_limit_s
        return [one for one in self._windows if at < one.end_at and one.start_at < at + run_s]

    def meets(self, place: Place, time_limit_s: int | None, at: int) -> bool:
        """Return whether a job that starts at a place at `at` could still run in a window there."""
        return any(
            one.cluster == place.cluster
            and (one.nodes is None or not one.nodes.isdisjoint(place.nodes))
            for one in self._met(time_limit_s, at)
        )

    def numbers(self, closed: Closed, at: int) -> dict[str, int]:
        """Return when the first closed place opens again, and by when a job must end before.

        These are the earliest end and the latest start, over the next window of each cluster and of
        each set of nodes. There is no such start if all these windows are open at `at`. If only
        nodes are closed, their number is given, too.
        """
        upcoming: dict[tuple[str, frozenset[str] | None], Maintenance] = {}
        for one in self._windows:
            if at < one.end_at and (
                one.cluster in closed.clusters
                if one.nodes is None
                else any(NodeName(one.cluster, node) in closed.nodes for node in one.nodes)
            ):
                upcoming.setdefault((one.cluster, one.nodes), one)
        found = {"maintenance_end_at": min(one.end_at for one in upcoming.values())}
        begins = max(one.start_at for one in upcoming.values())
        if begins > at:
            found = {"maintenance_start_at": begins, **found}
        return found if closed.clusters else {"maintenance_nodes": len(closed.nodes), **found}
