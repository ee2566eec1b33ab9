"""What people give to a real Kueue beside the portal: gated, granted, billed, given back, told why
it waits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from billing.models import UsageSegment
from builders.connector_builders import eventually
from builders.kube_natives import (
    WORKLOADS,
    NativesLoop,
    Person,
    a_native_job,
    a_native_jobset,
    a_pod_spec,
    condition,
    kube_options,
    namespace_of,
    new_slug,
    push_teams,
)
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_grant, a_user
from connectors.kubernetes.api import Forbidden, KubeApi
from connectors.kubernetes.gating import GATE, GateWatch, gate_manifests, path_of
from connectors.kubernetes.naming import CREATOR
from connectors.kubernetes.natives import GRANTED
from jobs.cancellation import cancel_job
from jobs.models import Attempt, Job, JobOrigin
from kube_bed import KubeBed
from kubebed.api import Refused
from kubebed.objects import RACK_LABEL
from quotas.models import PriorityClass, Quota
from tenants.access import actor_of
from tenants.roles import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.disturbs_kube]


@pytest.fixture
def admin(kube_bed: KubeBed) -> Iterator[KubeApi]:
    """The cluster's administrator, who has applied what deploy/kubernetes has for them.

    Taken away with each test: other workers' tests know no gate.
    """
    api = KubeApi(kubeconfig=str(kube_bed.admin_kubeconfig))
    manifests = [*gate_manifests(), *LAST]
    for manifest in manifests:
        api.apply(path_of(manifest), manifest, force=True)
    # The server takes policies up in the order in which they were made, a moment later.
    eventually(lambda: is_refused(kube_bed))
    yield api
    for manifest in reversed(manifests):
        api.delete(path_of(manifest))
    api.close()


_POLICY = "admissionregistration.k8s.io/v1"
#: A policy of the tests' own, behind those of the gate: what it says is how far the server is.
LAST: tuple[dict[str, Any], ...] = (
    {
        "apiVersion": _POLICY,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "tests-last"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["configmaps"],
                    }
                ]
            },
            "validations": [{"expression": 'object.metadata.name != "tests-last"'}],
        },
    },
    {
        "apiVersion": _POLICY,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "tests-last"},
        "spec": {"policyName": "tests-last", "validationActions": ["Deny"]},
    },
)


def is_refused(bed: KubeBed) -> bool:
    """Whether the last policy is in effect."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tests-last"}}
    try:
        bed.api.call("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", body)
    except Refused:
        return True
    return False


@pytest.fixture
def company() -> Company:
    return a_company(new_slug())


@pytest.fixture
def nodes() -> dict[str, str]:
    """Labels that nodes must have to be the pool's."""
    return {}


@pytest.fixture
def loop(
    kube_bed: KubeBed, admin: KubeApi, company: Company, nodes: dict[str, str]
) -> Iterator[NativesLoop]:
    options = kube_options(kube_bed.portal_kubeconfig, new_slug(), nodes)
    loop = NativesLoop(company.cluster, options)
    push_teams(loop.own, company)
    eventually(lambda: loop.own.inventory().complaints == () or None)
    eventually(lambda: is_gated(kube_bed, namespace_of(company.nlp)))
    yield loop
    for team in (company.nlp, company.vision, company.inference):
        clear(admin, namespace_of(team))


def is_gated(bed: KubeBed, namespace: str) -> bool:
    """Whether what is given to the team's queue gets its gate: another kind of policy."""
    body = a_native_job("gated-yet")
    try:
        made = bed.api.call("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All", body)
    except Refused:
        return False  # by a webhook that does not know the namespace yet
    return GATE in made["metadata"].get("annotations", {})


