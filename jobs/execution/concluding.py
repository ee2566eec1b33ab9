"""The end of an attempt: where its job goes, and which of its use is free after a fault.

Callers lock the job and the attempt, and save them afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from billing.folding import EARLY
from billing.metering import Observed
from jobs import lifecycle
from jobs.execution.extending import missed_extension
from jobs.models import Attempt, Job, JobOrigin, JobState
from jobs.queue.reason_documents import held_sentence
from jobs.queue.reason_lines import note_held
from jobs.timeline import Happening
from live.waking import wake


def conclude(job: Job, attempt: Attempt, *, now: datetime, happenings: list[Happening]) -> None:
    """Move a locked job on after its locked attempt released its GPUs (saves neither)."""
    conclude_quietly(job, attempt, now=now, happenings=happenings)
    wake("arbiter")


def conclude_quietly(
    job: Job, attempt: Attempt, *, now: datetime, happenings: list[Happening]
) -> str | None:
    """Move the job on without waking the arbiter, and return the reason of its verdict."""
    assert attempt.outcome is not None
    assert attempt.ended_at is not None
    asked_at = attempt.notice_at or job.cancel_requested_at
    end = lifecycle.verdict(
        outcome=attempt.outcome,
        stop_reason=attempt.stop_reason,
        is_cancelled=job.cancel_requested_at is not None,
        is_requeueable=job.is_requeueable,
        ended_before_notice=asked_at is not None and attempt.ended_at < asked_at,
        earlier=_earlier(attempt),
        is_native=job.origin == JobOrigin.NATIVE,
        exit_code=worst_exit_code(attempt.exit_codes),
        requeue_on=_requeue_on(job, attempt),
    )
    lifecycle.check_move(job.state, end.state)
    job.state = end.state
    job.explanation = None
    job.explained_at = None
    detail: dict[str, object] = {"attempt": attempt.number}
    if end.state != JobState.CANCELLED:
        detail["outcome"] = attempt.outcome
    if end.reason is not None:
        detail["reason"] = end.reason
    if end.state in lifecycle.WAITING:
        job.started_at = None
        event = "requeued"
        if end.state == JobState.HELD:
            event = "held"
            why = held_sentence(
                outcome=attempt.outcome,
                cluster=attempt.cluster.name,
                number=attempt.number,
                message=attempt.message,
            )
            note_held([(job.id, why)], now)
        happenings.append(Happening(job.id, now, event, detail))
    else:
        if missed := missed_extension(job, attempt):
            attempt.message = missed
            detail["extension"] = "missed"
        job.ended_at = attempt.ended_at
        job.end_reason = end.reason
        job.exit_code = worst_exit_code(attempt.exit_codes)
        happenings.append(Happening(job.id, attempt.ended_at, end.state.value, detail))
    return end.reason


def _requeue_on(job: Job, attempt: Attempt) -> Sequence[str]:
    """Return the ends after which the job is requeued; none after `requeue_max` of them.

    Without a query unless the job names such ends and this attempt may have had one.
    """
    if not job.requeue_on or attempt.outcome not in lifecycle.ENDED_BY_CODE:
        return ()
    earlier = Attempt.objects.filter(
        job=attempt.job_id,
        number__lt=attempt.number,
        outcome__in=lifecycle.ENDED_BY_CODE,
        stop_reason=None,
    )
    return () if earlier.count() >= job.requeue_max else job.requeue_on


def _earlier(attempt: Attempt) -> int:
    """Return how many earlier attempts of the job ended the same way, by a fault or unstarted.

    Zero without a query if this attempt did not end so. A start that a silent cluster left
    unanswered does not count, since it says nothing about the job.
    """
    if attempt.outcome == lifecycle.NOT_STARTED:
        if attempt.notice_at is None:
            return 0
        alike = frozenset({lifecycle.NOT_STARTED})
    elif attempt.outcome in lifecycle.FAULTS:
        alike = lifecycle.FAULTS
    else:
        return 0
    earlier = Attempt.objects.filter(
        job=attempt.job_id, number__lt=attempt.number, outcome__in=alike
    )
    return earlier.exclude(outcome=lifecycle.NOT_STARTED, notice_at=None).count()


def worst_exit_code(codes: Mapping[str, int]) -> int | None:
    """Return a gang's exit code to show: that of the lowest failed rank, else 0, else None."""
    for _, code in sorted(codes.items(), key=lambda item: int(item[0])):
        if code != 0:
            return code
    return 0 if codes else None


def fault_of(job: Job, attempt: Attempt, reason: str | None) -> Observed | None:
    """Return the fault that makes use of an ended attempt free, or None.

    It is a failed node, a loss of the workload that nobody asked to stop, or a preemption soon
    after the start. `reason` is why the job moved on.
    """
    assert attempt.ended_at is not None
    if attempt.started_at is None:
        return None
    since = attempt.checkpoint_at or attempt.started_at
    if attempt.outcome == "node_failed":
        return Observed(attempt.id, "fault", since, reason="node_failed")
    is_asked = attempt.stop_reason is not None or job.origin == JobOrigin.NATIVE
    if attempt.outcome == "lost" and not is_asked:
        return Observed(attempt.id, "fault", since, reason="lost")
    preempted_at = attempt.notice_at or attempt.ended_at
    if reason == "preempted" and preempted_at < attempt.started_at + EARLY:
        return Observed(attempt.id, "fault", preempted_at, reason="preempted")
    return None
