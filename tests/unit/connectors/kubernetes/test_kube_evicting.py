"""What of a drained node is evicted, what is only told, and what stays."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pytest

from builders.kube_objects import (
    CLUSTER_ID,
    NAMESPACE,
    a_kube_job,
    a_kube_pod,
    a_kueue_workload,
    an_object,
)
from builders.kube_states import alone, pools_of
from connectors.errors import ClusterUnavailable, NodeRefused
from connectors.kubernetes.client.api import Cause, Forbidden, KubeList, MayNotGo
from connectors.kubernetes.node_control import evicting
from connectors.kubernetes.node_control.evicting import KubernetesNodeEviction
from connectors.node_control import LeftOnNode

Json = dict[str, Any]

BUDGET = "The disruption budget web needs 2 healthy pods and has 2 currently"


@dataclass
class AnApi:
    """Has these Pods on the node, and answers an eviction with the `errors` of its name."""

    pods: list[Json]
    errors: dict[str, Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    evicted: dict[str, tuple[str, str, int]] = field(default_factory=dict)

    def list(self, path: str, *, labels: str = "", fields: str = "") -> KubeList:
        self.asked.append(f"{path}?{fields}")
        return KubeList(self.pods, "1", 0)

    def evict(self, path: str, *, name: str, namespace: str, uid: str, grace_s: int) -> None:
        self.evicted[name] = (path, uid, grace_s)
        if name in self.errors:
            raise self.errors[name]


def a_pod(uid: str, *, owner: str = "", kind: str = "ReplicaSet", **more: Any) -> Json:
    """Somebody's."""
    pod = a_kube_pod(uid, **more)
    pod["metadata"]["labels"] = {}
    if owner:
        pod["metadata"]["ownerReferences"] = [{"uid": owner, "kind": kind, "controller": True}]
    pod["spec"] = {"nodeName": "n1"}
    return pod


def one_of_ours(uid: str) -> Json:
    """A rank of the job `j1`."""
    pod = a_kube_pod(uid, ownerReferences=[{"uid": "j1", "kind": "Job", "controller": True}])
    return {**pod, "spec": {"nodeName": "n1"}}


def evict(api: AnApi, *, jobs: Collection[str] = (), grace_s: int = 300) -> LeftOnNode:
    state = alone(a_kube_job("j1", is_suspended=False), a_kueue_workload(), [])
    control = KubernetesNodeEviction(
        api,  # type: ignore[arg-type]
        lambda: state,
        pools_of(),
        cluster_id=CLUSTER_ID,
    )
    return control.evict("n1", grace_s=grace_s, jobs=jobs)


def test_a_pod_of_nobody_here_is_evicted_with_its_own_grace_up_to_what_was_asked() -> None:
    """Planted: the grace that was asked for replaced a shorter one, and waited for nothing."""
    long, plain = a_pod("long"), a_pod("plain", owner="r1")
    long["spec"]["terminationGracePeriodSeconds"] = 86_400
    brief = a_pod("brief")
    brief["spec"]["terminationGracePeriodSeconds"] = 0
    api = AnApi([long, plain, brief])
    assert evict(api) == LeftOnNode(others=3)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    assert api.evicted == {
        "long": (f"{path}/long", "long", 300),
        "plain": (f"{path}/plain", "plain", 30),
        "brief": (f"{path}/brief", "brief", 0),
    }
    assert api.asked == ["/api/v1/pods?spec.nodeName=n1"]


def test_daemons_mirrors_and_what_is_over_stay() -> None:
    """Mutant: a DaemonSet's Pod was evicted for ever, as its controller makes it again there."""
    stay = [
        a_pod("daemon", owner="d1", kind="DaemonSet"),
        a_pod("mirror", annotations={"kubernetes.io/config.mirror": "x"}),
        a_pod("done", phase="Succeeded"),
        a_pod("failed", phase="Failed"),
    ]
    api = AnApi(stay)
    left = evict(api)
    assert (left, left.is_nothing, api.evicted) == (LeftOnNode(), True, {})


