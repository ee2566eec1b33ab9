"""Comparison of a stored attempt with its cluster's report: known, resized or begun anew."""

from __future__ import annotations

from collections.abc import Iterable

from connectors.protocol import Observation, RankSlot, WorkloadPhase
from jobs.models import Attempt, AttemptState, StopReason
from primitives.clock import from_epoch

#: Native id of an attempt that was stopped before its cluster acknowledged it.
NEVER_STARTED = "never-started"
#: The state of an attempt in each phase of its workload.
STATE_OF = {
    WorkloadPhase.HELD: AttemptState.STARTING,
    WorkloadPhase.STARTING: AttemptState.STARTING,
    WorkloadPhase.RUNNING: AttemptState.RUNNING,
    WorkloadPhase.STOPPING: AttemptState.RUNNING,
    WorkloadPhase.ENDED: AttemptState.ENDED,
}

#: The fields of an attempt that are compared with a listing.
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


def recorded_id(attempt: Attempt) -> str | None:
    """Return the cluster's id of the attempt, or None if none was ever recorded."""
    return None if attempt.native_id == NEVER_STARTED else attempt.native_id


def is_known(attempt: Attempt, observation: Observation) -> bool:
    """Return whether the stored attempt already agrees with the cluster's report."""
    state = STATE_OF[observation.phase]
    if attempt.state == AttemptState.STOPPING and state != AttemptState.ENDED:
        state = AttemptState.STOPPING
    return (
        not observation.is_released
        and attempt.missed_listings == 0
        and attempt.native_id is not None
        and attempt.state == state
        and attempt.native_state == observation.native_state
        and attempt.message == message_of(attempt, observation)
        and (attempt.started_at is None) == (observation.started_at is None)
        and not is_begun_anew(attempt, observation)
        and not is_resized(attempt, observation)
    )


def is_begun_anew(attempt: Attempt, observation: Observation) -> bool:
    """Return whether the cluster took back the reported start and has begun the attempt again.

    A controller that was killed forgets the starts of its last seconds. It begins them again under
    the same number, and overwrites the start in its account. Charging from the first start would
    charge the second wait, when others may use the GPUs. The charge would also depend on whether
    the portal observed in those seconds. A run that the cluster counts as another run does not
    belong here, because the first one was used. The start never moves past a reported checkpoint,
    since that work is saved.
    """
    if not observation.is_only_run or observation.started_at is None or attempt.started_at is None:
        return False
    began_at = from_epoch(observation.started_at)
    is_saved = attempt.checkpoint_at is not None and attempt.checkpoint_at < began_at
    return began_at > attempt.started_at and not is_saved


def is_resized(attempt: Attempt, observation: Observation) -> bool:
    """Return whether the GPUs that it holds, by the cluster's report, differ from the counted ones.

    Only a running attempt is believed, or an ended one with the time of the change. A stopping
    attempt releases its nodes one by one.
    """
    is_told = observation.phase is WorkloadPhase.RUNNING or (
        observation.is_released and observation.resized_at is not None
    )
    return (
        is_told
        and attempt.started_at is not None
        and observation.slots is not None
        and 0 < total_mgpu(observation.slots) != attempt.mgpu
    )


def message_of(attempt: Attempt, observation: Observation) -> str:
    """Return the message for the attempt; the reason of a withdrawal stays."""
    if attempt.stop_reason == StopReason.WITHDRAWN:
        return attempt.message
    return observation.message[:2000]


def total_mgpu(slots: Iterable[RankSlot]) -> int:
    """Return the GPUs of all ranks together, in milli-GPUs."""
    return sum(slot.mgpu for slot in slots)
