"""Which objects are taken for our own: what was found in place of what is to be created, and what
has our key in another namespace."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from builders.kube_objects import CLUSTER_ID, a_kube_job
from builders.kubernetes_builders import (
    ManifestCase,
    a_kube_workload,
    a_pool_with,
    manifest_cases,
    some_options,
)
from connectors.errors import ClusterUnavailable, WorkloadRejected
from connectors.kubernetes.client.api import AlreadyExists, KubeList
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.informers.caches import Caches
from connectors.kubernetes.manifests.building import objects_for
from connectors.kubernetes.objects.adoption import is_as_made
from connectors.kubernetes.objects.attempts import Attempts
from connectors.kubernetes.objects.naming import CREATOR

Json = dict[str, Any]
OURS, OTHERS = "tg-team", "tg-00000000000000ff"


def the_job() -> Json:
    pool = a_pool_with(cpu_per_gpu=12, memory_mib_per_gpu=1_048_576)
    workload = a_kube_workload(ranks=2, environment={"EMPTY": ""})
    objects = objects_for(workload, some_options(pool=pool), cluster_id=CLUSTER_ID)
    return copy.deepcopy(dict(objects.main))


def as_the_server_has_it(wanted: Json) -> Json:
    """With its defaults and in its own writing."""
    found = copy.deepcopy(wanted)
    found["metadata"] |= {"uid": "u1", "generation": 1, "resourceVersion": "7"}
    found["spec"] |= {"manualSelector": False, "podReplacementPolicy": "Failed"}
    template = found["spec"]["template"]
    template["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = "u1"
    spec = template["spec"]
    spec |= {"dnsPolicy": "ClusterFirst", "tolerations": [{"key": "added", "operator": "Exists"}]}
    spec.setdefault("nodeSelector", {})["added.by/kueue"] = "yes"
    (container,) = spec["containers"]
    container["imagePullPolicy"] = "IfNotPresent"
    for one in container["env"]:
        if one.get("value") == "":
            del one["value"]
    resources = container["resources"]
    resources["requests"]["cpu"] = "96"
    resources["requests"]["memory"] = resources["limits"]["memory"] = "8Ti"
    return found


def test_what_was_made_before_is_adopted_however_the_server_writes_it() -> None:
    wanted = the_job()
    found = as_the_server_has_it(wanted)
    assert is_as_made(wanted, found)
    found["spec"]["suspend"] = False
    assert is_as_made(wanted, found)


@pytest.mark.parametrize("case", tuple(manifest_cases()), ids=lambda case: case.name)
def test_every_object_is_what_it_is(case: ManifestCase) -> None:
    objects = objects_for(case.workload, case.options, cluster_id=CLUSTER_ID)
    for item in (*objects.before, objects.main, *objects.others):
        assert is_as_made(item, copy.deepcopy(dict(item)))


FORGERIES: Mapping[str, Callable[[Json], Any]] = {
    "another namespace": lambda one: one["metadata"].update(namespace=OTHERS),
    "a creator": lambda one: one["metadata"]["annotations"].update({CREATOR: "bob"}),
    "a controller": lambda one: one["metadata"].update(
        ownerReferences=[{"uid": "made-up", "controller": True}]
    ),
    "another queue": lambda one: one["metadata"]["labels"].update(
        {"kueue.x-k8s.io/queue-name": "mine"}
    ),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_what_somebody_else_made_is_not_adopted(forge: Callable[[Json], Any]) -> None:
    """Mutant: the key and the label were enough, which anybody can write."""
    wanted = the_job()
    found = as_the_server_has_it(wanted)
    forge(found)
    assert not is_as_made(wanted, found)


def a_connector() -> KubernetesConnector:
    return KubernetesConnector(some_options(), CLUSTER_ID)


def test_a_submission_is_rejected_where_the_object_is_not_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connector = a_connector()
    found: list[Json] = []

    def create(path: str, body: Json) -> Json:
        raise AlreadyExists(409, "AlreadyExists", "it is there")

    monkeypatch.setattr(connector._api, "create", create)
    monkeypatch.setattr(connector._api, "get", lambda path: found[0])
    wanted = the_job()
    key = wanted["metadata"]["annotations"]["tidegate.io/key"]
    found.append(as_the_server_has_it(wanted))
    assert connector._submitter.created(key, wanted)["metadata"]["uid"] == "u1"
    found[0]["metadata"]["annotations"][CREATOR] = "bob"
    with pytest.raises(WorkloadRejected, match="which is not ours; an administrator there must"):
        connector._submitter.created(key, wanted)


# Copies of a key in other namespaces


def test_what_a_controller_made_is_no_attempt() -> None:
    """Mutant: the labels of a template were enough; a CronJob made an attempt of ours."""
    attempts = Attempts(CLUSTER_ID)
    made = a_kube_job("j9", ownerReferences=[{"uid": "c1", "controller": True}])
    attempts.item_changed(None, made)
    assert attempts.of_key("tg-1") == ()
    owned = a_kube_job("j1", ownerReferences=[{"uid": "c1"}])
    attempts.item_changed(None, owned)
    assert [one.uid for one in attempts.of_key("tg-1")] == ["j1"]


def watched(
    monkeypatch: pytest.MonkeyPatch, *items: Json
) -> tuple[KubernetesConnector, list[str], list[str]]:
    """A connector that knows these objects, what it deletes, and what it patches; it may patch
    nothing in the namespace of others."""
    connector = a_connector()
    for item in items:
        connector._caches.attempts.item_changed(None, item)
    deleted: list[str] = []
    patched: list[str] = []

    def patch(path: str, body: Json) -> Json:
        if OTHERS in path:
            raise ClusterUnavailable("a webhook does not answer")
        patched.append(path)
        return {}

    monkeypatch.setattr(connector, "_start", lambda: None)
    monkeypatch.setattr(Caches, "is_fresh", property(lambda self: True))
    monkeypatch.setattr(connector._caches, "took", lambda found: None)
    monkeypatch.setattr(connector._caches, "removed", lambda found: None)
    monkeypatch.setattr(connector._api, "list", lambda path, **_: KubeList((), "1", 0))
    monkeypatch.setattr(connector._api, "merge_patch", patch)
    monkeypatch.setattr(connector._api, "delete", lambda path, **_: deleted.append(path))
    return connector, deleted, patched


def over(uid: str) -> Json:
    return a_kube_job(uid, is_suspended=False, conditions={"Complete": "True"})


def of_others(uid: str) -> Json:
    """A running Job with our key in the namespace of others."""
    return a_kube_job(uid, is_suspended=False, generation=2, namespace=OTHERS)


@pytest.mark.parametrize("recorded", ["j1", "gone"])
def test_a_forged_copy_in_another_namespace_does_not_keep_an_attempt(
    recorded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: all objects of the key had to be over, wherever they were."""
    real = [over("j1")] if recorded == "j1" else []
    connector, deleted, _ = watched(monkeypatch, *real, of_others("j9"))
    connector.forget("tg-1", native_id=recorded)
    assert deleted == [f"/apis/batch/v1/namespaces/{OURS}/jobs/tg-1"] * len(real)


def test_a_copy_beside_the_recorded_one_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = a_kube_job("j2", is_suspended=False, generation=2)
    connector, deleted, _ = watched(monkeypatch, over("j1"), beside)
    connector.forget("tg-1", native_id="j1")
    assert deleted == []


def test_what_cannot_be_stopped_elsewhere_does_not_keep_an_attempt_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mutant: the first failure ended it, and copies came in any order."""
    real = a_kube_job("j1", is_suspended=False, generation=2)
    connector, _, patched = watched(monkeypatch, of_others("j0"), of_others("j9"), real)
    connector.stop("tg-1", native_id="j1")
    assert patched == [f"/apis/batch/v1/namespaces/{OURS}/jobs/tg-1"]
    # Of what nobody recorded all counts.
    with pytest.raises(ClusterUnavailable):
        connector.stop("tg-1")
