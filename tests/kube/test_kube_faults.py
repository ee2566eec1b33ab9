"""What the connector makes of a Kubernetes that fails, and of people who meddle with it by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from builders.connector_builders import (
    WHO_AM_I,
    a_workload,
    eventually,
    is_there,
    lines,
    observed,
    until_released,
    until_running,
)
from conformance.rigs import KubernetesRig
from connectors.errors import AnotherCluster, ClusterUnavailable, NotPrepared
from connectors.kubernetes.admission.admission_check import (
    CHECK_PATH,
    KUEUE_VERSION,
    vote_of,
    workload_path,
)
from connectors.kubernetes.objects.naming import rank_of, team_namespace, workload_name
from connectors.kubernetes.objects.reading import is_true
from connectors.kubernetes.objects.resources import JOB
from connectors.protocol import Observation, Outcome, WorkloadPhase
from connectors.registry import open_connector

pytestmark = pytest.mark.kube


def workload_of(rig: KubernetesRig, uid: str) -> dict[str, Any] | None:
    """Kueue's Workload of the object with this uid."""
    listed = rig.admin.list(
        f"/apis/{KUEUE_VERSION}/namespaces/{rig.namespace}/workloads",
        labels=f"kueue.x-k8s.io/job-uid={uid}",
    )
    return listed.items[0] if listed.items else None


def until_reserved(rig: KubernetesRig, uid: str) -> dict[str, Any]:
    """Wait until Kueue has reserved quota for it and waits for our vote."""

    def look() -> dict[str, Any] | None:
        found = workload_of(rig, uid)
        if found is None or not is_true(found, "QuotaReserved") or vote_of(found) is None:
            return None
        return found

    return eventually(look)


def until_observed(rig: KubernetesRig, key: str) -> Observation | None:
    """What the cluster says of `key` as soon as it answers again."""

    def look() -> tuple[Observation | None] | None:
        try:
            return (observed(rig.connector, key),)
        except ClusterUnavailable:
            return None

    return eventually(look)[0]


def job_path(rig: KubernetesRig, key: str) -> str:
    """Where the object of `key` is."""
    return JOB.path(rig.namespace, workload_name(key))


# Without harm to the bed


def test_nothing_starts_that_was_not_released(kubernetes_rig: KubernetesRig) -> None:
    rig = kubernetes_rig
    workload = a_workload(f"echo ran >> {rig.scratch}/proof")
    uid = rig.submit(workload)
    rig.connector.observe()
    until_reserved(rig, uid)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        seen = observed(rig.connector, workload.key)
        assert seen is not None
        assert (seen.phase, seen.started_at) == (WorkloadPhase.HELD, None)
    found = workload_of(rig, uid)
    assert found is not None
    assert vote_of(found) == "Pending"
    assert lines(rig.scratch / "proof") == []


def test_gpus_are_free_when_the_pods_are_gone_and_not_when_the_quota_is(
    kubernetes_rig: KubernetesRig,
) -> None:
    """Somebody deactivates it by hand: Kueue has its quota back at once, its Pod goes on.

    Mutant: released with Admitted=False; seen released with its process alive.
    """
    rig = kubernetes_rig
    workload = a_workload(
        f"trap '' TERM; {WHO_AM_I} > {rig.scratch}/part; mv {rig.scratch}/part {rig.scratch}/who\n"
        "while :; do sleep 0.1; done",
        grace_s=5,
    )
    uid = rig.start(workload)
    who = eventually(lambda: lines(rig.scratch / "who"))[0]
    assert is_there(who)
    found = workload_of(rig, uid)
    assert found is not None
    rig.admin.merge_patch(workload_path(found), {"spec": {"active": False}})

    def is_quota_free() -> bool:
        now = workload_of(rig, uid)
        return now is not None and not is_true(now, "QuotaReserved")

    eventually(is_quota_free)
    assert is_there(who)
    seen = observed(rig.connector, workload.key)
    assert seen is not None
    assert (seen.phase, seen.is_released) == (WorkloadPhase.STOPPING, False)

    def look() -> Observation | None:
        now = observed(rig.connector, workload.key)
        if now is None or not now.is_released:
            return None
        assert not is_there(who)
        return now

    assert eventually(look).outcome is Outcome.STOPPED


def test_a_pod_that_ignores_its_end_is_killed_when_it_is_stopped(
    kubernetes_rig: KubernetesRig,
) -> None:
    """Its own grace of an hour is for whoever asks it to end, not for a stop."""
    rig = kubernetes_rig
    workload = a_workload(
        f"trap '' TERM; {WHO_AM_I} > {rig.scratch}/part; mv {rig.scratch}/part {rig.scratch}/who\n"
        "while :; do sleep 0.1; done",
        grace_s=3_600,
    )
    rig.start(workload)
    who = eventually(lambda: lines(rig.scratch / "who"))[0]
    rig.connector.stop(workload.key)
    seen = until_released(rig.connector, workload.key)
    assert not is_there(who)
    assert seen.outcome is Outcome.STOPPED