def test_a_daemon_set_that_does_not_control_a_pod_does_not_keep_it() -> None:
    """Planted: an owner that is only named shielded a Pod from every drain."""
    pod = a_pod("p")
    pod["metadata"]["ownerReferences"] = [{"uid": "d1", "kind": "DaemonSet"}]
    assert evict(AnApi([pod])) == LeftOnNode(others=1)


def test_our_jobs_are_told_and_not_touched() -> None:
    """Mutant: an attempt's Pod was evicted, which gives its script TERM and no notice."""
    api = AnApi([one_of_ours("p1"), one_of_ours("p2"), a_pod("p3")])
    assert evict(api, jobs={"j1", "j2"}) == LeftOnNode(frozenset({"j1"}), 1)
    assert list(api.evicted) == ["p3"]


def test_what_only_says_that_it_is_a_jobs_is_evicted() -> None:
    """Mutant: the labels were enough; anybody's Pod could stay on a node that is drained."""
    far = one_of_ours("far")
    far["metadata"]["namespace"] = "tg-other"
    no_owner = a_kube_pod("no-owner")
    api = AnApi([far, no_owner])
    assert evict(api, jobs={"j1"}) == LeftOnNode(others=2)
    assert sorted(api.evicted) == ["far", "no-owner"]


def test_what_the_portal_runs_no_more_is_evicted() -> None:
    """Its attempt was given up, and its Pods are still there."""
    api = AnApi([one_of_ours("p1")])
    assert evict(api, jobs={"j2"}) == LeftOnNode(others=1)
    assert list(api.evicted) == ["p1"]


def test_what_is_ending_already_is_waited_for() -> None:
    """Planted: it was evicted again at every look."""
    pod = a_pod("p1", deletionTimestamp="2026-11-21T20:53:10Z")
    api = AnApi([pod])
    assert evict(api) == LeftOnNode(others=1)
    assert api.evicted == {}


def test_a_budget_that_keeps_one_is_told_and_keeps_no_other() -> None:
    """Mutant: the first refusal ended the round, and nothing behind it ever went."""
    refused = MayNotGo(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        (Cause("", "DisruptionBudget", BUDGET),),
    )
    names = [f"web-{number}" for number in range(5)]
    api = AnApi([a_pod(name) for name in (*names, "other")], dict.fromkeys(names, refused))
    left = evict(api)
    said = (
        f"{NAMESPACE}/web-{{}}: Cannot evict pod as it would violate the pod's disruption budget. "
        f"{BUDGET}"
    )
    assert len(api.evicted) == 6
    assert left.others == 6
    # Some of them: the rest says the same.
    assert left.refusals == tuple(said.format(number) for number in range(3))


def test_missing_rights_end_it_and_a_policy_keeps_only_its_own() -> None:
    rights = 'pods "p" is forbidden: User "portal" cannot create resource "pods/eviction"'
    with pytest.raises(NodeRefused, match=r"right to create pods/eviction \(pods "):
        evict(AnApi([a_pod("p")], {"p": Forbidden(403, "Forbidden", rights)}))
    policy = Forbidden(403, "", 'admission webhook "x" denied the request: not on Mondays')
    left = evict(AnApi([a_pod("p"), a_pod("q")], {"p": policy}))
    assert left.refusals == (f"{NAMESPACE}/p: {policy.message}",)


def test_silence_is_told_at_once() -> None:
    """Planted: each of hundreds of Pods waited out the time-out of a server that is away."""
    api = AnApi([a_pod("p"), a_pod("q")], dict.fromkeys("pq", ClusterUnavailable("away")))
    with pytest.raises(ClusterUnavailable):
        evict(api)
    assert len(api.evicted) == 1


def test_a_round_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: a slow server held the request for longer than its lease, and another one began."""
    now_s = iter(range(0, 1000, 7))
    monkeypatch.setattr(evicting.time, "monotonic", lambda: float(next(now_s)))
    api = AnApi([a_pod(f"p{number}") for number in range(9)])
    assert evict(api) == LeftOnNode(others=9)
    assert len(api.evicted) == 2


def test_a_thing_without_a_spec_is_no_obstacle() -> None:
    pod = an_object("p")
    assert evict(AnApi([pod])) == LeftOnNode(others=1)