def clear(admin: KubeApi, namespace: str) -> None:
    """Nothing of the team is left to hold GPUs or quota."""
    for plural in ("batch/v1/namespaces/{}/jobs", "jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"):
        collection = f"/apis/{plural.format(namespace)}"
        for one in admin.list(collection).items:
            admin.delete(f"{collection}/{one['metadata']['name']}", propagation="Background")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for pod in admin.list(pods).items:
        admin.delete(f"{pods}/{pod['metadata']['name']}", grace_s=0)
    admin.delete(f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def person(
    kube_bed: KubeBed, admin: KubeApi, loop: NativesLoop, company: Company, tmp_path: Path
) -> Person:
    return Person(admin, kube_bed.admin_kubeconfig, tmp_path, namespace_of(company.nlp))


def native(loop: NativesLoop, body: dict[str, Any], person: Person) -> Job:
    """The job that it becomes."""
    uid = person.get(body)["metadata"]["uid"]

    def look() -> Job | None:
        loop.observe()
        return Job.objects.filter(native_id=uid).first()

    return eventually(look)


def a_workload(name: str) -> dict[str, Any]:
    """One that Kueue made of nothing."""
    template = {"spec": a_pod_spec()}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "queueName": "main",
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


def gated(person: Person, body: dict[str, Any]) -> dict[str, Any]:
    """Its Workload, once Kueue says that it is gated."""

    def look() -> dict[str, Any] | None:
        try:
            workload = person.workload(body)
        except AssertionError:
            return None
        return workload if condition(workload, "QuotaReserved")[1] == "AdmissionGated" else None

    return eventually(look)


def reserved(admin: KubeApi, queue: str) -> int:
    """GPUs for which the queue has reserved quota."""
    found = admin.get(f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{queue}")
    return sum(
        int(one["total"])
        for flavor in found["status"].get("flavorsReservation") or ()
        for one in flavor["resources"]
        if one["name"] == "nvidia.com/gpu"
    )


def test_it_is_gated_when_it_is_created_and_holds_no_quota(
    loop: NativesLoop, person: Person, admin: KubeApi, company: Company
) -> None:
    waits = a_native_job("waits")
    made = person.submit(waits)
    assert made["metadata"]["annotations"][GATE] == "tidegate.io/arbiter"
    assert made["metadata"]["annotations"][CREATOR] == person.login
    gated(person, waits)
    job = native(loop, waits, person)
    assert (job.state, job.origin, job.team, job.mgpu) == ("queued", "native", company.nlp, 8000)
    assert reserved(admin, person.namespace) == 0
    # Others run past it.
    own = a_job(company.nlp, a_user(company.organization), company.pool, gpus=8, script="sleep 600")
    Job.objects.filter(pk=job.pk).update(state="held")
    loop.cycle()
    loop.deliver()
    eventually(lambda: (loop.observe(), reserved(admin, person.namespace))[1] == 8 or None)
    own.refresh_from_db()
    assert own.state in ("starting", "running")
    assert condition(person.workload(waits), "QuotaReserved")[0] == "False"
    assert loop.outside.holders == ()


def test_nobody_else_opens_the_gate(person: Person) -> None:
    waits = a_native_job("waits")
    person.submit(waits)
    workload = gated(person, waits)
    job, path = person.path(waits), WORKLOADS.format(person.namespace)
    path = f"{path}/{workload['metadata']['name']}"
    refused: list[tuple[str, dict[str, Any]]] = [
        (job, {"metadata": {"annotations": {GATE: None}}}),
        (job, {"metadata": {"annotations": {GATE: "mine"}}}),
        # What changes the status may bring annotations along.
        (f"{job}/status", {"metadata": {"annotations": {GATE: None}}}),
        # Its Pods would be made at once, and have their own grace until they are taken away.
        (job, {"spec": {"suspend": False}}),
        (job, {"metadata": {"annotations": {CREATOR: "somebody"}}}),
        (job, {"metadata": {"annotations": {"tidegate.io/stopped": "now"}}}),
        (job, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}}),
        (job, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}}),
        (job, {"metadata": {"labels": {"tidegate.io/attempt": "true"}}}),
        (job, {"metadata": {"labels": {"tidegate.io/cluster": "0" * 40}}}),
        (path, {"metadata": {"annotations": {"tidegate.io/stopped": "now"}}}),
        (
            f"{path}/status",
            {
                "status": {
                    "conditions": [
                        {
                            "type": "Admitted",
                            "status": "True",
                            "reason": "Admitted",
                            "message": "mine",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                        }
                    ]
                }
            },
        ),
        # Kueue reads the gate of the Workload. (The status of these brings no annotations along.)
        (path, {"metadata": {"annotations": {GATE: None}}}),
        (
            f"{path}/status",
            {
                "status": {
                    "admissionChecks": [
                        {
                            "name": "tidegate",
                            "state": "Ready",
                            "message": "mine",
                            "lastTransitionTime": "2026-01-01T00:00:00Z",
                        }
                    ]
                }
            },
        ),
    ]
    for where, patch in refused:
        with pytest.raises(Forbidden, match=r"Tidegate|queue"):
            person.api.merge_patch(where, patch)
    jobset = a_native_jobset("set")
    person.submit(jobset)
    gated(person, jobset)
    with pytest.raises(Forbidden, match="started by Kueue alone"):
        person.api.merge_patch(person.path(jobset), {"spec": {"suspend": False}})
    # What is theirs they change.
    person.api.merge_patch(job, {"metadata": {"labels": {"mine": "yes"}}})
    # To stop their own is theirs; to let it go again is not.
    person.api.merge_patch(path, {"spec": {"active": False}})
    with pytest.raises(Forbidden, match="only Tidegate makes it active"):
        person.api.merge_patch(path, {"spec": {"active": True}})


