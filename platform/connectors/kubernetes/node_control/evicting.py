"""Evicts Pods from a cordoned node.

Pods of our own jobs are only reported: they have a notice and a grace of their own, and end with
their whole gang. Every other Pod is evicted as its PodDisruptionBudgets allow. When a budget
refuses it now, the next call tries again. Pods of DaemonSets stay, since they would be created
again on the same node. Static Pods of the node stay too.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from connectors.errors import NodeRefused
from connectors.kubernetes.attempts.reconciler import is_over, pod_path
from connectors.kubernetes.client.api import Forbidden, KubeApi, KubeRefused
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.nodes.cores import is_of_its_node
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.cluster_state import KubeState
from connectors.kubernetes.objects.resources import POD
from connectors.kubernetes.options.pools import KubernetesPool
from connectors.kubernetes.workloads.runs import Look
from connectors.node_control import LeftOnNode
from connectors.protocol import ClusterConnector

Object = Mapping[str, Any]

#: Kubernetes' grace of a Pod without one of its own.
_OWN_GRACE_S = 30
#: Seconds after the first eviction in which further ones begin. The next call handles the rest, and
#: no other process takes over the request meanwhile.
_ROUND_S = 15.0
_REFUSALS_REPORTED = 3
_REFUSAL_LENGTH_MAX = 400


def control_eviction(connector: ClusterConnector) -> KubernetesNodeEviction:
    """Return the eviction control of the Kubernetes cluster of `connector`."""
    assert isinstance(connector, KubernetesConnector)
    return KubernetesNodeEviction(
        connector.api,
        connector.known_state,
        connector.options.pools,
        cluster_id=connector.cluster_id,
    )


class KubernetesNodeEviction:
    """Implements `connectors.node_control.NodeEviction`.

    `state` returns the known state of the cluster. `pools` are the cluster's pools.
    """

    def __init__(
        self,
        api: KubeApi,
        state: Callable[[], KubeState],
        pools: Mapping[str, KubernetesPool],
        *,
        cluster_id: str,
    ) -> None:
        self._api = api
        self._state = state
        self._pools = pools
        self._cluster_id = cluster_id
        # Its own generator: using the module's one would disturb callers that seed it.
        self._chance = random.Random()  # noqa: S311 - no secret

    def evict(self, node: str, *, grace_s: int, jobs: Collection[str]) -> LeftOnNode:
        """See the protocol. `node` is cordoned."""
        # Listed now, because the watches do not cache most Pods.
        listed = self._api.list(POD.collection(), fields=f"spec.nodeName={node}").items
        pods = [pod for pod in listed if must_go(pod)]
        state = replace(self._state(), pods=tuple(pods), gone_pods=())
        look = Look(state, self._cluster_id, self._pools, naming.ADMISSION_CHECK)
        # Pods that only claim to belong to a job are excluded.
        whose = {pod.uid: run.uid for run in look.runs() if run.uid in jobs for pod in run.pods}
        others = [pod for pod in pods if pod["metadata"]["uid"] not in whose]
        refusals = self._evict(
            [pod for pod in others if not pod["metadata"].get("deletionTimestamp")], grace_s
        )
        return LeftOnNode(frozenset(whose.values()), len(others), refusals)

    def _evict(self, pods: Iterable[Object], grace_s: int) -> tuple[str, ...]:
        """Evict `pods`. Return a few of the reasons why some of them may not go."""
        waiting = list(pods)
        # Shuffled, so that Pods kept by a budget do not block the others for ever.
        self._chance.shuffle(waiting)
        ends_s = time.monotonic() + _ROUND_S
        refusals: list[str] = []
        for pod in waiting:
            if time.monotonic() >= ends_s:
                break
            metadata = pod["metadata"]
            name, namespace = metadata["name"], metadata["namespace"]
            try:
                self._api.evict(
                    pod_path(pod),
                    name=name,
                    namespace=namespace,
                    uid=metadata["uid"],
                    grace_s=min(_own_grace_s(pod), grace_s),
                )
            except KubeRefused as error:
                if isinstance(error, Forbidden) and error.is_for_all:
                    raise NodeRefused(
                        "the portal's service account may not evict Pods; give it the right to "
                        f"create pods/eviction ({error})"
                    ) from error
                # A budget or a policy refuses this one Pod.
                why = " ".join((error.message, *(cause.message for cause in error.causes)))
                refusals.append(f"{namespace}/{name}: {why}"[:_REFUSAL_LENGTH_MAX])
        return tuple(sorted(refusals)[:_REFUSALS_REPORTED])


def must_go(pod: Object) -> bool:
    """Return whether the node counts as empty only without `pod`."""
    return not (is_of_its_node(pod) or is_over(pod))


def _own_grace_s(pod: Object) -> int:
    asked = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    return _OWN_GRACE_S if asked is None else int(asked)
