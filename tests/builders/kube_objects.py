"""Objects as a Kubernetes API server sends them, with defaults."""

from __future__ import annotations

from typing import Any

from connectors.kubernetes.objects import naming

CLUSTER_ID = "a-cluster"
KEY = "tg-1"
NAMESPACE = "tg-team"


def an_object(
    uid: str = "u1", *, version: int = 1, name: str | None = None, **metadata: Any
) -> dict[str, Any]:
    """Anything that has a uid and a version."""
    return {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {
            "uid": uid,
            "name": name or uid,
            "namespace": NAMESPACE,
            "resourceVersion": str(version),
            **metadata,
        },
    }


def a_kube_job(
    uid: str = "j1",
    *,
    key: str = KEY,
    is_suspended: bool = True,
    generation: int = 1,
    version: int = 1,
    annotations: dict[str, str] | None = None,
    conditions: dict[str, str] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """A Job of ours, as it was created."""
    job = an_object(uid, version=version, name=key, generation=generation, **metadata)
    job |= {"apiVersion": "batch/v1", "kind": "Job", "spec": {"suspend": is_suspended}}
    job["metadata"]["labels"] = naming.labels(CLUSTER_ID, "team")
    job["metadata"]["annotations"] = {
        naming.KEY: key,
        naming.ASKED: "2x8000 h100",
        **(annotations or {}),
    }
    job["status"] = {"conditions": _conditions(conditions or {})}
    return job


def a_kueue_workload(
    uid: str = "w1",
    *,
    owner: str = "j1",
    vote: str | None = "Pending",
    active: bool = True,
    version: int = 1,
    evictions: int = 0,
    annotations: dict[str, str] | None = None,
    conditions: dict[str, str] | None = None,
    pods: int = 2,
    gpus: str = "8",
    **metadata: Any,
) -> dict[str, Any]:
    """What Kueue makes of the object `owner`: its quota is reserved, and it waits for our vote."""
    said = {"QuotaReserved": "True"} if conditions is None else conditions
    workload = an_object(uid, version=version, **metadata)
    workload |= {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload"}
    workload["metadata"]["ownerReferences"] = [{"uid": owner, "controller": True}]
    workload["metadata"]["annotations"] = annotations or {}
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    pod_set = {"name": "main", "count": pods, "template": {"spec": {"containers": [container]}}}
    workload["spec"] = {"active": active, "podSets": [pod_set]}
    checks = [] if vote is None else [{"name": naming.ADMISSION_CHECK, "state": vote}]
    workload["status"] = {"conditions": _conditions(said), "admissionChecks": checks}
    if evictions:
        workload["status"]["schedulingStats"] = {"evictions": [{"count": evictions}]}
    return workload


def a_kube_pod(
    uid: str = "p1",
    *,
    key: str = KEY,
    phase: str = "Running",
    annotations: dict[str, str] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """A Pod of ours."""
    pod = an_object(uid, **metadata)
    pod |= {"apiVersion": "v1", "kind": "Pod", "status": {"phase": phase}}
    pod["metadata"]["labels"] = naming.labels(CLUSTER_ID, "team")
    pod["metadata"]["annotations"] = {naming.KEY: key, **(annotations or {})}
    return pod


def _conditions(said: dict[str, str]) -> list[dict[str, str]]:
    return [{"type": kind, "status": status} for kind, status in said.items()]
