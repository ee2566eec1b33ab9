"""What the words of Kueue and Kubernetes mean to us, in tables.

Kueue has two vocabularies for why a Workload waits: without its feature gate
UnadmittedWorkloadsObservability one reason, "Pending", stands for most, and the message says more.
"""

from __future__ import annotations

import json
import re
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

#: Characters of the cluster's own words that are kept.
RAW_LENGTH_MAX = 400
_SIGNAL_MAX = 64
_SIGNAL_BASE = 128
_SIGKILL = 9
_MESSAGE_BYTES_MAX = 4096


class WaitCode(StrEnum):
    """Why a workload does not run though it is on its cluster."""

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
    """Why it waits; one that `is_stuck` waits for what passes only when somebody changes something,
    or for what the arbiter saw free; one that `is_held_by_others` is held by somebody there."""

    code: WaitCode
    why: str
    is_stuck: bool = False
    is_held_by_others: bool = False

    def sentence(self, raw: str) -> str:
        """For people, with the cluster's own words."""
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

#: Reasons of condition QuotaReserved=False that say all.
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
#: What the message says where the reason is only Pending or Inadmissible. The first that is found
#: counts: of several Pod sets and flavors the message has one after the other, the gravest wins.
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

#: How a Workload ended that was evicted after it had been admitted.
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
#: Reasons of a Pod's own status when its node was to blame.
_NODE_REASONS = frozenset(
    {"NodeLost", "NodeShutdown", "Terminated", "Shutdown", "NodeAffinity", "Evicted", "Preempting"}
)


def wait_for_quota(reason: str, message: str) -> Wait:
    """Why Kueue has reserved no quota, by its reason and message in either vocabulary."""
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
    """Why a Workload with our vote is not admitted: by name, state and message of the checks that
    are not Ready. With the cluster's words."""
    raw = "; ".join(
        f"{name}: {state} {message}".strip() for name, (state, message) in sorted(checks.items())
    )
    return (_OTHER_CHECK, raw) if checks else (_EVALUATING, "")


def wait_of_pod(pod: Object) -> tuple[Wait, str] | None:
    """Why the Pod `pod` does not run, with the cluster's words; None where nothing is said.

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
    """Why an admitted workload has no Pods; `refusals` is what the cluster said of making them."""
    return _FORBIDDEN_PODS if refusals else _NO_PODS


def eviction(reason: str, message: str) -> tuple[Outcome, str]:
    """How a workload ended that Kueue evicted, and a sentence on it, "" where we did it."""
    outcome, why = _EVICTED.get(
        reason,
        (
            Outcome.STOPPED if reason.startswith("Deactivated") else Outcome.PREEMPTED,
            "Kueue evicted it",
        ),
    )
    return outcome, _ended_sentence(why, f"{reason}: {message}") if why else ""


def disruption(pod: Object) -> tuple[Outcome, str] | None:
    """Who ended the Pod `pod` from outside, as an outcome and a sentence; None where nobody did.

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
    """How one rank ended: its exit code (negative: by that signal) where it is known, whether at
    its time limit, and why its script did not start, else ""."""

    code: int | None
    is_timed_out: bool = False
    start_failure: str = ""


def rank_end(terminated: Object) -> RankEnd:
    """How the rank ended whose container's state is `terminated`: by the launcher's last words, or
    by the container's exit code. Raises Odd."""
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
        # A container that a signal ended is told as a shell would: 128 more.
        return RankEnd(_SIGNAL_BASE - exit_code)
    return RankEnd(exit_code if 0 <= exit_code <= 255 else None)


_JSON_OBJECT = re.compile(r"\{[^\n]*\}", re.ASCII)


def _last_words(message: str) -> RankEnd | None:
    """What the launcher wrote, None where it is none of its lines.

    A user's script can write there too, so that nothing is believed that could not be true.
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


#: Conditions that say that an object of some kind has ended, and how.
_FINISHED = (
    *(("Complete", Outcome.SUCCEEDED), ("Completed", Outcome.SUCCEEDED)),
    *(("Succeeded", Outcome.SUCCEEDED), ("Failed", Outcome.FAILED)),
)
#: Conditions of a Job that makes no Pods any more and waits for the end of those that it has.
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
    """That an object has ended by itself: how, in its cluster's words, and the condition."""

    outcome: Outcome
    reason: str
    message: str
    condition: Object


def finish_of(item: Object, workload: Object | None) -> Finish | None:
    """How the object `item` ended, by its own word or its Workload's; None where neither says so.

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
            return Finish(outcome_of_state, _word(item, path), "", {})
    if workload is not None and is_true(workload, "Finished"):
        found = conditions(workload)["Finished"]
        reason = text(found, "reason")
        outcome = Outcome.SUCCEEDED if reason == "Succeeded" else Outcome.FAILED
        return Finish(outcome, reason, text(found, "message"), found)
    return None


def unsaid_finish_of(item: Object) -> Finish | None:
    """How the Job `item` will end that only waits for its last Pods, None for others.

    Raises Odd.
    """
    are_true = true_conditions(item)
    for kind, outcome in _FINISHING:
        if kind in are_true:
            found = conditions(item)[kind]
            reason = text(found, "reason")
            # Its time is that of the decision, after which Pods still ran.
            return Finish(_refined(outcome, reason), reason, text(found, "message"), {})
    return None


def _word(item: Object, path: tuple[str, ...]) -> str:
    """The text at `path`, "" where kinds have something else there."""
    found: object = item
    for name in path:
        if not isinstance(found, Mapping):
            return ""
        found = found.get(name)
    return found if isinstance(found, str) else ""


def _refined(outcome: Outcome, reason: str) -> Outcome:
    return Outcome.TIMED_OUT if reason == "DeadlineExceeded" else outcome


def is_at_rest(item: Object) -> bool:
    """Whether the controller of the suspended object `item` makes no Pods any more.

    That its spec says so is not enough: the controller may not have seen it yet. Raises Odd.
    """
    are_true = true_conditions(item)
    # A Job that is about to fail makes none, and one suspended meanwhile stays so for ever.
    if any(kind in are_true for kind, _ in _FINISHING):
        return True
    if "Suspended" in conditions(item):
        return "Suspended" in are_true
    if any(kind in are_true for kind, _ in _FINISHED):
        return True
    return _word(item, ("status", "jobDeploymentStatus")) == "Suspended" or (
        bool(flag(item, "spec", "suspend")) and not part(item, "status")
    )


def is_suspended(item: Object) -> bool:
    """Whether the spec of `item`, of whatever kind, says that it is to have no Pods. Raises Odd."""
    return bool(flag(item, "spec", "suspend") or flag(item, "spec", "runPolicy", "suspend"))


def _ended_sentence(why: str, raw: str) -> str:
    return f"{why[:1].upper()}{why[1:]} ({printable(raw.strip(' :'), RAW_LENGTH_MAX)})."
