"""The kinds of object of a quota tree on a cluster with Kueue, and their owners. Pure.

`wanted_objects` has the objects of a tree, and `settings` our part of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.kubernetes.nodes.cores import in_queue_order
from connectors.kubernetes.objects.naming import (
    BORROWED_CLASS,
    CLUSTER,
    CONTROLLER,
    GUARANTEED_CLASS,
    LOCAL_QUEUE,
    MANAGED_BY,
    MANAGED_BY_US,
    PATH,
    cluster_label,
)
from connectors.kubernetes.options.options import SHARED_MODE, KubernetesOptions
from connectors.kubernetes.options.pools import CPU_RESOURCE, KubernetesPool
from primitives.units import DeviceKind

Json = dict[str, Any]

TOPOLOGY = "topology"
FLAVOR = "flavor"
PRIORITY_CLASS = "priority class"
ADMISSION_CHECK = "admission check"
COHORT = "cohort"
NAMESPACE = "namespace"
CLUSTER_QUEUE = "cluster queue"
NETWORK_POLICY = "network policy"
OBJECT_LIMITS = "object limits"
QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object. A team has only one of a kind in namespaces, called `only`."""

    api: str
    kind: str
    plural: str
    only: str = ""

    @property
    def collection(self) -> str:
        """The path of all of them, in all namespaces."""
        return f"{self._root}/{self.plural}"

    def path(self, name: str) -> str:
        """Return the path of the object `name`, or of the one in the namespace `name`."""
        if self.only:
            return f"{self._root}/namespaces/{name}/{self.plural}/{self.only}"
        return f"{self._root}/{self.plural}/{name}"

    @property
    def _root(self) -> str:
        return f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"


_KUEUE = "kueue.x-k8s.io/v1beta2"
#: In the order in which they are made.
KINDS: Mapping[str, Kind] = {
    TOPOLOGY: Kind(_KUEUE, "Topology", "topologies"),
    FLAVOR: Kind(_KUEUE, "ResourceFlavor", "resourceflavors"),
    PRIORITY_CLASS: Kind(_KUEUE, "WorkloadPriorityClass", "workloadpriorityclasses"),
    ADMISSION_CHECK: Kind(_KUEUE, "AdmissionCheck", "admissionchecks"),
    COHORT: Kind(_KUEUE, "Cohort", "cohorts"),
    NAMESPACE: Kind("v1", "Namespace", "namespaces"),
    NETWORK_POLICY: Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "tidegate"),
    OBJECT_LIMITS: Kind("v1", "ResourceQuota", "resourcequotas", "tidegate"),
    CLUSTER_QUEUE: Kind(_KUEUE, "ClusterQueue", "clusterqueues"),
    QUEUE: Kind(_KUEUE, "LocalQueue", "localqueues", LOCAL_QUEUE),
}
#: The kinds that clusters with another batch scheduler get too.
OF_EVERY_SCHEDULER = frozenset({NAMESPACE, NETWORK_POLICY, OBJECT_LIMITS})

#: More than any workload can ask for, see `wanted_objects`.
WIDE = 10**15
WIDE_RESOURCES = {"cpu": WIDE, "memory": 2**60, "ephemeral-storage": 2**60}


@dataclass(frozen=True, slots=True)
class Shape:
    """The form in which a cluster writes quotas.

    `pools` are in the order in which queues list their flavors. `owner` is the value of label
    `naming.CLUSTER` on our objects. `other_resources` are those that Kueue is to pass.
    """

    pools: tuple[KubernetesPool, ...]
    owner: str
    is_shared: bool = False
    has_kueue: bool = True
    other_resources: tuple[str, ...] = ()

    @property
    def top_cohort(self) -> str:
        """The name of the cohort above all organizations."""
        return f"tidegate-{self.owner[:12]}"

    @property
    def flavors(self) -> list[str]:
        """The flavors, one for each pool, in the order in which Kueue tries them."""
        return [pool.flavor for pool in self.pools]

    @property
    def resources(self) -> list[str]:
        """The resources of GPUs, each once."""
        return sorted({pool.resource for pool in self.pools if pool.device is DeviceKind.GPU})

    @property
    def wide_resources(self) -> list[str]:
        """The resources without a bound in the queues."""
        return [*WIDE_RESOURCES, *self.other_resources]

    @property
    def device_resources(self) -> list[str]:
        """The resources of all devices, each once."""
        has_cores = any(pool.device is DeviceKind.CPU for pool in self.pools)
        return [*([CPU_RESOURCE] if has_cores else []), *self.resources]

    @property
    def things(self) -> tuple[str, ...]:
        """The kinds of object that such a cluster gets, in the order in which they are created."""
        return tuple(thing for thing in KINDS if self.has_kueue or thing in OF_EVERY_SCHEDULER)


def shape_of(options: KubernetesOptions, cluster_id: str) -> Shape:
    """Return the shape of the cluster `cluster_id` with `options`."""
    return Shape(
        pools=in_queue_order(options.pools.values()),
        owner=cluster_label(cluster_id),
        is_shared=options.mode == SHARED_MODE,
        has_kueue=options.has_kueue,
        other_resources=tuple(sorted(options.other_resources)),
    )


def is_ours(thing: str, found: Json, shape: Shape) -> bool:
    """Return whether we made the object `found`.

    Objects that every Tidegate has under the same names count as ours. The admission check is also
    created by the voter.
    """
    if thing == ADMISSION_CHECK and found.get("spec", {}).get("controllerName") == CONTROLLER:
        return True
    if thing == PRIORITY_CLASS and found["metadata"]["name"] in (GUARANTEED_CLASS, BORROWED_CLASS):
        return True
    return _owner(found) == shape.owner


def is_of_another_portal(found: Json, shape: Shape) -> bool:
    """Return whether a Tidegate made it, but not for this cluster as we know it."""
    labels = labels_of(found)
    return labels.get(MANAGED_BY) == MANAGED_BY_US and _owner(found) != shape.owner


def _owner(found: Json) -> str:
    labels = labels_of(found)
    is_managed = labels.get(MANAGED_BY) == MANAGED_BY_US
    return str(labels.get(CLUSTER, "")) if is_managed else ""


def is_terminating(found: Json) -> bool:
    """Return whether it was deleted and waits for its users to end."""
    return "deletionTimestamp" in found["metadata"]


def name_of(thing: str, found: Json) -> str:
    """Return the name by which the object is changed."""
    metadata = found["metadata"]
    return str(metadata["namespace" if KINDS[thing].only else "name"])


def path_of(found: Json) -> str:
    """Return the tree node of the object; "" where it has none."""
    path = (found["metadata"].get("annotations") or {}).get(PATH, "")
    return path if isinstance(path, str) else ""


def labels_of(found: Json) -> Mapping[str, Any]:
    """Return its labels; {} where it has none."""
    return found["metadata"].get("labels") or {}