def test_what_the_portal_submitted_is_changed_by_nobody_else(
    loop: NativesLoop, person: Person, company: Company
) -> None:
    own = a_job(company.nlp, a_user(company.organization), company.pool, gpus=8, script="sleep 600")
    loop.cycle()
    loop.deliver()
    (made,) = person.api.list(f"/apis/batch/v1/namespaces/{person.namespace}/jobs").items
    path = f"/apis/batch/v1/namespaces/{person.namespace}/jobs/{made['metadata']['name']}"
    assert made["metadata"]["annotations"]["tidegate.io/asked"] == "1x8000 h100"
    for patch in (
        {"spec": {"parallelism": 2, "completions": 2}},
        {"spec": {"suspend": False}},
        {"metadata": {"annotations": {"tidegate.io/asked": "9x8000 h100"}}},
    ):
        with pytest.raises(Forbidden, match="by Tidegate alone"):
            person.api.merge_patch(path, patch)
    person.api.merge_patch(path, {"metadata": {"labels": {"mine": "yes"}}})
    # Kueue and Kubernetes itself do what starting it takes.
    assert loop.until(own, "running").attempt_number == 1


def test_one_that_grows_while_it_waits_is_granted_as_it_is_then(
    loop: NativesLoop, person: Person
) -> None:
    body = a_native_job("grows", gpus=1)
    person.submit(body)
    job = native(loop, body, person)
    assert job.node_count == 1

    def grow(pods: int) -> None:
        patch = {"spec": {"parallelism": pods, "completions": pods}}
        person.api.merge_patch(person.path(body), patch)
        sets = eventually(
            lambda: [
                one for one in person.workload(body)["spec"]["podSets"] if one["count"] == pods
            ]
        )
        assert len(sets) == 1

    grow(3)
    eventually(lambda: (loop.observe(), Job.objects.get(pk=job.pk).node_count)[1] == 3 or None)
    loop.cycle()
    attempt = Attempt.objects.get(job=job)
    assert (attempt.mgpu, attempt.state) == (3000, "reserved")
    # Between its grant and its start.
    grow(4)
    eventually(lambda: 4 if loop.asked_by(body, person) == (1000,) * 4 else None)
    loop.deliver()
    assert person.get(body)["metadata"]["annotations"][GATE] == "tidegate.io/arbiter"
    loop.until(job, "queued")
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.started_at) == ("preempted", None)
    job = loop.until(job, "running")
    assert (job.node_count, job.attempt_number) == (4, 2)
    assert Attempt.objects.get(job=job, number=2).mgpu == 4000


