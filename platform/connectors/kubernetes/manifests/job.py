"""A workload as a Job of Kubernetes itself: Indexed, one Pod per rank, none ever started twice."""

from __future__ import annotations

from typing import Any

from connectors.kubernetes import naming
from connectors.kubernetes.manifests.pod_template import (
    TTL_S,
    backstop_s,
    kueue_labels,
    metadata,
    pod_template,
    uniform_mgpu,
)
from connectors.kubernetes.options import KubernetesOptions
from connectors.kubernetes.resources import JOB
from connectors.protocol import Workload

INDEX_FIELD = f"metadata.annotations['{naming.INDEX_OF_JOB}']"


def job(workload: Workload, options: KubernetesOptions, cluster_id: str) -> dict[str, Any]:
    """The suspended Job in its team's queue. Raises WorkloadRejected for ranks that differ."""
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": metadata(workload, cluster_id, labels=kueue_labels(workload)),
        "spec": {
            "suspend": True,
            "ttlSecondsAfterFinished": TTL_S,
            **job_spec(
                workload,
                options,
                cluster_id,
                mgpu=uniform_mgpu(workload, "Job"),
                ranks=len(workload.slots),
                master=master_name(workload),
                subdomain=service_name(workload),
            ),
        },
    }


def job_spec(
    workload: Workload,
    options: KubernetesOptions,
    cluster_id: str,
    *,
    mgpu: int,
    ranks: int,
    master: str,
    first_rank: int = 0,
    subdomain: str | None = None,
) -> dict[str, Any]:
    """The spec of a Job that runs `ranks` ranks from `first_rank` on, each once at most."""
    spec: dict[str, Any] = {
        "parallelism": ranks,
        "completions": ranks,
        "completionMode": "Indexed",
        # A rank that fails ends all of them, and none is started again.
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "template": pod_template(
            workload,
            options,
            cluster_id,
            mgpu=mgpu,
            index_field=INDEX_FIELD,
            master=master,
            first_rank=first_rank,
            subdomain=subdomain,
        ),
    }
    deadline_s = backstop_s(workload)
    if deadline_s is not None:
        spec["activeDeadlineSeconds"] = deadline_s
    return spec


def service_name(workload: Workload) -> str | None:
    """The Service under which the ranks of a gang find each other; None for a single rank."""
    return naming.workload_name(workload.key) if len(workload.slots) > 1 else None


def master_name(workload: Workload) -> str:
    """The name of rank 0, as the others resolve it."""
    service = service_name(workload)
    return "127.0.0.1" if service is None else f"{service}-0.{service}"
