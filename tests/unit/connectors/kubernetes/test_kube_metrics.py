"""CPU and memory of attempts, by answers of metrics-server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from builders.kube_objects import (
    CLUSTER_ID,
    KEY,
    NAMESPACE,
    a_kube_job,
    a_kube_pod,
)
from connectors.errors import ClusterUnavailable
from connectors.kubernetes.client.api import Forbidden, KubeList, KubeRefused, NotFound
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.metrics import API_PATH, PODS_PATH, open_metrics
from connectors.kubernetes.objects.naming import selector
from connectors.kubernetes.options.options import parse_options
from connectors.metrics import MetricReader, MetricSample

Json = dict[str, Any]
LISTED_AT = 1_795_294_500
MIB = 1 << 20
NO_RIGHT = (
    'pods.metrics.k8s.io is forbidden: User "portal" cannot list resource "pods" in API group '
    '"metrics.k8s.io" at the cluster scope'
)
MISSING = "the server could not find the requested resource"


def pod_metrics(
    name: str, *usages: tuple[object, object], at: str = "2026-11-21T20:54:45Z", **changes: Any
) -> Json:
    """The PodMetrics of a Pod in the shape in which metrics-server 0.8 answers."""
    return {
        "kind": "PodMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "creationTimestamp": "2026-11-21T20:55:00Z",
            "labels": {"tidegate.io/attempt": "true"},
        },
        "timestamp": at,
        "window": "15.032s",
        "containers": [
            {"name": f"c{number}", "usage": {"cpu": cpu, "memory": memory}}
            for number, (cpu, memory) in enumerate(usages)
        ],
        **changes,
    }


class ACluster:
    """A connector with these attempts, whose server answers with these PodMetrics.

    `refusal` is what listing them raises. `is_served` says whether the API exists.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        options = parse_options({"kubeconfig": "/k", "pools": {"h100": {}}})
        self.connector = KubernetesConnector(options, CLUSTER_ID)
        self.items: list[Json] = []
        self.refusal: Exception | None = None
        self.is_served = True
        self.asked: list[tuple[str, str]] = []
        monkeypatch.setattr(self.connector.api, "list", self._list)
        monkeypatch.setattr(self.connector.api, "get", self._get)
        monkeypatch.setattr(self.connector, "_start", lambda: None)

    @property
    def reader(self) -> MetricReader:
        return open_metrics(self.connector)

    def has(self, uid: str, key: str, *pods: str, **metadata: Any) -> None:
        """An attempt with running Pods of these names."""
        attempts = self.connector._caches.attempts
        attempts.item_changed(None, a_kube_job(uid, key=key, **metadata))
        for name in pods:
            attempts.pod_changed(None, a_kube_pod(name, key=key, **metadata))

    def _list(self, path: str, *, labels: str = "", fields: str = "") -> KubeList:
        self.asked.append((path, labels))
        if self.refusal is not None:
            raise self.refusal
        return KubeList(self.items, "", LISTED_AT)

    def _get(self, path: str) -> Json:
        assert path == API_PATH
        if not self.is_served:
            raise NotFound(404, "NotFound", MISSING, ())
        return {"kind": "APIResourceList"}

    def complaints(self, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
        """The complaints on the cluster's page, without those of Kueue."""
        monkeypatch.setattr(self.connector, "_kueue_complaints", tuple)
        monkeypatch.setattr(self.connector, "_api_version", lambda: "v1.36.3")
        monkeypatch.setattr(self.connector._caches, "nodes", tuple)
        probe = SimpleNamespace(observed_at=LISTED_AT, uid="u")
        monkeypatch.setattr(self.connector.api, "probe", lambda: probe)
        return self.connector.inventory().complaints


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ACluster:
    return ACluster(monkeypatch)


def test_usage_is_the_sum_over_the_pods_and_containers_of_an_attempt(cluster: ACluster) -> None:
    """A single list has all attempts.

    Planted: each container was rounded down to milli-cores, so that halves were lost.
    """
    cluster.has("j1", KEY, "a", "b")
    cluster.has("j2", "tg-2", "c")
    cluster.items = [
        pod_metrics("a", ("1500500000n", "1536Ki"), ("250m", "1.5Mi")),
        pod_metrics("b", ("500u", "128974848000m"), at="2026-11-21T20:54:46Z"),
        pod_metrics("c", ("0", "3Ki")),
        pod_metrics("another", ("7", "7Gi")),
    ]
    first, second = cluster.reader.running(["tg-gone", KEY, "tg-2"])
    assert first == MetricSample(
        KEY,
        1_795_294_486,
        # 1500.5 + 250 + 0.5 milli-cores.
        cpu_rate_milli=1_751,
        memory_bytes=1_536 * 1_024 + 3 * MIB // 2 + 128_974_848,
    )
    assert second == MetricSample("tg-2", 1_795_294_485, cpu_rate_milli=0, memory_bytes=3_072)
    assert cluster.asked == [(PODS_PATH, selector(CLUSTER_ID))]


def test_what_the_api_does_not_report_is_unknown(cluster: ACluster) -> None:
    """Against: a CPU time of 0, GPUs that read as idle, and a peak of the cluster's own."""
    cluster.has("j1", KEY, "a")
    cluster.items = [pod_metrics("a", ("1", "1Mi"))]
    (found,) = cluster.reader.running([KEY])
    assert (found.cpu_time_ms, found.memory_peak_bytes) == (None, None)
    assert (found.processes, found.gpus) == (None, None)
    assert cluster.reader.ended(KEY, "j1") is None


def test_an_attempt_has_no_sample_before_each_of_its_pods_has_figures(cluster: ACluster) -> None:
    """Against: the sum over some of its Pods, which is too low."""
    cluster.has("j1", KEY, "a", "b")
    cluster.items = [pod_metrics("a", ("1", "1Mi"))]
    assert cluster.reader.running([KEY]) == []
    # A Pod that has ended has no figures, and is not waited for.
    attempts = cluster.connector._caches.attempts
    attempts.pod_changed(a_kube_pod("b"), a_kube_pod("b", phase="Succeeded"))
    (found,) = cluster.reader.running([KEY])
    assert (found.cpu_rate_milli, found.memory_bytes) == (1_000, MIB)


@pytest.mark.parametrize(
    "invalid",
    [
        pod_metrics("a"),
        pod_metrics("a", ("1", "1Mi"), timestamp=None),
        pod_metrics("a", ("1", "1Mi"), at="yesterday"),
        pod_metrics("a", ("1", "1Mi"), ("1", None)),
        pod_metrics("a", ("-1", "1Mi")),
        pod_metrics("a", ("1", "1 MiB")),
        pod_metrics("a", containers="none"),
        pod_metrics("a", metadata={"name": "a"}),
    ],
)
def test_invalid_figures_are_none_and_harm_no_other_attempt(
    cluster: ACluster, invalid: Json
) -> None:
    cluster.has("j1", KEY, "a")
    cluster.has("j2", "tg-2", "b")
    cluster.items = [invalid, pod_metrics("b", ("2", "1Mi"))]
    (found,) = cluster.reader.running([KEY, "tg-2"])
    assert (found.key, found.cpu_rate_milli) == ("tg-2", 2_000)


def test_figures_that_are_listed_again_have_the_same_time(cluster: ACluster) -> None:
    """The portal skips them then. Against: the time of the list.

    A node whose clock is ahead gives no time that has not come yet.
    """
    cluster.has("j1", KEY, "a")
    cluster.items = [pod_metrics("a", ("1", "1Mi"))]
    times = [each.sampled_at for _ in range(2) for each in cluster.reader.running([KEY])]
    assert times == [1_795_294_485] * 2
    cluster.items = [pod_metrics("a", ("1", "1Mi"), at="2026-11-21T23:00:00Z")]
    assert [each.sampled_at for each in cluster.reader.running([KEY])] == [LISTED_AT]


def test_a_key_in_two_namespaces_has_no_figures(cluster: ACluster) -> None:
    """Planted: the Pods of somebody else's object counted for the job whose key it has."""
    cluster.has("j1", KEY, "a")
    cluster.has("j2", KEY, "b", namespace="somebody")
    other = pod_metrics("b", ("9", "9Gi"))
    other["metadata"]["namespace"] = "somebody"
    cluster.items = [pod_metrics("a", ("1", "1Mi")), other]
    assert cluster.reader.running([KEY]) == []


def test_a_cluster_without_the_metrics_api_reports_none(
    cluster: ACluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is wrong, with the right and without it, and the page has no complaint.

    Planted: a missing right on a cluster without the API was a complaint.
    """
    cluster.has("j1", KEY, "a")
    cluster.is_served = False
    for refusal in (
        NotFound(404, "NotFound", MISSING, ()),
        Forbidden(403, "Forbidden", NO_RIGHT, ()),
    ):
        cluster.refusal = refusal
        assert cluster.reader.running([KEY]) == ()
        assert cluster.complaints(monkeypatch) == ()


def test_the_page_names_the_right_that_is_missing_until_it_is_there(
    cluster: ACluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.has("j1", KEY, "a")
    cluster.refusal = Forbidden(403, "Forbidden", NO_RIGHT, ())
    assert cluster.reader.running([KEY]) == ()
    assert cluster.complaints(monkeypatch) == (
        "Jobs there have no metrics: the portal's account may not list pods of metrics.k8s.io; an "
        "administrator of the cluster applies deploy/kubernetes/role.yaml of this version.",
    )
    cluster.refusal = None
    assert cluster.reader.running([KEY]) == []
    assert cluster.complaints(monkeypatch) == ()


@pytest.mark.parametrize(
    "refusal",
    [
        ClusterUnavailable("GET /apis/metrics.k8s.io/v1beta1/pods: service unavailable"),
        KubeRefused(406, "NotAcceptable", "only other formats", ()),
    ],
)
def test_a_metrics_server_that_is_down_is_asked_again_later(
    cluster: ACluster, refusal: Exception
) -> None:
    """Against: an error that the portal does not expect of a reader."""
    cluster.has("j1", KEY, "a")
    cluster.refusal = refusal
    with pytest.raises(ClusterUnavailable):
        cluster.reader.running([KEY])


def test_a_cluster_where_nothing_runs_is_not_asked(cluster: ACluster) -> None:
    assert cluster.reader.running([]) == ()
    assert cluster.asked == []