def test_a_workload_that_kueue_makes_anew_is_not_started_again(
    kubernetes_rig: KubernetesRig,
) -> None:
    """Somebody deletes the Workload of what runs: Kueue stops it, and makes another.

    Mutant: only the Workload was looked at, which knows nothing of the first; it ran twice.
    """
    rig = kubernetes_rig
    workload = a_workload(f"echo ran >> {rig.scratch}/proof; sleep 1000", grace_s=1)
    uid = rig.start(workload)
    eventually(lambda: lines(rig.scratch / "proof"))
    found = workload_of(rig, uid)
    assert found is not None
    rig.admin.delete(workload_path(found))
    seen = until_released(rig.connector, workload.key)
    rig.connector.release(workload.key, uid)
    assert (seen.phase, seen.outcome) == (WorkloadPhase.ENDED, Outcome.PREEMPTED)

    def is_inactive() -> bool:
        now = workload_of(rig, uid)
        return now is not None and now["spec"].get("active") is False

    eventually(is_inactive)
    assert lines(rig.scratch / "proof") == ["ran"]


def test_a_team_without_a_namespace_is_told_what_to_do(kubernetes_rig: KubernetesRig) -> None:
    """No quotas were pushed for it: nothing of its job is on the cluster, and it may be later."""
    team = "org/unpushed"
    with pytest.raises(NotPrepared) as raised:
        kubernetes_rig.connector.submit(a_workload(team=team))
    assert str(raised.value) == (
        f"It has no namespace {team_namespace(team)} for the team yet: an administrator pushes the "
        "quotas to it (Quotas on it, on the cluster's page)."
    )


def test_a_rank_that_is_evicted_and_saves_has_not_succeeded(kubernetes_rig: KubernetesRig) -> None:
    """Somebody drains a node by hand: the rank there gets TERM, saves, and ends with 0.

    Mutant: with that exit code Kubernetes took it for done, and the other rank ran for ever.
    """
    rig = kubernetes_rig
    workload = a_workload(
        f"trap 'exit 0' TERM; echo ran >> {rig.scratch}/$RANK\nwhile :; do sleep 0.1; done",
        ranks=2,
    )
    rig.start(workload)
    eventually(lambda: lines(rig.scratch / "0") and lines(rig.scratch / "1"))
    until_running(rig.connector, workload.key)
    # By its name, as pods of another test may still be on their way out of the team's namespace.
    pods = rig.admin.list(
        f"/api/v1/namespaces/{rig.namespace}/pods",
        labels=f"batch.kubernetes.io/job-name={workload_name(workload.key)}",
    ).items
    (evicted,) = (pod["metadata"] for pod in pods if rank_of(pod) == 0)
    rig.admin.evict(
        f"/api/v1/namespaces/{rig.namespace}/pods/{evicted['name']}",
        name=evicted["name"],
        namespace=rig.namespace,
        uid=evicted["uid"],
        grace_s=10,
    )
    seen = until_released(rig.connector, workload.key)
    assert (seen.phase, seen.outcome) == (WorkloadPhase.ENDED, Outcome.PREEMPTED)
    assert (lines(rig.scratch / "0"), lines(rig.scratch / "1")) == (["ran"], ["ran"])


def test_an_object_of_the_same_name_and_words_is_another(kubernetes_rig: KubernetesRig) -> None:
    """Released was the one that was deleted since; somebody put a copy in its place."""
    rig = kubernetes_rig
    workload = a_workload(f"echo ran >> {rig.scratch}/proof")
    uid = rig.submit(workload)
    rig.connector.observe()
    until_reserved(rig, uid)
    path = job_path(rig, workload.key)
    original = rig.admin.get(path)
    rig.admin.delete(path, propagation="Background")
    eventually(lambda: observed(rig.connector, workload.key) is None)
    metadata = {name: original["metadata"][name] for name in ("name", "labels", "annotations")}
    spec = {name: value for name, value in original["spec"].items() if name != "selector"}
    for name in ("controller-uid", "batch.kubernetes.io/controller-uid"):
        spec["template"]["metadata"]["labels"].pop(name, None)
    copy = rig.admin.create(
        path.rpartition("/")[0],
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec},
    )["metadata"]["uid"]
    rig.connector.release(workload.key, uid)
    rig.connector._allowed.allow(uid)  # type: ignore[attr-defined]
    until_reserved(rig, copy)
    time.sleep(3)
    found = workload_of(rig, copy)
    assert found is not None
    assert vote_of(found) == "Pending"


