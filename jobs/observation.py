"""What clusters say becomes what we know: attempts, job states, meter events.

Level-triggered: each complete listing is compared with what is stored, so a missed or repeated
listing changes nothing. Absent is never finished.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID

from django.db import InterfaceError, OperationalError

from billing.metering import record_ended, record_lost, record_started
from clusters.models import Cluster
from connectors.errors import AccountUndecided, ConnectorError
from connectors.protocol import (
    ClusterConnector,
    Listing,
    Observation,
    RankSlot,
    WorkloadPhase,
)
from jobs import lifecycle
from jobs.intentions import stop_intention
from jobs.leadership import Leadership, NotLeading
from jobs.models import Attempt, AttemptState, Job, JobOrigin, JobState, StopReason
from jobs.questions import NotAsked, Questions
from jobs.timeline import Happening, record_events
from live.publishing import publish
from live.waking import wake
from outbox.quarantine import is_quarantined
from outbox.recording import intend
from primitives.clock import from_epoch

log = logging.getLogger(__name__)

#: Native id of an attempt that was stopped before its cluster acknowledged it.
NEVER_STARTED = "never-started"
#: Complete listings in a row without an acknowledged attempt before it is called lost.
LISTINGS_BEFORE_LOST = 3
#: Seconds for which a missing attempt waits for an accounting that has its start and no end.
UNDECIDED_S = 60

_STATE_OF = {
    WorkloadPhase.HELD: AttemptState.STARTING,
    WorkloadPhase.STARTING: AttemptState.STARTING,
    WorkloadPhase.RUNNING: AttemptState.RUNNING,
    WorkloadPhase.STOPPING: AttemptState.RUNNING,
    WorkloadPhase.ENDED: AttemptState.ENDED,
}


def apply_listing(
    cluster: Cluster,
    listing: Listing,
    *,
    connector: ClusterConnector,
    previous_at: datetime | None,
    leadership: Leadership,
    now: datetime,
    counts_misses: bool = True,
    questions: Questions | None = None,
) -> int:
    """Bring every attempt that holds GPUs on `cluster` up to `listing`; returns how many changed.

    `previous_at` is when the cluster last gave a complete listing. One attempt that cannot be
    applied is logged and left for the next listing; it never blocks the others. Of one that
    is about to be called lost the cluster's accounting is asked first; nothing is called lost
    in quarantine and unless `counts_misses`, nor what the listing may have but could not be read.
    `questions` bound what accounting is asked. Raises NotLeading when the leadership is over.
    """
    changed = 0
    questions = questions or Questions()
    questions.begin_round()
    is_frozen = not counts_misses or is_quarantined()
    holding = list(
        Attempt.objects.filter(cluster=cluster, released_at=None, job__origin=JobOrigin.PORTAL)
        .only(*COMPARED)
        .order_by("job_id")
    )
    for attempt in questions.in_turn("portal", holding):
        observation = listing.seen(attempt.key, recorded_id(attempt))
        if observation is not None:
            if is_known(attempt, observation):
                continue
        elif is_frozen or attempt.native_id is None or listing.may_have(attempt.native_id):
            # Not acknowledged yet: dispatch, not observation, finds out what became of it.
            continue
        doubt = None
        if observation is None and is_about_to_be_lost(attempt):
            try:
                observation, doubt = _ask_accounting(connector, attempt, questions, now)
            except NotAsked:
                continue
            except ConnectorError as error:
                log.warning("attempt %s is missing and %s", attempt.id, error)
                continue
        try:
            with leadership.fence():
                changed += apply_one(
                    attempt.id,
                    attempt.job_id,
                    observation,
                    previous_at,
                    now,
                    doubt=doubt,
                    release_sent_at=attempt.release_sent_at,
                )
        except (NotLeading, OperationalError, InterfaceError):
            raise
        except Exception:
            # Whatever is wrong with one answer, the attempts behind it must not wait for it.
            log.exception("attempt %s could not be brought up to date", attempt.id)
    return changed


def recorded_id(attempt: Attempt) -> str | None:
    """The cluster's id of the attempt, or None while none was ever recorded."""
    return None if attempt.native_id == NEVER_STARTED else attempt.native_id


def is_about_to_be_lost(attempt: Attempt) -> bool:
    """Whether one more complete listing without the attempt makes it lost."""
    return attempt.missed_listings + 1 >= LISTINGS_BEFORE_LOST