def test_no_queue_of_theirs_leads_elsewhere_and_none_is_faked(
    person: Person, company: Company
) -> None:
    queues = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{person.namespace}/localqueues"
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "mine"},
        "spec": {"clusterQueue": namespace_of(company.inference)},
    }
    with pytest.raises(Forbidden, match="the quota of that team"):
        person.api.create(queues, body)
    for values in (
        {"labels": {"tidegate.io/attempt": "true", "kueue.x-k8s.io/queue-name": "main"}},
        {"annotations": {"tidegate.io/key": "tg-1"}},
    ):
        fake = a_native_job("fake")
        fake["metadata"] |= values
        with pytest.raises(Forbidden, match="by Tidegate alone"):
            person.submit(fake)
        # Whoever is said to be its controller.
        fake["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "name": "made-up",
                "uid": "00000000-0000-0000-0000-000000000001",
                "controller": True,
            }
        ]
        with pytest.raises(Forbidden, match="by Tidegate alone"):
            person.submit(fake)
    faked = a_workload("faked")
    faked["metadata"]["annotations"] = {CREATOR: "boss@ai-company"}
    workloads = WORKLOADS.format(person.namespace)
    with pytest.raises(Forbidden, match="by Tidegate alone"):
        person.api.create(workloads, faked)
    assert person.api.create(workloads, a_workload("own"))["metadata"]["name"] == "own"
    # Who made it is what the cluster says.
    liar = a_native_job("liar", annotations={CREATOR: "boss@ai-company", GATE: ""})
    made = person.submit(liar)
    assert made["metadata"]["annotations"][CREATOR] == person.login
    assert made["metadata"]["annotations"][GATE] == "tidegate.io/arbiter"


def test_pods_of_their_own_say_nothing_that_is_ours(person: Person) -> None:
    pods = f"/api/v1/namespaces/{person.namespace}/pods"
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "mine", "annotations": {"bed.tidegate.io/run": "600"}},
        "spec": a_pod_spec(gpus=0),
    }
    for values in (
        {"labels": {"tidegate.io/attempt": "true"}},
        {"labels": {"tidegate.io/cluster": "0" * 40}},
        {"annotations": {"tidegate.io/key": "tg-1"}},
        {"annotations": {"tidegate.io/notice": "given"}},
    ):
        fake = {**body, "metadata": {**body["metadata"], **values}}  # type: ignore[dict-item]
        with pytest.raises(Forbidden, match="by Tidegate alone"):
            person.api.create(pods, fake)
    person.api.create(pods, body)
    for patch in (
        {"labels": {"tidegate.io/attempt": "true"}},
        {"annotations": {"tidegate.io/key": "tg-1"}},
    ):
        for where in ("mine", "mine/status"):
            with pytest.raises(Forbidden, match="by Tidegate alone"):
                person.api.merge_patch(f"{pods}/{where}", {"metadata": patch})
    person.api.merge_patch(f"{pods}/mine", {"metadata": {"labels": {"mine": "yes"}}})


def test_one_that_is_granted_runs_and_is_billed_to_its_team(
    loop: NativesLoop, person: Person, company: Company
) -> None:
    body = a_native_job("runs", gpus=4, pods=2, run_s=2)
    person.submit(body)
    job = native(loop, body, person)
    assert (job.mgpu_per_node, job.node_count) == (4000, 2)
    job = loop.until(job, "running", "succeeded")
    attempt = Attempt.objects.get(job=job)
    assert attempt.native_id == job.native_id
    assert sum(slot["mgpu"] for slot in attempt.slots) == 8000
    assert all(slot["node"].startswith("h100-") for slot in attempt.slots)
    job = loop.until(job, "succeeded")
    segment = UsageSegment.objects.get()
    assert (segment.attempt.team_id, segment.guaranteed_mgpu) == (company.nlp.pk, 8000)
    attempt.refresh_from_db()
    assert segment.start == attempt.started_at
    assert segment.end == attempt.released_at
    assert segment.end is not None
    assert 2 <= (segment.end - segment.start).total_seconds() <= 8


