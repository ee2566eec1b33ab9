"""Maintenance windows of one pool: the clusters on which a job may not start now (R-118)."""

from __future__ import annotations

from collections.abc import Iterable

from arbiter.api.snapshot import Maintenance


class Windows:
    """The maintenance windows of one pool, the earliest first.

    A job without a time limit counts as one that runs for `unlimited_s` seconds.
    """

    __slots__ = ("_unlimited_s", "_windows")

    def __init__(self, windows: Iterable[Maintenance], unlimited_s: int) -> None:
        self._windows = sorted(windows, key=lambda one: (one.start_at, one.end_at, one.cluster))
        self._unlimited_s = unlimited_s

    @property
    def are_any(self) -> bool:
        """Return whether the pool has any window, ended or not."""
        return bool(self._windows)

    def closed(self, time_limit_s: int | None, at: int) -> frozenset[str]:
        """Return the clusters where a job that starts at `at` could still run in a window.

        They include the clusters in which a window is open at `at`.
        """
        run_s = self._unlimited_s if time_limit_s is None else time_limit_s
        return frozenset(
            one.cluster for one in self._windows if at < one.end_at and one.start_at < at + run_s
        )

    def numbers(self, closed: frozenset[str], at: int) -> dict[str, int]:
        """Return when the first closed cluster opens again, and by when a job must end before.

        These are the earliest end and the latest start, over the next window of each cluster. There
        is no such start if all these windows are open at `at`.
        """
        upcoming: dict[str, Maintenance] = {}
        for one in self._windows:
            if one.cluster in closed and at < one.end_at:
                upcoming.setdefault(one.cluster, one)
        found = {"maintenance_end_at": min(one.end_at for one in upcoming.values())}
        begins = max(one.start_at for one in upcoming.values())
        return {"maintenance_start_at": begins, **found} if begins > at else found
