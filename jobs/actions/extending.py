"""A longer time limit for a job that waits or runs (R-116)."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from arbiter.explain.phrases import duration_text
from connectors.protocol import ahead_ms
from connectors.registry import kind_named
from jobs import lifecycle
from jobs.actions.cancellation import audit_actions, job_to_manage
from jobs.intentions import extend_intention
from jobs.models import Attempt, AttemptState, Extension, Job, JobOrigin, JobState, Launch, Reclaim
from jobs.timeline import Happening, record_events
from live.waking import wake
from outbox.recording import intend
from primitives.errors import Conflict, FieldError, InvalidRequest
from primitives.state_words import state_phrase
from quotas.queries import graces_s
from tenants.access import Actor

#: The longest time limit of any job, in seconds: 365 days.
LONGEST_S = 31_536_000
_S_PER_MINUTE = 60


def extended_limit_s(job: Job, *, by_s: int | None, to_s: int | None) -> int:
    """Return the new time limit of `job` in seconds, in whole minutes, rounded up.

    Slurm counts in minutes. So it is at least a minute more than the earlier limit has there, and
    the same on every cluster. Raises Conflict for a job
    without a limit, and InvalidRequest unless exactly one of the two makes the limit longer.
    """
    if job.time_limit_s is None:
        raise Conflict("The job has no time limit, so there is nothing to extend.")
    if (by_s is None) == (to_s is None):
        raise InvalidRequest(
            "Give by_s or time_limit_s, and not both.",
            errors=[FieldError("/by_s", "or time_limit_s: exactly one", "required")],
        )
    asked_s = to_s if to_s is not None else job.time_limit_s + (by_s or 0)
    least_s = _whole_minutes(job.time_limit_s) + _S_PER_MINUTE
    limit_s = max(_whole_minutes(asked_s), least_s)
    pointer = "/by_s" if to_s is None else "/time_limit_s"
    detail = ""
    if asked_s <= job.time_limit_s:
        detail = (
            f"the time limit is {duration_text(job.time_limit_s)} already; a limit can only be "
            "made longer. Cancel or requeue the job to end it earlier"
        )
    elif limit_s > LONGEST_S:
        detail = f"a time limit is at most {duration_text(LONGEST_S)}"
    if detail:
        name = pointer.removeprefix("/")
        raise InvalidRequest(f"{name}: {detail}.", errors=[FieldError(pointer, detail, "invalid")])
    return limit_s


def _whole_minutes(seconds: int) -> int:
    return -(-seconds // _S_PER_MINUTE) * _S_PER_MINUTE


def ends_at(job: Job, attempt: Attempt | None, limit_s: int) -> datetime | None:
    """Return when `limit_s` ends a running attempt; None for a job that waits."""
    if attempt is None or attempt.started_at is None:
        return None
    return attempt.started_at + timedelta(seconds=limit_s)


def notice_ahead(job: Job, limit_s: int) -> timedelta:
    """Return how long before the end of `limit_s` the job gets its notice (R-106)."""
    grace_s = graces_s([job.priority_class_id])[job.priority_class_id]
    return timedelta(milliseconds=ahead_ms(limit_s, job.signal_ahead_s, grace_s))


def check_extendable(job: Job, attempt: Attempt | None, now: datetime) -> None:
    """Raise Conflict for a job whose limit cannot change, whatever the new limit."""
    if job.origin == JobOrigin.NATIVE:
        raise Conflict("The job was given to its cluster directly; extend it there.")
    if job.state in lifecycle.WAITING:
        if Reclaim.objects.filter(job=job, closed_at=None).exists():
            raise Conflict("GPUs are being freed for the job. Extend it when it runs.")
        return
    is_running = job.state == JobState.RUNNING and job.cancel_requested_at is None
    if attempt is None or attempt.state != AttemptState.RUNNING or not is_running:
        starting = " Ask again when it runs." if job.state == JobState.STARTING else ""
        raise Conflict(
            f"Only a waiting or running job can be extended; this one {state_phrase(job.state)}."
            + starting,
            state=job.state,
        )
    if job.launch == Launch.MANIFEST:
        raise Conflict(
            "A Kubernetes manifest that runs keeps its time limit, because Kueue does not change "
            "it. Submit it again with a longer one."
        )
    assert job.time_limit_s is not None
    end = ends_at(job, attempt, job.time_limit_s)
    assert end is not None
    noticed_at = end - notice_ahead(job, job.time_limit_s)
    if now >= noticed_at:
        raise Conflict(
            "The job has had the notice of its time limit, so it ends. Extend a job before its "
            "notice, or let it requeue itself with requeue_on = time_limit."
        )
    kind = kind_named(attempt.cluster.kind)
    if now > noticed_at - timedelta(seconds=kind.extension_delay_s):
        raise Conflict(
            f"The notice of its time limit is near: a job on {kind.label} needs up to "
            f"{duration_text(kind.extension_delay_s)} to learn of a longer one. Extend a job "
            "earlier, or let it requeue itself with requeue_on = time_limit."
        )


@transaction.atomic
def extend_job(job_id: UUID, limit_s: int, *, before_s: int, actor: Actor, now: datetime) -> Job:
    """Give a job the time limit `limit_s`, which was planned while it had `before_s`.

    A running job's cluster gets it by the outbox. Raises NotFound, Forbidden, and Conflict for a
    job that changed since its plan, or that cannot be extended any more.
    """
    job, attempt = job_to_manage(job_id, actor)
    if job.time_limit_s == limit_s:
        return job
    if job.time_limit_s != before_s:
        raise Conflict("The job's time limit has changed meanwhile. Look at the plan again.")
    check_extendable(job, attempt, now)
    job.time_limit_s = limit_s
    job.save(update_fields=["time_limit_s"])
    if attempt is not None:
        made = Extension.objects.create(
            attempt=attempt, before_s=before_s, limit_s=limit_s, asked_at=now
        )
        intend([extend_intention(made.pk, attempt)], now=now)
        wake("observer")
    detail = {"by": actor.user.username, "before_s": before_s, "time_limit_s": limit_s}
    record_events([Happening(job.id, now, "extended", detail)])
    audit_actions("job_extended", [job], actor, now)
    return job