def test_a_jobset_is_gated_and_runs_when_it_is_granted(loop: NativesLoop, person: Person) -> None:
    body = a_native_jobset("set", gpus=4, pods=2)
    made = person.submit(body)
    assert made["metadata"]["annotations"][GATE] == "tidegate.io/arbiter"
    gated(person, body)
    job = native(loop, body, person)
    assert (job.mgpu_per_node, job.node_count) == (4000, 2)
    assert loop.until(job, "running").attempt_number == 1


def test_a_pod_in_a_queue_runs_when_it_is_granted(
    loop: NativesLoop, person: Person, company: Company
) -> None:
    """It is there while it waits, unlike the Pods of a Job."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "notebook",
            "labels": {"kueue.x-k8s.io/queue-name": "main"},
            "annotations": {"bed.tidegate.io/start-seconds": "0"},
        },
        "spec": a_pod_spec(gpus=2),
    }
    person.submit(pod)
    job = loop.until(native(loop, pod, person), "running")
    assert (job.team, job.mgpu, job.attempt_number) == (company.nlp, 2000, 1)
    assert person.get(pod)["status"]["phase"] == "Running"


def test_a_ray_cluster_is_gated_and_let_in_when_it_is_granted(
    loop: NativesLoop, person: Person
) -> None:
    """There is no operator here that would make its Pods."""
    head = {"rayStartParams": {}, "template": {"spec": a_pod_spec(gpus=8)}}
    body = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray", "labels": {"kueue.x-k8s.io/queue-name": "main"}},
        "spec": {"headGroupSpec": head},
    }
    try:
        assert person.submit(body)["spec"]["suspend"] is True
        gated(person, body)
        job = native(loop, body, person)
        assert (job.state, job.mgpu) == ("queued", 8000)
        with pytest.raises(Forbidden, match="started by Kueue alone"):
            person.api.merge_patch(person.path(body), {"spec": {"suspend": False}})
        loop.cycle()
        loop.deliver()

        def starts() -> bool | None:
            loop.observe()
            return person.get(body)["spec"]["suspend"] is False or None

        assert eventually(starts)
        assert GATE not in person.get(body)["metadata"].get("annotations", {})
    finally:
        person.api.delete(person.path(body))


@pytest.mark.parametrize("nodes", [{RACK_LABEL: "rack-0"}])
def test_after_a_preemption_it_is_inactive_until_it_is_granted_again(
    loop: NativesLoop, person: Person, company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a rack of 8 nodes, all of which it has: 8 GPUs of its team and 56 of others."""
    monkeypatch.setattr("jobs.cancellation.CANCEL_GRACE", timedelta(seconds=1))
    PriorityClass.objects.update(grace_period_s=2)
    body = a_native_job("borrows", gpus=8, pods=8)
    person.submit(body)
    job = loop.until(native(loop, body, person), "running")
    attempt = Attempt.objects.get(job=job)
    assert (attempt.guaranteed_mgpu, attempt.mgpu) == (8000, 64_000)
    bob = a_user(company.organization, "bob")
    own = a_job(company.inference, bob, company.pool, gpus=8, nodes=2, script="sleep 600")
    job = loop.until(job, "queued")
    workload = person.workload(body)
    assert workload["spec"]["active"] is False
    # Kueue looks at Pods by itself, and gives its quota back when it has seen that none is left.
    eventually(lambda: condition(person.workload(body), "QuotaReserved")[0] == "False")
    pods = person.api.list(f"/api/v1/namespaces/{person.namespace}/pods").items
    assert [one for one in pods if one["status"]["phase"] == "Running"] == []
    assert (job.attempt_number, job.native_id) == (1, attempt.native_id)
    own = loop.until(own, "running")
    assert person.workload(body)["spec"]["active"] is False
    boss = a_user(company.organization, "boss")
    a_grant(boss, Role.ORGANIZATION_ADMIN, company.organization)
    cancel_job(own.id, actor=actor_of(boss), now=loop.clock.now())
    job = loop.until(job, "running")
    assert job.attempt_number == 2
    assert person.workload(body)["spec"]["active"] is True
    assert UsageSegment.objects.filter(attempt__team_id=company.nlp.pk).count() >= 2


