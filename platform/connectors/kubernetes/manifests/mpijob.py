"""A workload as an MPIJob of Kubeflow's MPI operator.

The script runs on rank 0 only and starts the others by mpirun, as is usual with MPI. Until then the
others run the operator's sshd. The image must have it for a user that is not root, as Kubeflow's
own images do: with a configuration in the home of user `mpiuser`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.kubernetes.manifests.pod_template import (
    Ranks,
    kueue_labels,
    metadata,
    pod_template,
    pool_of,
    uniform_mgpu,
    units,
)
from connectors.kubernetes.manifests.pytorchjob import REPLICA_FIELD, run_policy
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import MPIJOB
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.protocol import Workload

_HOME = "/home/mpiuser"
_SSHD = ("/usr/sbin/sshd", "-De", "-f", f"{_HOME}/.sshd_config")


def mpijob(workload: Workload, options: KubernetesOptions, cluster_id: str) -> dict[str, Any]:
    """Return the suspended MPIJob in its team's queue.

    Raises WorkloadRejected for ranks that differ.
    """
    mgpu = uniform_mgpu(workload, "MPIJob")
    name = naming.workload_name(workload.key)
    # With `runLauncherAsWorker` the operator counts the launcher as 0, and the workers from 1 on.
    ranks = Ranks(mgpu, f"{name}-launcher.{name}", REPLICA_FIELD)
    workers = len(workload.slots) - 1
    replicas = {"Launcher": _replicas(workload, options, cluster_id, 1, ranks, None)}
    if workers:
        replicas["Worker"] = _replicas(workload, options, cluster_id, workers, ranks, _SSHD)
    return {
        "apiVersion": MPIJOB.api_version,
        "kind": MPIJOB.kind,
        "metadata": metadata(workload, cluster_id, labels=kueue_labels(workload)),
        "spec": {
            "mpiImplementation": "OpenMPI",
            "runLauncherAsWorker": True,
            "slotsPerWorker": max(1, units(mgpu, pool_of(workload, options))),
            "sshAuthMountPath": f"{_HOME}/.ssh",
            "runPolicy": run_policy(workload),
            "mpiReplicaSpecs": replicas,
        },
    }


def _replicas(
    workload: Workload,
    options: KubernetesOptions,
    cluster_id: str,
    count: int,
    ranks: Ranks,
    command: Sequence[str] | None,
) -> dict[str, Any]:
    return {
        "replicas": count,
        "restartPolicy": "Never",
        "template": pod_template(workload, options, cluster_id, ranks, command=command),
    }
