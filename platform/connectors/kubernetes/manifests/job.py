"""A workload as a Job of Kubernetes itself: Indexed, one Pod per rank, none ever started twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.kubernetes.manifests.pod_template import (
    TTL_S,
    Ranks,
    backstop_s,
    metadata,
    pod_template,
    uniform_mgpu,
)
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import JOB
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.protocol import Workload

INDEX_FIELD = f"metadata.annotations['{naming.INDEX_OF_JOB}']"


def job(
    workload: Workload,
    options: KubernetesOptions,
    cluster_id: str,
    *,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the suspended Job, with the `labels` and `annotations` that its admission needs.

    Raises WorkloadRejected for ranks that differ.
    """
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": metadata(workload, cluster_id, labels=labels, annotations=annotations or {}),
        "spec": {
            "suspend": True,
            "ttlSecondsAfterFinished": TTL_S,
            **job_spec(
                workload,
                len(workload.slots),
                pod_template(
                    workload,
                    options,
                    cluster_id,
                    Ranks(uniform_mgpu(workload, "Job"), master_name(workload), INDEX_FIELD),
                    subdomain=service_name(workload),
                ),
            ),
        },
    }


def job_spec(workload: Workload, ranks: int, template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a Job that runs `ranks` Pods of `template`, each at most once."""
    spec: dict[str, Any] = {
        "parallelism": ranks,
        "completions": ranks,
        "completionMode": "Indexed",
        # A rank that fails ends all of them, and none is started again.
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "template": template,
    }
    deadline_s = backstop_s(workload)
    if deadline_s is not None:
        spec["activeDeadlineSeconds"] = deadline_s
    return spec


def service_name(workload: Workload) -> str | None:
    """Return the Service by which the ranks of a gang find each other; None for a single rank."""
    return naming.workload_name(workload.key) if len(workload.slots) > 1 else None


def master_name(workload: Workload) -> str:
    """Return the name of rank 0, as the others resolve it."""
    service = service_name(workload)
    return "127.0.0.1" if service is None else f"{service}-0.{service}"
