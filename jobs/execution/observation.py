"""What clusters say becomes what we know: attempts, job states, meter events.

Level-triggered: each complete listing is compared with what is stored, so a missed or repeated
listing changes nothing. Absent is never finished. What changed is stored in batches, each in one
transaction with a constant number of statements.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import InterfaceError, OperationalError

from billing.metering import Observed, record_classed, record_observed
from bulk.updating import update_rows
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
from jobs.execution.questions import NotAsked, Questions
from jobs.intentions import stop_intention
from jobs.leadership import Leadership, NotLeading
from jobs.models import Attempt, AttemptState, Job, JobOrigin, JobState, StopReason
from jobs.queue.reason_documents import held_sentence
from jobs.queue.reason_lines import note_held
from jobs.timeline import Happening, record_events
from live.publishing import publish
from live.waking import wake
from outbox.quarantine import is_quarantined
from outbox.recording import Intention, intend
from primitives.clock import from_epoch
from primitives.units import MGPU_MAX

log = logging.getLogger(__name__)

#: Native id of an attempt that was stopped before its cluster acknowledged it.
NEVER_STARTED = "never-started"
#: Complete listings in a row without an acknowledged attempt before it is called lost.
LISTINGS_BEFORE_LOST = 3
#: Seconds for which a missing attempt waits for an accounting that has its start and no end.
UNDECIDED_S = 60
#: Attempts that are changed in one transaction; nobody else can change their jobs meanwhile.
BATCH_MAX = 100

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
    questions = questions or Questions()
    questions.begin_round()
    is_frozen = not counts_misses or is_quarantined()
    holding = list(
        Attempt.objects.filter(cluster=cluster, released_at=None, job__origin=JobOrigin.PORTAL)
        .only(*COMPARED)
        .order_by("job_id")
    )
    news: list[News] = []
    missing: list[Attempt] = []
    for attempt in questions.in_turn("portal", holding):
        observation = listing.seen(attempt.key, recorded_id(attempt))
        if observation is not None:
            if not is_known(attempt, observation):
                news.append(_news(attempt, observation))
        elif is_frozen or attempt.native_id is None or listing.may_have(attempt.native_id):
            # Not acknowledged yet: dispatch, not observation, finds out what became of it.
            continue
        elif is_about_to_be_lost(attempt):
            missing.append(attempt)
        else:
            news.append(_news(attempt, None))
    changed = _apply_in_batches(news, previous_at, leadership, now)
    for attempt in missing:
        try:
            observation, doubt = _ask_accounting(connector, attempt, questions, now)
        except NotAsked:
            continue
        except ConnectorError as error:
            log.warning("attempt %s is missing and %s", attempt.id, error)
            continue
        found = _news(attempt, observation, doubt)
        changed += _apply_in_batches([found], previous_at, leadership, now)
    return changed


@dataclass(frozen=True, slots=True)
class News:
    """What a complete listing says of an attempt; no observation is a listing without it.

    `doubt` is why nobody knows whether a missing one ran, `release_sent_at` when it had been let go
    at the time when it was found missing.
    """

    attempt_id: UUID
    job_id: UUID
    observation: Observation | None
    doubt: str | None = None
    release_sent_at: datetime | None = None


def _news(attempt: Attempt, observation: Observation | None, doubt: str | None = None) -> News:
    return News(attempt.id, attempt.job_id, observation, doubt, attempt.release_sent_at)


def _apply_in_batches(
    news: Sequence[News], previous_at: datetime | None, leadership: Leadership, now: datetime
) -> int:
    """Apply `news`; returns how many attempts changed.

    Where one of a batch cannot be applied, its batch is applied one by one, and that one is left
    for the next listing.
    """
    changed = 0
    for start in range(0, len(news), BATCH_MAX):
        batch = news[start : start + BATCH_MAX]
        try:
            with leadership.fence():
                changed += apply_news(batch, previous_at, now)
        except (NotLeading, OperationalError, InterfaceError):
            raise
        except Exception:
            if len(batch) == 1:
                # Whatever is wrong with one answer, the attempts behind it must not wait for it.
                log.exception("attempt %s could not be brought up to date", batch[0].attempt_id)
                continue
            for one in batch:
                changed += _apply_in_batches([one], previous_at, leadership, now)
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
    "checkpoint_at",
    "ended_at",
    "message",
    "missed_listings",
    "missing_since",
    "release_sent_at",
    "mgpu",
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
        and not _is_begun_anew(attempt, observation)
        and not _is_resized(attempt, observation)
    )


def _is_begun_anew(attempt: Attempt, observation: Observation) -> bool:
    """Whether its cluster has taken back the start that it told, and begun it again since.

    A controller that was killed forgets what began in its last seconds, begins that again under
    the same number, and overwrites the start in its account. Charged from the first word, an
    attempt would pay for the time in which it waits again and its GPUs are anybody's; and what it
    pays would depend on whether anybody looked in those seconds. What the cluster counts as
    another run is none of this: that one was used. Nor is anything moved past a checkpoint that
    the script told of since: what was saved stays saved.
    """
    if not observation.is_only_run or observation.started_at is None or attempt.started_at is None:
        return False
    began_at = from_epoch(observation.started_at)
    is_saved = attempt.checkpoint_at is not None and attempt.checkpoint_at < began_at
    return began_at > attempt.started_at and not is_saved


def _is_resized(attempt: Attempt, observation: Observation) -> bool:
    """Whether what it holds, as the cluster says, is not what is counted.

    Only what runs is believed, and what has ended of which the cluster says when it was changed: of
    what is ending, nodes are let go one by one.
    """
    is_told = observation.phase is WorkloadPhase.RUNNING or (
        observation.is_released and observation.resized_at is not None
    )
    return (
        is_told
        and attempt.started_at is not None
        and observation.slots is not None
        and 0 < _total(observation.slots) != attempt.mgpu
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
) -> int:
    """Bring one attempt and its job up to `observation`; see `apply_news`."""
    return apply_news([News(attempt_id, job_id, observation)], previous_at, now)


@dataclass(slots=True)
class _Effects:
    """What is to be stored beside the rows of attempts and jobs, for all of a batch at once."""

    metered: list[Observed] = field(default_factory=list)
    classed: list[tuple[UUID, int]] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    intentions: list[Intention] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    changes_use: bool = False


def apply_news(news: Sequence[News], previous_at: datetime | None, now: datetime) -> int:
    """Bring these attempts, one for each job at most, and their jobs up to `news`.

    Returns how many changed in anything but the count of listings without them. All or none, in
    a constant number of statements as long as nothing ended by a fault. Must run behind the fence.
    """
    # The jobs before their attempts and both in the order of their ids, as everywhere.
    jobs = {
        job.id: job
        for job in Job.objects.select_for_update(of=("self",))
        .defer("script", "environment", "notes")
        .filter(pk__in=[one.job_id for one in news])
        .order_by("pk")
    }
    attempts = {
        attempt.id: attempt
        for attempt in Attempt.objects.select_for_update()
        .filter(pk__in=[one.attempt_id for one in news])
        .order_by("pk")
    }
    effects = _Effects()
    for one in news:
        attempt = attempts[one.attempt_id]
        if attempt.released_at is None:
            _apply(one, attempt, jobs[one.job_id], previous_at, now, effects)
    _store(effects, now)
    return len(effects.jobs)


def _apply(
    one: News,
    attempt: Attempt,
    job: Job,
    previous_at: datetime | None,
    now: datetime,
    effects: _Effects,
) -> None:
    """What `one` makes of its locked attempt and job."""
    if one.observation is None:
        if attempt.release_sent_at is not None and one.release_sent_at is None:
            # Called held and forgotten, but somebody has released it since: it may have run.
            return
        effects.attempts.append(attempt)
        if not _miss(attempt, previous_at, now, effects, doubt=one.doubt):
            return
        if job.origin == JobOrigin.PORTAL:
            # Should it turn up again, it must not run beside the next attempt.
            effects.intentions.append(stop_intention("stop_attempt", attempt))
    else:
        effects.attempts.append(attempt)
        _take_over(attempt, one.observation, now, effects)
    effects.jobs.append(job)
    if attempt.state == AttemptState.RUNNING and job.state == JobState.STARTING:
        lifecycle.check_move(job.state, JobState.RUNNING)
        job.state = JobState.RUNNING
    if attempt.started_at is not None:
        job.started_at = attempt.started_at
    if attempt.released_at is not None:
        effects.changes_use = True
        _conclude(job, attempt, now=now, happenings=effects.happenings)


_WRITTEN_OF_ATTEMPT = (
    *("id", "native_id", "native_state", "state", "slots", "exit_codes", "message", "outcome"),
    *("started_at", "ended_at", "released_at", "missed_listings", "missing_since"),
    *("mgpu", "guaranteed_mgpu"),
)
_WRITTEN_OF_JOB = (
    *("id", "state", "started_at", "ended_at", "end_reason", "exit_code"),
    *("explanation", "explained_at"),
)


def _store(effects: _Effects, now: datetime) -> None:
    update_rows(
        Attempt,
        [{name: getattr(row, name) for name in _WRITTEN_OF_ATTEMPT} for row in effects.attempts],
    )
    record_observed(effects.metered, now=now)
    if effects.classed:
        record_classed(effects.classed, at=now, now=now)
    intend(effects.intentions, now=now)
    update_rows(
        Job, [{name: getattr(row, name) for name in _WRITTEN_OF_JOB} for row in effects.jobs]
    )
    record_events(effects.happenings)
    told: dict[UUID, list[UUID]] = {}
    for job in effects.jobs:
        told.setdefault(job.organization_id, []).append(job.id)
    for organization_id, ids in told.items():
        publish("jobs", ids=ids, organization_id=organization_id)
    if effects.changes_use:
        wake("arbiter")


def _take_over(
    attempt: Attempt, observation: Observation, now: datetime, effects: _Effects
) -> None:
    if attempt.native_id is None:
        attempt.native_id = observation.native_id
    attempt.missed_listings = 0
    attempt.missing_since = None
    attempt.native_state = observation.native_state
    attempt.exit_codes = {str(rank): code for rank, code in observation.exit_codes.items()}
    attempt.message = _message(attempt, observation)
    state = _STATE_OF[observation.phase]
    was_started = attempt.started_at is not None
    if observation.started_at is not None and attempt.started_at is None:
        attempt.started_at = from_epoch(observation.started_at)
        effects.metered.append(Observed(attempt.id, "started", attempt.started_at))
        effects.happenings.append(
            Happening(attempt.job_id, attempt.started_at, "started", {"attempt": attempt.number})
        )
    elif _is_begun_anew(attempt, observation):
        assert observation.started_at is not None
        attempt.started_at = from_epoch(observation.started_at)
        effects.metered.append(Observed(attempt.id, "anew", attempt.started_at))
        effects.happenings.append(
            Happening(attempt.job_id, attempt.started_at, "started", {"attempt": attempt.number})
        )
    is_first = attempt.started_at is not None and not was_started
    if observation.slots and (is_first or _is_resized(attempt, observation)):
        _resize(attempt, observation, now, effects, is_first=is_first)
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
            effects.metered.append(Observed(attempt.id, "ended", attempt.released_at))


def _resize(
    attempt: Attempt,
    observation: Observation,
    now: datetime,
    effects: _Effects,
    *,
    is_first: bool,
) -> None:
    """Somebody changed on the cluster what it asks for or has: it counts as what it holds.

    Since its start if it began so, else since the cluster's time of the change, or since now.
    """
    assert observation.slots is not None
    assert attempt.started_at is not None
    held_mgpu = _total(observation.slots)
    if held_mgpu in (0, attempt.mgpu) or held_mgpu > MGPU_MAX:
        return
    since = now if observation.resized_at is None else from_epoch(observation.resized_at)
    if is_first and observation.resized_at is None:
        since = attempt.started_at
    since = max(since, attempt.started_at)
    effects.metered.append(Observed(attempt.id, "sized", since, held_mgpu))
    detail = {"attempt": attempt.number, "before_mgpu": attempt.mgpu, "mgpu": held_mgpu}
    effects.happenings.append(Happening(attempt.job_id, since, "resized_on_cluster", detail))
    attempt.mgpu = held_mgpu
    # What of it is borrowed the next cycle says, which compares with what is stored here; so the
    # meter is told of the cut, or it would count the old guarantee again once this grows.
    if attempt.guaranteed_mgpu > held_mgpu:
        attempt.guaranteed_mgpu = held_mgpu
        effects.classed.append((attempt.id, held_mgpu))
    effects.changes_use = True


def _total(slots: Iterable[RankSlot]) -> int:
    return sum(slot.mgpu for slot in slots)


def _miss(
    attempt: Attempt,
    previous_at: datetime | None,
    now: datetime,
    effects: _Effects,
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
    if doubt is None and attempt.native_id == NEVER_STARTED and attempt.started_at is None:
        # Stopped before its cluster acknowledged it, and never listed: it ends after that, with
        # nothing to meter. What turns up later is stopped all the same.
        asked_at = attempt.notice_at or attempt.granted_at
        attempt.state = AttemptState.ENDED
        attempt.outcome = "stopped"
        attempt.ended_at = attempt.released_at = max(now, asked_at)
        attempt.message = "It was stopped before its cluster knew of it."
        return True
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
        effects.metered.append(Observed(attempt.id, "lost", last_seen))
    effects.happenings.append(
        Happening(attempt.job_id, now, attempt.outcome, {"attempt": attempt.number})
    )
    return True


def conclude(job: Job, attempt: Attempt, *, now: datetime, happenings: list[Happening]) -> None:
    """Move a locked job on after its locked attempt released its GPUs (saves neither)."""
    _conclude(job, attempt, now=now, happenings=happenings)
    wake("arbiter")


def _conclude(job: Job, attempt: Attempt, *, now: datetime, happenings: list[Happening]) -> None:
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
        job.ended_at = attempt.ended_at
        job.end_reason = end.reason
        job.exit_code = worst_exit_code(attempt.exit_codes)
        happenings.append(Happening(job.id, attempt.ended_at, end.state.value, detail))


def _earlier(attempt: Attempt) -> int:
    """How many earlier attempts of the job ended so too, by a fault or unstarted; asked only when
    this one did. That a cluster fell silent says nothing of the job, and does not count."""
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
    """The exit code to show for a gang: of the lowest rank that failed, else 0, else unknown."""
    for _, code in sorted(codes.items(), key=lambda item: int(item[0])):
        if code != 0:
            return code
    return 0 if codes else None
