"""The start estimate of one waiting job if no more work is submitted, by a short look-ahead."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Snapshot
from simulator.look_ahead import Assumptions, LookAhead, of_pools

HORIZON_S_MAX = 31 * 86_400


@dataclass(frozen=True, slots=True)
class StartTime:
    """The job starts from `earliest` to `latest`, in epoch seconds.

    If `latest` is None the job starts after `until`, the end of the look-ahead. `until` is before
    `asked_until` if the work was cut. `assumed_ends` is how many jobs of its pool have no time
    limit.
    """

    earliest: int
    latest: int | None
    until: int
    asked_until: int
    assumed_ends: int


def start_time(
    snapshot: Snapshot,
    policy: Policy,
    job_id: str,
    horizon_s: int,
    assumptions: Assumptions | None = None,
) -> StartTime:
    """Estimate the start of a waiting job with the same core (`look_ahead`); deterministic.

    Raises ValueError for a job that does not wait, or a horizon that is not from 1 s to 31 days.
    """
    if not 1 <= horizon_s <= HORIZON_S_MAX:
        raise ValueError(f"the horizon is {horizon_s} s; choose 1 to {HORIZON_S_MAX}")
    pool = next((job.pool for job in snapshot.queued if job.id == job_id), None)
    if pool is None:
        raise ValueError(f"job {job_id!r} does not wait")
    here = of_pools(snapshot, {pool})
    assumed = assumptions or Assumptions()
    begins, asked_until = here.taken_at, here.taken_at + horizon_s
    future = LookAhead(here, policy, assumed)
    work = future.decide()
    moments = assumed.within(work, begins, asked_until).moments(begins, asked_until)
    place, earliest, until = 0, begins, asked_until
    while job_id not in future.started and (next_event_at := future.next_event_at()) is not None:
        place = bisect_left(moments, next_event_at, lo=place + 1)
        if place == len(moments):
            break
        if work >= assumed.work_max:
            until = moments[place]
            break
        # No event falls between the last decision and the one that is due.
        earliest = next_event_at
        future.advance(moments[place])
        work += future.decide()
    latest = future.started.get(job_id)
    return StartTime(
        until if latest is None else earliest,
        latest,
        until,
        asked_until,
        sum(run.time_limit_s is None for run in here.running)
        + sum(job.time_limit_s is None for job in here.queued),
    )
