"""Metrics of a gang on a real Kubernetes, whose figures are made up.

The API server, its rights and its aggregation of `metrics.k8s.io` are real. Behind them is a small
HTTPS server of this test in place of metrics-server: the bed's nodes measure nothing.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from builders.connector_builders import a_workload, eventually, until_running
from conformance.rigs import KubernetesRig
from connectors.errors import ClusterUnavailable
from connectors.kubernetes.client.api import Forbidden, KubeApi, NotFound
from connectors.kubernetes.kind import KUBERNETES
from connectors.kubernetes.metrics import API_PATH, NOT_ALLOWED, PODS_PATH
from connectors.kubernetes.objects.naming import selector
from connectors.kubernetes.objects.resources import POD
from connectors.metrics import MetricReader, MetricSample
from kube_bed import KubeBed

# Namespaces are not deleted while the API server knows an API that does not answer.
pytestmark = pytest.mark.disturbs_kube

Json = dict[str, Any]
GROUP, VERSION = "metrics.k8s.io", "v1beta1"
SERVICE = "/api/v1/namespaces/kube-system/services/made-up-metrics"
API_SERVICE = f"/apis/apiregistration.k8s.io/v1/apiservices/{VERSION}.{GROUP}"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tidegate-portal"
DISCOVERY: Json = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/{VERSION}",
    "resources": [
        {
            "name": "pods",
            "singularName": "",
            "namespaced": True,
            "kind": "PodMetrics",
            "verbs": ["get", "list"],
        }
    ],
}
MEASURED_AT = "2024-01-02T03:04:05Z"
MEASURED_S = int(datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp())
MIB = 1 << 20


@dataclass
class MadeUpMetrics:
    """Serves `metrics.k8s.io` as metrics-server does, with equal usage of all Pods that run.

    Like metrics-server, it lists the Pods itself, by the selector that it is asked for.
    """

    admin: KubeApi
    usage: Mapping[str, str]
    port: int = 0
    asked: list[str] = field(default_factory=list)

    def answer(self, address: str) -> Json | None:
        """Return the answer to a GET; None where there is nothing."""
        parts = urlsplit(address)
        if parts.path == API_PATH:
            return DISCOVERY
        if parts.path != f"{API_PATH}/pods":
            return None
        (labels,) = parse_qs(parts.query).get("labelSelector", [""])
        if labels:
            self.asked.append(labels)
        pods = self.admin.list(POD.collection(), labels=labels, fields="status.phase=Running")
        items = [self._metrics(pod["metadata"]) for pod in pods.items]
        return {
            "kind": "PodMetricsList",
            "apiVersion": f"{GROUP}/{VERSION}",
            "metadata": {},
            "items": items,
        }

    def _metrics(self, metadata: Json) -> Json:
        named = {name: metadata[name] for name in ("name", "namespace", "labels")}
        return {
            "metadata": {**named, "creationTimestamp": MEASURED_AT},
            "timestamp": MEASURED_AT,
            "window": "15.032s",
            "containers": [{"name": "main", "usage": dict(self.usage)}],
        }


@contextmanager
def serving(metrics: MadeUpMetrics, bed: KubeBed) -> Iterator[None]:
    """Serve `metrics` on a free port of this machine, with the certificate of the bed."""

    class Handler(BaseHTTPRequestHandler):
        # HTTP/1.0: no connection outlives the server.
        timeout = 30

        def do_GET(self) -> None:
            found = metrics.answer(self.path)
            body = json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", metrics.port), Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pki = bed.settings.pki
    context.load_cert_chain(pki / "server.crt", pki / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    metrics.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def registered(metrics: MadeUpMetrics) -> Iterator[None]:
    """Have the API server aggregate `metrics`."""
    admin = metrics.admin
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "made-up-metrics", "namespace": "kube-system"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    api_service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{VERSION}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            # The certificate of the bed does not have the name of this Service.
            "insecureSkipTLSVerify": True,
            "service": {
                "name": "made-up-metrics",
                "namespace": "kube-system",
                "port": metrics.port,
            },
        },
    }
    try:
        admin.apply(SERVICE, service, force=True, manager="test")
        admin.apply(API_SERVICE, api_service, force=True, manager="test")
        eventually(lambda: is_available(admin), told=lambda: admin.get(API_SERVICE)["status"])
        yield
    finally:
        admin.delete(API_SERVICE)
        admin.delete(SERVICE)


def is_available(admin: KubeApi) -> bool:
    """Return whether the API server reaches the metrics."""
    conditions = (admin.get(API_SERVICE).get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)


@contextmanager
def without_the_right(admin: KubeApi) -> Iterator[None]:
    """Take the right to metrics from the portal's account."""
    rules = admin.get(ROLE)["rules"]
    fewer = [rule for rule in rules if rule["apiGroups"] != [GROUP]]
    assert len(fewer) == len(rules) - 1
    admin.merge_patch(ROLE, {"rules": fewer})
    try:
        yield
    finally:
        admin.merge_patch(ROLE, {"rules": rules})


