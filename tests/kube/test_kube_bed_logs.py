"""Logs of Pods through the API server, with every option that a reader has."""

import threading
import time

import pytest

from builders.bed_pods import a_pod, create, delete, is_over, read_log, says
from kube_bed import KubeBed

pytestmark = pytest.mark.kube


def test_a_log_is_read_in_whole_and_in_part(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given lines and a last one without an end, each option gives its part of them."""
    script = "for i in 1 2 3; do echo line $i; done; printf last"
    create(kube_bed, a_pod(kube_namespace, "said", script))
    is_over(kube_bed, kube_namespace, "said")

    def read(query: str = "") -> str:
        return read_log(kube_bed, kube_namespace, "said", query)

    assert read() == "line 1\nline 2\nline 3\nlast"
    assert read("?tailLines=2") == "line 3\nlast"
    assert read("?tailLines=0") == ""
    assert read("?limitBytes=9") == "line 1\nli"
    assert read("?follow=true") == read()
    stamped = read("?timestamps=true").splitlines()
    assert [line.partition(" ")[2] for line in stamped] == read().splitlines()
    moment = stamped[0].partition(" ")[0]
    assert len(moment) == len("2026-01-01T00:00:00.000000000Z")
    assert read("?sinceSeconds=3600") == read()
    assert read("?sinceTime=2100-01-01T00:00:00Z") == ""
    assert read("?sinceTime=2000-01-01T02:00:00%2B02:00") == read()


def test_a_followed_log_ends_with_its_container(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given a reader that follows, lines come at once, and the stream ends when the Pod is over."""
    script = "trap 'echo bye; exit 0' TERM; echo up; sleep 0.5; echo on; sleep 300 & wait"
    create(kube_bed, a_pod(kube_namespace, "live", script, terminationGracePeriodSeconds=9))
    says(kube_bed, kube_namespace, "live", "on")
    text: list[str] = []

    def follow() -> None:
        text.append(read_log(kube_bed, kube_namespace, "live", "?follow=true"))

    reader = threading.Thread(target=follow)
    reader.start()
    reader.join(timeout=1)
    assert reader.is_alive()
    delete(kube_bed, kube_namespace, "live")
    reader.join(timeout=60)

    assert not reader.is_alive()
    assert text == ["up\non\nbye\n"]


def test_a_line_arrives_while_the_log_is_followed(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given a reader that follows, a line is there soon after it is printed."""
    script = (
        "echo up; while [ ! -e /dev/shm/go ]; do sleep 0.2; touch /dev/shm/go; done; date +%s%N"
    )
    create(kube_bed, a_pod(kube_namespace, "soon", f"{script}; sleep 60"))
    says(kube_bed, kube_namespace, "soon", "up")
    link = kube_bed.api.connection(timeout_s=20)
    path = f"/api/v1/namespaces/{kube_namespace}/pods/soon/log?follow=true"
    link.request("GET", path)
    response = link.getresponse()
    lines = [response.readline(), response.readline()]
    late_ns = time.time_ns() - int(lines[1])
    link.close()

    assert lines[0] == b"up\n"
    assert late_ns < 5 * 10**9


def test_the_log_of_a_kwok_pod_is_kwok_s_to_tell(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given a Pod without a process, its log is asked of kwok, which has none."""
    marks = {"bed.tidegate.io/run-seconds": "0"}
    create(kube_bed, a_pod(kube_namespace, "fake", annotations=marks))
    is_over(kube_bed, kube_namespace, "fake")

    with pytest.raises(AssertionError, match="no logs found"):
        read_log(kube_bed, kube_namespace, "fake")


def test_a_log_that_is_not_there_yet_is_refused(kube_bed: KubeBed, kube_namespace: str) -> None:
    """Given a container that waits, and one that was never restarted, the reader is told so."""
    image = {"image": "registry.invalid/x"}
    create(kube_bed, a_pod(kube_namespace, "waits", container=image))
    create(kube_bed, a_pod(kube_namespace, "once", "echo x"))
    is_over(kube_bed, kube_namespace, "once")

    with pytest.raises(AssertionError, match="is waiting to start"):
        read_log(kube_bed, kube_namespace, "waits")
    with pytest.raises(AssertionError, match="previous terminated container"):
        read_log(kube_bed, kube_namespace, "once", "?previous=true")
