"""A workload as a PyTorchJob of Kubeflow's training operator: rank 0 is its master.

The operator too sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its Pods. Its values equal
ours and the launcher's: it takes the port from the container.
"""

from __future__ import annotations

from typing import Any

from connectors.kubernetes.manifests.pod_template import (
    TTL_S,
    Ranks,
    backstop_s,
    kueue_labels,
    metadata,
    pod_template,
    uniform_mgpu,
)
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import PYTORCHJOB
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.protocol import Workload

REPLICA_FIELD = f"metadata.labels['{naming.INDEX_OF_REPLICA}']"


def pytorchjob(workload: Workload, options: KubernetesOptions, cluster_id: str) -> dict[str, Any]:
    """Return the suspended PyTorchJob in its team's queue.

    Raises WorkloadRejected for ranks that differ.
    """
    mgpu = uniform_mgpu(workload, "PyTorchJob")
    # The operator makes a Service of this name for its master.
    master = f"{naming.workload_name(workload.key)}-master-0"
    workers = len(workload.slots) - 1
    replicas = {"Master": _replicas(workload, options, cluster_id, 1, Ranks(mgpu, master))}
    if workers:
        replicas["Worker"] = _replicas(
            workload, options, cluster_id, workers, Ranks(mgpu, master, REPLICA_FIELD, 1)
        )
    return {
        "apiVersion": PYTORCHJOB.api_version,
        "kind": PYTORCHJOB.kind,
        "metadata": metadata(workload, cluster_id, labels=kueue_labels(workload)),
        "spec": {
            "nprocPerNode": "1",
            "runPolicy": run_policy(workload),
            "pytorchReplicaSpecs": replicas,
        },
    }


def run_policy(workload: Workload) -> dict[str, Any]:
    """Return how Kubeflow's operators run a workload: once, and with the rest ended at its end."""
    policy: dict[str, Any] = {
        "suspend": True,
        "backoffLimit": 0,
        "cleanPodPolicy": "Running",
        "ttlSecondsAfterFinished": TTL_S,
    }
    deadline_s = backstop_s(workload)
    if deadline_s is not None:
        policy["activeDeadlineSeconds"] = deadline_s
    return policy


def _replicas(
    workload: Workload, options: KubernetesOptions, cluster_id: str, count: int, ranks: Ranks
) -> dict[str, Any]:
    port = {"name": "pytorchjob-port", "containerPort": naming.master_port(workload.key)}
    return {
        "replicas": count,
        "restartPolicy": "Never",
        "template": pod_template(
            workload,
            options,
            cluster_id,
            ranks,
            container_name=naming.PYTORCH_CONTAINER,
            ports=[port],
        ),
    }
