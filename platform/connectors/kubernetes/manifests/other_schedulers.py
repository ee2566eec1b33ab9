"""A workload for Volcano, KAI or YuniKorn: a suspended Job, and its gang.

The Job's own `suspend` holds it: before its release no Pod exists, and suspending it again ends its
Pods. A Job of Volcano's own kind has no such field.
"""

from __future__ import annotations

from typing import Any

from connectors.kubernetes.manifests.job import job
from connectors.kubernetes.manifests.pod_template import (
    metadata,
    pool_of,
    queue_name,
    requests_of,
    topology_of,
    uniform_mgpu,
)
from connectors.kubernetes.objects.resources import KAI_POD_GROUP, VOLCANO_POD_GROUP
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.protocol import Workload

#: The annotation that keeps KAI from creating a gang of its own for a Job.
_KAI_OWN_GROUP = {"kai.scheduler/skip-podgrouper": "true"}


def scheduled_job(
    workload: Workload, options: KubernetesOptions, cluster_id: str
) -> dict[str, Any]:
    """Return the suspended Job. Raises WorkloadRejected for ranks that differ."""
    annotations = _KAI_OWN_GROUP if options.scheduler == "kai" else {}
    return job(workload, options, cluster_id, labels={}, annotations=annotations)


def pod_group(
    workload: Workload, options: KubernetesOptions, cluster_id: str
) -> tuple[dict[str, Any], ...]:
    """Return the object that makes the Pods a gang; () with YuniKorn, whose Pods describe it."""
    match options.scheduler:
        case "volcano":
            return (_volcano_group(workload, options, cluster_id),)
        case "kai":
            return (_kai_group(workload, options, cluster_id),)
        case _:
            return ()


def _volcano_group(
    workload: Workload, options: KubernetesOptions, cluster_id: str
) -> dict[str, Any]:
    pool = pool_of(workload, options)
    ranks = len(workload.slots)
    spec: dict[str, Any] = {"minMember": ranks, "queue": queue_name(workload, options)}
    requests = requests_of(workload, uniform_mgpu(workload, "Job"), pool)
    if requests:
        spec["minResources"] = {name: _times(text, ranks) for name, text in requests.items()}
    required, preferred = topology_of(workload, pool)
    if required or preferred:
        mode = "soft" if required is None else "hard"
        spec["networkTopology"] = {"mode": mode, "highestTierName": required or preferred}
    return {
        "apiVersion": VOLCANO_POD_GROUP.api_version,
        "kind": VOLCANO_POD_GROUP.kind,
        "metadata": metadata(workload, cluster_id),
        "spec": spec,
    }


def _kai_group(workload: Workload, options: KubernetesOptions, cluster_id: str) -> dict[str, Any]:
    """Return KAI's PodGroup: only borrowed workloads are preemptible.

    KAI runs the others within the queue's quota.
    """
    pool = pool_of(workload, options)
    spec: dict[str, Any] = {
        "minMember": len(workload.slots),
        "queue": queue_name(workload, options),
        "preemptibility": "preemptible" if workload.is_borrowed else "non-preemptible",
    }
    required, preferred = topology_of(workload, pool)
    if required or preferred:
        wish = "preferredTopologyLevel" if required is None else "requiredTopologyLevel"
        spec["topologyConstraint"] = {"topology": pool.topology_name, wish: required or preferred}
    return {
        "apiVersion": KAI_POD_GROUP.api_version,
        "kind": KAI_POD_GROUP.kind,
        "metadata": metadata(workload, cluster_id),
        "spec": spec,
    }


def _times(quantity: str, count: int) -> str:
    """Return `count` times a quantity that is a whole number and a unit."""
    digits = quantity.rstrip("Kim")
    return f"{int(digits) * count}{quantity.removeprefix(digits)}"
