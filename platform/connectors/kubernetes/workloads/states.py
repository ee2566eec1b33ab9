"""The meaning of Kueue's and Kubernetes' states and reasons, in tables.

Kueue has two vocabularies for why a Workload waits. Without its feature gate
UnadmittedWorkloadsObservability, the reason "Pending" stands for most of them, and the message says
more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from connectors.kubernetes.objects.reading import (
    Object,
    Odd,
    conditions,
    flag,
    is_true,
    number,
    part,
    parts,
    printable,
    text,
    true_conditions,
)
from connectors.protocol import Outcome

#: The most characters of the cluster's own words.
RAW_LENGTH_MAX = 400
_SIGNAL_MAX = 64
_SIGNAL_BASE = 128
_SIGKILL = 9
_MESSAGE_BYTES_MAX = 4096


class WaitCode(StrEnum):
    """The reason why a workload on its cluster does not run."""

    EVALUATING = "evaluating"
    QUOTA = "quota"
    QUOTA_TOO_SMALL = "quota_too_small"
    NO_FLAVOR = "no_flavor"
    TOPOLOGY = "topology"
    PREEMPTING = "preempting"
    MISCONFIGURED = "misconfigured"
    QUEUE_STOPPED = "queue_stopped"
    GATED = "gated"
    CHANGED = "changed"
    ON_HOLD = "on_hold"
    OTHER_CHECK = "other_check"
    WAITS_FOR_OTHERS = "waits_for_others"
    UNSCHEDULABLE = "unschedulable"
    IMAGE = "image"
    CONTAINER = "container"
    NO_PODS = "no_pods"
    FORBIDDEN_PODS = "forbidden_pods"
    BEING_PREPARED = "being_prepared"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Wait:
    """The reason why it waits, with a text.

    A wait that `is_stuck` lasts until somebody changes something, or contradicts the arbiter's view
    of free capacity. A wait that `is_held_by_others` is caused by a person on the cluster.
    """

    code: WaitCode
    why: str
    is_stuck: bool = False
    is_held_by_others: bool = False

    def sentence(self, raw: str) -> str:
        """Return a sentence for people, with the cluster's own words."""
        said = "The cluster does not start it" if self.is_stuck else "It waits on the cluster"
        own_words = printable(raw.strip(), RAW_LENGTH_MAX)
        return f"{said}: {self.why} ({own_words})." if own_words else f"{said}: {self.why}."


_EVALUATING = Wait(WaitCode.EVALUATING, "Kueue has not looked at it yet")
_QUOTA = Wait(WaitCode.QUOTA, "the quota of its queue in Kueue is used up", is_stuck=True)
_QUOTA_TOO_SMALL = Wait(
    WaitCode.QUOTA_TOO_SMALL,
    "it asks for more than its queue in Kueue may ever have",
    is_stuck=True,
)
_NO_FLAVOR = Wait(
    WaitCode.NO_FLAVOR, "no flavor of its queue in Kueue has the nodes that it needs", is_stuck=True
)
_TOPOLOGY = Wait(
    WaitCode.TOPOLOGY, "its ranks do not fit into one part of the topology now", is_stuck=True
)
_PREEMPTING = Wait(WaitCode.PREEMPTING, "Kueue waits for what it preempted to end")
_MISCONFIGURED = Wait(
    WaitCode.MISCONFIGURED, "its queue in Kueue is missing or set up wrongly", is_stuck=True
)
_QUEUE_STOPPED = Wait(
    WaitCode.QUEUE_STOPPED, "its queue in Kueue is stopped or inactive", is_stuck=True
)
_GATED = Wait(
    WaitCode.GATED,
    "somebody gated its admission on the cluster",
    is_stuck=True,
    is_held_by_others=True,
)
_ON_HOLD = Wait(
    WaitCode.ON_HOLD, "somebody holds it on the cluster", is_stuck=True, is_held_by_others=True
)
_PODS_OF_OTHERS = Wait(
    WaitCode.WAITS_FOR_OTHERS, "Kueue waits until the Pods of what it admitted before are ready"
)

