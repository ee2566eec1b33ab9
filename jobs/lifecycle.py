"""The state machine of a job, and what the end of an attempt means for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.models import JobState, StopReason

S = JobState

#: What the end of an attempt can make of its job.
_ENDS = (S.QUEUED, S.HELD, S.SUCCEEDED, S.FAILED, S.CANCELLED, S.TIMED_OUT)

#: Every move that a job can make; all else is a bug.
MOVES: Mapping[JobState, frozenset[JobState]] = {
    S.HELD: frozenset({S.QUEUED, S.CANCELLED}),
    S.QUEUED: frozenset({S.HELD, S.STARTING, S.CANCELLED}),
    S.STARTING: frozenset({S.RUNNING, S.PREEMPTING, *_ENDS}),
    S.RUNNING: frozenset({S.PREEMPTING, *_ENDS}),
    S.PREEMPTING: frozenset(_ENDS),
    S.SUCCEEDED: frozenset(),
    S.FAILED: frozenset(),
    S.CANCELLED: frozenset(),
    S.TIMED_OUT: frozenset(),
}

#: States in which a job has an attempt that may hold GPUs.
ACTIVE = frozenset({S.STARTING, S.RUNNING, S.PREEMPTING})
WAITING = frozenset({S.HELD, S.QUEUED})
FINAL = frozenset(state for state, moves in MOVES.items() if not moves)
OPEN = ACTIVE | WAITING


class IllegalMove(Exception):
    """A job was asked to make a move that its state machine does not know."""


def check_move(before: str, after: JobState) -> None:
    """Raises IllegalMove unless a job may go from `before` to `after`."""
    if after not in MOVES[JobState(before)]:
        raise IllegalMove(f"a job cannot go from {before} to {after.value}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a job goes when its attempt has released its GPUs, and why."""

    state: JobState
    reason: str | None


#: Outcomes that are the cluster's fault, not the job's.
FAULTS = frozenset({"node_failed", "lost"})
#: A job whose attempts end so often by faults is more likely their cause than their victim.
FAULTS_MAX = 10
#: Why a native job that waited for us, or ran, has ended: its workload is not there any more.
REMOVED = "removed_on_cluster"
#: Outcome of an attempt that was taken back because its cluster did not start it.
NOT_STARTED = "not_started"
#: After so many of those a person looks at the job.
NOT_STARTED_MAX = 10


def verdict(
    *,
    outcome: str,
    stop_reason: str | None,
    is_cancelled: bool,
    is_requeueable: bool,
    ended_before_notice: bool,
    earlier: int = 0,
    is_native: bool = False,
) -> Verdict:
    """What the end of an attempt means (R-68 to R-70).

    A cancelled job is cancelled whatever its last attempt did, unless that ended before it
    was told to (`ended_before_notice`). A preempted one goes back to its queue even when it
    exits with 0: after a notice that means "saved", not "done". A cluster's fault requeues
    too, after at most ten earlier ones (`earlier`). A job that may not be requeued fails with
    the reason. What was taken back unstarted queues again, and after ten earlier ones is held.
    What is `unknown` (released to the cluster, and then in no list and no account) is held for a
    person: it may have run. A native job (`is_native`) that somebody stopped on its cluster was
    cancelled there; one that waits for us there (it can be requeued) and ended by itself while it
    was preempted has ended, and so has one that is not there any more: its cluster does not run it
    again.
    """
    natural = {
        "succeeded": Verdict(S.SUCCEEDED, None),
        "timed_out": Verdict(S.TIMED_OUT, "time_limit"),
        "failed": Verdict(S.FAILED, "exit_code"),
        "start_failed": Verdict(S.FAILED, "rejected_by_cluster"),
    }
    if ended_before_notice and outcome in natural:
        return natural[outcome]
    if is_cancelled:
        return Verdict(S.CANCELLED, "cancelled_by_user")
    if outcome == NOT_STARTED:
        return Verdict(S.QUEUED if earlier < NOT_STARTED_MAX else S.HELD, NOT_STARTED)
    if is_native and is_requeueable:
        if outcome in natural:
            return natural[outcome]
        if outcome == "lost":
            return Verdict(S.CANCELLED, REMOVED)
    if stop_reason in (StopReason.PREEMPTED, StopReason.WITHDRAWN):
        return _again(is_requeueable, stop_reason)
    if outcome in natural:
        return natural[outcome]
    if outcome == "preempted":
        # By the cluster's own rules, not by ours.
        return _again(is_requeueable, "preempted")
    if outcome == "unknown":
        return Verdict(S.HELD, "outcome_unknown")
    if outcome in FAULTS:
        return _again(is_requeueable and earlier < FAULTS_MAX, outcome)
    # Ended by force, but not by us: somebody stopped it on the cluster.
    return Verdict(S.CANCELLED if is_native else S.FAILED, "stopped_on_cluster")


def _again(is_requeueable: bool, reason: str) -> Verdict:
    return Verdict(S.QUEUED if is_requeueable else S.FAILED, reason)
