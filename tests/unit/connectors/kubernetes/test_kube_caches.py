"""What the watches tell, joined: whose it is, what is remembered of it, and what is news."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from builders.kube_objects import (
    CLUSTER_ID,
    KEY,
    NAMESPACE,
    a_kube_job,
    a_kube_pod,
    a_kueue_workload,
    an_object,
)
from connectors.errors import ClusterUnavailable
from connectors.kubernetes.client.api import KubeApi, KubeList, NotFound
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.informers.caches import Caches
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.attempts import Attempts
from connectors.kubernetes.options.options import KubernetesOptions, parse_options

Json = dict[str, Any]
JOBS = "/apis/batch/v1/jobs"
WAIT_S = 10.0


def some_options(**values: Any) -> KubernetesOptions:
    return parse_options({"kubeconfig": "/k", "pools": {"h100": {}}, **values})


def quiet_caches(**options: Any) -> Caches:
    """Caches that watch nothing."""
    return Caches(KubeApi(kubeconfig="/k"), some_options(**options), CLUSTER_ID)


class AnApi:
    """Lists `items` by collection when it may, and watches what never happens."""

    def __init__(self, **items: Json) -> None:
        self.items = items
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.ended = threading.Event()

    def list(self, path: str, *, labels: str = "", fields: str = "") -> KubeList:
        self.asked.set()
        assert self.may_answer.wait(WAIT_S)
        item = self.items.get(path.rsplit("/", 1)[-1])
        return KubeList([] if item is None else [item], "5", 0)

    def watch(self, path: str, *, labels: str = "", fields: str = "", resource_version: str) -> Any:
        return self

    def __iter__(self) -> AnApi:
        return self

    def __next__(self) -> Any:
        self.ended.wait(WAIT_S)
        raise StopIteration

    def version(self, path: str) -> int:
        return 5

    def close(self) -> None:
        self.ended.set()


def test_whoever_comes_second_waits_for_the_first_lists_too() -> None:
    """Mutant: only the first waited, and the second was told that nothing is there."""
    api = AnApi(jobs=a_kube_job())
    caches = Caches(api, some_options(), CLUSTER_ID)  # type: ignore[arg-type]
    found: list[int] = []

    def ask() -> None:
        caches.start()
        found.append(len(caches.attempts.of_key(KEY)))

    first = threading.Thread(target=ask, daemon=True)
    second = threading.Thread(target=ask, daemon=True)
    first.start()
    assert api.asked.wait(WAIT_S)
    second.start()
    # It is given the time to come back too early.
    second.join(0.3)
    api.may_answer.set()
    for thread in (first, second):
        thread.join(WAIT_S)
    caches.stop()
    assert found == [1, 1]


@pytest.mark.parametrize("lost", ["label", "key"])
def test_what_is_not_marked_as_ours_any_more_is_none_of_ours(lost: str) -> None:
    """Mutant: it stayed as it was last seen for ever."""
    attempts = Attempts(CLUSTER_ID)
    job, pod = a_kube_job(), a_kube_pod()
    attempts.item_changed(None, job)
    attempts.pod_changed(None, pod)
    bare_job, bare_pod = a_kube_job(version=2), a_kube_pod()
    for bare in (bare_job, bare_pod):
        if lost == "label":
            del bare["metadata"]["labels"][naming.CLUSTER]
        else:
            del bare["metadata"]["annotations"][naming.KEY]
    attempts.pod_changed(pod, bare_pod)
    assert [one.pods for one in attempts.of_key(KEY)] == [()]
    attempts.item_changed(job, bare_job)
    assert (attempts.of_key(KEY), attempts.of_uid("j1"), attempts.uids()) == ((), None, ())
    # Its end is then no news of ours.
    attempts.pod_changed(bare_pod, None)
    assert attempts.gone_pods() == ()


def test_an_object_that_gets_another_key_is_of_that_one() -> None:
    attempts = Attempts(CLUSTER_ID)
    attempts.item_changed(None, a_kube_job())
    attempts.item_changed(a_kube_job(), a_kube_job(key="tg-2", version=2))
    assert attempts.of_key(KEY) == ()
    assert [one.uid for one in attempts.of_key("tg-2")] == ["j1"]


def test_deleted_pods_are_remembered_as_long_as_their_object_is_there() -> None:
    """Mutant: they stayed for ever, up to twenty thousand, each parsed at every look."""
    attempts = Attempts(CLUSTER_ID)
    for n in (1, 2):
        attempts.item_changed(None, a_kube_job(f"j{n}", key=f"tg-{n}"))
        attempts.pod_changed(a_kube_pod(f"p{n}", key=f"tg-{n}"), None)
    attempts.item_changed(a_kube_job("j1", key="tg-1"), None)
    # It was deleted in the background: the Pod ends after its object.
    attempts.pod_changed(a_kube_pod("p3", key="tg-1"), None)
    assert [one["metadata"]["uid"] for one in attempts.gone_pods()] == ["p2", "p3"]
    attempts.forget_without_object()
    assert [one["metadata"]["uid"] for one in attempts.gone_pods()] == ["p2"]


def test_a_pod_of_another_copy_is_remembered_until_the_last_copy_is_gone() -> None:
    attempts = Attempts(CLUSTER_ID)
    for uid in ("j1", "j2"):
        attempts.item_changed(None, a_kube_job(uid))
    attempts.pod_changed(a_kube_pod(), None)
    attempts.item_changed(a_kube_job("j1"), None)
    assert len(attempts.gone_pods()) == 1
    attempts.item_changed(a_kube_job("j2"), None)
    assert attempts.gone_pods() == ()


def a_foreign_pod(*, phase: str = "Running", ready: str = "True", **metadata: Any) -> Json:
    """Somebody's Pod with GPUs."""
    pod = an_object("f1", **metadata)
    conditions = [{"type": "Ready", "status": ready}]
    return pod | {"kind": "Pod", "status": {"phase": phase, "conditions": conditions}}