#: Reasons of condition QuotaReserved=False that are specific.
_RESERVATION_REASONS: Mapping[str, Wait] = {
    "PendingEvaluation": _EVALUATING,
    "WaitingForQuota": _QUOTA,
    "ExceedsMaxQuota": _QUOTA_TOO_SMALL,
    "NoMatchingFlavor": _NO_FLAVOR,
    "TopologyPlacementFailed": _TOPOLOGY,
    "WaitingForPreemptedWorkloads": _PREEMPTING,
    "WaitingForPodsReady": _PODS_OF_OTHERS,
    "Waiting": _PODS_OF_OTHERS,
    "Misconfigured": _MISCONFIGURED,
    "Suspended": _QUEUE_STOPPED,
    "AdmissionGated": _GATED,
    "OnHold": _ON_HOLD,
}
#: Parts of the message, for the unspecific reasons Pending and Inadmissible. The first entry that
#: is found counts. The message lists several Pod sets and flavors, so the gravest entries come
#: first.
_RESERVATION_WORDS: tuple[tuple[str, Wait], ...] = (
    ("Pending the preemption of", _PREEMPTING),
    ("doesn't exist", _MISCONFIGURED),
    ("not found", _MISCONFIGURED),
    ("namespace doesn't match", _MISCONFIGURED),
    ("is inactive", _QUEUE_STOPPED),
    ("doesn't match node affinity", _NO_FLAVOR),
    ("untolerated taint", _NO_FLAVOR),
    ("does not provide resource", _NO_FLAVOR),
    ("unavailable in ClusterQueue", _NO_FLAVOR),
    ("maximum capacity", _QUOTA_TOO_SMALL),
    ("topology", _TOPOLOGY),
    ("insufficient unused quota", _QUOTA),
    ("insufficient quota", _QUOTA_TOO_SMALL),
)

_IMAGE = Wait(WaitCode.IMAGE, "its image cannot be drawn", is_stuck=True)
_CONTAINER = Wait(WaitCode.CONTAINER, "its container cannot be made", is_stuck=True)
_BEING_PREPARED = Wait(WaitCode.BEING_PREPARED, "its Pods are being prepared on their nodes")
#: Reasons for which a container waits.
_CONTAINER_REASONS: Mapping[str, Wait] = {
    "ErrImagePull": _IMAGE,
    "ImagePullBackOff": _IMAGE,
    "ErrImageNeverPull": _IMAGE,
    "ImageInspectError": _IMAGE,
    "RegistryUnavailable": _IMAGE,
    "SignatureValidationFailed": _IMAGE,
    "InvalidImageName": _IMAGE,
    "CreateContainerConfigError": _CONTAINER,
    "CreateContainerError": _CONTAINER,
    "RunContainerError": _CONTAINER,
    "CrashLoopBackOff": _CONTAINER,
    "ContainerCreating": _BEING_PREPARED,
    "PodInitializing": _BEING_PREPARED,
}
_UNSCHEDULABLE = Wait(WaitCode.UNSCHEDULABLE, "no node can take one of its Pods now", is_stuck=True)
_POD_GATED = Wait(WaitCode.EVALUATING, "its Pods are being placed")
_NO_PODS = Wait(WaitCode.NO_PODS, "it was admitted and no Pod of it was made", is_stuck=True)
_FORBIDDEN_PODS = Wait(
    WaitCode.FORBIDDEN_PODS, "the cluster refuses to make its Pods", is_stuck=True
)
_OTHER_CHECK = Wait(WaitCode.OTHER_CHECK, "another admission check of its queue has not agreed")
_UNKNOWN = Wait(WaitCode.UNKNOWN, "Kueue does not admit it")

