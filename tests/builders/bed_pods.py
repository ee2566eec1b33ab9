"""Pods and Jobs for the real Kubernetes, and what is asked of them."""

import calendar
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kube_bed import KubeBed, until

Document = dict[str, Any]
_MERGE = "application/merge-patch+json"


def a_pod(
    namespace: str,
    name: str,
    script: str = "true",
    *,
    command: Sequence[str] | None = None,
    container: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Document:
    """A Pod whose container runs `script`, or `command`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": dict(annotations or {}),
            "labels": dict(labels or {}),
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 2,
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "command": list(command or ["/bin/sh", "-c", script]),
                    **(container or {}),
                }
            ],
            **spec,
        },
    }


def create(bed: KubeBed, document: Document) -> Document:
    """Create a Pod, ConfigMap or Job."""
    kind, metadata = document["kind"], document["metadata"]
    root = "/apis/batch/v1" if kind == "Job" else "/api/v1"
    path = f"{root}/namespaces/{metadata['namespace']}/{kind.lower()}s"
    return bed.api.call("POST", path, document)


def a_config_map(namespace: str, name: str, data: Mapping[str, str]) -> Document:
    """A ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": dict(data),
    }


def has_phase(bed: KubeBed, namespace: str, name: str, *phases: str) -> Document:
    """The Pod, once it has one of these phases."""

    def look() -> Document | None:
        pod = bed.pod(namespace, name)
        return pod if pod and pod["status"].get("phase") in phases else None

    return until(look, f"{name} is not {' or '.join(phases)}")


def is_over(bed: KubeBed, namespace: str, name: str) -> Document:
    """The Pod, once it is over."""
    return has_phase(bed, namespace, name, "Succeeded", "Failed")


def is_gone(bed: KubeBed, namespace: str, name: str) -> None:
    """Return once the Pod is no more."""
    until(lambda: bed.pod(namespace, name) is None, f"{name} is still there")


def terminated(pod: Mapping[str, Any]) -> Document:
    """How the Pod's container ended."""
    found: Document = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return found


def delete(bed: KubeBed, namespace: str, name: str, grace_s: int | None = None) -> None:
    """Ask for the Pod to go."""
    body = None if grace_s is None else {"gracePeriodSeconds": grace_s}
    bed.api.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", body)


def annotate(bed: KubeBed, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
    """Give the Pod annotations."""
    body = {"metadata": {"annotations": dict(annotations)}}
    bed.api.call("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}", body, _MERGE)


def read_log(bed: KubeBed, namespace: str, name: str, query: str = "") -> str:
    """The Pod's log through the API server; fails when it is refused."""
    link = bed.api.connection(timeout_s=60)
    try:
        link.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}/log{query}")
        response = link.getresponse()
        text = response.read().decode()
        assert response.status == 200, text
        return text
    finally:
        link.close()


def says(bed: KubeBed, namespace: str, name: str, text: str) -> str:
    """The Pod's log, once `text` is in it."""

    def look() -> str | None:
        pod = bed.pod(namespace, name)
        if not pod or pod["status"].get("phase") == "Pending":
            return None
        log = read_log(bed, namespace, name)
        return log if text in log else None

    return until(look, f"{name} does not say {text}")


def seconds(moment: str) -> int:
    """An API time in seconds since 1970."""
    return calendar.timegm(time.strptime(moment, "%Y-%m-%dT%H:%M:%SZ"))