def test_what_kueue_itself_evicts_waits_for_us_again(
    loop: NativesLoop, person: Person, admin: KubeApi
) -> None:
    body = a_native_job("evicted")
    person.submit(body)
    job = loop.until(native(loop, body, person), "running")
    queue = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{person.namespace}"
    admin.merge_patch(queue, {"spec": {"stopPolicy": "HoldAndDrain"}})
    eventually(lambda: (loop.observe(), Job.objects.get(pk=job.pk).state)[1] == "queued" or None)
    admin.merge_patch(queue, {"spec": {"stopPolicy": "None"}})
    assert person.workload(body)["spec"]["active"] is False
    assert Attempt.objects.get(job=job).outcome == "preempted"
    assert loop.until(job, "running").attempt_number == 2


def test_one_that_reached_kueues_own_time_limit_is_over(loop: NativesLoop, person: Person) -> None:
    body = a_native_job("limited")
    body["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "3"
    person.submit(body)
    job = loop.until(native(loop, body, person), "timed_out")
    assert (job.attempt_number, job.end_reason) == (1, "time_limit")
    assert condition(person.workload(body), "Requeued")[0] == "False"


def test_one_over_quota_says_why_in_its_own_status(loop: NativesLoop, person: Person) -> None:
    Quota.objects.update(borrow_limit_mgpu=0)
    first, second = a_native_job("first"), a_native_job("second")
    person.submit(first)
    loop.until(native(loop, first, person), "running")
    person.submit(second)
    job = native(loop, second, person)

    def told() -> tuple[str, str, str] | None:
        loop.turn()
        found = condition(person.workload(second), GRANTED)
        return found if found[0] else None

    status, reason, message = eventually(told)
    job.refresh_from_db()
    assert job.explanation is not None
    assert (status, reason) == ("False", "BorrowLimitReached")
    assert message == job.explanation["sentence"]
    assert (job.state, job.attempt_number) == ("queued", 0)
    assert condition(person.workload(first), GRANTED)[0] in ("", "True")
    person.api.delete(person.path(first), propagation="Background")
    loop.until(job, "running")
    assert condition(person.workload(second), GRANTED)[:2] == ("True", "Granted")


def test_one_that_pod_security_refuses_is_given_back_and_told_why(
    loop: NativesLoop, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: left alone. It held its GPUs, and was charged, until somebody cancelled it."""
    monkeypatch.setattr("connectors.kubernetes.runs.PODS_WITHIN_S", 1)
    monkeypatch.setattr("jobs.withdrawing.START_WITHIN", timedelta(seconds=1))
    body = a_native_job("insecure")
    del body["spec"]["template"]["spec"]["securityContext"]
    person.submit(body)
    job = native(loop, body, person)

    def told() -> str | None:
        loop.turn()
        status, _, message = condition(person.workload(body), GRANTED)
        return message if status == "False" and "PodSecurity" in message else None

    assert eventually(told).startswith("Taken back after ")
    job.refresh_from_db()
    attempt = Attempt.objects.get(job=job)
    assert (job.state, attempt.outcome, attempt.started_at) == ("queued", "not_started", None)
    assert person.workload(body)["spec"]["active"] is False
    assert not UsageSegment.objects.exists()


def test_one_that_is_cancelled_here_or_removed_there_is_over_on_both_sides(
    loop: NativesLoop, person: Person, company: Company
) -> None:
    Quota.objects.filter(node=company.nlp).update(borrow_limit_mgpu=0, guaranteed_mgpu=0)
    bodies = [a_native_job("cancelled"), a_native_job("removed")]
    for body in bodies:
        person.submit(body)
    jobs = [native(loop, body, person) for body in bodies]
    boss = a_user(company.organization, "boss")
    a_grant(boss, Role.ORGANIZATION_ADMIN, company.organization)
    cancel_job(jobs[0].id, actor=actor_of(boss), now=loop.clock.now())
    person.api.delete(person.path(bodies[1]), propagation="Background")
    removed = loop.until(jobs[1], "cancelled")
    assert removed.end_reason == "removed_on_cluster"

    def cancelled() -> bool | None:
        loop.turn()
        return person.workload(bodies[0])["spec"].get("active") is False or None

    eventually(cancelled)
    assert "tidegate.io/stopped" in person.get(bodies[0])["metadata"]["annotations"]
    assert condition(person.workload(bodies[0]), GRANTED)[1] == "Cancelled"
    loop.turn()
    assert Job.objects.filter(origin=JobOrigin.NATIVE).count() == 2
    assert loop.outside.pending == 0


def test_one_that_asks_for_no_gpus_is_started_at_once(loop: NativesLoop, person: Person) -> None:
    body = a_native_job("plain", gpus=0)
    made = person.submit(body)
    assert made["metadata"]["annotations"][GATE] == "tidegate.io/arbiter"

    def admitted() -> bool | None:
        loop.observe()
        return condition(person.workload(body), "Admitted")[0] == "True" or None

    eventually(admitted)
    assert Job.objects.count() == 0


def test_a_job_without_a_queue_and_a_pod_are_held_outside(
    loop: NativesLoop, person: Person
) -> None:
    made = person.submit(a_native_job("foreign", gpus=4, queue=None))
    assert GATE not in made["metadata"].get("annotations", {})
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "foreign", "annotations": {"bed.tidegate.io/start-seconds": "0"}},
        "spec": a_pod_spec(gpus=2),
    }
    person.submit(pod)

    def held() -> int | None:
        loop.observe()
        mgpu = sum(holder.mgpu for holder in loop.outside.holders)
        return mgpu if mgpu == 6000 else None

    eventually(held)
    assert sum(loop.outside.by_node.values()) == 6000
    assert (Job.objects.count(), UsageSegment.objects.count()) == (0, 0)


def test_a_gate_that_is_not_in_place_is_told(
    loop: NativesLoop, admin: KubeApi, person: Person
) -> None:
    first = gate_manifests()[0]
    assert GateWatch(loop.own.api).state().complaint == ""
    admin.delete(path_of(first))
    try:
        state = GateWatch(loop.own.api).state()
        assert not state.is_in_place
        assert "MutatingAdmissionPolicy tidegate-gate is missing" in state.complaint
        assert "gate.yaml" in state.complaint
        # What was not gated waits all the same, and is told apart by nothing but its quota.
        bodies = (a_native_job(f"late-{number}") for number in count())

        def ungated() -> dict[str, Any] | None:
            # The policy acts for a moment after it is gone.
            body = next(bodies)
            made = person.submit(body)
            if GATE not in made["metadata"].get("annotations", {}):
                return body
            person.api.delete(person.path(body), propagation="Background")
            return None

        body = eventually(ungated)
        job = native(loop, body, person)
        assert job.state == "queued"
        assert loop.until(job, "running").attempt_number == 1
    finally:
        admin.apply(path_of(first), first, force=True)
    changed = {**gate_manifests()[2], "spec": {**gate_manifests()[2]["spec"], "validations": []}}
    changed["spec"]["validations"] = [{"expression": "true", "message": "anything goes"}]
    admin.apply(path_of(changed), changed, force=True)
    try:
        state = GateWatch(loop.own.api).state()
        assert "ValidatingAdmissionPolicy tidegate-gate is another one" in state.complaint
    finally:
        admin.apply(path_of(gate_manifests()[2]), gate_manifests()[2], force=True)
