"""Why the cluster refuses to create Pods of an admitted workload: Pod Security, quota, webhook.

Only events contain the reason. They are requested for a workload without Pods and not watched,
because a cluster has very many of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from connectors.errors import ConnectorError
from connectors.kubernetes.client.api import KubeList

log = logging.getLogger(__name__)

Json = dict[str, Any]

#: A namespace is queried at most once in so many seconds, and at most so many per look.
AGAIN_S = 10.0
AT_ONCE = 4
#: The most events kept per namespace, the newest ones.
_EVENTS_MAX = 500
_SELECTOR = "reason=FailedCreate,type=Warning"


class Source(Protocol):
    """The part of `KubeApi` that this module needs."""

    def list(self, path: str, *, labels: str = "", fields: str = "") -> KubeList: ...


class Refusals:
    """Recent refusals in namespaces where a workload waits for its Pods."""

    def __init__(self, api: Source, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._monotonic_s = monotonic_s
        # By namespace, the time of its last query, and the events.
        self._known: Mapping[str, tuple[float, tuple[Json, ...]]] = {}

    def known(self) -> tuple[Json, ...]:
        """Return the known events, by namespace with the newest last."""
        return tuple(event for _, events in self._known.values() for event in events)

    def ask(self, namespaces: Iterable[str]) -> None:
        """Request the events of these `namespaces`, and forget all others.

        A failed request leaves them unknown: only the text of a message is lost.
        """
        never = (-float("inf"), ())
        known = {one: self._known.get(one, never) for one in sorted(set(namespaces))}
        now_s = self._monotonic_s()
        due = [one for one, (asked_s, _) in known.items() if now_s - asked_s >= AGAIN_S]
        for namespace in sorted(due, key=lambda one: known[one][0])[:AT_ONCE]:
            try:
                listed = self._api.list(
                    f"/api/v1/namespaces/{namespace}/events", fields=_SELECTOR
                ).items
            except ConnectorError as error:
                log.info("why %s gets no Pods is not known: %s", namespace, error)
                listed = []
            newest = sorted(listed, key=lambda event: str(event.get("lastTimestamp") or ""))
            known[namespace] = (now_s, tuple(newest[-_EVENTS_MAX:]))
        self._known = known
