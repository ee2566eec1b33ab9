"""The watched state of a cluster: a reflector for each relevant kind.

The threads refer to these objects and never to the connector, so that they end with it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from connectors.kubernetes.admission.admission_check import WORKLOADS
from connectors.kubernetes.client.api import KubeApi
from connectors.kubernetes.informers.reflector import Reflector
from connectors.kubernetes.nodes.cores import core_pools, gpu_pools
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.attempts import Attempts
from connectors.kubernetes.objects.cluster_state import KubeState
from connectors.kubernetes.objects.resources import OF_MANIFESTS, POD, Resource
from connectors.kubernetes.options.options import KubernetesOptions

Json = dict[str, Any]

NODES = "/api/v1/nodes"
#: The most deleted objects to remember: Pods of them may be left.
_GONE_MAX = 20_000
#: The first lists of a large cluster take longer than a watch that is opened again.
FIRST_LISTS_S = 15.0
#: Unused parts of Pods and their templates, where they are lists.
_HEAVY = frozenset(
    {
        *("managedFields", "env", "envFrom", "args", "command", "volumes", "volumeMounts"),
        *("volumeDevices", "imagePullSecrets", "images", "volumesInUse", "volumesAttached"),
    }
)


def trimmed(found: Any) -> Any:
    """Return `found` without unused fields, which makes large caches five times smaller."""
    if isinstance(found, dict):
        return {
            name: trimmed(value)
            for name, value in found.items()
            if not (name in _HEAVY and isinstance(value, list))
        }
    if isinstance(found, list):
        return [trimmed(one) for one in found]
    return found


class Caches:
    """The collections of one cluster, kept up to date from the first `start` on.

    `news` is set by changes that a look at the cluster would show. `attempts` joins our objects.
    """

    def __init__(
        self,
        api: KubeApi,
        options: KubernetesOptions,
        cluster_id: str,
        *,
        pod_changed: Callable[[Json | None, Json | None], None] = lambda before, now: None,
    ) -> None:
        self._api = api
        self._cluster_id = cluster_id
        self._gpu_resources = {pool.resource for pool in gpu_pools(options.pools).values()}
        self._of_cores = core_pools(options.pools)
        self._nodes_with_cores: set[str] = set()
        self._has_claims = any(pool.device_class for pool in options.pools.values())
        self._on_pod_change = pod_changed
        self._starting = threading.Lock()
        self._lock = threading.Lock()
        self._gone_objects: OrderedDict[str, Json] = OrderedDict()
        self._is_started = False
        self.attempts = Attempts(cluster_id)
        self.news = threading.Event()
        own = options.resource
        kinds = {own, *OF_MANIFESTS} if options.has_kueue else {own}
        self._objects = {
            (kind.api_version, kind.kind): self._reflector(api, kind, is_needed=kind is own)
            for kind in kinds
        }
        self._workloads = Reflector(
            api,
            WORKLOADS,
            trim=trimmed,
            changed=self._workload_changed,
            may_be_missing=not options.has_kueue,
        )
        self._pods = Reflector(
            api, POD.collection(), trim=self._trimmed_pod, changed=self._pod_changed
        )
        self._nodes = Reflector(api, NODES, trim=trimmed, changed=self._node_changed)

    @property
    def is_started(self) -> bool:
        """Return whether it watches."""
        return self._is_started

    @property
    def is_fresh(self) -> bool:
        """Return whether every collection of attempts is complete and current."""
        return all(each.is_fresh for each in (*self._objects.values(), self._workloads, self._pods))

    def start(self) -> None:
        """Begin, if it has not begun, and wait for the first lists in any case.

        Raises ClusterUnavailable to the first caller when they do not arrive.
        """
        with self._starting:
            if self._is_started:
                return
            self._is_started = True
            for reflector in self._all():
                reflector.start()
            for reflector in self._all():
                reflector.snapshot(FIRST_LISTS_S)

    def stop(self) -> None:
        """End all watches. Returns at once."""
        for reflector in self._all():
            reflector.stop()

    def state(self, observed_at: int) -> KubeState:
        """Return one complete state. Raises ClusterUnavailable."""
        # Deleted Pods of an object that is removed during the look count, like the object.
        gone = self.attempts.gone_pods()
        # Pods come last, so that they are at least as recent as the others.
        objects = [one for each in self._objects.values() for one in each.snapshot()]
        workloads = self._workloads.snapshot()
        nodes = self._nodes.snapshot()
        pods = self._pods.snapshot()
        self.attempts.forget_without_object()
        gone_by_uid = {one["metadata"]["uid"]: one for one in (*gone, *self.attempts.gone_pods())}
        with self._lock:
            gone_objects = tuple(self._gone_objects.values())
        return KubeState(
            objects=tuple(objects),
            workloads=workloads,
            pods=pods,
            nodes=nodes,
            observed_at=observed_at,
            gone_pods=tuple(gone_by_uid.values()),
            gone_objects=gone_objects,
        )

    def listed(self, observed_at: int) -> KubeState:
        """Return one complete state that is listed anew, with nothing from the watches.

        Raises ClusterUnavailable.
        """
        return KubeState(
            objects=tuple(one for each in self._objects.values() for one in each.listed()),
            workloads=self._workloads.listed(),
            pods=self._pods.listed(),
            nodes=self._nodes.listed(),
            observed_at=observed_at,
        )

    def nodes(self) -> Sequence[Json]:
        """Return all nodes, by request while nothing is watched yet. Raises ClusterUnavailable."""
        return self._nodes.snapshot() if self._is_started else self._api.list(NODES).items

    def pods(self) -> Sequence[Json]:
        """Return all Pods that may hold resources of a pool.

        While nothing is watched yet, it asks the server. Raises ClusterUnavailable.
        """
        if self._is_started:
            return self._pods.snapshot()
        return self._api.list(POD.collection()).items

    def took(self, found: Json) -> None:
        """Add an object that the server has just returned."""
        if self._is_started and (reflector := self._of(found)) is not None:
            reflector.offer(found)

    def removed(self, found: Mapping[str, Any]) -> None:
        """Remove an object that was just deleted."""
        if self._is_started and (reflector := self._of(found)) is not None:
            reflector.remove(dict(found))

    def _all(self) -> tuple[Reflector, ...]:
        return (*self._objects.values(), self._workloads, self._pods, self._nodes)

    def _of(self, found: Mapping[str, Any]) -> Reflector | None:
        kind = found.get("kind")
        if kind == "Workload":
            return self._workloads
        if kind == POD.kind:
            return self._pods
        return self._objects.get((str(found.get("apiVersion")), str(kind)))

    def _reflector(self, api: KubeApi, kind: Resource, *, is_needed: bool) -> Reflector:
        return Reflector(
            api,
            kind.collection(),
            trim=trimmed,
            changed=self._object_changed,
            may_be_missing=not is_needed,
        )

    def _trimmed_pod(self, pod: Json) -> Json | None:
        """Return a Pod that is ours or may hold resources of a pool, trimmed; None for many others.

        With a pool of cores, every Pod is kept, because the pool's nodes may change.
        """
        if (
            naming.key_of(pod, self._cluster_id) is None
            and not self._of_cores
            and not self._may_hold_gpus(pod)
        ):
            return None
        return trimmed(pod)  # type: ignore[no-any-return]

    def _may_hold_gpus(self, pod: Json) -> bool:
        spec = pod.get("spec") or {}
        if self._has_claims and spec.get("resourceClaims"):
            return True
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            for asked in (resources.get("limits") or {}, resources.get("requests") or {}):
                if not self._gpu_resources.isdisjoint(asked):
                    return True
        return False

    def _object_changed(self, before: Json | None, now: Json | None) -> None:
        if now is None and before is not None:
            self._remember(before)
        self.attempts.item_changed(before, now)
        # A cluster may have many Jobs that no queue of Kueue ever sees.
        if self._is_ours(before, now) or any(
            naming.QUEUE_LABEL in (one["metadata"].get("labels") or {})
            for one in (before, now)
            if one is not None
        ):
            self.news.set()

    def _remember(self, deleted: Json) -> None:
        """Remember a deleted object that was ours, or made from ours: Pods of it may be left."""
        owners = [one.get("uid") for one in deleted["metadata"].get("ownerReferences") or ()]
        with self._lock:
            if naming.key_of(deleted, self._cluster_id) is None and not any(
                self.attempts.knows(uid) or uid in self._gone_objects for uid in owners
            ):
                return
            self._gone_objects[deleted["metadata"]["uid"]] = {
                name: deleted[name]
                for name in ("apiVersion", "kind", "metadata")
                if name in deleted
            }
            while len(self._gone_objects) > _GONE_MAX:
                self._gone_objects.popitem(last=False)

    def _workload_changed(self, before: Json | None, now: Json | None) -> None:
        self.attempts.workload_changed(before, now)
        self.news.set()

    def _pod_changed(self, before: Json | None, now: Json | None) -> None:
        self.attempts.pod_changed(before, now)
        if self.attempts.has_pod(now or before or {}):
            self._on_pod_change(before, now)
        if self._is_ours(before, now) or (
            _pod_matters(before) != _pod_matters(now) and self._may_matter(now or before or {})
        ):
            self.news.set()

    def _may_matter(self, pod: Json) -> bool:
        """Return whether a cached Pod that is not ours may hold resources of a pool on its node."""
        if not self._of_cores:
            return True
        node = (pod.get("spec") or {}).get("nodeName")
        return node in self._nodes_with_cores or self._may_hold_gpus(pod)

    def _node_changed(self, before: Json | None, now: Json | None) -> None:
        if self._of_cores:
            self._note_cores(before, now)
        if before is None or now is None or _node_matters(before) != _node_matters(now):
            self.news.set()

    def _note_cores(self, before: Json | None, now: Json | None) -> None:
        name = (now or before or {"metadata": {}})["metadata"].get("name")
        labels = ((now or {}).get("metadata") or {}).get("labels") or {}
        if any(pool.node_selector.items() <= labels.items() for pool in self._of_cores):
            self._nodes_with_cores.add(name)
        else:
            self._nodes_with_cores.discard(name)

    def _is_ours(self, *states: Json | None) -> bool:
        return any(
            one is not None and naming.key_of(one, self._cluster_id) is not None for one in states
        )


def _node_matters(node: Json) -> tuple[Any, ...]:
    """Return the relevant fields of a node, without its frequent health reports."""
    status, spec = node.get("status") or {}, node.get("spec") or {}
    return _conditions(status), status.get("allocatable"), spec, node["metadata"].get("labels")


def _pod_matters(pod: Json | None) -> tuple[Any, ...]:
    """Return the relevant fields of a Pod that is not ours."""
    if pod is None:
        return ()
    metadata, status = pod["metadata"], pod.get("status") or {}
    node = (pod.get("spec") or {}).get("nodeName")
    return status.get("phase"), _conditions(status), node, metadata.get("deletionTimestamp")


def _conditions(status: Json) -> list[tuple[Any, Any]]:
    return [(one.get("type"), one.get("status")) for one in status.get("conditions") or ()]