def test_our_admission_check_is_put_back(kubernetes_rig: KubernetesRig) -> None:
    """Mutant: it was only looked after when the connector began; the queues stayed inactive."""
    rig = kubernetes_rig
    rig.connector.observe()
    inactive = {
        "type": "Active",
        "status": "False",
        "reason": "Gone",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    for _ in range(2):
        rig.admin.merge_patch(f"{CHECK_PATH}/status", {"status": {"conditions": [inactive]}})
        eventually(lambda: is_true(rig.admin.get(CHECK_PATH), "Active"))
    uid = rig.start(workload := a_workload())
    assert until_released(rig.connector, workload.key, uid).outcome is Outcome.SUCCEEDED


def test_another_cluster_is_not_believed_and_not_written_to(kubernetes_rig: KubernetesRig) -> None:
    rig = kubernetes_rig
    other = open_connector("kubernetes", rig.options, rig.cluster_id, {"cluster": "another"})
    workload = a_workload()
    for act in (other.observe, other.inventory, lambda: other.submit(workload)):
        with pytest.raises(AnotherCluster):
            act()
    assert rig.connector.observe().observations == {}


def test_what_waited_while_nobody_voted_is_started_by_the_next(
    kubernetes_rig: KubernetesRig,
) -> None:
    """Our voter dies: what waits keeps its place. The next one knows what was granted."""
    rig = kubernetes_rig
    workload = a_workload(f"echo ran >> {rig.scratch}/proof")
    uid = rig.submit(workload)
    until_reserved(rig, uid)
    rig.connector = rig.open()
    rig.release(workload.key, uid)
    assert until_released(rig.connector, workload.key).outcome is Outcome.SUCCEEDED
    assert lines(rig.scratch / "proof") == ["ran"]


# With harm to the bed


@pytest.fixture
def harmed(kubernetes_rig: KubernetesRig) -> Iterator[KubernetesRig]:
    """A rig on a bed that is the test's alone, and whole again afterwards."""
    yield kubernetes_rig
    if down := kubernetes_rig.bed.ended():
        kubernetes_rig.bed.run(*down)
    kubernetes_rig.bed.mend_nodes()
    until_observed(kubernetes_rig, "whatever")


@pytest.mark.disturbs_kube
def test_kueue_is_down_when_something_is_submitted(harmed: KubernetesRig) -> None:
    """Nothing was created, and it is known; sent again, it runs once."""
    workload = a_workload(f"echo ran >> {harmed.scratch}/proof")
    with harmed.bed.without("kueue"):
        with pytest.raises(ClusterUnavailable):
            harmed.submit(workload)
        assert harmed.connector.observe().observations == {}
        told = harmed.open().inventory().complaints[0]
        assert told.startswith("Kueue does not answer, so nothing is submitted, admitted or ")
    assert "Kueue does not answer" not in " ".join(harmed.open().inventory().complaints)
    uid = eventually(lambda: _try_to_start(harmed, workload))
    assert until_released(harmed.connector, workload.key, uid).outcome is Outcome.SUCCEEDED
    assert lines(harmed.scratch / "proof") == ["ran"]


def _try_to_start(rig: KubernetesRig, workload: Any) -> str | None:
    try:
        return rig.start(workload)
    except ClusterUnavailable:
        return None


@pytest.mark.disturbs_kube
def test_kueue_is_down_when_we_vote(harmed: KubernetesRig) -> None:
    """The vote is refused; it is repeated until it is seen, by itself."""
    workload = a_workload("exit 0")
    uid = harmed.submit(workload)
    harmed.connector.observe()
    until_reserved(harmed, uid)
    with harmed.bed.without("kueue"):
        harmed.connector.release(workload.key, uid)

        def is_told() -> bool:
            try:
                harmed.connector.release(workload.key, uid)
            except ClusterUnavailable as error:
                return "webhook" in str(error)
            return False

        eventually(is_told)
        seen = observed(harmed.connector, workload.key)
        assert seen is not None
        assert seen.phase is WorkloadPhase.HELD
    assert until_released(harmed.connector, workload.key).outcome is Outcome.SUCCEEDED


@pytest.mark.disturbs_kube
def test_the_api_server_dies_under_what_runs(harmed: KubernetesRig) -> None:
    """Nothing is told while it is away, and never that a workload is absent."""
    workload = a_workload(f"while ! [ -e {harmed.scratch}/go ]; do sleep 0.1; done")
    uid = harmed.start(workload)
    until_running(harmed.connector, workload.key)
    with harmed.bed.without("apiserver"):
        with pytest.raises(ClusterUnavailable):
            harmed.connector.observe()
        with pytest.raises(ClusterUnavailable):
            harmed.connector.stop("unknown")
    seen = until_observed(harmed, workload.key)
    assert seen is not None
    assert (seen.native_id, seen.phase) == (uid, WorkloadPhase.RUNNING)
    (harmed.scratch / "go").touch()
    assert until_released(harmed.connector, workload.key).outcome is Outcome.SUCCEEDED


@pytest.mark.disturbs_kube
def test_a_node_vanishes(harmed: KubernetesRig) -> None:
    """Its workload has ended with the node, and Kueue does not start it anew elsewhere."""
    workload = a_workload(f"echo ran >> {harmed.scratch}/proof; sleep 1000", grace_s=1)
    uid = harmed.start(workload)
    eventually(lambda: lines(harmed.scratch / "proof"))
    running = until_running(harmed.connector, workload.key)
    assert running.slots is not None
    harmed.bed.node_down(running.slots[0].node)
    seen = until_released(harmed.connector, workload.key, uid)
    assert seen.outcome is Outcome.NODE_FAILED
    assert lines(harmed.scratch / "proof") == ["ran"]
