"""A running job tells when it saved its work last, so that stopping it is known to lose only what
it has done since.

Who manages the job may tell, and the attempt itself: it is started with a token that is good for
nothing else. Saying so late or twice changes nothing, and what was saved stays saved.
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

#: What the token of an attempt begins with; its number and a signature follow.
TOKEN_PREFIX = "tgc_"  # noqa: S105 - no secret
_SALT = "tidegate.checkpoints"
_RUNNING = (AttemptState.RUNNING, AttemptState.STOPPING)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last known checkpoint of an attempt of a job."""

    attempt: int
    checkpoint_at: datetime


def reporting_environment(job_id: UUID, number: int) -> dict[str, str]:
    """What an attempt is started with so that it can tell; nothing where the portal has not been
    told under which address jobs reach it."""
    if not settings.PUBLIC_URL:
        return {}
    return {
        "TIDEGATE_CHECKPOINT_URL": f"{settings.PUBLIC_URL}/api/v1/jobs/{job_id}/checkpoints",
        "TIDEGATE_CHECKPOINT_TOKEN": _token(job_id, number),
    }


def attempt_of_token(token: str, job_id: UUID) -> int | None:
    """The number of the attempt of the job that this token was given to; None for all others."""
    number, _, _ = token.removeprefix(TOKEN_PREFIX).partition("_")
    if not (number.isascii() and number.isdigit() and len(number) <= 9):
        return None
    # A job that runs for weeks keeps the token that it was started with, whatever key came since.
    ours = [
        compare_digest(token.encode(), _token(job_id, int(number), secret=key).encode())
        for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    ]
    return int(number) if any(ours) else None


def tell_checkpoint(
    job_id: UUID, *, actor: Actor, attempt: int | None, at: datetime | None, now: datetime
) -> Checkpoint:
    """The actor says that the running job saved its work at `at` (None: now), in `attempt` (None:
    whichever runs).

    Raises NotFound, Forbidden, and what `record_checkpoint` does.
    """
    job = visible_jobs(actor).filter(pk=job_id).values("user_id", "team__path").first()
    if job is None:
        raise NotFound("There is no such job that you can see.")
    own = job["user_id"] == actor.user.pk and actor.permits(Permission.SUBMIT_JOBS)
    if not own and not actor.holds(Permission.MANAGE_JOBS, job["team__path"]):
        raise Forbidden(
            "You can see this job but not speak for it; its owner or a lead of "
            f"{job['team__path'].rstrip('/')} can."
        )
    return record_checkpoint(job_id, attempt=attempt, at=at, now=now)


@transaction.atomic
def record_checkpoint(
    job_id: UUID, *, attempt: int | None, at: datetime | None, now: datetime
) -> Checkpoint:
    """Keep when the running attempt saved its work last; an earlier time than the known one changes
    nothing.

    Raises InvalidRequest for a time that is to come or before the start, and Conflict unless
    that attempt runs now.
    """
    running = (
        Attempt.objects.select_for_update(of=("self",))
        .select_related("job")
        .filter(job=job_id, released_at=None, state__in=_RUNNING, started_at__isnull=False)
        .first()
    )
    if running is None:
        raise Conflict("The job is not running, so there is nothing of it to be saved.")
    if attempt is not None and attempt != running.number:
        raise Conflict(
            f"Attempt {running.number} of the job runs now; this was said of attempt {attempt}.",
            attempt=running.number,
        )
    assert running.started_at is not None
    saved_at = now.replace(microsecond=0) if at is None else at
    if saved_at > now:
        raise _refused("is yet to come")
    if saved_at < running.started_at:
        if at is not None:
            raise _refused("was before the attempt started")
        saved_at = running.started_at
    if running.checkpoint_at is None or saved_at > running.checkpoint_at:
        running.checkpoint_at = saved_at
        running.save(update_fields=["checkpoint_at"])
        publish("jobs", ids=[job_id], organization_id=running.job.organization_id)
    return Checkpoint(running.number, running.checkpoint_at)


def _refused(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"A checkpoint at this time cannot be: it {what}.", errors=[FieldError("/at", what)]
    )


def _token(job_id: UUID, number: int, *, secret: str | None = None) -> str:
    signed = salted_hmac(_SALT, f"{job_id} {number}", secret, algorithm="sha256").hexdigest()
    return f"{TOKEN_PREFIX}{number}_{signed}"