def _ask_accounting(
    connector: ClusterConnector, attempt: Attempt, questions: Questions, now: datetime
) -> tuple[Observation | None, str | None]:
    """What accounting says of a missing attempt, and, where nobody knows if it ran, why.

    What was held and never released has not run, whatever became of it. What was released and
    is in no list and no account may have run, and so may what is in no list while its account
    stays open (a controller that was killed forgot it): only a person can tell.
    """
    native_id = recorded_id(attempt)
    if native_id is None or (connector.submits_held and attempt.release_sent_at is None):
        return None, None
    try:
        found = questions.ask(
            "portal", attempt, lambda: connector.find_ended(attempt.key, native_id)
        )
    except AccountUndecided as error:
        since = attempt.missing_since
        if since is None or (now - since).total_seconds() < UNDECIDED_S:
            raise
        return None, f"{str(error)[:1].upper()}{str(error)[1:]}."
    is_doubtful = found is None and connector.submits_held
    return found, "Its accounting does not know it either." if is_doubtful else None


#: The fields of an attempt that a listing is compared with.
COMPARED = (
    "id",
    "job_id",
    "cluster_id",
    "native_id",
    "native_state",
    "state",
    "stop_reason",
    "started_at",
    "ended_at",
    "message",
    "missed_listings",
    "missing_since",
    "release_sent_at",
)


def is_known(attempt: Attempt, observation: Observation) -> bool:
    """Whether the stored attempt already says what the cluster says."""
    state = _STATE_OF[observation.phase]
    if attempt.state == AttemptState.STOPPING and state != AttemptState.ENDED:
        state = AttemptState.STOPPING
    return (
        not observation.is_released
        and attempt.missed_listings == 0
        and attempt.native_id is not None
        and attempt.state == state
        and attempt.native_state == observation.native_state
        and attempt.message == _message(attempt, observation)
        and (attempt.started_at is None) == (observation.started_at is None)
    )


def _message(attempt: Attempt, observation: Observation) -> str:
    """What is to be said of the attempt; why it was taken back stays."""
    if attempt.stop_reason == StopReason.WITHDRAWN:
        return attempt.message
    return observation.message[:2000]


def apply_one(
    attempt_id: UUID,
    job_id: UUID,
    observation: Observation | None,
    previous_at: datetime | None,
    now: datetime,
    *,
    doubt: str | None = None,
    release_sent_at: datetime | None = None,
) -> int:
    """Bring one attempt and its job up to `observation`; None is a complete listing without it.

    Returns 1 when anything but the count of such listings changed. Must run behind the fence.
    """
    # The job before its attempt, as everywhere.
    job = (
        Job.objects.select_for_update(of=("self",))
        .defer("script", "environment", "notes")
        .get(pk=job_id)
    )
    attempt = Attempt.objects.select_for_update().get(pk=attempt_id)
    if attempt.released_at is not None:
        return 0
    happenings: list[Happening] = []
    if observation is None:
        if attempt.release_sent_at is not None and release_sent_at is None:
            # Called held and forgotten, but somebody has released it since: it may have run.
            return 0
        if not _miss(attempt, previous_at, now, happenings, doubt=doubt):
            attempt.save()
            return 0
        if job.origin == JobOrigin.PORTAL:
            # Should it turn up again, it must not run beside the next attempt.
            intend([stop_intention("stop_attempt", attempt)], now=now)
    else:
        _take_over(attempt, observation, now, happenings)
    if attempt.state == AttemptState.RUNNING and job.state == JobState.STARTING:
        lifecycle.check_move(job.state, JobState.RUNNING)
        job.state = JobState.RUNNING
    if attempt.started_at is not None:
        job.started_at = attempt.started_at
    attempt.save()
    if attempt.released_at is not None:
        conclude(job, attempt, now=now, happenings=happenings)
    job.save(
        update_fields=[
            "state",
            "started_at",
            "ended_at",
            "end_reason",
            "exit_code",
            "explanation",
            "explained_at",
        ]
    )
    record_events(happenings)
    publish("jobs", ids=[job.id], organization_id=job.organization_id)
    return 1


