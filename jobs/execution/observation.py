"""Apply the listings of clusters: attempts, job states, meter events.

Level-triggered: each complete listing is compared with the database, so a missed or repeated
listing changes nothing. Absent is never finished. Changes are stored in batches, each in one
transaction with a constant number of statements.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
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
)
from jobs import lifecycle
from jobs.execution.comparing import (
    COMPARED,
    NEVER_STARTED,
    STATE_OF,
    is_begun_anew,
    is_known,
    is_resized,
    message_of,
    recorded_id,
    total_mgpu,
)
from jobs.execution.concluding import conclude_quietly, fault_of
from jobs.execution.questions import NotAsked, Questions
from jobs.intentions import stop_intention
from jobs.leadership import Leadership, NotLeading
from jobs.models import Attempt, AttemptState, Job, JobOrigin, JobState, StopReason
from jobs.timeline import Happening, record_events
from live.publishing import publish
from live.waking import wake
from outbox.quarantine import is_quarantined
from outbox.recording import Intention, intend
from primitives.clock import from_epoch
from primitives.units import MGPU_MAX

log = logging.getLogger(__name__)

#: Complete listings in a row without an acknowledged attempt before it is called lost.
LISTINGS_BEFORE_LOST = 3
#: Seconds for which a missing attempt waits for an accounting that has its start and no end.
UNDECIDED_S = 60
#: The most attempts changed in one transaction, which locks their jobs meanwhile.
BATCH_MAX = 100


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
    """Update every attempt that holds GPUs on `cluster` from `listing`; return how many changed.

    `previous_at` is the time of the cluster's previous complete listing. An attempt that cannot be
    applied is logged and left for the next listing; it never blocks the others. Before an attempt
    is called lost, the cluster's accounting is asked, within the bounds of `questions`.

    No attempt is called lost in quarantine or without `counts_misses`. The same holds if the
    listing may contain it in a form that could not be read. Raises NotLeading when the leadership
    is over.
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
            # Not acknowledged yet: dispatch, not observation, finds out its fate.
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
    """The content of a complete listing about an attempt; no observation means it is absent.

    `doubt` is why it is unknown whether a missing attempt ran. `release_sent_at` is its value at
    the time when the attempt was found missing.
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
    """Apply `news`; return how many attempts changed.

    If a batch fails, it is applied one by one, and the failing attempt is left for the next
    listing.
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
                # An error in one observation must not delay the attempts behind it.
                log.exception("attempt %s could not be brought up to date", batch[0].attempt_id)
                continue
            for one in batch:
                changed += _apply_in_batches([one], previous_at, leadership, now)
    return changed


def is_about_to_be_lost(attempt: Attempt) -> bool:
    """Return whether one more complete listing without the attempt makes it lost."""
    return attempt.missed_listings + 1 >= LISTINGS_BEFORE_LOST


def _ask_accounting(
    connector: ClusterConnector, attempt: Attempt, questions: Questions, now: datetime
) -> tuple[Observation | None, str | None]:
    """Return accounting's answer about a missing attempt, and any doubt about whether it ran.

    A submission that was held and never released has not run. A released one that is in no list and
    no account may have run. The same holds for an attempt in no list whose account stays open, for
    example because a killed controller forgot it. Only a person can decide such cases.
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


def apply_one(
    attempt_id: UUID,
    job_id: UUID,
    observation: Observation | None,
    previous_at: datetime | None,
    now: datetime,
) -> int:
    """Update one attempt and its job from `observation`; see `apply_news`."""
    return apply_news([News(attempt_id, job_id, observation)], previous_at, now)


@dataclass(slots=True)
class _Effects:
    """Further rows to store for a batch, in addition to attempts and jobs."""

    metered: list[Observed] = field(default_factory=list)
    classed: list[tuple[UUID, int]] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    intentions: list[Intention] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    changes_use: bool = False


def apply_news(news: Sequence[News], previous_at: datetime | None, now: datetime) -> int:
    """Apply `news` to their attempts, at most one for each job, and to the jobs.

    Returns how many changed in more than the count of missed listings. All or none, in a constant
    number of statements unless an attempt ended by a fault. Must run behind the fence.
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
    """Apply `one` to its locked attempt and job."""
    if one.observation is None:
        if attempt.release_sent_at is not None and one.release_sent_at is None:
            # It was found held and forgotten, but has been released since, so it may have run.
            return
        effects.attempts.append(attempt)
        if not _miss(attempt, previous_at, now, effects, doubt=one.doubt):
            return
        if job.origin == JobOrigin.PORTAL:
            # If it appears again, it must not run beside the next attempt.
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
        reason = conclude_quietly(job, attempt, now=now, happenings=effects.happenings)
        if (fault := fault_of(job, attempt, reason)) is not None:
            effects.metered.append(fault)


