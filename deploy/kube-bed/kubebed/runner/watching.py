"""Follows the Pods that are bound to nodes: a list, then a watch, then a list again."""

from __future__ import annotations

import http.client
import json
import logging
import time
from typing import Any, Protocol

from kubebed.api import Api, Refused

Document = dict[str, Any]
_PODS = "/api/v1/pods?fieldSelector=spec.nodeName!%3D"
_WATCH_S = 300
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0)
log = logging.getLogger(__name__)


class PodListener(Protocol):
    """Who is told of Pods."""

    def seen(self, pod: Document) -> None:
        """A Pod, as it is now."""

    def only(self, uids: set[str]) -> None:
        """There are these and no others."""

    def gone(self, pod: Document) -> None:
        """A Pod that is no more, as it was at last."""


class _Expired(Exception):
    """The version is too old; 410 comes inside the stream too."""


def follow_pods(api: Api, listener: PodListener) -> None:
    """Tell the listener of every change, for ever."""
    failures = 0
    while True:
        try:
            version = _list(api, listener)
            while True:
                version = _watch(api, listener, version)
                failures = 0
        except _Expired:
            log.info("the watch is too old, listing again")
        except (OSError, http.client.HTTPException, Refused, ValueError) as error:
            log.warning("no Pods to be had: %s", error)
            time.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])
            failures += 1


def _list(api: Api, listener: PodListener) -> str:
    listed = api.call("GET", _PODS)
    for pod in listed["items"]:
        listener.seen(pod)
    listener.only({pod["metadata"]["uid"] for pod in listed["items"]})
    return str(listed["metadata"]["resourceVersion"])


def _watch(api: Api, listener: PodListener, version: str) -> str:
    link = api.connection(_WATCH_S + 30)
    try:
        link.request(
            "GET",
            f"{_PODS}&watch=1&allowWatchBookmarks=true&timeoutSeconds={_WATCH_S}"
            f"&resourceVersion={version}",
        )
        response = link.getresponse()
        if response.status == 410:
            raise _Expired
        if response.status != 200:
            raise ConnectionError(f"watch: {response.status} {response.read(500)!r}")
        while line := response.readline():
            version = _tell(json.loads(line), listener, version)
        return version
    finally:
        link.close()


def _tell(event: Document, listener: PodListener, version: str) -> str:
    found = event["object"]
    if event["type"] == "ERROR":
        if found.get("code") == 410:
            raise _Expired
        raise ConnectionError(f"watch: {found.get('message')}")
    if event["type"] in ("ADDED", "MODIFIED"):
        listener.seen(found)
    elif event["type"] == "DELETED":
        listener.gone(found)
    return str(found["metadata"].get("resourceVersion", version))
