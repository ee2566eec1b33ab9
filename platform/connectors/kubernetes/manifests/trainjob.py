"""A workload as a TrainJob of Kubeflow Trainer.

A TrainJob hardly describes its Pods: they come from a TrainingRuntime. The cluster's own runtime
would decide about security and placement. So every workload brings a runtime of its own, which must
exist before its TrainJob.
"""

from __future__ import annotations

from typing import Any

from connectors.kubernetes.manifests.job import INDEX_FIELD, job_spec
from connectors.kubernetes.manifests.pod_template import (
    Ranks,
    backstop_s,
    kueue_labels,
    metadata,
    pod_template,
    uniform_mgpu,
)
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import TRAINING_RUNTIME, TRAINJOB
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.protocol import Workload

#: The Trainer's name of the ranks' Job and its container.
_NODE = naming.TRAINER_CONTAINER


def trainjob(workload: Workload, cluster_id: str) -> dict[str, Any]:
    """Return the suspended TrainJob in its team's queue."""
    spec: dict[str, Any] = {
        "suspend": True,
        "runtimeRef": {
            "apiGroup": "trainer.kubeflow.org",
            "kind": TRAINING_RUNTIME.kind,
            "name": naming.workload_name(workload.key),
        },
        "trainer": {"numNodes": len(workload.slots)},
    }
    deadline_s = backstop_s(workload)
    if deadline_s is not None:
        spec["activeDeadlineSeconds"] = deadline_s
    return {
        "apiVersion": TRAINJOB.api_version,
        "kind": TRAINJOB.kind,
        "metadata": metadata(workload, cluster_id, labels=kueue_labels(workload)),
        "spec": spec,
    }


def training_runtime(
    workload: Workload, options: KubernetesOptions, cluster_id: str
) -> dict[str, Any]:
    """Return the TrainingRuntime of the TrainJob's Pods.

    Raises WorkloadRejected for ranks that differ.
    """
    name = naming.workload_name(workload.key)
    count = len(workload.slots)
    master = f"{name}-{_NODE}-0-0.{name}" if count > 1 else "127.0.0.1"
    template = pod_template(
        workload,
        options,
        cluster_id,
        Ranks(uniform_mgpu(workload, "TrainJob"), master, INDEX_FIELD),
        container_name=_NODE,
    )
    return {
        "apiVersion": TRAINING_RUNTIME.api_version,
        "kind": TRAINING_RUNTIME.kind,
        "metadata": metadata(workload, cluster_id),
        "spec": {
            "mlPolicy": {"numNodes": count},
            "template": {
                "spec": {
                    "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
                    "replicatedJobs": [
                        {
                            "name": _NODE,
                            "template": {
                                "metadata": {
                                    "labels": {
                                        "trainer.kubeflow.org/trainjob-ancestor-step": "trainer"
                                    }
                                },
                                "spec": job_spec(workload, count, template),
                            },
                        }
                    ],
                }
            },
        },
    }
