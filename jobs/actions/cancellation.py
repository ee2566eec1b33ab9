"""Actions of a person on an existing job: cancel, requeue, hold, release."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from audit.recording import event_of, record_all
from bulk.updating import update_rows
from jobs import lifecycle
from jobs.access import check_may_manage, visible_jobs
from jobs.intentions import stop_intention
from jobs.models import Attempt, AttemptState, Job, JobOrigin, JobState, StopReason
from jobs.queue.dependencies import close_dependencies
from jobs.queue.reason_documents import held_sentence
from jobs.queue.reason_lines import note_held
from jobs.timeline import Happening, record_events
from live.publishing import publish
from live.waking import wake
from outbox.recording import intend, withdraw_unsent
from primitives.errors import Conflict, NotFound
from primitives.state_words import state_phrase
from quotas.queries import graces_s
from tenants.access import Actor
from webapi.middleware import current_request_id

NO_SUCH_JOB = "There is no such job that you can see."
#: How long a cancelled job may take to end by itself after its notice signal.
CANCEL_GRACE = timedelta(seconds=30)


@transaction.atomic
def cancel_job(job_id: UUID, *, actor: Actor, now: datetime) -> Job:
    """Cancel a job: at once while it waits, else by notice and, 30 s later, by force.

    Repeating changes nothing, also for a job that has ended as cancelled. Raises NotFound,
    Forbidden, and Conflict for a job that ended otherwise, even if it was cancelled before.
    """
    job, attempt = job_to_manage(job_id, actor)
    if can_cancel(job):
        cancel_locked([(job, attempt)], actor=actor, now=now)
        audit_actions("job_cancelled", [job], actor, now)
    return job


def can_cancel(job: Job, attempt: Attempt | None = None) -> bool:
    """Return whether a cancellation changes the job. Raises Conflict if it ended otherwise."""
    if job.state == JobState.CANCELLED:
        return False
    if job.state in lifecycle.FINAL:
        raise Conflict(
            f"The job has already ended: {job.state.replace('_', ' ')}. There is nothing left to "
            "cancel.",
            state=job.state,
        )
    return job.cancel_requested_at is None


def cancel_locked(
    cancelled: Sequence[tuple[Job, Attempt | None]], *, actor: Actor, now: datetime
) -> None:
    """Cancel locked open jobs, each with its locked attempt that holds GPUs, or None.

    A constant number of statements.
    """
    withdrawn = withdraw_unsent(
        "start_attempt",
        [a.id for _, a in cancelled if a is not None and a.state == AttemptState.RESERVED],
        now=now,
    )
    ended: list[Job] = []
    asked: list[Job] = []
    stopped: list[Attempt] = []
    for job, attempt in cancelled:
        job.cancel_requested_at = now
        if attempt is None or attempt.id in withdrawn:
            lifecycle.check_move(job.state, JobState.CANCELLED)
            job.state = JobState.CANCELLED
            job.end_reason = "cancelled_by_user"
            job.ended_at = now
            job.explanation = None
            ended.append(job)
        else:
            asked.append(job)
            if attempt.state != AttemptState.ENDED:
                stopped.append(attempt)
    Attempt.objects.filter(pk__in=withdrawn).update(
        state=AttemptState.ENDED,
        stop_reason=StopReason.CANCELLED,
        ended_at=now,
        released_at=now,
        outcome="stopped",
        message="cancelled before it was sent to the cluster",
    )
    ask_to_stop(stopped, StopReason.CANCELLED, grace=CANCEL_GRACE, now=now)
    Job.objects.filter(pk__in=[job.id for job in asked]).update(cancel_requested_at=now)
    Job.objects.filter(pk__in=[job.id for job in ended]).update(
        state=JobState.CANCELLED,
        end_reason="cancelled_by_user",
        cancel_requested_at=now,
        ended_at=now,
        explanation=None,
    )
    close_dependencies([job.id for job in ended], now)
    record_events(
        [
            *(Happening(job.id, now, "cancelled", {"by": actor.user.username}) for job in ended),
            *(
                Happening(job.id, now, "cancel_requested", {"by": actor.user.username})
                for job in asked
            ),
        ]
    )


@transaction.atomic
def requeue_job(job_id: UUID, *, actor: Actor, now: datetime) -> Job:
    """Stop a running job, by notice and grace, and queue it again at its old place (R-107).

    Repeating changes nothing. Raises NotFound, Forbidden, and Conflict for a job that does not run.
    """
    job, attempt = job_to_manage(job_id, actor)
    if can_requeue(job, attempt):
        requeue_locked([(job, attempt)], actor=actor, now=now)
        audit_actions("job_requeued", [job], actor, now)
    return job


def can_requeue(job: Job, attempt: Attempt | None) -> bool:
    """Return whether a requeue changes the job. Raises Conflict for a job that does not run.

    A job may ask for itself before its start is observed.
    """
    if job.cancel_requested_at is not None:
        raise Conflict("The job is being cancelled, so it cannot be requeued.", state=job.state)
    if attempt is not None and attempt.stop_reason == StopReason.REQUEUED:
        return False
    if job.state == JobState.PREEMPTING and job.is_requeueable:
        return False
    is_sent = attempt is not None and attempt.state != AttemptState.RESERVED
    if job.state not in lifecycle.ACTIVE or attempt is None or not is_sent:
        raise Conflict(
            f"Only a running job can be requeued; this one {state_phrase(job.state)}."
            + (" Submit it again." if job.state in lifecycle.FINAL else ""),
            state=job.state,
        )
    if job.origin == JobOrigin.NATIVE:
        raise Conflict("The job was given to its cluster directly; requeue it there.")
    return True


def requeue_locked(
    requeued: Sequence[tuple[Job, Attempt | None]], *, actor: Actor, now: datetime
) -> None:
    """Ask the locked attempts of locked jobs to end, which `can_requeue` lets be requeued."""
    graces = graces_s({job.priority_class_id for job, _ in requeued})
    asked: dict[int, list[Attempt]] = {}
    for job, attempt in requeued:
        assert attempt is not None
        if attempt.state in (AttemptState.STOPPING, AttemptState.ENDED):
            attempt.stop_reason = StopReason.REQUEUED
            attempt.save(update_fields=["stop_reason"])
        else:
            asked.setdefault(graces[job.priority_class_id], []).append(attempt)
    for grace_s, attempts in asked.items():
        ask_to_stop(attempts, StopReason.REQUEUED, grace=timedelta(seconds=grace_s), now=now)
    by = actor.user.username
    record_events(Happening(job.id, now, "requeue_requested", {"by": by}) for job, _ in requeued)


def ask_to_stop(
    attempts: Sequence[Attempt], reason: StopReason, *, grace: timedelta, now: datetime
) -> None:
    """Store notice and deadline of locked attempts, then notify their clusters.

    An attempt that is already stopping keeps the earlier deadline. A victim of a claim that is
    cancelled stays its victim.
    """
    if not attempts:
        return
    deadline = now + grace
    for attempt in attempts:
        if attempt.state == AttemptState.STOPPING:
            assert attempt.grace_until is not None
            attempt.grace_until = min(attempt.grace_until, deadline)
        else:
            attempt.state = AttemptState.STOPPING
            attempt.stop_reason = reason
            attempt.notice_at = now
            attempt.grace_until = deadline
    names = ("id", "state", "stop_reason", "notice_at", "grace_until")
    update_rows(Attempt, [{name: getattr(row, name) for name in names} for row in attempts])
    intend([stop_intention("notify_attempt", attempt) for attempt in attempts], now=now)
    wake("observer")


@transaction.atomic
def hold_job(job_id: UUID, *, actor: Actor, now: datetime) -> Job:
    """Hold a queued job until it is released. Repeating changes nothing."""
    job, attempt = job_to_manage(job_id, actor)
    if can_hold(job):
        hold_locked([(job, attempt)], actor=actor, now=now)
        audit_actions("job_held", [job], actor, now)
    return job


def can_hold(job: Job, attempt: Attempt | None = None) -> bool:
    """Return whether a hold changes the job. Raises Conflict unless it is queued or held."""
    if job.state not in (JobState.QUEUED, JobState.HELD):
        raise Conflict(
            f"Only a queued job can be held; this one {state_phrase(job.state)}.", state=job.state
        )
    return job.state == JobState.QUEUED


def hold_locked(held: Sequence[tuple[Job, Attempt | None]], *, actor: Actor, now: datetime) -> None:
    """Hold locked jobs, which are queued."""
    _switch([job for job, _ in held], JobState.HELD, "held", actor, now)
    note_held([(job.id, held_sentence()) for job, _ in held], now)


@transaction.atomic
def release_job(job_id: UUID, *, actor: Actor, now: datetime) -> Job:
    """Queue a held job again, at its old place. Repeating changes nothing."""
    job, attempt = job_to_manage(job_id, actor)
    if can_release(job):
        release_locked([(job, attempt)], actor=actor, now=now)
        audit_actions("job_released", [job], actor, now)
    return job


def can_release(job: Job, attempt: Attempt | None = None) -> bool:
    """Return whether a release changes the job. Raises Conflict unless it is queued or held."""
    if job.state not in (JobState.QUEUED, JobState.HELD):
        raise Conflict(
            f"Only a held job can be released; this one {state_phrase(job.state)}.", state=job.state
        )
    return job.state == JobState.HELD


def release_locked(
    released: Sequence[tuple[Job, Attempt | None]], *, actor: Actor, now: datetime
) -> None:
    """Queue locked jobs again, which are held."""
    _switch([job for job, _ in released], JobState.QUEUED, "released", actor, now)


def job_to_manage(job_id: UUID, actor: Actor) -> tuple[Job, Attempt | None]:
    """Return a job and its attempt that holds GPUs, both locked.

    Raises NotFound, and Forbidden unless the actor may manage the job.
    """
    job, attempt = locked_jobs([job_id], actor).get(job_id, (None, None))
    if job is None:
        raise NotFound(NO_SUCH_JOB)
    check_may_manage(job, actor)
    return job, attempt


def locked_jobs(job_ids: Iterable[UUID], actor: Actor) -> dict[UUID, tuple[Job, Attempt | None]]:
    """Return the visible ones of these jobs by id, each with its attempt that holds GPUs.

    Both are locked, in the order of their ids, as the cycle locks them. Jobs are locked only after
    they were found visible, so that nobody blocks an invisible job by guessing its id. A constant
    number of statements.
    """
    seen = list(visible_jobs(actor).filter(pk__in=list(job_ids)).values_list("pk", flat=True))
    jobs = list(
        Job.objects.select_for_update(of=("self",))
        .select_related("team")
        .filter(pk__in=seen)
        .defer("script", "environment", "notes")
        .order_by("pk")
    )
    attempts = {
        attempt.job_id: attempt
        for attempt in Attempt.objects.select_for_update()
        .filter(job__in=seen, released_at=None)
        .order_by("pk")
    }
    return {job.pk: (job, attempts.get(job.pk)) for job in jobs}


def _switch(jobs: Sequence[Job], state: JobState, event: str, actor: Actor, now: datetime) -> None:
    for job in jobs:
        lifecycle.check_move(job.state, state)
        job.state, job.explanation, job.explained_at = state, None, None
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(
        state=state, explanation=None, explained_at=None
    )
    record_events(Happening(job.id, now, event, {"by": actor.user.username}) for job in jobs)


def audit_actions(action: str, jobs: Sequence[Job], actor: Actor, now: datetime) -> None:
    """Record an action on each of these jobs, and wake the arbiter and the open pages."""
    record_all(
        [
            event_of(
                action=action,
                subject_kind="job",
                subject_id=job.id,
                now=now,
                actor_id=actor.user.pk,
                actor=actor.user.login,
                organization_id=job.organization_id,
                node_path=job.team.path,
                request_id=current_request_id(),
            )
            for job in jobs
        ]
    )
    by_organization: dict[UUID, list[UUID]] = {}
    for job in jobs:
        by_organization.setdefault(job.organization_id, []).append(job.id)
    for organization_id, ids in by_organization.items():
        publish("jobs", ids=ids, organization_id=organization_id, wake="arbiter")
