"""What a job on a real Kubernetes says and costs while Kueue or the API server is away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from billing.models import UsageSegment
from builders.connector_builders import eventually
from builders.kube_loop import KubernetesLoop
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_user
from builders.sent_attempts import told
from conformance.rigs import KubernetesRig
from connectors.errors import ClusterUnavailable
from connectors.kubernetes.admission.admission_check import KUEUE_VERSION
from connectors.kubernetes.client.api import WRITE_TIMEOUT_S
from connectors.kubernetes.objects.naming import team_namespace, workload_name
from connectors.kubernetes.objects.reading import is_true
from jobs.models import Attempt, Job
from tenants.access import actor_of
from tenants.models import User

#: How long the API server is away at least.
AWAY_S = 5

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.kube,
    pytest.mark.disturbs_kube,
]


@pytest.fixture
def company() -> Company:
    company = a_company()
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def loop(company: Company, kubernetes_rig: KubernetesRig) -> Iterator[KubernetesLoop]:
    yield KubernetesLoop(company.cluster, kubernetes_rig, company.nlp, company.inference)
    bed = kubernetes_rig.bed
    if down := bed.ended():
        bed.run(*down)


def sentence(job: Job, loop: KubernetesLoop) -> str:
    return told(job, actor_of(job.user), now=loop.clock.now())


def look(loop: KubernetesLoop) -> None:
    """Send and look, as far as the cluster answers."""
    loop.deliver()
    try:
        loop.observe()
    except ClusterUnavailable:
        return


def test_webhooks_are_given_up_before_a_write_to_them(loop: KubernetesLoop) -> None:
    """Then the API server says which webhook was silent. Planted: a write of 10 s."""
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    webhooks = [
        webhook
        for kind in kinds
        for one in loop.rig.admin.list(f"/apis/admissionregistration.k8s.io/v1/{kind}").items
        for webhook in one["webhooks"]
    ]
    assert "mjob.kb.io" in {one["name"] for one in webhooks}
    assert max(one["timeoutSeconds"] for one in webhooks) < WRITE_TIMEOUT_S


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_job_whose_kueue_is_away_says_so_after_one_look(
    how: str, loop: KubernetesLoop, company: Company, bob: User
) -> None:
    """Jobs that are to be sent meanwhile, those sent before, and the cluster's page say so.

    Against: looks that found a silent API server, since a write was given up as early as its
    webhook; "it is being started" for as long as Kueue was away.
    """
    bed, name = loop.rig.bed, company.cluster.name
    held = a_job(company.nlp, bob, company.pool, name="held")
    loop.cycle()
    loop.deliver()
    assert Attempt.objects.get(job=held).native_id is not None
    waits = (
        f"Its GPUs are reserved on {name}, where it waits. Kueue does not answer, so the job is "
        "not admitted there yet."
    )
    with bed.without("kueue") if how == "killed" else bed.frozen("kueue"):
        later = a_job(company.nlp, bob, company.pool, name="later")
        loop.cycle()
        look(loop)
        loop.take_inventory()
        complaints = loop.connector.inventory().complaints
        assert sentence(later, loop).startswith(waits)
        assert sentence(held, loop) == waits
        assert any(one.startswith("Kueue does not answer, so ") for one in complaints)
        assert Attempt.objects.get(job=later).native_id is None
    for job in (held, later):
        loop.until(job, "succeeded", "failed")
        assert (job.state, job.attempt_number) == ("succeeded", 1)


def test_what_starts_after_the_api_server_was_away_pays_from_its_container_on(
    loop: KubernetesLoop, company: Company, bob: User
) -> None:
    """Against: it paid for 53 s before its script began. It is admitted, then nobody can start
    its Pod: first no kubelet, then no API server."""
    bed, rig = loop.rig.bed, loop.rig
    proof = rig.scratch / "proof"
    job = a_job(company.nlp, bob, company.pool, script=f"date +%s > {proof}; sleep 3")
    loop.cycle()
    loop.deliver()
    attempt = Attempt.objects.get(job=job)
    assert attempt.native_id is not None
    namespace = team_namespace(job.team.path.rstrip("/"))
    with bed.frozen("runner"):

        def is_admitted() -> bool:
            look(loop)
            found = rig.admin.list(
                f"/apis/{KUEUE_VERSION}/namespaces/{namespace}/workloads",
                labels=f"kueue.x-k8s.io/job-uid={attempt.native_id}",
            )
            return any(is_true(workload, "Admitted") for workload in found.items)

        eventually(is_admitted)
        bed.kill("apiserver")
    # The kubelet goes on, and the API server comes back later.
    time.sleep(AWAY_S)
    assert not proof.exists()
    with pytest.raises(ClusterUnavailable):
        loop.observe()
    attempt.refresh_from_db()
    assert attempt.started_at is None
    bed.run("apiserver")
    eventually(proof.exists, deadline_s=90)
    (pod,) = rig.admin.list(
        f"/api/v1/namespaces/{namespace}/pods",
        labels=f"batch.kubernetes.io/job-name={workload_name(attempt.key)}",
    ).items
    state = pod["status"]["containerStatuses"][0]["state"]
    began = (state.get("running") or state["terminated"])["startedAt"]
    until_ended(loop, job)
    attempt.refresh_from_db()
    segment = UsageSegment.objects.get(attempt_id=attempt.id)
    assert segment.start == attempt.started_at == datetime.fromisoformat(began)
    assert 0 <= int(proof.read_text()) - segment.start.timestamp() <= 2
    assert (segment.start - attempt.granted_at).total_seconds() >= AWAY_S


def until_ended(loop: KubernetesLoop, job: Job) -> None:
    """Turn until the job has succeeded, however long the cluster takes to answer again."""

    def is_over() -> bool:
        look(loop)
        job.refresh_from_db()
        return job.state == "succeeded"

    eventually(is_over, deadline_s=90)
