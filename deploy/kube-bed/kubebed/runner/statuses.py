"""The status of a Pod with one container, as a kubelet writes it. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kubebed.settings import HOST

Document = dict[str, Any]
_EPOCH = "1970-01-01T00:00:00Z"
_LOST = "The container could not be located when the pod was terminated"


def rfc3339(moment_s: int) -> str:
    """The second in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment_s))


def running(pod: Mapping[str, Any], container: Mapping[str, Any], address: str) -> Document:
    """The container runs."""
    now_s = int(container["started_s"])
    state = {"running": {"startedAt": rfc3339(now_s)}}
    return {
        "phase": "Running",
        "startTime": pod.get("status", {}).get("startTime") or rfc3339(now_s),
        "hostIP": HOST,
        "hostIPs": [{"ip": HOST}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": _conditions(now_s, None),
        "containerStatuses": [_container(pod, state, is_ready=True)],
    }


def ended(
    pod: Mapping[str, Any], container: Mapping[str, Any], address: str, cause: Mapping[str, str]
) -> Document:
    """The container is over; `cause` is {} or a reason and message of the whole Pod."""
    code = int(container["exit_code"])
    terminated: Document = {
        "exitCode": code,
        "reason": "Completed" if code == 0 else "Error",
        "startedAt": rfc3339(int(container["started_s"])),
        "finishedAt": rfc3339(int(container["ended_s"])),
        "containerID": _container_id(pod),
    }
    if container["start_error"]:
        # A container that was never started began, for its runtime, when time did.
        terminated |= {
            "reason": "StartError",
            "startedAt": _EPOCH,
            "message": "failed to create containerd task: failed to create shim task: OCI runtime "
            "create failed: runc create failed: unable to start container process: error during "
            f"container init: {container['start_error']}",
        }
    elif container["message"]:
        terminated["message"] = container["message"]
    phase = "Succeeded" if code == 0 and not cause else "Failed"
    return {
        "phase": phase,
        "startTime": pod.get("status", {}).get("startTime") or rfc3339(int(container["started_s"])),
        "hostIP": HOST,
        "hostIPs": [{"ip": HOST}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": _conditions(int(container["ended_s"]), phase),
        "containerStatuses": [_container(pod, {"terminated": terminated}, is_ready=False)],
        **cause,
    }


def waiting(pod: Mapping[str, Any], reason: str, message: str, now_s: int) -> Document:
    """The container cannot be started yet; `reason` is a kubelet's word."""
    state = {"waiting": {"reason": reason, "message": message}}
    status = _container(pod, state, is_ready=False)
    del status["containerID"]
    return {
        "phase": "Pending",
        "startTime": pod.get("status", {}).get("startTime") or rfc3339(now_s),
        "hostIP": HOST,
        "hostIPs": [{"ip": HOST}],
        "containerStatuses": [status],
    }


def refused(message: str, now_s: int) -> Document:
    """The Pod is one that this node does not run."""
    return {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": message,
        "startTime": rfc3339(now_s),
    }


def lost(pod: Mapping[str, Any], now_s: int) -> Document:
    """The Pod was started and nobody knows how it ended."""
    terminated = {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": _LOST,
        "startedAt": None,
        "finishedAt": None,
    }
    return {
        "phase": "Failed",
        "startTime": pod.get("status", {}).get("startTime") or rfc3339(now_s),
        "conditions": _conditions(now_s, "Failed"),
        "containerStatuses": [_container(pod, {"terminated": terminated}, is_ready=False)],
    }


def never_started(pod: Mapping[str, Any], now_s: int) -> Document:
    """The Pod was deleted before its container was started."""
    return {
        "phase": "Failed",
        "startTime": pod.get("status", {}).get("startTime") or rfc3339(now_s),
        "conditions": _conditions(now_s, "Failed"),
    }


def _container(pod: Mapping[str, Any], state: Document, *, is_ready: bool) -> Document:
    container = pod["spec"]["containers"][0]
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": container["image"],
        "containerID": _container_id(pod),
        "ready": is_ready,
        "started": is_ready,
        "restartCount": 0,
        "state": state,
    }


def _container_id(pod: Mapping[str, Any]) -> str:
    return f"bed://{pod['metadata']['uid']}"


def _conditions(now_s: int, phase: str | None) -> list[Document]:
    """All that a kubelet sets; `phase` is that of a Pod that is over."""
    now = rfc3339(now_s)
    why = {None: {}, "Succeeded": {"reason": "PodCompleted"}, "Failed": {"reason": "PodFailed"}}
    ready: Document = {"status": "True" if phase is None else "False", **why[phase]}
    initialized = {"reason": "PodCompleted"} if phase == "Succeeded" else {}
    return [
        {
            "type": "PodReadyToStartContainers",
            "status": "True" if phase is None else "False",
            "lastTransitionTime": now,
        },
        {"type": "Initialized", "status": "True", "lastTransitionTime": now, **initialized},
        {"type": "Ready", "lastTransitionTime": now, **ready},
        {"type": "ContainersReady", "lastTransitionTime": now, **ready},
    ]
