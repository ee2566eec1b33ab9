"""CPU and memory of running attempts on a Kubernetes cluster, by its metrics API.

metrics-server, or another server of `metrics.k8s.io`, reports the usage of each container: CPU as a
mean rate over a window of its own, and memory as the working set. It reports no CPU time since the
start, nothing about GPUs, and nothing about Pods that have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from connectors.errors import ClusterUnavailable
from connectors.kubernetes.client.api import Forbidden, KubeApi, KubeList, KubeRefused, NotFound
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.attempts import Attempt
from connectors.kubernetes.objects.reading import (
    Object,
    Odd,
    cpu_nano,
    memory_bytes,
    moment,
    needed,
    parts,
)
from connectors.metrics import FinalMetrics, MetricSample
from connectors.protocol import ClusterConnector

API_PATH = "/apis/metrics.k8s.io/v1beta1"
PODS_PATH = f"{API_PATH}/pods"
NOT_ALLOWED = (
    "the portal's account may not list pods of metrics.k8s.io; an administrator of the cluster "
    "applies deploy/kubernetes/role.yaml of this version"
)
_NANO_PER_MILLI = 10**6

#: The namespace and name of a Pod.
PodName = tuple[str, str]


def open_metrics(connector: ClusterConnector) -> KubernetesMetrics:
    """Return the metrics of the Kubernetes cluster of `connector`."""
    assert isinstance(connector, KubernetesConnector)
    return KubernetesMetrics(connector)


class KubernetesMetrics:
    """Implements `connectors.metrics.MetricReader`."""

    def __init__(self, connector: KubernetesConnector) -> None:
        self._connector = connector

    def running(self, keys: Sequence[str]) -> Sequence[MetricSample]:
        """See the protocol. A single list has the Pods of all attempts, whatever the keys.

        A cluster without the metrics API has no samples. A missing right is noted for its page.
        """
        if not keys:
            # The refusal is not tried again until a job runs.
            self._connector.note_metrics("")
            return ()
        listed, refusal = _listed(self._connector.api, self._connector.cluster_id)
        self._connector.note_metrics(refusal)
        if listed is None:
            return ()
        uses = uses_of(listed.items)
        found = []
        for key in keys:
            pods = running_pods(self._connector.known_attempts(key))
            sample = sample_of(key, pods, uses, listed_at=listed.observed_at)
            if sample is not None:
                found.append(sample)
        return found

    def ended(self, key: str, native_id: str) -> FinalMetrics | None:
        """Return None: the metrics API knows running Pods only."""
        return None


@dataclass(frozen=True, slots=True)
class PodUse:
    """The usage of one Pod, summed over its containers, at `measured_at` in epoch seconds."""

    measured_at: int
    cpu_nano: int
    memory_bytes: int


def uses_of(items: Iterable[Object]) -> Mapping[PodName, PodUse]:
    """Return the usage of each of these PodMetrics. Invalid or incomplete ones are left out."""
    found: dict[PodName, PodUse] = {}
    for item in items:
        try:
            name = needed(item, "metadata", "namespace"), needed(item, "metadata", "name")
            measured_at = moment(item, "timestamp")
            containers = parts(item, "containers")
            cpus = [cpu_nano(one, "usage", "cpu") for one in containers]
            memories = [memory_bytes(one, "usage", "memory") for one in containers]
        except Odd:
            continue
        known_cpus = [cpu for cpu in cpus if cpu is not None]
        known_memories = [memory for memory in memories if memory is not None]
        is_complete = len(known_cpus) == len(known_memories) == len(containers) > 0
        if measured_at is not None and is_complete:
            found[name] = PodUse(measured_at, sum(known_cpus), sum(known_memories))
    return found


def running_pods(attempts: Sequence[Attempt]) -> frozenset[PodName]:
    """Return the running Pods of the attempts of one key.

    Return none of attempts in several namespaces: anybody can write the key of another's job onto
    an object, and the usage of both would be one sum.
    """
    if len({attempt.item["metadata"]["namespace"] for attempt in attempts}) != 1:
        return frozenset()
    return frozenset(
        (str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"]))
        for attempt in attempts
        for pod in attempt.pods
        if (pod.get("status") or {}).get("phase") == "Running"
    )


def sample_of(
    key: str, pods: frozenset[PodName], uses: Mapping[PodName, PodUse], *, listed_at: int
) -> MetricSample | None:
    """Return the sample of an attempt with these running Pods.

    Return None while a Pod has no figures yet: the sum over the others would be too low. The sample
    has the time of the latest figures, so that figures that are listed twice count once.
    """
    if not pods or not pods <= uses.keys():
        return None
    found = [uses[pod] for pod in pods]
    return MetricSample(
        key,
        # The clock of a node may be ahead of the API server's.
        min(listed_at, max(use.measured_at for use in found)),
        cpu_rate_milli=sum(use.cpu_nano for use in found) // _NANO_PER_MILLI,
        memory_bytes=sum(use.memory_bytes for use in found),
    )


def _listed(api: KubeApi, cluster_id: str) -> tuple[KubeList | None, str]:
    """Return the PodMetrics of all attempts, or None and why they are refused.

    The reason is "" on a cluster without the metrics API. Raises ClusterUnavailable.
    """
    try:
        return api.list(PODS_PATH, labels=naming.selector(cluster_id)), ""
    except NotFound:
        return None, ""
    except Forbidden:
        # Rights come first: without them, a cluster without the metrics API answers the same.
        return None, NOT_ALLOWED if _is_served(api) else ""
    except KubeRefused as error:
        raise ClusterUnavailable(f"the metrics API answers: {error}") from error


def _is_served(api: KubeApi) -> bool:
    """Return whether the cluster has the metrics API. Raises ClusterUnavailable."""
    try:
        api.get(API_PATH)
    except NotFound:
        return False
    except KubeRefused:
        # Discovery is closed to the account.
        return True
    return True