def a_foreign_job(*, version: int = 1, **labels: str) -> Json:
    job = an_object("o1", version=version, labels=labels)
    return job | {"apiVersion": "batch/v1", "kind": "Job"}


QUEUE = {naming.QUEUE_LABEL: "main"}


@pytest.mark.parametrize(
    ("kind", "before", "now", "is_news"),
    [
        ("object", a_kube_job(), a_kube_job(version=2), True),
        ("object", a_foreign_job(), a_foreign_job(version=2), False),
        ("object", None, a_foreign_job(), False),
        ("object", a_foreign_job(**QUEUE), a_foreign_job(version=2, **QUEUE), True),
        ("object", a_foreign_job(**QUEUE), None, True),
        ("workload", a_kueue_workload(owner="o1"), a_kueue_workload(owner="o1", version=2), True),
        ("pod", a_kube_pod(), a_kube_pod(version=2), True),
        ("pod", a_foreign_pod(), a_foreign_pod(version=2), False),
        ("pod", a_foreign_pod(), a_foreign_pod(phase="Succeeded"), True),
        ("pod", a_foreign_pod(), a_foreign_pod(ready="False"), True),
        ("pod", a_foreign_pod(), None, True),
        ("pod", None, a_foreign_pod(), True),
    ],
)
def test_only_what_a_look_would_show_is_news(
    kind: str, before: Json | None, now: Json | None, is_news: bool
) -> None:
    """Mutant: whatever any Job or Pod of the cluster told made the next look come at once."""
    caches = quiet_caches()
    getattr(caches, f"_{kind}_changed")(before, now)
    assert caches.news.is_set() is is_news


BATCH = {"example.com/pool": "batch"}


def a_node_labelled(**labels: str) -> Json:
    return {"kind": "Node", "metadata": {"name": "c1", "labels": labels}, "status": {}}


def test_pods_without_gpus_are_kept_where_there_is_a_pool_of_cores_and_are_news_on_its_nodes() -> (
    None
):
    """Any node may become one of the pool, and what is on it then holds cores. Mutants: only Pods
    with GPUs are kept; each Pod of the cluster makes the next look come at once; a node that lost
    the labels counts for ever."""
    pod = a_foreign_pod() | {"spec": {"nodeName": "c1", "containers": [{"name": "main"}]}}
    cores = {"device": "cpu", "node_selector": BATCH}
    caches = quiet_caches(pools={"h100": {"node_selector": {"a": "b"}}, "batch": cores})
    assert caches._trimmed_pod(pod) == pod
    assert quiet_caches()._trimmed_pod(pod) is None

    def is_news() -> bool:
        caches.news.clear()
        caches._pod_changed(None, pod)
        return caches.news.is_set()

    assert not is_news()
    caches._node_changed(None, a_node_labelled(**BATCH))
    assert is_news()
    caches._node_changed(a_node_labelled(**BATCH), a_node_labelled())
    assert not is_news()
    caches._node_changed(a_node_labelled(), a_node_labelled(**BATCH))
    caches._node_changed(a_node_labelled(**BATCH), None)
    assert not is_news()


JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"


