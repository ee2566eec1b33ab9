"""The meaning of Slurm's job states, in one table."""

from __future__ import annotations

import re

from connectors.errors import UnknownNativeState
from connectors.protocol import Outcome, WorkloadPhase
from connectors.slurm.batch import NOT_STARTED_SIGNAL, STOPPED_SIGNAL, TIMED_OUT_SIGNAL
from connectors.slurm.neutral import HistoryJob, SlurmJob

#: The signal that slurmd reports for a batch script that it could not launch.
_LAUNCH_FAILED_SIGNAL = 53

_ENDED: dict[str, Outcome] = {
    "COMPLETED": Outcome.SUCCEEDED,
    "FAILED": Outcome.FAILED,
    "OUT_OF_MEMORY": Outcome.FAILED,
    "CANCELLED": Outcome.STOPPED,
    # A sister of the job runs on another cluster of a federation.
    "REVOKED": Outcome.STOPPED,
    "TIMEOUT": Outcome.TIMED_OUT,
    "DEADLINE": Outcome.TIMED_OUT,
    "NODE_FAIL": Outcome.NODE_FAILED,
    "BOOT_FAIL": Outcome.NODE_FAILED,
    "PREEMPTED": Outcome.PREEMPTED,
    "LAUNCH_FAILED": Outcome.START_FAILED,
    "RECONFIG_FAIL": Outcome.START_FAILED,
}
_ALIVE: dict[str, WorkloadPhase] = {
    "PENDING": WorkloadPhase.STARTING,
    "CONFIGURING": WorkloadPhase.STARTING,
    "POWER_UP_NODE": WorkloadPhase.STARTING,
    "RUNNING": WorkloadPhase.RUNNING,
    # These keep their GPUs: suspended by an administrator, stopped by a signal, being resized.
    "SUSPENDED": WorkloadPhase.RUNNING,
    "STOPPED": WorkloadPhase.RUNNING,
    "SIGNALING": WorkloadPhase.RUNNING,
    "RESIZING": WorkloadPhase.RUNNING,
    "STAGE_OUT": WorkloadPhase.STOPPING,
    "REQUEUED": WorkloadPhase.STARTING,
    "REQUEUE_FED": WorkloadPhase.STARTING,
    "REQUEUE_HOLD": WorkloadPhase.HELD,
    "SPECIAL_EXIT": WorkloadPhase.HELD,
    "RESV_DEL_HOLD": WorkloadPhase.HELD,
}
#: Flags that override the base state; the first one present counts.
_TELLING_FLAGS = (
    *("COMPLETING", "STAGE_OUT", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REQUEUED"),
    *("REQUEUE_FED", "CONFIGURING", "POWER_UP_NODE"),
)
_SAID_OF_ENDS = {
    "OUT_OF_MEMORY": "The cluster ended it: it used more memory than it had.",
    "REVOKED": "Another cluster of the federation runs it.",
    "DEADLINE": "The cluster ended it at its deadline.",
    "NODE_FAIL": "One of its nodes failed.",
    "BOOT_FAIL": "One of its nodes did not boot.",
    "PREEMPTED": "The cluster itself preempted it.",
}

#: Why a job waits, in words for people. The longest entry that a reason begins with counts.
_WAITS: dict[str, str] = {
    "Resources": "the nodes or GPUs that it needs are in use",
    "Priority": "jobs of a higher priority are before it",
    "PartitionNodeLimit": "it asks for more nodes than its partition has",
    "PartitionTimeLimit": "its time limit is longer than its partition allows",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition is inactive",
    "PartitionConfig": "its partition is not set up for what it asks for",
    "AccountingPolicy": "the cluster's accounting does not let it start",
    "BadConstraints": "no node has the features that it asks for",
    "InvalidAccount": "its account does not exist on the cluster",
    "InvalidQOS": "its QoS does not exist on the cluster or is not allowed to its account",
    "AccountNotAllowed": "its account may not use the partition",
    "QOSNotAllowed": "its QoS may not be used in the partition",
    "RequiresReservation": "its partition is for reservations only",
    "ReqResv": "its partition is for reservations only",
    "MaxMemPerLimit": "it asks for more memory than the cluster gives a job",
    "Assoc": "a limit of its account or user in Slurm keeps it from starting",
    "MaxGRESPerAccount": "a limit of its account in Slurm keeps it from starting",
    "QOS": "a limit of its QoS in Slurm keeps it from starting",
    "DependencyNeverSatisfied": "it depends on a job that will never fulfil the condition",
    "JobArrayTaskLimit": "its array may not have more running tasks",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved",
    "Reservation": "it waits for a reservation",
    "BurstBufferResources": "it waits for a burst buffer",
    "Licenses": "it waits for a license",
    "JobHoldMaxRequeue": "it was requeued too often",
}
#: Reasons that last until somebody changes something on the cluster.
_STUCK = (
    *("PartitionDown", "PartitionInactive", "PartitionConfig", "AccountingPolicy"),
    *("DependencyNeverSatisfied", "JobHoldMaxRequeue"),
)
#: Reasons for which this job can never start there. Limits for one job or node are others.
_NEVER = (
    *("PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints", "InvalidAccount"),
    *("InvalidQOS", "AccountNotAllowed", "QOSNotAllowed", "RequiresReservation", "ReqResv"),
    *("MaxMemPerLimit", "AssociationTimeLimit", "QOSTimeLimit"),
)
_OF_ONE_JOB = re.compile(r"(Assoc|QOS)Max\w*Per(Job|Node)(Limit)?|QOSMin\w*", re.ASCII)
#: GPU limits of an account or a QoS. They come from the quotas, in which the arbiter found the job
#: to fit. So the quota was not pushed yet, or an unknown job uses these GPUs, perhaps for days.
_OF_QUOTA = re.compile(r"(Assoc|QOS)GrpGRES\w*", re.ASCII)
_REASON_LENGTH_MAX = 200


def phase_of(job: SlurmJob) -> WorkloadPhase:
    """Return the phase of `job`. ENDED only when its nodes are free again.

    Raises UnknownNativeState for a state that is not in the table.
    """
    for flag in _TELLING_FLAGS:
        if flag == "COMPLETING" and flag in job.state_flags:
            return WorkloadPhase.STOPPING
        if flag in job.state_flags:
            return _ALIVE[flag]
    if job.state in _ENDED:
        return WorkloadPhase.ENDED
    if job.state == "PENDING" and job.is_held:
        return WorkloadPhase.HELD
    phase = _ALIVE.get(job.state)
    if phase is None:
        raise UnknownNativeState(
            f"Slurm says that job {job.job_id} is {job.state[:60]}, which is unknown here; "
            "look at it with scontrol"
        )
    return phase


def outcome_of(job: SlurmJob | HistoryJob) -> Outcome:
    """Return how `job`, which has ended, ended. Raises UnknownNativeState."""
    if job.state == "FAILED":
        if job.exit_signal == TIMED_OUT_SIGNAL:
            return Outcome.TIMED_OUT
        if job.exit_signal == STOPPED_SIGNAL:
            return Outcome.STOPPED
        if job.exit_signal in (NOT_STARTED_SIGNAL, _LAUNCH_FAILED_SIGNAL):
            return Outcome.START_FAILED
    if "LAUNCH_FAILED" in job.state_flags or "RECONFIG_FAIL" in job.state_flags:
        return Outcome.START_FAILED
    if job.state not in _ENDED:
        raise UnknownNativeState(f"Slurm says that job {job.job_id} ended as {job.state[:60]}")
    return _ENDED[job.state]


def native_state(state: str, flags: frozenset[str]) -> str:
    """Return the state in Slurm's words: "CANCELLED+COMPLETING"."""
    return "+".join((state, *sorted(flags)))[:100]


def remark(job: SlurmJob) -> str:
    """Return a remark for people about `job` beyond its phase, or ""."""
    if job.state == "SUSPENDED":
        return "The cluster suspended it; it keeps its GPUs."
    if job.state in _SAID_OF_ENDS:
        return _SAID_OF_ENDS[job.state]
    if job.state != "PENDING":
        return ""
    if is_held_by_others(job):
        return (
            "Somebody who administers the cluster holds it there (JobHeldAdmin); it starts when "
            "they release it."
        )
    if job.is_held and not never_starts(job):
        return "The cluster holds it until it is sure not to forget it; then it is released."
    if job.reason in ("", "None"):
        return ""
    reason = "".join(one if one.isprintable() else "?" for one in job.reason[:_REASON_LENGTH_MAX])
    found = [beginning for beginning in _WAITS if reason.startswith(beginning)]
    if not found:
        return f"It waits in the cluster's own queue ({reason})."
    why = f"{_WAITS[max(found, key=len)]} ({reason})"
    if is_stuck(job):
        return f"The cluster does not start it: {why}."
    return f"It waits in the cluster's own queue: {why}."


def is_held_by_others(job: SlurmJob) -> bool:
    """Return whether a Slurm administrator holds `job`. Our own hold counts as its user's."""
    return job.state == "PENDING" and job.is_held and job.reason.startswith("JobHeldAdmin")


def never_starts(job: SlurmJob) -> bool:
    """Return whether the cluster would never start `job` as it was submitted.

    The cluster holds some of these itself (`BadConstraints`): releasing them has no effect.
    """
    return job.state == "PENDING" and (
        job.reason.startswith(_NEVER) or _OF_ONE_JOB.fullmatch(job.reason) is not None
    )


def is_stuck(job: SlurmJob) -> bool:
    """Return whether `job` waits until somebody changes something on the cluster.

    A job also counts as stuck when it waits for a quota that the arbiter considers free.
    """
    return (
        is_held_by_others(job)
        or never_starts(job)
        or (
            job.state == "PENDING"
            and not job.is_held
            and (job.reason.startswith(_STUCK) or _OF_QUOTA.fullmatch(job.reason) is not None)
        )
    )
