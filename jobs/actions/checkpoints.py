"""Checkpoint reports: a running job says when it last saved its work.

So it is known that a stop loses only the work since then.

A person who manages the job may report, and so may the attempt itself: its environment has a token
that is good for nothing else. Late and repeated reports change nothing. The known checkpoint never
goes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from secrets import compare_digest
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils.crypto import salted_hmac

from jobs.access import visible_jobs
from jobs.models import Attempt, AttemptState
from live.publishing import publish
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest, NotFound
from tenants.access import Actor
from tenants.roles import Permission

#: The prefix of an attempt's token; its number and a signature follow.
TOKEN_PREFIX = "tgc_"  # noqa: S105 - no secret
_SALT = "tidegate.checkpoints"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last known checkpoint of an attempt."""

    attempt: int
    checkpoint_at: datetime


def reporting_environment(job_id: UUID, number: int, address: str) -> dict[str, str]:
    """Return the environment with which an attempt can report checkpoints.

    `address` is the portal's for jobs on the attempt's cluster. Empty where it has none.
    """
    if not address:
        return {}
    return {
        "TIDEGATE_CHECKPOINT_URL": f"{address}/api/v1/jobs/{job_id}/checkpoints",
        "TIDEGATE_CHECKPOINT_TOKEN": _token(job_id, number),
    }


def attempt_of_token(token: str, job_id: UUID) -> int | None:
    """Return the number of the job's attempt with this token; None for all other tokens."""
    number, _, _ = token.removeprefix(TOKEN_PREFIX).partition("_")
    if not (number.isascii() and number.isdigit() and len(number) <= 9):
        return None
    # A job that runs for weeks keeps its first token, even if the secret key has changed since.
    ours = [
        compare_digest(token.encode(), _token(job_id, int(number), secret=key).encode())
        for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    ]
    return int(number) if any(ours) else None


def report_checkpoint(
    job_id: UUID, *, actor: Actor, attempt: int | None, at: datetime | None, now: datetime
) -> Checkpoint:
    """Record the actor's report that the job saved its work at `at` (None: now).

    `attempt` is the number of the attempt; None means the running one. Raises NotFound, Forbidden,
    and the errors of `record_checkpoint`.
    """
    job = visible_jobs(actor).filter(pk=job_id).values("user_id", "team__path").first()
    if job is None:
        raise NotFound("There is no such job that you can see.")
    own = job["user_id"] == actor.user.pk and actor.permits(Permission.SUBMIT_JOBS)
    if not own and not actor.holds(Permission.MANAGE_JOBS, job["team__path"]):
        raise Forbidden(
            "You can see this job but not report for it; its owner or a lead of "
            f"{job['team__path'].rstrip('/')} can."
        )
    return record_checkpoint(job_id, attempt=attempt, at=at, now=now)


@transaction.atomic
def record_checkpoint(
    job_id: UUID, *, attempt: int | None, at: datetime | None, now: datetime, is_own: bool = False
) -> Checkpoint:
    """Store the running attempt's last checkpoint. A time before the known one changes nothing.

    With `is_own` the attempt itself reports, so it runs, even where its start was not observed yet.
    Raises InvalidRequest for a time in the future or before the start, and Conflict unless that
    attempt runs now.
    """
    running = (
        Attempt.objects.select_for_update(of=("self",))
        .select_related("job")
        .filter(job=job_id, released_at=None)
        .exclude(state=AttemptState.ENDED)
        .first()
    )
    if running is None or not (is_own or running.started_at is not None):
        raise Conflict("The job is not running, so no checkpoint can be reported.")
    if attempt is not None and attempt != running.number:
        raise Conflict(
            f"Attempt {running.number} of the job runs now; the report is for attempt {attempt}.",
            attempt=running.number,
        )
    began_at = running.started_at or running.granted_at
    saved_at = now.replace(microsecond=0) if at is None else at
    if saved_at > now:
        raise _refused("is in the future")
    if saved_at < began_at:
        if at is not None:
            raise _refused("was before the attempt started")
        saved_at = began_at
    if running.checkpoint_at is None or saved_at > running.checkpoint_at:
        running.checkpoint_at = saved_at
        running.save(update_fields=["checkpoint_at"])
        publish("jobs", ids=[job_id], organization_id=running.job.organization_id)
    return Checkpoint(running.number, running.checkpoint_at)


def _refused(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"A checkpoint cannot have this time: it {what}.", errors=[FieldError("/at", what)]
    )


def _token(job_id: UUID, number: int, *, secret: str | None = None) -> str:
    signed = salted_hmac(_SALT, f"{job_id} {number}", secret, algorithm="sha256").hexdigest()
    return f"{TOKEN_PREFIX}{number}_{signed}"
