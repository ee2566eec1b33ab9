"""The estimated start of a waiting job, by a look-ahead."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobs.access import visible_jobs
from jobs.arbitration.snapshots import read_queue
from jobs.models import JobState
from jobs.whatif.heavy_answers import FUTURE, worked_out
from primitives.clock import from_epoch
from primitives.errors import Conflict, NotFound
from primitives.state_words import state_phrase
from simulator.start_time import start_time
from tenants.access import Actor

HORIZON_S_DEFAULT = 86_400
HORIZON_S_MIN, HORIZON_S_MAX = 300, 7 * 86_400


@dataclass(frozen=True, slots=True)
class StartEstimate:
    """The estimated start of a waiting job, from `earliest` to `latest`.

    `latest` is None if the job does not start before `until`. The estimate assumes that running
    jobs use their full time limit, and that no new jobs are submitted.
    """

    as_of: datetime
    earliest: datetime
    latest: datetime | None
    until: datetime
    asked_until: datetime
    assumed_ends: int


def estimate_start(job_id: UUID, *, horizon_s: int, actor: Actor, now: datetime) -> StartEstimate:
    """Return the estimated start of a visible job, looking `horizon_s` seconds ahead.

    Changes nothing. Raises NotFound, Conflict for a job that does not wait for GPUs, and
    TooManyRequests while another look-ahead is computed.
    """
    state = visible_jobs(actor).filter(pk=job_id).values_list("state", flat=True).first()
    if state is None:
        raise NotFound("There is no such job that you can see.")
    if state != JobState.QUEUED:
        raise Conflict(
            f"Only a queued job has a start estimate; this one {state_phrase(state)}.", state=state
        )
    with worked_out(FUTURE):
        # One snapshot of one instant: it must be the outermost transaction.
        snapshot, policy, *_ = read_queue(now)
        if all(job.id != str(job_id) for job in snapshot.queued):
            raise Conflict(
                "The job does not wait for GPUs now, but for something else: see its "
                "explanation. Its start cannot be estimated."
            )
        found = start_time(snapshot, policy, str(job_id), horizon_s)
    return StartEstimate(
        as_of=from_epoch(snapshot.taken_at),
        earliest=from_epoch(found.earliest),
        latest=None if found.latest is None else from_epoch(found.latest),
        until=from_epoch(found.until),
        asked_until=from_epoch(found.asked_until),
        assumed_ends=found.assumed_ends,
    )
