"""What people create in a team's namespace without the label of a queue, on a real Kueue."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from billing.models import UsageSegment
from builders.connector_builders import eventually
from builders.kube_natives import (
    NativesLoop,
    Person,
    a_native_job,
    a_native_jobset,
    a_pod_spec,
    apply,
    signed_in,
)
from builders.portal_builders import Company
from connectors.kubernetes.admission.gate_watch import GateWatch
from connectors.kubernetes.admission.gating import GATE, TAKE, gate_manifests, path_of
from connectors.kubernetes.client.api import Forbidden, KubeApi
from connectors.kubernetes.objects.naming import ADMISSION_GATE, CREATOR, QUEUE_LABEL
from jobs.models import Attempt, Job
from kube.gated_kube import admin, company, gated, loop, native, nodes, person
from kube_bed import KubeBed

__all__ = ["admin", "company", "loop", "nodes", "person"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.disturbs_kube]


def a_pod(name: str, *, gpus: int = 8, **metadata: Any) -> dict[str, Any]:
    """One that somebody makes by itself."""
    marks = {"bed.tidegate.io/start-seconds": "0"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": marks, **metadata},
        "spec": a_pod_spec(gpus=gpus),
    }


def an_owner(of: dict[str, Any]) -> dict[str, Any]:
    """Says that the object is the controller."""
    return {
        "apiVersion": of["apiVersion"],
        "kind": of["kind"],
        "name": of["metadata"]["name"],
        "uid": of["metadata"]["uid"],
        "controller": True,
    }


@pytest.mark.parametrize("labels", [{}, {QUEUE_LABEL: ""}])
def test_a_job_without_the_label_waits_in_the_queue_of_its_team_and_is_charged(
    loop: NativesLoop, person: Person, company: Company, labels: dict[str, str]
) -> None:
    body = a_native_job("plain", queue=None)
    body["metadata"]["labels"] = labels
    made = person.submit(body)
    assert made["metadata"]["labels"][QUEUE_LABEL] == "main"
    assert made["metadata"]["annotations"][GATE] == "tidegate.io/arbiter"
    assert made["metadata"]["annotations"][CREATOR] == person.login
    assert made["spec"]["suspend"] is True
    gated(person, body)
    job = native(loop, body, person)
    assert (job.state, job.origin, job.team, job.mgpu) == ("queued", "native", company.nlp, 8000)
    assert loop.until(job, "running").attempt_number == 1
    assert Attempt.objects.get(job=job).mgpu == 8000
    assert loop.outside.holders == ()
    assert loop.own.inventory().complaints == ()


def test_a_jobset_is_taken_whole(loop: NativesLoop, person: Person) -> None:
    body = a_native_jobset("plain-set", gpus=4)
    del body["metadata"]["labels"]
    assert person.submit(body)["metadata"]["labels"][QUEUE_LABEL] == "main"
    gated(person, body)
    job = native(loop, body, person)
    assert (loop.until(job, "running").node_count, job.mgpu) == (2, 8000)
    # Its Job and Pods were let through: one job, and nobody holds anything beside.
    assert Job.objects.count() == 1
    assert loop.outside.holders == ()


def test_a_pod_of_its_own_is_taken(loop: NativesLoop, person: Person) -> None:
    body = a_pod("plain-pod")
    made = person.submit(body)
    assert made["metadata"]["labels"][QUEUE_LABEL] == "main"
    assert {"name": ADMISSION_GATE} in made["spec"]["schedulingGates"]
    with pytest.raises(Forbidden, match="started by Kueue alone"):
        person.api.merge_patch(person.path(body), {"spec": {"schedulingGates": None}})

    def look() -> Job | None:
        loop.observe()
        return Job.objects.filter(name__startswith="pod-plain-pod-").first()

    job = eventually(look)
    assert (job.state, job.mgpu) == ("queued", 8000)
    assert loop.until(job, "running").attempt_number == 1
    assert loop.outside.holders == ()


def test_nobody_says_that_theirs_is_part_of_something_that_was_let_in(
    loop: NativesLoop, person: Person
) -> None:
    """Planted: no `_no_false_owner`. Kueue lets the Pod go at once."""
    body = a_native_job("let-in", gpus=1)
    person.submit(body)
    owner = an_owner(person.get(body))
    for label in ({}, {QUEUE_LABEL: "main"}):
        with pytest.raises(Forbidden, match="by the controller of the job alone"):
            person.submit(a_pod("false", labels=label, ownerReferences=[owner]))
        job = a_native_job("false", queue=None)
        job["metadata"] |= {"labels": label, "ownerReferences": [owner]}
        with pytest.raises(Forbidden, match="by the controller of the job alone"):
            person.submit(job)


EDITS_JOBS_AND_PODS = [
    {
        "apiGroups": ["", "batch"],
        "resources": ["jobs", "pods"],
        "verbs": ["create", "get", "list", "watch", "patch", "update", "delete"],
    }
]


def an_account(
    admin: KubeApi, kubeconfig: str, folder: Path, *, namespace: str, name: str, of_team: str
) -> KubeApi:
    """Signs in as a service account of `namespace` that may edit Jobs and Pods of the team."""
    version = "rbac.authorization.k8s.io/v1"
    rbac = f"/apis/{version}/namespaces/{of_team}"
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    apply(admin, f"/api/v1/namespaces/{namespace}", "v1", "Namespace")
    apply(admin, f"{accounts}/{name}", "v1", "ServiceAccount")
    apply(admin, f"{rbac}/roles/{name}", version, "Role", rules=EDITS_JOBS_AND_PODS)
    apply(
        admin,
        f"{rbac}/rolebindings/{name}",
        version,
        "RoleBinding",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        subjects=[{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    )
    return KubeApi(kubeconfig=str(signed_in(admin, kubeconfig, folder, namespace, name)))


def test_an_account_of_another_namespace_is_nobody_special(
    loop: NativesLoop, person: Person, admin: KubeApi, kube_bed: KubeBed, tmp_path: Path
) -> None:
    """Against: all `system:` accounts outside of teams' namespaces act for the cluster. Such a one
    with rights in a team's namespace opened its gates, and its Pods ran unbilled."""
    waits, pod = a_native_job("waits", gpus=1), a_pod("waits-pod")
    person.submit(waits)
    person.submit(pod)
    owner = an_owner(person.get(waits))
    of_job = a_pod("of-job", labels={QUEUE_LABEL: "main"}, ownerReferences=[owner])
    suspended = {"spec": {"suspend": False}}
    gates = {"spec": {"schedulingGates": None}}

    def account(namespace: str, name: str) -> KubeApi:
        return an_account(
            admin,
            kube_bed.admin_kubeconfig,
            tmp_path,
            namespace=namespace,
            name=name,
            of_team=person.namespace,
        )

    deployer = account("argocd", "deployer")
    try:
        with pytest.raises(Forbidden, match="by the controller of the job alone"):
            deployer.create(person.path(of_job, ""), of_job)
        for body, patch in ((waits, suspended), (pod, gates)):
            with pytest.raises(Forbidden, match="started by Kueue alone"):
                deployer.merge_patch(person.path(body), patch)
        # Also what asks for no GPUs waits in the team's queue.
        plain = a_pod("plain", gpus=0)
        made = deployer.create(person.path(plain, ""), plain)
        assert made["metadata"]["labels"][QUEUE_LABEL] == "main"
    finally:
        deployer.close()
    # Kueue may, under the account of its own manifests.
    kueue = account("kueue-system", "kueue-controller-manager")
    try:
        freed = kueue.merge_patch(person.path(pod), gates)
        assert "schedulingGates" not in freed["spec"]
        assert kueue.merge_patch(person.path(waits), suspended)["spec"]["suspend"] is False
        assert kueue.create(person.path(of_job, ""), of_job)["metadata"]["name"] == "of-job"
    finally:
        kueue.close()
        admin.delete("/api/v1/namespaces/argocd")


