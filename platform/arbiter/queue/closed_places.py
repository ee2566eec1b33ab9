"""Waiting jobs of one pool, kept from the places where they would run into maintenance (R-118).

The places of a job depend on its time limit and on the time alone. So one check for each time
limit is enough in a cycle, and only jobs for which something changed are queued anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from arbiter.api.snapshot import QueuedJob
from arbiter.placement.maintenance import OPEN, Closed, Windows
from arbiter.queue.pending import PendingQueue


class ClosedPlaces:
    """The closed places of the jobs in `pending`. All jobs come and go through this object."""

    __slots__ = ("_by_limit", "_closed", "_pending")

    def __init__(self, pending: PendingQueue) -> None:
        self._pending = pending
        #: The ids of jobs by time limit, while the pool has windows; else None.
        self._by_limit: dict[int | None, dict[str, None]] | None = None
        #: The places that are closed to jobs of a time limit, where there are any.
        self._closed: dict[int | None, Closed] = {}

    def add(self, job: QueuedJob) -> None:
        """Add a waiting job."""
        if self._by_limit is not None:
            self._by_limit.setdefault(job.time_limit_s, {})[job.id] = None
            job = _without(job, self._closed.get(job.time_limit_s, OPEN))
        self._pending.add(job)

    def remove(self, job_id: str) -> None:
        """Remove a job that no longer waits."""
        limit_s = self._pending.remove(job_id).time_limit_s
        if self._by_limit is not None:
            alike = self._by_limit[limit_s]
            del alike[job_id]
            if not alike:
                del self._by_limit[limit_s]
                self._closed.pop(limit_s, None)

    def update(self, windows: Windows, now: int) -> None:
        """Close places to waiting jobs, and open them again, as of `now`."""
        if not windows.are_any and self._by_limit is None:
            return
        if self._by_limit is None:
            self._by_limit = {}
            for job in self._pending.jobs.values():
                self._by_limit.setdefault(job.time_limit_s, {})[job.id] = None
        for limit_s, jobs in self._by_limit.items():
            closed = windows.closed(limit_s, now)
            if closed != self._closed.get(limit_s, OPEN):
                self._closed[limit_s] = closed
                self._queue_anew(jobs, closed)
        if not windows.are_any:
            self._by_limit = None
            self._closed.clear()

    def _queue_anew(self, jobs: Iterable[str], closed: Closed) -> None:
        for job_id in jobs:
            before = self._pending.jobs[job_id]
            after = _without(before, closed)
            if after != before:
                self._pending.remove(job_id)
                self._pending.add(after)


def _without(job: QueuedJob, closed: Closed) -> QueuedJob:
    """Return the job with those of the `closed` places that it could use otherwise."""
    clusters, nodes = closed
    if job.clusters is not None:
        clusters &= job.clusters
        nodes = frozenset(one for one in nodes if one.cluster in job.clusters)
    if (clusters, nodes) == (job.closed_clusters, job.closed_nodes):
        return job
    return replace(job, closed_clusters=clusters, closed_nodes=nodes)