#: The outcome of a Workload that was evicted after its admission.
_EVICTED: Mapping[str, tuple[Outcome, str]] = {
    "Preempted": (Outcome.PREEMPTED, "Kueue itself preempted it"),
    "FlavorMigration": (Outcome.PREEMPTED, "Kueue moved it to another flavor"),
    "ClusterQueueStopped": (Outcome.PREEMPTED, "somebody stopped its ClusterQueue in Kueue"),
    "LocalQueueStopped": (Outcome.PREEMPTED, "somebody stopped its LocalQueue in Kueue"),
    "NodeFailures": (Outcome.NODE_FAILED, "one of its nodes failed"),
    "PodsReadyTimeout": (Outcome.START_FAILED, "its Pods were not ready in Kueue's time"),
    "AdmissionCheck": (Outcome.PREEMPTED, "an admission check of its queue took it back"),
    "EvictedOnManagerCluster": (Outcome.PREEMPTED, "the manager of its cluster took it back"),
    "Deactivated": (Outcome.STOPPED, ""),
    "DeactivatedDueToAdmissionCheck": (
        Outcome.STOPPED,
        "an admission check of its queue rejected it",
    ),
    "DeactivatedDueToRequeuingLimitExceeded": (
        Outcome.START_FAILED,
        "Kueue gave up starting it",
    ),
    "DeactivatedDueToMaximumExecutionTimeExceeded": (
        Outcome.TIMED_OUT,
        "it reached the time limit that Kueue was given",
    ),
}
#: Reasons of condition DisruptionTarget of a Pod.
_DISRUPTED: Mapping[str, tuple[Outcome, str]] = {
    "PreemptionByScheduler": (
        Outcome.PREEMPTED,
        "the scheduler removed a Pod for one of higher priority",
    ),
    "DeletionByTaintManager": (Outcome.NODE_FAILED, "the node of one of its Pods was tainted"),
    "EvictionByEvictionAPI": (Outcome.PREEMPTED, "somebody evicted one of its Pods"),
    "DeletionByPodGC": (Outcome.NODE_FAILED, "the node of one of its Pods is gone"),
    "TerminationByKubelet": (
        Outcome.NODE_FAILED,
        "the node of one of its Pods ended it (pressure or shutdown)",
    ),
}
#: Reasons in a Pod's own status for which its node is to blame.
_NODE_REASONS = frozenset(
    {"NodeLost", "NodeShutdown", "Terminated", "Shutdown", "NodeAffinity", "Evicted", "Preempting"}
)


def wait_for_quota(reason: str, message: str) -> Wait:
    """Return why Kueue has reserved no quota, by its reason and message in either vocabulary."""
    known = _RESERVATION_REASONS.get(reason)
    if known is not None:
        return known
    for words, wait in _RESERVATION_WORDS:
        if words in message:
            return wait
    if reason == "Inadmissible":
        return _MISCONFIGURED
    return _EVALUATING if reason in ("Pending", "") else _UNKNOWN


def wait_for_checks(checks: Mapping[str, tuple[str, str]]) -> tuple[Wait, str]:
    """Return why a Workload with our vote is not admitted, with the cluster's words.

    `checks` are state and message of the checks that are not Ready, by name.
    """
    raw = "; ".join(
        f"{name}: {state} {message}".strip() for name, (state, message) in sorted(checks.items())
    )
    return (_OTHER_CHECK, raw) if checks else (_EVALUATING, "")


def wait_of_pod(pod: Object) -> tuple[Wait, str] | None:
    """Return why the Pod `pod` does not run, with the cluster's words; None without a reason.

    Raises Odd.
    """
    for status in (
        *parts(pod, "status", "initContainerStatuses"),
        *parts(pod, "status", "containerStatuses"),
    ):
        reason = text(status, "state", "waiting", "reason")
        if reason:
            message = text(status, "state", "waiting", "message")
            wait = _CONTAINER_REASONS.get(reason)
            if wait is None:
                wait = Wait(WaitCode.UNKNOWN, "its container does not start")
            return wait, f"{reason}: {message}" if message else reason
    for condition in parts(pod, "status", "conditions"):
        if text(condition, "type") == "PodScheduled" and text(condition, "status") == "False":
            reason = text(condition, "reason")
            raw = f"{reason}: {text(condition, 'message')}"
            if reason == "SchedulingGated":
                return _POD_GATED, raw
            return _UNSCHEDULABLE, raw
    return None


def wait_without_pods(refusals: str) -> Wait:
    """Return why an admitted workload has no Pods; `refusals` is the cluster's own text."""
    return _FORBIDDEN_PODS if refusals else _NO_PODS


