"""What people give to a real Kueue beside the portal is gated, and nobody else opens the gate."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from builders.connector_builders import eventually
from builders.kube_natives import (
    WORKLOADS,
    NativesLoop,
    Person,
    a_native_job,
    a_native_jobset,
    a_pod_spec,
    condition,
    namespace_of,
)
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_user
from connectors.kubernetes.admission.gate_watch import GateWatch
from connectors.kubernetes.admission.gating import GATE, gate_manifests, path_of
from connectors.kubernetes.client.api import Forbidden, KubeApi
from connectors.kubernetes.objects.naming import CREATOR
from jobs.models import Attempt, Job
from kube.gated_kube import (
    a_workload,
    admin,
    company,
    gated,
    loop,
    native,
    nodes,
    person,
    reserved,
)

__all__ = ["admin", "company", "loop", "nodes", "person"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.disturbs_kube]


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


def test_one_that_asks_for_no_gpus_is_started_at_once(loop: NativesLoop, person: Person) -> None:
    body = a_native_job("plain", gpus=0)
    made = person.submit(body)
    assert made["metadata"]["annotations"][GATE] == "tidegate.io/arbiter"

    def admitted() -> bool | None:
        loop.observe()
        return condition(person.workload(body), "Admitted")[0] == "True" or None

    eventually(admitted)
    assert Job.objects.count() == 0


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
