"""What a connector knows of its cluster without asking: a reflector for each kind that matters.

The threads hold these objects and never the connector, so that they end with it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from connectors.kubernetes import naming
from connectors.kubernetes.api import KubeApi
from connectors.kubernetes.attempts import Attempts
from connectors.kubernetes.observing import KubeState
from connectors.kubernetes.options import KubernetesOptions
from connectors.kubernetes.resources import KINDS, POD, Resource
from connectors.kubernetes.voting import WORKLOADS
from connectors.kubernetes.watching import Reflector

Json = dict[str, Any]

NODES = "/api/v1/nodes"
#: The first lists of a large cluster take longer than a watch that is opened again.
FIRST_LISTS_S = 15.0
#: Deleted Pods whose last state is remembered: how their ranks ended stands nowhere else.
_GONE_MAX = 20_000
#: Parts of Pods and their templates that nobody asks for, where they are lists.
_HEAVY = frozenset(
    {
        *("managedFields", "env", "envFrom", "args", "command", "volumes", "volumeMounts"),
        *("volumeDevices", "imagePullSecrets", "images", "volumesInUse", "volumesAttached"),
    }
)


def trimmed(found: Any) -> Any:
    """`found` without what nobody asks for: a cache of thousands is a fifth of the size."""
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

    `news` is told for what matters to a look at the cluster; `attempts` joins what is ours.
    """

    def __init__(
        self,
        api: KubeApi,
        options: KubernetesOptions,
        cluster_id: str,
        *,
        pod_changed: Callable[[Json | None, Json | None], None] = lambda before, now: None,
    ) -> None:
        self._cluster_id = cluster_id
        self._gpu_resources = {pool.resource for pool in options.pools.values()}
        self._has_claims = any(pool.device_class for pool in options.pools.values())
        self._tell_pod = pod_changed
        self._lock = threading.Lock()
        self._gone: OrderedDict[str, Json] = OrderedDict()
        self._is_started = False
        self.attempts = Attempts(cluster_id)
        self.news = threading.Event()
        own = options.resource
        kinds = {own, *KINDS.values()} if options.has_kueue else {own}
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
        """Whether it watches."""
        return self._is_started

    def start(self) -> None:
        """Begin, if it has not begun, and wait for the first lists.

        Raises ClusterUnavailable when they do not come.
        """
        with self._lock:
            is_first, self._is_started = not self._is_started, True
        if is_first:
            for reflector in self._all():
                reflector.start()
            for reflector in self._all():
                reflector.snapshot(FIRST_LISTS_S)

    def stop(self) -> None:
        """End all watches; returns at once."""
        for reflector in self._all():
            reflector.stop()

    def state(self, observed_at: int) -> KubeState:
        """One complete look. Raises ClusterUnavailable."""
        # Pods last: whatever the others tell of what was started or ended, they tell no less.
        objects = [one for each in self._objects.values() for one in each.snapshot()]
        workloads = self._workloads.snapshot()
        nodes = self._nodes.snapshot()
        pods = self._pods.snapshot()
        with self._lock:
            gone = tuple(self._gone.values())
        return KubeState(
            objects=tuple(objects),
            workloads=workloads,
            pods=pods,
            nodes=nodes,
            observed_at=observed_at,
            gone_pods=gone,
        )

    def nodes(self) -> tuple[Json, ...]:
        """All nodes. Raises ClusterUnavailable."""
        return self._nodes.snapshot()

    def took(self, found: Json) -> None:
        """What the server just answered with is known from now on."""
        if self._is_started and (reflector := self._of(found)) is not None:
            reflector.offer(found)

    def removed(self, found: Mapping[str, Any]) -> None:
        """What was just deleted is known to be gone."""
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
        """Only Pods that may hold GPUs, or are ours: a cluster has many others."""
        if naming.key_of(pod, self._cluster_id) is None and not self._may_hold_gpus(pod):
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
        self.attempts.item_changed(before, now)
        self.news.set()

    def _workload_changed(self, before: Json | None, now: Json | None) -> None:
        self.attempts.workload_changed(before, now)
        self.news.set()

    def _pod_changed(self, before: Json | None, now: Json | None) -> None:
        is_gone = now is None and before is not None
        if is_gone and before and naming.key_of(before, self._cluster_id) is not None:
            with self._lock:
                self._gone[before["metadata"]["uid"]] = before
                while len(self._gone) > _GONE_MAX:
                    self._gone.popitem(last=False)
        self.attempts.pod_changed(before, now)
        self._tell_pod(before, now)
        self.news.set()

    def _node_changed(self, before: Json | None, now: Json | None) -> None:
        if before is None or now is None or _matters(before) != _matters(now):
            self.news.set()


def _matters(node: Json) -> tuple[Any, ...]:
    """What of a node a look goes by; nodes tell their health again and again."""
    status, spec = node.get("status") or {}, node.get("spec") or {}
    conditions = [(one.get("type"), one.get("status")) for one in status.get("conditions") or ()]
    return conditions, status.get("allocatable"), spec, node["metadata"].get("labels")
