"""What a real Kubernetes said (tests/recordings/kubernetes), and small objects like its."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.cluster_state import KubeState
from connectors.kubernetes.options.options import parse_options
from connectors.kubernetes.options.pools import KubernetesPool
from connectors.kubernetes.workloads.observing import listing_of
from connectors.protocol import Listing, Observation

CLUSTER_ID = "a-cluster"
NAMESPACE = "tg-0123456789abcdef"
PRODUCT_LABEL = "nvidia.com/gpu.product"
H100 = "NVIDIA-H100-80GB-HBM3"
_RECORDING = (
    Path(__file__).resolve().parent.parent / "recordings/kubernetes/1.36-kueue-0.19.json.gz"
)

Json = dict[str, Any]
#: The object, Workload and Pods of one workload.
Gang = tuple[Json, Json, list[Json]]


def pools_of(**pools: Mapping[str, Any]) -> Mapping[str, KubernetesPool]:
    """Pools as the options have them; h100 alone by default."""
    settings = pools or {"h100": {"node_selector": {PRODUCT_LABEL: H100}}}
    return parse_options({"kubeconfig": "/k", "pools": settings}).pools


@cache
def _recorded() -> Json:
    found: Json = json.loads(gzip.decompress(_RECORDING.read_bytes()))
    return found


def recorded(moment: str) -> KubeState:
    """The cluster of the recording at `moment`; nothing of it is shared."""
    said = copy.deepcopy(_recorded()[moment])
    return KubeState(
        objects=tuple(said["objects"]),
        workloads=tuple(said["workloads"]),
        pods=tuple(said["pods"]),
        nodes=tuple(said["nodes"]),
        observed_at=said["observed_at"],
    )


def listed(state: KubeState) -> Listing:
    """What is told of it, as cluster `CLUSTER_ID` with pool h100."""
    return listing_of(state, cluster_id=CLUSTER_ID, pools=pools_of())


def only(state: KubeState) -> Observation:
    """The one workload of ours that is told of."""
    listing = listed(state)
    assert listing.unread == ()
    (observation,) = listing.observations.values()
    return observation


def of_one(state: KubeState, name: str) -> Gang:
    """The object, Workload and Pods of the workload `name` of a recording, as its own dicts."""
    item = next(one for one in state.objects if one["metadata"]["name"] == name)
    uid = item["metadata"]["uid"]
    workload = next(
        one
        for one in state.workloads
        if any(owner["uid"] == uid for owner in one["metadata"].get("ownerReferences", ()))
    )
    pods = [
        one
        for one in state.pods
        if any(owner["uid"] == uid for owner in one["metadata"].get("ownerReferences", ()))
    ]
    return dict(item), dict(workload), [dict(pod) for pod in pods]


def alone(
    item: Json | None,
    workload: Json | None,
    pods: list[Json],
    *,
    nodes: tuple[Json, ...] = (),
    gone: list[Json] | None = None,
    events: list[Json] | None = None,
    gone_objects: tuple[Json, ...] = (),
    observed_at: int = 1_795_294_500,
) -> KubeState:
    """A cluster with one workload."""
    return KubeState(
        objects=() if item is None else (item,),
        workloads=() if workload is None else (workload,),
        pods=tuple(pods),
        nodes=nodes,
        observed_at=observed_at,
        gone_pods=tuple(gone or ()),
        events=tuple(events or ()),
        gone_objects=gone_objects,
    )


def ended(
    pod: Json, exit_code: int, message: str = "", *, at: str = "2026-11-21T20:53:10Z"
) -> Json:
    """`pod` after its container ended."""
    done = copy.deepcopy(pod)
    done["status"]["phase"] = "Failed" if exit_code else "Succeeded"
    terminated = {"exitCode": exit_code, "startedAt": "2026-11-21T20:52:58Z", "finishedAt": at}
    if message:
        terminated["message"] = message
    done["status"]["containerStatuses"][0]["state"] = {"terminated": terminated}
    return done


def finished(item: Json, kind: str, reason: str, message: str = "") -> Json:
    """The Job `item` after its end."""
    done = copy.deepcopy(item)
    done["status"]["conditions"] = [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-11-21T20:53:12Z",
        }
    ]
    return done


def a_node(
    name: str = "n1",
    *,
    gpus: str = "8",
    labels: Mapping[str, str] | None = None,
    ready: str = "True",
    unschedulable: bool = False,
    taints: tuple[Mapping[str, str], ...] = (),
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """A node, of pool h100 by default."""
    return {
        "metadata": {
            "name": name,
            "labels": {PRODUCT_LABEL: H100} if labels is None else dict(labels),
            "annotations": dict(annotations or {}),
        },
        "spec": {"unschedulable": unschedulable, "taints": [dict(one) for one in taints]},
        "status": {
            "capacity": {"nvidia.com/gpu": gpus},
            "allocatable": {"nvidia.com/gpu": gpus},
            "conditions": [{"type": "Ready", "status": ready, "message": "kubelet is down"}],
        },
    }


OUR_LABELS = {
    naming.ATTEMPT: "true",
    naming.CLUSTER: naming.cluster_label(CLUSTER_ID),
    naming.ROLE: naming.ROLE_RANK,
}