_WRITTEN_OF_ATTEMPT = (
    *("id", "native_id", "native_state", "state", "slots", "exit_codes", "message", "outcome"),
    *("started_at", "checkpoint_at", "ended_at", "released_at"),
    *("missed_listings", "missing_since", "mgpu", "guaranteed_mgpu"),
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
    attempt.message = message_of(attempt, observation)
    state = STATE_OF[observation.phase]
    was_started = attempt.started_at is not None
    if observation.started_at is not None and attempt.started_at is None:
        attempt.started_at = from_epoch(observation.started_at)
        if attempt.checkpoint_at is not None and attempt.checkpoint_at < attempt.started_at:
            # The job reported it by the portal's clock, and the cluster's clock is ahead.
            attempt.checkpoint_at = attempt.started_at
        effects.metered.append(Observed(attempt.id, "started", attempt.started_at))
        effects.happenings.append(
            Happening(attempt.job_id, attempt.started_at, "started", {"attempt": attempt.number})
        )
    elif is_begun_anew(attempt, observation):
        assert observation.started_at is not None
        attempt.started_at = from_epoch(observation.started_at)
        effects.metered.append(Observed(attempt.id, "anew", attempt.started_at))
        effects.happenings.append(
            Happening(attempt.job_id, attempt.started_at, "started", {"attempt": attempt.number})
        )
    is_first = attempt.started_at is not None and not was_started
    if observation.slots and (is_first or is_resized(attempt, observation)):
        _resize(attempt, observation, now, effects, is_first=is_first)
    if observation.slots is not None and total_mgpu(observation.slots) == attempt.mgpu:
        # The cluster's own scheduler chose the nodes, and the arbiter needs the real ones.
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
    """Count the size that the attempt holds after a change on the cluster.

    It counts from the attempt's start if it began with that size, else from the cluster's time of
    the change, or from now.
    """
    assert observation.slots is not None
    assert attempt.started_at is not None
    held_mgpu = total_mgpu(observation.slots)
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
    # The next cycle decides what is borrowed, and compares with the amount stored here. So the
    # meter must record the reduction, or it would count the old guarantee again after a later
    # increase.
    if attempt.guaranteed_mgpu > held_mgpu:
        attempt.guaranteed_mgpu = held_mgpu
        effects.classed.append((attempt.id, held_mgpu))
    effects.changes_use = True


def _miss(
    attempt: Attempt,
    previous_at: datetime | None,
    now: datetime,
    effects: _Effects,
    *,
    doubt: str | None,
) -> bool:
    """Count a complete listing without the attempt; return whether that ends it.

    Its outcome is then lost, or unknown if there is a `doubt`. If it was stopped before its cluster
    knew it, the outcome is stopped.
    """
    if attempt.missed_listings == 0:
        attempt.missing_since = previous_at or attempt.started_at or attempt.granted_at
    attempt.missed_listings += 1
    if attempt.missed_listings < LISTINGS_BEFORE_LOST:
        return False
    assert attempt.missing_since is not None
    if doubt is None and attempt.native_id == NEVER_STARTED and attempt.started_at is None:
        # Stopped before its cluster acknowledged it, and never listed: it ends with nothing to
        # meter. If it appears later, it is stopped all the same.
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