class AClusterApart:
    """A connector whose watches are silent, and what the server has meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.connector = KubernetesConnector(some_options(**options), CLUSTER_ID)
        self.jobs: list[Json] = []
        #: None where the server does not know the kind.
        self.jobsets: list[Json] | None = None
        self.others: dict[str, Json] = {}
        self.workloads: list[Json] = []
        self.written: list[str] = []
        self.is_away = False
        api = self.connector.api
        for name in ("list", "get", "merge_patch", "delete"):
            monkeypatch.setattr(api, name, getattr(self, f"_{name}"))
        monkeypatch.setattr(self.connector, "_start", lambda: None)

    @property
    def attempts(self) -> Attempts:
        return self.connector._caches.attempts

    def _list(self, path: str, *, labels: str = "", fields: str = "") -> KubeList:
        if self.is_away:
            raise ClusterUnavailable("it does not answer")
        if path == JOBSETS and self.jobsets is None:
            raise NotFound(404, "NotFound", "the server could not find the requested resource", ())
        known = {JOBS: self.jobs, JOBSETS: self.jobsets or []}
        items = known.get(path, self.workloads if "/workloads" in path else [])
        return KubeList(items, "9", 0)

    def _get(self, path: str) -> Json:
        if path not in self.others:
            raise NotFound(404, "NotFound", "not found", ())
        return self.others[path]

    def _merge_patch(self, path: str, body: Json, *, dry_run: bool = False) -> Json:
        self.written.append(f"patch {path.rsplit('/', 1)[-1]}")
        return self.workloads[0] if "/workloads" in path else self.jobs[0]

    def _delete(self, path: str, **values: Any) -> None:
        self.written.append(f"delete {path.rsplit('/', 1)[-1]}")


def test_what_the_watches_told_long_ago_is_not_what_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mutant: what was known first was stopped, and the object that is there now ran on."""
    apart = AClusterApart(monkeypatch)
    apart.attempts.item_changed(None, a_kube_job("old"))
    apart.attempts.workload_changed(None, a_kueue_workload("w-old", owner="old"))
    apart.jobs = [a_kube_job("new", version=7)]
    apart.workloads = [a_kueue_workload("w-new", owner="new", version=8)]
    apart.connector.stop(KEY)
    apart.connector.notify(KEY)
    assert apart.written == ["patch w-new", "patch w-new"]


def test_what_the_watches_told_is_believed_while_they_are_fresh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apart = AClusterApart(monkeypatch)
    apart.is_away = True
    apart.attempts.item_changed(None, a_kube_job())
    apart.attempts.workload_changed(None, a_kueue_workload())
    apart.workloads = [a_kueue_workload()]
    monkeypatch.setattr(Caches, "is_fresh", True)
    apart.connector.stop(KEY)
    assert apart.written == ["patch w1"]


@pytest.mark.parametrize("call", ["stop", "notify", "forget"])
def test_of_a_cluster_that_cannot_be_asked_nothing_is_believed(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Mutant: the call went by what was known, and was then held to be done."""
    apart = AClusterApart(monkeypatch)
    apart.is_away = True
    apart.attempts.item_changed(None, a_kube_job(conditions={"Complete": "True"}))
    with pytest.raises(ClusterUnavailable):
        getattr(apart.connector, call)(KEY)
    with pytest.raises(ClusterUnavailable):
        apart.connector.release(KEY, "j1")
    assert apart.written == []


def test_what_was_stopped_behind_our_back_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = AClusterApart(monkeypatch)
    apart.attempts.item_changed(None, a_kube_job())
    apart.jobs = [a_kube_job(version=4, annotations={naming.STOPPED: "2026-11-21T20:54:00Z"})]
    apart.connector.release(KEY, "j1")
    assert not apart.connector._allowed.has("j1")
    apart.jobs = [a_kube_job(version=5)]
    apart.connector.release(KEY, "j1")
    assert apart.connector._allowed.has("j1")


def test_one_of_an_earlier_kind_is_asked_for_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had Kueue, and has another scheduler now, whose jobs are Jobs."""
    apart = AClusterApart(monkeypatch, scheduler="volcano")
    earlier = a_kube_job("s1") | {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
    path = f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/pytorchjobs/{KEY}"
    apart.attempts.item_changed(None, earlier)
    assert apart.connector._finder.attempts_of(KEY) == ()
    apart.others[path] = a_kube_job("another") | {"kind": "PyTorchJob"}
    assert apart.connector._finder.attempts_of(KEY) == ()
    apart.others[path] = earlier
    assert [one.uid for one in apart.connector._finder.attempts_of(KEY)] == ["s1"]


def test_the_object_of_a_manifest_is_found_whatever_the_kind_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: only objects of the cluster's own kind are looked for."""
    apart = AClusterApart(monkeypatch)
    jobset = a_kube_job("s1") | {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    assert apart.connector._finder.attempts_of(KEY) == ()
    apart.jobsets = [jobset]
    assert [one.uid for one in apart.connector._finder.attempts_of(KEY)] == ["s1"]
