"""The kinds of object of a workload, and their paths in the API. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object in a namespace. `suspend_at` is the path of its "suspended" field, or ()."""

    api_version: str
    kind: str
    plural: str
    suspend_at: tuple[str, ...] = ()

    def collection(self, namespace: str | None = None) -> str:
        """Return the path of all such objects, of one namespace or of the cluster."""
        root = "/api" if "/" not in self.api_version else "/apis"
        where = "" if namespace is None else f"/namespaces/{namespace}"
        return f"{root}/{self.api_version}{where}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        """Return the path of one object."""
        return f"{self.collection(namespace)}/{name}"

    def is_suspended(self, item: Mapping[str, Any]) -> bool:
        """Return whether the object is suspended, so that nothing of it may run."""
        value: Any = item
        for name in self.suspend_at:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value is True


JOB = Resource("batch/v1", "Job", "jobs", ("spec", "suspend"))
JOBSET = Resource("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", ("spec", "suspend"))
TRAINJOB = Resource("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs", ("spec", "suspend"))
PYTORCHJOB = Resource(
    "kubeflow.org/v1", "PyTorchJob", "pytorchjobs", ("spec", "runPolicy", "suspend")
)
MPIJOB = Resource("kubeflow.org/v2beta1", "MPIJob", "mpijobs", ("spec", "runPolicy", "suspend"))
RAYJOB = Resource("ray.io/v1", "RayJob", "rayjobs", ("spec", "suspend"))
#: Also created by the operator, for RayJobs.
RAYCLUSTER = Resource("ray.io/v1", "RayCluster", "rayclusters", ("spec", "suspend"))
#: Label of Pods: the uid of the JobSet that they belong to.
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"

CONFIG_MAP = Resource("v1", "ConfigMap", "configmaps")
SERVICE = Resource("v1", "Service", "services")
POD = Resource("v1", "Pod", "pods")
NODE = Resource("v1", "Node", "nodes")
SECRET = Resource("v1", "Secret", "secrets")
VOLUME_CLAIM = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
RESOURCE_QUOTA = Resource("v1", "ResourceQuota", "resourcequotas")
CLAIM_TEMPLATE = Resource("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates")
TRAINING_RUNTIME = Resource("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", "trainingruntimes")
CLUSTER_TRAINING_RUNTIME = Resource(
    TRAINING_RUNTIME.api_version, "ClusterTrainingRuntime", "clustertrainingruntimes"
)
VOLCANO_POD_GROUP = Resource("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups")
KAI_POD_GROUP = Resource("scheduling.run.ai/v2alpha2", "PodGroup", "podgroups")

_ALL = (
    *(JOB, JOBSET, TRAINJOB, PYTORCHJOB, MPIJOB, RAYJOB, RAYCLUSTER, CONFIG_MAP, SERVICE, POD),
    *(CLAIM_TEMPLATE, TRAINING_RUNTIME, VOLCANO_POD_GROUP, KAI_POD_GROUP, SECRET),
)
_BY_NAME = {(resource.api_version, resource.kind): resource for resource in _ALL}

#: What a workload is on a cluster with Kueue, by option `kind`.
KINDS: Mapping[str, Resource] = {
    "job": JOB,
    "jobset": JOBSET,
    "trainjob": TRAINJOB,
    "pytorchjob": PYTORCHJOB,
    "mpijob": MPIJOB,
    "rayjob": RAYJOB,
}
#: What a manifest may be there. A Pod is run as a Job.
OF_MANIFESTS = (*KINDS.values(), RAYCLUSTER)
#: The other schedulers, by option `scheduler`. With them a workload is a Job, the only kind that
#: can be created without any Pod before its release (a Job of Volcano's own kind cannot).
OTHER_SCHEDULERS = ("volcano", "kai", "yunikorn")


def resource_of(item: Mapping[str, Any]) -> Resource:
    """Return the kind of an object that we create or start. Raises KeyError for all others."""
    return _BY_NAME[item["apiVersion"], item["kind"]]


def was_changed(item: Mapping[str, Any]) -> bool:
    """Return whether the spec of one of our objects has changed since its creation.

    Only some kinds reveal it. Starting an object changes its spec, so a changed object that is
    suspended has run.
    """
    return resource_of(item) in (JOB, JOBSET) and item["metadata"].get("generation", 1) != 1
