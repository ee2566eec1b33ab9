"""What people gave to a real Kueue beside the portal: granted, billed, given back, explained."""

from __future__ import annotations

from datetime import timedelta

import pytest

from billing.models import UsageSegment
from budgets.evaluation import evaluate
from budgets.models import Budget, BudgetState
from builders.budget_builders import GPU_HOUR, a_budget
from builders.connector_builders import eventually
from builders.kube_natives import (
    NativesLoop,
    Person,
    a_native_job,
    a_native_jobset,
    a_pod_spec,
    condition,
)
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_grant, a_user
from connectors.kubernetes.admission.gating import GATE
from connectors.kubernetes.client.api import Forbidden, KubeApi
from connectors.kubernetes.natives.natives import GRANTED
from jobs.actions.cancellation import cancel_job
from jobs.models import Attempt, Job, JobOrigin
from kube.gated_kube import (
    admin,
    company,
    gated,
    loop,
    native,
    nodes,
    person,
)
from kubebed.objects import RACK_LABEL
from quotas.entitlement_amounts import entitlement_sentences
from quotas.models import PriorityClass, Quota
from tenants.access import actor_of
from tenants.roles import Role

__all__ = ["admin", "company", "loop", "nodes", "person"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.disturbs_kube]


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


def test_a_used_up_budget_holds_one_until_it_has_room(
    loop: NativesLoop, person: Person, company: Company
) -> None:
    """Its limit is a milli-GPU-second, and a million GPU-hours after it. Against: natives granted
    beside budgets."""
    budget = a_budget(company.nlp, limit=1)
    evaluate(company.organization.pk, loop.clock.now())
    body = a_native_job("waits", gpus=4, pods=1, run_s=2)
    person.submit(body)
    job = native(loop, body, person)
    loop.turn()
    job.refresh_from_db()
    assert job.explanation is not None
    assert (job.state, job.explanation["code"]) == ("queued", "budget_exhausted")
    Budget.objects.filter(pk=budget.pk).update(limit=10**6 * GPU_HOUR)
    loop.until(job, "succeeded")
    evaluate(company.organization.pk, loop.clock.now())
    segment = UsageSegment.objects.get()
    assert segment.end is not None
    used_s = int((segment.end - segment.start).total_seconds())
    state = BudgetState.objects.get(budget=budget)
    assert (state.used, state.on_hold) == (4_000 * used_s, 0)
    assert used_s > 0


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
    monkeypatch.setattr("jobs.actions.cancellation.CANCEL_GRACE", timedelta(seconds=1))
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
    first, second = Attempt.objects.filter(job=job).order_by("number")
    assert first.started_at is not None
    assert first.ended_at is not None
    # Kubernetes tells whole seconds: who began and ended in the same one has used nothing.
    used = UsageSegment.objects.filter(attempt_id=first.pk)
    spans = [one.end - one.start for one in used if one.end is not None]
    assert sum(spans, timedelta(0)) == first.ended_at - first.started_at
    (begun,) = UsageSegment.objects.filter(attempt_id=second.pk)
    assert (begun.start, begun.end) == (second.started_at, None)
    assert begun.guaranteed_mgpu + begun.borrowed_mgpu == 64_000


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
    entitled = entitlement_sentences({(job.team_id, job.pool_id)})
    assert message == f"{job.explanation['sentence']} {entitled[job.team_id, job.pool_id]}"
    assert (job.state, job.attempt_number) == ("queued", 0)
    assert condition(person.workload(first), GRANTED)[0] in ("", "True")
    person.api.delete(person.path(first), propagation="Background")
    loop.until(job, "running")
    assert condition(person.workload(second), GRANTED)[:2] == ("True", "Granted")


def test_one_that_pod_security_refuses_is_given_back_and_told_why(
    loop: NativesLoop, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: left alone. It held its GPUs, and was charged, until somebody cancelled it."""
    monkeypatch.setattr("connectors.kubernetes.workloads.runs.PODS_WITHIN_S", 1)
    monkeypatch.setattr("jobs.execution.withdrawing.START_WITHIN", timedelta(seconds=1))
    body = a_native_job("insecure")
    del body["spec"]["template"]["spec"]["securityContext"]
    person.submit(body)
    job = native(loop, body, person)

    def told() -> str | None:
        loop.turn()
        status, _, message = condition(person.workload(body), GRANTED)
        return message if status == "False" and "PodSecurity" in message else None

    assert eventually(told).startswith("Withdrawn after ")
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
