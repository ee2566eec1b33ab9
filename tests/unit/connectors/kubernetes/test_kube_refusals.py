"""Why the cluster makes no Pods of what it admitted, in its own words."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from builders.kube_states import CLUSTER_ID, NAMESPACE, alone, of_one, recorded
from connectors.errors import ClusterUnavailable
from connectors.kubernetes.admission.refusals import AGAIN_S, AT_ONCE, Refusals
from connectors.kubernetes.client.api import KubeList
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.options.options import parse_options

Json = dict[str, Any]
ADMITTED_FOR_S = 3_600
FORBIDDEN = 'pods "x" is forbidden: exceeded quota: gpus'


def an_event(message: str, *, of: str = "u1", at: str = "2026-11-21T20:54:00Z") -> Json:
    """The controller of the object `of` could not make a Pod."""
    return {
        "reason": "FailedCreate",
        "type": "Warning",
        "message": message,
        "involvedObject": {"kind": "Job", "uid": of},
        "lastTimestamp": at,
    }


@dataclass
class AServer:
    """Its events by namespace, and what it was asked for."""

    events: dict[str, list[Json]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    is_away: bool = False
    now_s: float = 0.0

    def list(self, path: str, *, labels: str = "", fields: str = "") -> KubeList:
        namespace = path.removeprefix("/api/v1/namespaces/").removesuffix("/events")
        self.asked.append(namespace)
        assert fields == "reason=FailedCreate,type=Warning"
        if self.is_away:
            raise ClusterUnavailable("it does not answer")
        return KubeList(self.events.get(namespace, []), "9", 0)


def refusals_of(server: AServer) -> Refusals:
    return Refusals(server, lambda: server.now_s)


def said(refusals: Refusals) -> list[str]:
    return [event["message"] for event in refusals.known()]


def test_a_namespace_is_asked_about_now_and_then_and_only_while_somebody_waits() -> None:
    """Mutants: asked at every look; remembered for ever; the newest not the last."""
    events = [an_event("new", at="2026-11-21T20:55:00Z"), an_event("old")]
    server = AServer({"tg-a": events, "tg-b": [an_event("b")]})
    refusals = refusals_of(server)
    refusals.ask(["tg-a"])
    refusals.ask(["tg-a"])
    assert (server.asked, said(refusals)) == (["tg-a"], ["old", "new"])
    server.now_s = AGAIN_S
    server.events["tg-a"] = [an_event("newer")]
    refusals.ask(["tg-a", "tg-b"])
    assert (server.asked, said(refusals)) == (["tg-a", "tg-b", "tg-a"], ["newer", "b"])
    refusals.ask(["tg-b"])
    assert said(refusals) == ["b"]
    refusals.ask([])
    assert refusals.known() == ()


def test_of_many_namespaces_some_are_asked_about_after_each_look() -> None:
    server = AServer()
    refusals = refusals_of(server)
    namespaces = [f"tg-{n}" for n in range(AT_ONCE + 2)]
    refusals.ask(namespaces)
    assert server.asked == namespaces[:AT_ONCE]
    refusals.ask(namespaces)
    assert server.asked == namespaces


def test_what_cannot_be_asked_for_breaks_no_look() -> None:
    server = AServer({"tg-a": [an_event("x")]}, is_away=True)
    refusals = refusals_of(server)
    refusals.ask(["tg-a"])
    assert refusals.known() == ()
    server.is_away = False
    server.now_s = AGAIN_S
    refusals.ask(["tg-a"])
    assert said(refusals) == ["x"]


def test_the_next_look_tells_why_no_pod_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: nobody asked, and all that was told was that there are no Pods."""
    item, workload, pods = of_one(recorded("started"), "tg-gang")
    base = alone(item, workload, [])
    state = replace(base, observed_at=base.observed_at + ADMITTED_FOR_S)
    uid = item["metadata"]["uid"]
    server = AServer({NAMESPACE: [an_event(FORBIDDEN, of=uid)]})
    connector = KubernetesConnector(
        parse_options({"kubeconfig": "/k", "pools": {"h100": {}}}), CLUSTER_ID
    )
    monkeypatch.setattr(connector._api, "list", server.list)
    monkeypatch.setattr(connector._caches, "state", lambda observed_at: state)
    attempts = connector._caches.attempts
    attempts.item_changed(None, item)
    attempts.workload_changed(None, workload)

    monkeypatch.setattr(connector, "_start", lambda: None)
    monkeypatch.setattr(connector._api, "probe", lambda: SimpleNamespace(observed_at=0))
    messages = [connector.observe().observations["tg-gang"].message for _ in range(2)]
    assert messages == [
        "The cluster does not start it: it was admitted and no Pod of it was made.",
        f"The cluster does not start it: the cluster refuses to make its Pods ({FORBIDDEN}).",
    ]
    # Of one whose Pods are there nothing is asked.
    attempts.pod_changed(None, pods[0])
    connector.observe()
    assert (server.asked, connector._refusals.known()) == ([NAMESPACE], ())
