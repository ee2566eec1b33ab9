"""Of which Pods the keeper of logs is told at once, and which deleted objects are remembered."""

from __future__ import annotations

from typing import Any

import pytest

from builders.kube_objects import CLUSTER_ID, a_kube_job, a_kube_pod, an_object
from builders.kubernetes_builders import some_options
from connectors.kubernetes.client.api import KubeApi
from connectors.kubernetes.informers.caches import Caches

Json = dict[str, Any]


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def caches(told: list[str]) -> Caches:
    return Caches(
        KubeApi(kubeconfig="/k"),
        some_options(),
        CLUSTER_ID,
        pod_changed=lambda before, now: told.append((now or before or {})["metadata"]["uid"]),
    )


def a_pod(uid: str, *, owner: str, **more: Any) -> Json:
    return a_kube_pod(uid, ownerReferences=[{"uid": owner, "controller": True}], **more)


def test_the_log_of_a_pod_is_kept_only_if_its_object_is_ours_and_there(
    caches: Caches, told: list[str]
) -> None:
    """Mutant: the labels were enough; anybody's Pod wrote into the log of a rank."""
    caches._object_changed(None, a_kube_job("j1"))
    caches._pod_changed(None, a_kube_pod("no-owner"))
    caches._pod_changed(None, a_pod("made-up", owner="j9"))
    caches._pod_changed(None, a_pod("far", owner="j1", namespace="tg-other"))
    caches._pod_changed(None, a_pod("another-key", owner="j1", key="tg-2"))
    assert told == []
    genuine = a_pod("p1", owner="j1")
    caches._pod_changed(None, genuine)
    of_a_set = a_pod("p2", owner="child")
    of_a_set["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-uid"] = "j1"
    caches._pod_changed(None, of_a_set)
    caches._pod_changed(genuine, None)
    assert told == ["p1", "p2", "p1"]


def test_what_was_ours_or_was_made_of_it_is_remembered(
    caches: Caches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: nothing was; GPUs were free while the Pods of a deleted object lived."""
    child = an_object("child", ownerReferences=[{"uid": "j1", "controller": True}])
    grandchild = an_object("grandchild", ownerReferences=[{"uid": "child", "controller": True}])
    for one in (a_kube_job("j1"), child, grandchild):
        caches._object_changed(None, one)
    caches._object_changed(a_kube_job("j1"), None)
    caches._object_changed(child, None)
    caches._object_changed(grandchild, None)
    caches._object_changed(an_object("anybody's"), None)
    assert list(caches._gone_objects) == ["j1", "child", "grandchild"]
    for reflector in caches._all():
        monkeypatch.setattr(reflector, "snapshot", lambda *_: ())
    remembered = caches.state(7).gone_objects
    assert [one["metadata"]["uid"] for one in remembered] == ["j1", "child", "grandchild"]
    assert "spec" not in remembered[0]
