"""The state machine of a job, and the effect of an attempt's end on it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from jobs.models import JobState, StopReason

S = JobState

#: The possible states of a job after the end of its attempt.
_ENDS = (S.QUEUED, S.HELD, S.SUCCEEDED, S.FAILED, S.CANCELLED, S.TIMED_OUT)

#: All allowed transitions of a job. Any other transition is a bug.
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
    """A caller requested a transition that the state machine does not allow."""


def check_move(before: str, after: JobState) -> None:
    """Raise IllegalMove unless a job may go from `before` to `after`."""
    if after not in MOVES[JobState(before)]:
        raise IllegalMove(f"a job cannot go from {before} to {after.value}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The next state of a job whose attempt has released its GPUs, and the reason."""

    state: JobState
    reason: str | None


#: Outcomes that are the cluster's fault, not the job's.
FAULTS = frozenset({"node_failed", "lost"})
#: A job with more faults than this is more likely their cause than their victim.
FAULTS_MAX = 10
#: The end reason of a native job whose workload has vanished from its cluster.
REMOVED = "removed_on_cluster"
#: The outcome of an attempt that was withdrawn because its cluster did not start it.
NOT_STARTED = "not_started"
#: A job with more of these ends than this is held for a person.
NOT_STARTED_MAX = 10


#: The end of a job that was stopped at its cost cap.
COST_CAP_REACHED = "cost_cap_reached"
#: In `requeue_on`: the job reached its time limit. All other entries are exit codes.
TIME_LIMIT = "time_limit"
#: Outcomes of attempts that may be requeued for their exit code.
ENDED_BY_CODE = frozenset({"failed", "timed_out"})


def verdict(
    *,
    outcome: str,
    stop_reason: str | None,
    is_cancelled: bool,
    is_requeueable: bool,
    ended_before_notice: bool,
    earlier: int = 0,
    is_native: bool = False,
    exit_code: int | None = None,
    requeue_on: Collection[str] = (),
) -> Verdict:
    """Return the consequence of an attempt's end for its job (R-68 to R-70, R-107).

    - A job that somebody asked to requeue is, whatever its end, unless it was cancelled.
    - A job that reached its time limit, or ended with an exit code, in `requeue_on` is requeued.
      The caller leaves `requeue_on` empty after too many of these ends.
    - A cancelled job ends as cancelled, unless its attempt ended before the request
      (`ended_before_notice`).
    - A preempted job is requeued even after exit code 0: after a notice that means "saved", not
      "done".
    - A fault of the cluster requeues the job, after at most ten earlier faults (`earlier`).
    - A job that was stopped at its cost cap fails, whatever its exit code.
    - A job that may not be requeued fails with the reason.
    - An attempt that was withdrawn unstarted requeues the job. After ten earlier ones the job is
      held.
    - An attempt with outcome `unknown` may have run: it was released and is in no list and no
      account. Its job is held for a person.
    - A native job (`is_native`) that was stopped on its cluster counts as cancelled.
    - A native job that the portal starts can be requeued. If it ended by itself during preemption,
      or has vanished, it has ended: its cluster does not run it again.
    """
    natural = {
        "succeeded": Verdict(S.SUCCEEDED, None),
        "timed_out": Verdict(S.TIMED_OUT, "time_limit"),
        "failed": Verdict(S.FAILED, "exit_code"),
        "start_failed": Verdict(S.FAILED, "rejected_by_cluster"),
    }
    if not is_cancelled:
        if stop_reason == StopReason.REQUEUED:
            return Verdict(S.QUEUED, "requeued")
        if outcome == "timed_out" and TIME_LIMIT in requeue_on:
            natural[outcome] = Verdict(S.QUEUED, "time_limit")
        elif outcome in ENDED_BY_CODE and str(exit_code) in requeue_on:
            natural[outcome] = Verdict(S.QUEUED, "exit_code")
    if ended_before_notice and outcome in natural:
        return natural[outcome]
    if is_cancelled:
        return Verdict(S.CANCELLED, "cancelled_by_user")
    if stop_reason == StopReason.COST_CAP:
        return Verdict(S.FAILED, COST_CAP_REACHED)
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
        # The cluster preempted it by its own rules.
        return _again(is_requeueable, "preempted")
    if outcome == "unknown":
        return Verdict(S.HELD, "outcome_unknown")
    if outcome in FAULTS:
        return _again(is_requeueable and earlier < FAULTS_MAX, outcome)
    # It was stopped on the cluster, and not by the portal.
    return Verdict(S.CANCELLED if is_native else S.FAILED, "stopped_on_cluster")


def _again(is_requeueable: bool, reason: str) -> Verdict:
    return Verdict(S.QUEUED if is_requeueable else S.FAILED, reason)