def _take_over(
    attempt: Attempt, observation: Observation, now: datetime, happenings: list[Happening]
) -> None:
    if attempt.native_id is None:
        attempt.native_id = observation.native_id
    attempt.missed_listings = 0
    attempt.missing_since = None
    attempt.native_state = observation.native_state
    attempt.exit_codes = {str(rank): code for rank, code in observation.exit_codes.items()}
    attempt.message = _message(attempt, observation)
    state = _STATE_OF[observation.phase]
    if observation.started_at is not None and attempt.started_at is None:
        attempt.started_at = from_epoch(observation.started_at)
        record_started(attempt.id, at=attempt.started_at, now=now)
        happenings.append(
            Happening(attempt.job_id, attempt.started_at, "started", {"attempt": attempt.number})
        )
    if observation.slots is not None and _total(observation.slots) == attempt.mgpu:
        # The cluster's own scheduler chose the nodes; the arbiter goes by where it really is.
        attempt.slots = [{"node": slot.node, "mgpu": slot.mgpu} for slot in observation.slots]
    if state == AttemptState.ENDED:
        attempt.state = AttemptState.ENDED
        ended_at = observation.ended_at or observation.released_at
        attempt.ended_at = attempt.ended_at or (
            from_epoch(ended_at) if ended_at is not None else now
        )
        attempt.outcome = observation.outcome.value if observation.outcome else "failed"
        if attempt.stop_reason == StopReason.WITHDRAWN and attempt.started_at is None:
            attempt.outcome = lifecycle.NOT_STARTED
    elif attempt.state not in (AttemptState.STOPPING, AttemptState.ENDED):
        attempt.state = state
    if observation.is_released and attempt.state == AttemptState.ENDED:
        assert attempt.ended_at is not None
        released = (
            from_epoch(observation.released_at)
            if observation.released_at is not None
            else attempt.ended_at
        )
        # GPUs are held until the last process is gone; a clock that ran backwards adds nothing.
        attempt.released_at = max(released, attempt.ended_at)
        if attempt.started_at is not None:
            record_ended(attempt.id, at=attempt.released_at, now=now)


def _total(slots: Iterable[RankSlot]) -> int:
    return sum(slot.mgpu for slot in slots)


def _miss(
    attempt: Attempt,
    previous_at: datetime | None,
    now: datetime,
    happenings: list[Happening],
    *,
    doubt: str | None,
) -> bool:
    """Count a complete listing without the attempt; True when it is now lost, or, where there is
    a `doubt`, unknown."""
    if attempt.missed_listings == 0:
        attempt.missing_since = previous_at or attempt.started_at or attempt.granted_at
    attempt.missed_listings += 1
    if attempt.missed_listings < LISTINGS_BEFORE_LOST:
        return False
    assert attempt.missing_since is not None
    last_seen = max(attempt.missing_since, attempt.started_at or attempt.granted_at)
    attempt.state = AttemptState.ENDED
    attempt.outcome = "lost" if doubt is None else "unknown"
    attempt.ended_at = attempt.ended_at or last_seen
    attempt.released_at = max(last_seen, attempt.ended_at)
    attempt.message = (
        f"The cluster no longer knows this attempt; it was last listed at {last_seen.isoformat()}."
        + (f" {doubt}" if doubt else "")
    )
    if attempt.started_at is not None:
        record_lost(attempt.id, at=last_seen, now=now)
    happenings.append(Happening(attempt.job_id, now, attempt.outcome, {"attempt": attempt.number}))
    return True


def conclude(job: Job, attempt: Attempt, *, now: datetime, happenings: list[Happening]) -> None:
    """Move a locked job on after its locked attempt released its GPUs (saves neither)."""
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
        event = "requeued" if end.state == JobState.QUEUED else "held"
        happenings.append(Happening(job.id, now, event, detail))
    else:
        job.ended_at = attempt.ended_at
        job.end_reason = end.reason
        job.exit_code = worst_exit_code(attempt.exit_codes)
        happenings.append(Happening(job.id, attempt.ended_at, end.state.value, detail))
    wake("arbiter")


def _earlier(attempt: Attempt) -> int:
    """How many earlier attempts of the job ended so too, by a fault or unstarted; asked only when
    this one did."""
    if attempt.outcome == lifecycle.NOT_STARTED:
        alike = frozenset({lifecycle.NOT_STARTED})
    elif attempt.outcome in lifecycle.FAULTS:
        alike = lifecycle.FAULTS
    else:
        return 0
    return Attempt.objects.filter(
        job=attempt.job_id, number__lt=attempt.number, outcome__in=alike
    ).count()


def worst_exit_code(codes: Mapping[str, int]) -> int | None:
    """The exit code to show for a gang: of the lowest rank that failed, else 0, else unknown."""
    for _, code in sorted(codes.items(), key=lambda item: int(item[0])):
        if code != 0:
            return code
    return 0 if codes else None
