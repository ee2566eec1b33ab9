"""What is left of Pods when the bed's servers or nodes are taken down."""

import http.client
import json
import time
from pathlib import Path
from typing import Any

import pytest

from builders.bed_pods import (
    a_pod,
    annotate,
    create,
    delete,
    has_phase,
    is_gone,
    is_over,
    read_log,
    says,
    terminated,
)
from kube_bed import KubeBed, until

pytestmark = pytest.mark.disturbs_kube


def test_pods_outlive_the_runner(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given a runner that is killed, Pods that end are told of as they ended."""
    short = "echo up; sleep 1; echo done; echo msg > /dev/termination-log; exit 6"
    long = "trap 'exit 8' TERM; echo up; sleep 300 & wait"
    create(kube_bed, a_pod(kube_namespace, "short", short))
    create(kube_bed, a_pod(kube_namespace, "long", long))
    for name in ("short", "long"):
        has_phase(kube_bed, kube_namespace, name, "Running")
    with kube_bed.without("runner"):
        time.sleep(1.5)  # the short one ends while nobody looks
        uid = kube_bed.pod(kube_namespace, "short")["metadata"]["uid"]
        log = kube_bed.folder / "pods" / uid / "log"
        until(lambda: "done" in log.read_text(), "it does not go on")
    end = terminated(is_over(kube_bed, kube_namespace, "short"))

    assert (end["exitCode"], end["message"]) == (6, "msg\n")
    assert read_log(kube_bed, kube_namespace, "short") == "up\ndone\n"
    assert read_log(kube_bed, kube_namespace, "long") == "up\n"
    assert kube_bed.pod(kube_namespace, "long")["status"]["phase"] == "Running"
    delete(kube_bed, kube_namespace, "long")
    is_gone(kube_bed, kube_namespace, "long")


def test_pods_end_with_the_runtime_and_are_told_of_as_lost(
    kube_bed: KubeBed, kube_namespace: str
) -> None:
    """Given a runtime that is killed, its Pods are Failed and start no second time."""
    create(kube_bed, a_pod(kube_namespace, "lost", "echo up; sleep 300"))
    says(kube_bed, kube_namespace, "lost", "up")
    with kube_bed.without("runtime"):
        pass
    end = terminated(is_over(kube_bed, kube_namespace, "lost"))

    assert (end["reason"], end["exitCode"]) == ("ContainerStatusUnknown", 137)
    assert read_log(kube_bed, kube_namespace, "lost") == "up\n"
    create(kube_bed, a_pod(kube_namespace, "next", "echo fine"))
    assert terminated(is_over(kube_bed, kube_namespace, "next"))["exitCode"] == 0


def test_a_pod_on_a_node_that_is_not_ready_is_evicted(
    kube_bed: KubeBed, kube_namespace: str
) -> None:
    """Given a node that is not Ready, its Pods get SIGTERM after some seconds and go."""
    script = "trap 'exit 9' TERM; echo up; sleep 300 & wait"
    create(kube_bed, a_pod(kube_namespace, "evicted", script))
    node = has_phase(kube_bed, kube_namespace, "evicted", "Running")["spec"]["nodeName"]
    kube_bed.node_down(node)
    try:
        is_gone(kube_bed, kube_namespace, "evicted")
    finally:
        kube_bed.node_up(node)

    def is_usable() -> bool:
        found: dict[str, Any] = kube_bed.find(f"/api/v1/nodes/{node}") or {}
        return not found["spec"].get("taints")

    until(is_usable, f"{node} is not back")


def test_what_an_api_server_missed_is_made_up_for(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given an API server that is away while a Pod ends, the end is told when it is back."""
    create(kube_bed, a_pod(kube_namespace, "ends", "sleep 1; exit 2"))
    has_phase(kube_bed, kube_namespace, "ends", "Running")
    kube_bed.kill("apiserver")
    time.sleep(1.5)
    kube_bed.run("apiserver")

    assert terminated(is_over(kube_bed, kube_namespace, "ends"))["exitCode"] == 2


def test_a_watch_from_before_a_compaction_is_answered_with_410(
    kube_bed: KubeBed, kube_namespace: str
) -> None:
    """Given etcd compacted beyond a version, a watch from there is 410 inside a 200 stream.

    The API server answers watches of lately changed kinds from its own memory, which goes back
    further than etcd; it forgets that when it starts again.
    """
    path = f"/api/v1/namespaces/{kube_namespace}/configmaps"
    version = kube_bed.api.call("GET", path)["metadata"]["resourceVersion"]
    create(kube_bed, a_pod(kube_namespace, "goes-on", "echo up; sleep 300"))
    says(kube_bed, kube_namespace, "goes-on", "up")
    for number in range(5):
        annotate(kube_bed, kube_namespace, "goes-on", {"example/count": str(number)})
    newest = kube_bed.api.call("GET", path)["metadata"]["resourceVersion"]

    assert _first_event(kube_bed, path, version) is None
    _compact(kube_bed, int(newest))
    assert _first_event(kube_bed, path, version) is None
    kube_bed.kill("apiserver")
    kube_bed.run("apiserver")
    event = _first_event(kube_bed, path, version)

    assert event is not None
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    # The bed's runner has lived through it.
    delete(kube_bed, kube_namespace, "goes-on")
    is_gone(kube_bed, kube_namespace, "goes-on")


def _first_event(bed: KubeBed, path: str, version: str) -> dict[str, Any] | None:
    """The first event of a watch from `version`, or None if there is none within 2 s."""
    link = bed.api.connection(timeout_s=30)
    try:
        link.request("GET", f"{path}?watch=1&timeoutSeconds=2&resourceVersion={version}")
        response = link.getresponse()
        assert response.status == 200
        line = response.readline()
        return json.loads(line) if line else None
    finally:
        link.close()


def _compact(bed: KubeBed, revision: int) -> None:
    """Let etcd forget what was before `revision`, through its JSON gateway."""
    link = http.client.HTTPSConnection(
        "127.0.0.1", bed.ports["etcd"], context=bed.api.tls, timeout=30
    )
    try:
        link.request("POST", "/v3/kv/compaction", json.dumps({"revision": revision}))
        response = link.getresponse()
        assert response.status == 200, response.read()
    finally:
        link.close()


def test_a_frozen_server_goes_on(kube_bed: KubeBed) -> None:
    """Given a server that hangs, it is stopped in the block and runs after it."""
    pid = (kube_bed.folder / "run" / "scheduler.pid").read_text().split()[0]

    def state() -> str:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

    with kube_bed.frozen("scheduler"):
        until(lambda: state() == "T", "it goes on")
    assert state() != "T"
    assert kube_bed.ended() == []