def eviction(reason: str, message: str) -> tuple[Outcome, str]:
    """Return how a workload ended that Kueue evicted, and a sentence; "" where we did it."""
    outcome, why = _EVICTED.get(
        reason,
        (
            Outcome.STOPPED if reason.startswith("Deactivated") else Outcome.PREEMPTED,
            "Kueue evicted it",
        ),
    )
    return outcome, _ended_sentence(why, f"{reason}: {message}") if why else ""


def disruption(pod: Object) -> tuple[Outcome, str] | None:
    """Return the outcome and a sentence for a Pod ended from outside; None for others.

    Raises Odd.
    """
    for condition in parts(pod, "status", "conditions"):
        if text(condition, "type") == "DisruptionTarget" and text(condition, "status") == "True":
            reason = text(condition, "reason")
            outcome, why = _DISRUPTED.get(
                reason, (Outcome.NODE_FAILED, "the cluster ended one of its Pods")
            )
            return outcome, _ended_sentence(why, f"{reason}: {text(condition, 'message')}")
    reason = text(pod, "status", "reason")
    if reason in _NODE_REASONS and text(pod, "status", "phase") in ("Failed", "Unknown"):
        return Outcome.NODE_FAILED, _ended_sentence(
            "the node of one of its Pods ended it", f"{reason}: {text(pod, 'status', 'message')}"
        )
    return None


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How one rank ended.

    `code` is its exit code where known; a negative code is a signal. `is_timed_out` says that it
    ended at its time limit. `start_failure` is why its script did not start, else "".
    """

    code: int | None
    is_timed_out: bool = False
    start_failure: str = ""


def rank_end(terminated: Object) -> RankEnd:
    """Return how the rank ended whose container's state is `terminated`. Raises Odd.

    The launcher's last message decides, else the container's exit code.
    """
    exit_code = number(terminated, "exitCode")
    reason = text(terminated, "reason")
    said = _last_words(text(terminated, "message"))
    if said is not None:
        return said
    if reason in ("StartError", "ContainerCannotRun"):
        why = text(terminated, "message") or f"its container did not start ({reason})"
        return RankEnd(None, start_failure=printable(why, RAW_LENGTH_MAX))
    if exit_code is None:
        signal = number(terminated, "signal")
        return RankEnd(-signal if signal is not None and 0 < signal <= _SIGNAL_MAX else None)
    if _SIGNAL_BASE < exit_code <= _SIGNAL_BASE + _SIGNAL_MAX:
        # The code of a container that a signal ended is 128 higher, as in a shell.
        return RankEnd(_SIGNAL_BASE - exit_code)
    return RankEnd(exit_code if 0 <= exit_code <= 255 else None)


def _last_words(message: str) -> RankEnd | None:
    """Return the launcher's final message; None if there is none.

    A user's script can write there too, so impossible values are ignored.
    """
    line = message.strip().rpartition("\n")[2].strip()[:_MESSAGE_BYTES_MAX]
    if not line.startswith("{"):
        return None
    try:
        said = json.loads(line)
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    try:
        failure = text(said, "start_failed")
        is_timed_out = flag(said, "timed_out") or False
        code, signal = number(said, "exit"), number(said, "signal")
    except Odd:
        return None
    if failure:
        return RankEnd(None, start_failure=printable(failure, RAW_LENGTH_MAX))
    if signal is not None and 0 < signal <= _SIGNAL_MAX:
        return RankEnd(-signal, is_timed_out)
    if code is not None and 0 <= code <= 255:
        return RankEnd(code, is_timed_out)
    return RankEnd(-_SIGKILL, is_timed_out=True) if is_timed_out else None


#: Conditions of the end of an object, by outcome.
_FINISHED = (
    *(("Complete", Outcome.SUCCEEDED), ("Completed", Outcome.SUCCEEDED)),
    *(("Succeeded", Outcome.SUCCEEDED), ("Failed", Outcome.FAILED)),
)
#: Conditions of a Job that creates no more Pods and waits for the end of its last ones.
_FINISHING = (("SuccessCriteriaMet", Outcome.SUCCEEDED), ("FailureTarget", Outcome.FAILED))
#: The same where an object has a state instead of conditions: RayJob, Volcano's Job.
_FINISHED_STATES: Mapping[str, Outcome] = {
    "SUCCEEDED": Outcome.SUCCEEDED,
    "Complete": Outcome.SUCCEEDED,
    "Completed": Outcome.SUCCEEDED,
    "FAILED": Outcome.FAILED,
    "STOPPED": Outcome.STOPPED,
    "Failed": Outcome.FAILED,
    "ValidationFailed": Outcome.START_FAILED,
    "Aborted": Outcome.STOPPED,
    "Terminated": Outcome.STOPPED,
}


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of an object by itself: outcome, the cluster's words, and the condition."""

    outcome: Outcome
    reason: str
    message: str
    condition: Object


