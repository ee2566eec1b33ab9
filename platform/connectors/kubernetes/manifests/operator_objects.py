"""Prepares the objects of operators' kinds that a person wrote. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connectors.kubernetes.manifests.pod_template import TTL_S
from manifests.jobs import ManifestJob, PodSet
from manifests.operators import SUBMITTED_BY_POD, TORCH_CONTAINER, TRAINER_NODE

Json = dict[str, Any]

#: The portal's entry among the patches of a TrainJob's runtime.
PATCH_MANAGER = "tidegate.io/portal"
#: What such a patch may set in a Pod.
_PATCHED = frozenset(
    {
        *("containers", "imagePullSecrets", "nodeSelector", "securityContext"),
        *("serviceAccountName", "tolerations"),
    }
)


def prepare_operator_object(item: Json, job: ManifestJob, counts: Mapping[str, int]) -> None:
    """Set in `item` what lets the portal hold it, and what ends it with its job.

    `counts` are the Pods of each Pod set that run at once.
    """
    if prepare := _PREPARE.get(job.kind):
        prepare(item, job, counts)


def template_of_runtime(item: Json, pods: PodSet) -> Json:
    """Return a template with what a TrainJob says about the Pods of `pods`."""
    container: Json = {"name": pods.name}
    if pods.name == TRAINER_NODE:
        container["resources"] = (item["spec"].get("trainer") or {}).get("resourcesPerNode") or {}
    return {"spec": {"containers": [container]}}


def patch_runtime(item: Json, templates: Mapping[str, Json]) -> None:
    """Add to a TrainJob how the Pods of its runtime differ: `templates` by the runtime's Job."""
    jobs = []
    for name, template in templates.items():
        spec = {part: value for part, value in template["spec"].items() if part in _PATCHED}
        spec["containers"] = [
            {part: value for part, value in container.items() if part != "resources"}
            for container in spec["containers"]
        ]
        patch = {"metadata": template["metadata"], "spec": spec}
        jobs.append({"name": name, "template": {"spec": {"template": patch}}})
    item["spec"]["runtimePatches"] = [
        {
            "manager": PATCH_MANAGER,
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
        }
    ]


def _kubeflow_job(item: Json, job: ManifestJob, counts: Mapping[str, int]) -> None:
    policy: Json = item["spec"].get("runPolicy") or {}
    item["spec"]["runPolicy"] = policy
    policy.pop("schedulingPolicy", None)
    # Otherwise Pods that outlive the job, such as workers that wait, would keep their GPUs.
    policy["cleanPodPolicy"] = "Running"
    policy["ttlSecondsAfterFinished"] = TTL_S
    if job.kind != "PyTorchJob":
        return
    for role in item["spec"]["pytorchReplicaSpecs"].values():
        containers = role["template"]["spec"]["containers"]
        if TORCH_CONTAINER not in {one.get("name") for one in containers}:
            containers[0]["name"] = TORCH_CONTAINER


def _train_job(item: Json, job: ManifestJob, counts: Mapping[str, int]) -> None:
    trainer: Json = item["spec"].get("trainer") or {}
    item["spec"]["trainer"] = trainer
    trainer["numNodes"] = counts[TRAINER_NODE]


def _ray_job(item: Json, job: ManifestJob, counts: Mapping[str, int]) -> None:
    spec = item["spec"]
    spec["shutdownAfterJobFinishes"] = True
    spec["ttlSecondsAfterFinished"] = 0
    cluster = spec["rayClusterSpec"]
    _fix_workers(cluster, counts)
    is_by_pod = (spec.get("submissionMode") or SUBMITTED_BY_POD) == SUBMITTED_BY_POD
    if is_by_pod and not spec.get("submitterPodTemplate"):
        head = cluster["headGroupSpec"]["template"]["spec"]["containers"][0]
        # As the operator makes one itself, which Pod Security `restricted` would refuse.
        spec["submitterPodTemplate"] = {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "ray-job-submitter",
                        "image": head["image"],
                        "resources": {
                            "limits": {"cpu": "1", "memory": "1Gi"},
                            "requests": {"cpu": "500m", "memory": "200Mi"},
                        },
                    }
                ],
            }
        }


def _ray(item: Json, job: ManifestJob, counts: Mapping[str, int]) -> None:
    _fix_workers(item["spec"], counts)


def _fix_workers(cluster: Json, counts: Mapping[str, int]) -> None:
    """Let a Ray cluster have the Pods that were granted, whatever its load."""
    if cluster.pop("enableInTreeAutoscaling", False):
        cluster.pop("autoscalerOptions", None)
    for group in cluster.get("workerGroupSpecs") or ():
        group["replicas"] = counts[group["groupName"]] // (group.get("numOfHosts") or 1)


_PREPARE: Mapping[str, Callable[[Json, ManifestJob, Mapping[str, int]], None]] = {
    "PyTorchJob": _kubeflow_job,
    "MPIJob": _kubeflow_job,
    "TrainJob": _train_job,
    "RayJob": _ray_job,
    "RayCluster": _ray,
}
