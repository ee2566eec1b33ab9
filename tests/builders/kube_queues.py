"""The objects of Kueue that the workloads of tests run under: queues with room for everything."""

from __future__ import annotations

from typing import Any

from connectors.kubernetes.admission.admission_check import KUEUE_VERSION, CheckKeeper
from connectors.kubernetes.client.api import KubeApi
from connectors.kubernetes.objects.naming import (
    ADMISSION_CHECK,
    BORROWED_CLASS,
    GUARANTEED_CLASS,
    LOCAL_QUEUE,
    TEAM,
    team_namespace,
)

KUEUE = f"/apis/{KUEUE_VERSION}"
ROOM = "1000k"


def a_flavor(admin: KubeApi, name: str, node_labels: dict[str, str]) -> None:
    """A kind of node."""
    _apply(
        admin, f"{KUEUE}/resourceflavors", "ResourceFlavor", name, spec={"nodeLabels": node_labels}
    )


def a_team(admin: KubeApi, path: str, *flavors: str, gpus: str = ROOM) -> str:
    """Namespace and queues of the team at `path`; returns the name of both."""
    CheckKeeper(admin).keep()
    name = team_namespace(path)
    for priority_class, value in ((GUARANTEED_CLASS, 1000), (BORROWED_CLASS, 100)):
        _apply(
            admin,
            f"{KUEUE}/workloadpriorityclasses",
            "WorkloadPriorityClass",
            priority_class,
            value=value,
        )
    labels = {TEAM: name, "pod-security.kubernetes.io/enforce": "restricted"}
    _apply(admin, "/api/v1/namespaces", "Namespace", name, version="v1", labels=labels)
    never = "Never"
    quotas = [
        {"name": "cpu", "nominalQuota": ROOM},
        {"name": "memory", "nominalQuota": "1Ei"},
        {"name": "nvidia.com/gpu", "nominalQuota": gpus},
    ]
    _apply(
        admin,
        f"{KUEUE}/clusterqueues",
        "ClusterQueue",
        name,
        spec={
            "namespaceSelector": {"matchLabels": {TEAM: name}},
            "preemption": {
                "reclaimWithinCohort": never,
                "withinClusterQueue": never,
                "borrowWithinCohort": {"policy": never},
            },
            "admissionChecksStrategy": {"admissionChecks": [{"name": ADMISSION_CHECK}]},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu", "memory", "nvidia.com/gpu"],
                    "flavors": [{"name": flavor, "resources": quotas} for flavor in flavors],
                }
            ],
        },
    )
    _apply(
        admin,
        f"{KUEUE}/namespaces/{name}/localqueues",
        "LocalQueue",
        LOCAL_QUEUE,
        spec={"clusterQueue": name},
    )
    return name


def _apply(
    admin: KubeApi,
    collection: str,
    kind: str,
    name: str,
    *,
    version: str = KUEUE_VERSION,
    labels: dict[str, str] | None = None,
    **rest: Any,
) -> None:
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = labels
    body = {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}
    admin.apply(f"{collection}/{name}", body, force=True)
