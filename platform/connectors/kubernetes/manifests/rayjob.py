"""A workload as a RayJob of KubeRay: a Ray cluster with one Pod per rank.

The script runs on the head, rank 0. The other ranks are Ray's workers.
"""

from __future__ import annotations

import shlex
from typing import Any

from connectors.errors import WorkloadRejected
from connectors.kubernetes.manifests.pod_template import (
    Ranks,
    backstop_s,
    kueue_labels,
    launcher_words,
    metadata,
    pod_template,
)
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import RAYJOB
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.protocol import Workload


def rayjob(workload: Workload, options: KubernetesOptions, cluster_id: str) -> dict[str, Any]:
    """Return the suspended RayJob in its team's queue.

    Raises WorkloadRejected for workers that differ.
    """
    head, *workers = [slot.mgpu for slot in workload.slots]
    if len(set(workers)) > 1:
        raise WorkloadRejected(
            "all ranks of a RayJob but the first have the same GPUs, and here they differ; ask for "
            "as many on each node"
        )
    cluster: dict[str, Any] = {
        "headGroupSpec": {
            "rayStartParams": {},
            "template": _template(workload, options, cluster_id, Ranks(head, "127.0.0.1")),
        }
    }
    if options.ray_version is not None:
        cluster["rayVersion"] = options.ray_version
    if workers:
        ranks = Ranks(workers[0], "127.0.0.1", None, 1)
        cluster["workerGroupSpecs"] = [
            {
                "groupName": "workers",
                "replicas": len(workers),
                "minReplicas": len(workers),
                "maxReplicas": len(workers),
                "rayStartParams": {},
                "template": _template(workload, options, cluster_id, ranks, naming.ROLE_MEMBER),
            }
        ]
    spec: dict[str, Any] = {
        "suspend": True,
        "backoffLimit": 0,
        # The operator sends the script to the head directly, without an extra Pod for the
        # submission.
        "submissionMode": "HTTPMode",
        "entrypoint": shlex.join(launcher_words(workload)),
        # The Ray cluster is deleted as soon as the script has ended; the RayJob stays.
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": 0,
        "rayClusterSpec": cluster,
    }
    deadline_s = backstop_s(workload)
    if deadline_s is not None:
        spec["activeDeadlineSeconds"] = deadline_s
    return {
        "apiVersion": RAYJOB.api_version,
        "kind": RAYJOB.kind,
        "metadata": metadata(workload, cluster_id, labels=kueue_labels(workload)),
        "spec": spec,
    }


def _template(
    workload: Workload,
    options: KubernetesOptions,
    cluster_id: str,
    ranks: Ranks,
    role: str = naming.ROLE_RANK,
) -> dict[str, Any]:
    """Return a Pod whose container runs the command of KubeRay: Ray itself."""
    return pod_template(workload, options, cluster_id, ranks, command=(), role=role)