def finish_of(item: Object, workload: Object | None) -> Finish | None:
    """Return how the object `item` ended, by its own status or its Workload's; None if unknown.

    Raises Odd.
    """
    are_true = true_conditions(item)
    for kind, outcome in _FINISHED:
        if kind in are_true:
            found = conditions(item)[kind]
            reason = text(found, "reason")
            return Finish(_refined(outcome, reason), reason, text(found, "message"), found)
    for path in (("status", "jobDeploymentStatus"), ("status", "state", "phase")):
        outcome_of_state = _FINISHED_STATES.get(_word(item, path))
        if outcome_of_state is not None:
            outcome = _refined(outcome_of_state, _word(item, ("status", "reason")))
            return Finish(outcome, _word(item, path), "", {})
    if workload is not None and is_true(workload, "Finished"):
        found = conditions(workload)["Finished"]
        reason = text(found, "reason")
        outcome = Outcome.SUCCEEDED if reason == "Succeeded" else Outcome.FAILED
        return Finish(outcome, reason, text(found, "message"), found)
    return None


def unsaid_finish_of(item: Object) -> Finish | None:
    """Return how a Job will end that only waits for its last Pods; None for others.

    Raises Odd.
    """
    are_true = true_conditions(item)
    for kind, outcome in _FINISHING:
        if kind in are_true:
            found = conditions(item)[kind]
            reason = text(found, "reason")
            # The condition's time is left out: it is the decision, after which Pods still ran.
            return Finish(_refined(outcome, reason), reason, text(found, "message"), {})
    return None


def _word(item: Object, path: tuple[str, ...]) -> str:
    """Return the text at `path`; "" where a kind has another type there."""
    found: object = item
    for name in path:
        if not isinstance(found, Mapping):
            return ""
        found = found.get(name)
    return found if isinstance(found, str) else ""


def _refined(outcome: Outcome, reason: str) -> Outcome:
    return Outcome.TIMED_OUT if reason == "DeadlineExceeded" else outcome


def is_at_rest(item: Object) -> bool:
    """Return whether the controller of the suspended object `item` creates no more Pods.

    Its spec is not sufficient: the controller may not have seen it yet. Raises Odd.
    """
    are_true = true_conditions(item)
    # A Job that is about to fail creates none, and if it is suspended then, it stays so for ever.
    if any(kind in are_true for kind, _ in _FINISHING):
        return True
    if "Suspended" in conditions(item):
        return "Suspended" in are_true
    if any(kind in are_true for kind, _ in _FINISHED):
        return True
    if _word(item, ("status", "state")) == "suspended":
        # A RayCluster.
        return True
    return _word(item, ("status", "jobDeploymentStatus")) == "Suspended" or (
        bool(flag(item, "spec", "suspend")) and not part(item, "status")
    )


def is_suspended(item: Object) -> bool:
    """Return whether the spec of `item`, of any kind, asks for no Pods. Raises Odd."""
    return bool(flag(item, "spec", "suspend") or flag(item, "spec", "runPolicy", "suspend"))


def _ended_sentence(why: str, raw: str) -> str:
    return f"{why[:1].upper()}{why[1:]} ({printable(raw.strip(' :'), RAW_LENGTH_MAX)})."