@pytest.fixture
def refusing(admin: KubeApi, person: Person) -> Iterator[None]:
    """The administrator has taken the policy away that takes what has no label."""
    taking = [one for one in gate_manifests() if one["metadata"]["name"] == TAKE]
    for one in reversed(taking):
        admin.delete(path_of(one))
    names = (f"gone-yet-{number}" for number in count())

    def is_gone() -> bool:
        """The policy acts for a moment after it is gone."""
        try:
            person.submit(a_native_job(next(names), queue=None))
        except Forbidden:
            return True
        return False

    eventually(is_gone)
    yield
    for one in taking:
        admin.apply(path_of(one), one, force=True)


@pytest.mark.usefixtures("refusing")
def test_where_nothing_takes_it_it_is_refused(loop: NativesLoop, person: Person) -> None:
    refused = r"outside of its queue: add the label kueue.x-k8s.io/queue-name: main"
    empty = a_native_job("empty")
    empty["metadata"]["labels"] = {QUEUE_LABEL: ""}
    plain_set = a_native_jobset("plain-set")
    del plain_set["metadata"]["labels"]
    for body in (a_native_job("plain", queue=None), empty, plain_set, a_pod("plain-pod")):
        with pytest.raises(Forbidden, match=refused):
            person.submit(body)
    labelled = a_native_jobset("set", gpus=4)
    person.submit(labelled)
    gated(person, labelled)
    assert loop.until(native(loop, labelled, person), "running").attempt_number == 1
    state = GateWatch(loop.own.api).state()
    assert f"MutatingAdmissionPolicy {TAKE} is missing" in state.complaint
    assert GateWatch(loop.own.api, takes_unlabelled=False).state().complaint == ""


def test_what_runs_outside_all_the_same_is_an_alert(
    loop: NativesLoop, person: Person, admin: KubeApi
) -> None:
    exempt = f"system:serviceaccount:{person.namespace}:person"
    loose = [one for one in gate_manifests(exempt=(exempt,)) if not one["kind"].endswith("Binding")]
    for one in loose:
        admin.apply(path_of(one), one, force=True)
    names = (f"loose-{number}" for number in count())

    def submitted() -> dict[str, Any] | None:
        """The policies act for a moment after they have changed."""
        body = a_native_job(next(names), gpus=4, queue=None)
        try:
            made = person.submit(body)
        except Forbidden:
            return None
        if QUEUE_LABEL not in made["metadata"].get("labels", {}):
            return body
        person.api.delete(person.path(body), propagation="Background")
        return None

    body = eventually(submitted)

    pod = a_pod("loose-pod", gpus=2)
    person.submit(pod)

    def told() -> list[str]:
        loop.observe()
        return [one for one in loop.own.inventory().complaints if "nobody is charged" in one]

    def told_of_both() -> list[str] | None:
        found = told()
        return found if found and found[0].startswith("2 Pods") else None

    (complaint,) = eventually(told_of_both)
    assert complaint.startswith(
        "2 Pods in namespaces of teams hold 6 GPUs outside of the teams' queues, and nobody is "
        f"charged: 6 GPUs in {person.namespace} ({body['metadata']['name']}-0-"
    )
    assert sum(holder.mgpu for holder in loop.outside.holders) == 6000
    assert sum(loop.outside.by_node.values()) == 6000
    assert (Job.objects.count(), UsageSegment.objects.count()) == (0, 0)
    person.api.delete(person.path(body), propagation="Background")
    person.api.delete(person.path(pod), grace_s=0)
    eventually(lambda: told() == [] or None)