def may_list(bed: KubeBed) -> bool:
    """Return whether the portal's account may list metrics, should there be any."""
    portal = KubeApi(kubeconfig=str(bed.portal_kubeconfig))
    try:
        portal.list(PODS_PATH)
    except Forbidden:
        return False
    except NotFound:
        return True
    finally:
        portal.close()
    return True


def complaints(rig: KubernetesRig) -> list[str]:
    """Return what the page of the cluster says about metrics."""
    return [one for one in rig.connector.inventory().complaints if "metrics" in one]


def reader_of(rig: KubernetesRig) -> MetricReader:
    opener = KUBERNETES.open_metrics
    assert opener is not None
    return opener(rig.connector)


def test_a_gang_has_the_sum_of_its_pods(
    kubernetes_rig: KubernetesRig, kube_bed: KubeBed, admin: KubeApi
) -> None:
    """Without the API there is nothing, and nothing is wrong. Without the right, the page names it.

    Against: the account could not list them. Against: a selector that the API does not take.
    """
    rig, reader = kubernetes_rig, reader_of(kubernetes_rig)
    gang = a_workload("sleep 300", ranks=2, mgpu=1_000)
    rig.start(gang)
    until_running(rig.connector, gang.key)
    assert reader.running([gang.key]) == ()
    with without_the_right(admin):
        eventually(lambda: not may_list(kube_bed))
        assert reader.running([gang.key]) == ()
        assert complaints(rig) == []
    eventually(lambda: may_list(kube_bed))

    metrics = MadeUpMetrics(admin, {"cpu": "250500000n", "memory": "1536Ki"})
    sample = MetricSample(gang.key, MEASURED_S, cpu_rate_milli=501, memory_bytes=3 * MIB)
    with serving(metrics, kube_bed), registered(metrics):
        eventually(
            lambda: reader.running([gang.key, "unknown"]) == [sample],
            told=lambda: reader.running([gang.key]),
        )
        assert set(metrics.asked) == {selector(rig.cluster_id)}
        assert complaints(rig) == []
        with without_the_right(admin):
            eventually(lambda: not may_list(kube_bed))
            assert reader.running([gang.key]) == ()
            assert complaints(rig) == [f"Jobs there have no metrics: {NOT_ALLOWED}."]
        eventually(lambda: may_list(kube_bed))
        assert reader.running([gang.key]) == [sample]
        assert complaints(rig) == []


def test_metrics_that_do_not_answer_are_asked_for_later(
    kubernetes_rig: KubernetesRig, kube_bed: KubeBed, admin: KubeApi
) -> None:
    """Against: no samples, as if the cluster had no metrics at all."""
    reader = reader_of(kubernetes_rig)
    metrics = MadeUpMetrics(admin, {"cpu": "1", "memory": "1Mi"})
    with ExitStack() as server:
        server.enter_context(serving(metrics, kube_bed))
        with registered(metrics):
            assert reader.running(["unknown"]) == []
            server.close()
            with pytest.raises(ClusterUnavailable):
                reader.running(["unknown"])
    eventually(lambda: not is_served(admin))
    assert reader.running(["unknown"]) == ()


def is_served(admin: KubeApi) -> bool:
    """Return whether the API server still knows the metrics API."""
    try:
        admin.get(API_PATH)
    except NotFound:
        return False
    except ClusterUnavailable:
        return True
    return True
