"""From a submitted job to a usage segment on a real Kubernetes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from billing.models import UsageSegment
from builders.connector_builders import eventually
from builders.cost_cap_story import stopped_at_its_cap
from builders.kube_loop import KubernetesLoop
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_user
from clusters.models import ClusterNode
from conformance.rigs import KubernetesRig
from connectors.errors import ClusterUnavailable, LogUnavailable
from connectors.kubernetes.attempts.submitting import Submitter
from connectors.kubernetes.objects.naming import team_namespace, workload_name
from connectors.kubernetes.objects.resources import JOB
from jobs.actions.cancellation import cancel_job
from jobs.execution.withdrawing import withdraw_stuck
from jobs.models import Attempt, Job, JobEvent
from outbox.models import Message
from quotas.models import PriorityClass, Quota
from tenants.access import actor_of
from tenants.models import User

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.kube]


@pytest.fixture
def company() -> Company:
    company = a_company()
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def loop(company: Company, kubernetes_rig: KubernetesRig) -> KubernetesLoop:
    return KubernetesLoop(company.cluster, kubernetes_rig, company.nlp, company.inference)


def said(loop: KubernetesLoop, key: str, rank: int) -> str:
    """What a rank has said so far."""
    try:
        return loop.rig.log(key, rank=rank)
    except LogUnavailable:
        return ""


def job_path(attempt: Attempt) -> str:
    """Where the object of the attempt is."""
    namespace = team_namespace(attempt.job.team.path.rstrip("/"))
    return JOB.path(namespace, workload_name(attempt.key))


def test_a_gang_runs_on_kubernetes_and_its_usage_is_metered(
    loop: KubernetesLoop, company: Company, bob: User
) -> None:
    job = a_job(company.nlp, bob, company.pool, gpus=4, nodes=2, script="echo rank $RANK; sleep 2")
    loop.until(job, "succeeded", "failed")
    assert (job.state, job.exit_code, job.attempt_number) == ("succeeded", 0, 1)
    attempt = job.attempts.get()
    assert attempt.release_sent_at is not None
    nodes = {slot["node"] for slot in attempt.slots}
    assert nodes <= set(ClusterNode.objects.values_list("name", flat=True))
    assert sum(slot["mgpu"] for slot in attempt.slots) == 8000
    segment = UsageSegment.objects.get(attempt_id=attempt.id)
    assert (segment.guaranteed_mgpu, segment.borrowed_mgpu) == (8000, 0)
    assert (segment.start, segment.end) == (attempt.started_at, attempt.released_at)
    assert loop.rig.log(attempt.key, rank=1) == "rank 1\n"
    events = list(JobEvent.objects.filter(job=job).order_by("id").values_list("event", flat=True))
    assert events == ["granted", "started", "succeeded"]


def test_the_inventory_of_kubernetes_is_the_fleet(loop: KubernetesLoop) -> None:
    nodes = ClusterNode.objects.filter(cluster=loop.cluster)
    assert set(nodes.values_list("name", flat=True)) == set(loop.rig.bed.models["h100"].nodes)
    assert set(nodes.values_list("capacity_mgpu", flat=True)) == {8_000}


def test_a_job_ends_at_its_cost_cap_on_kubernetes(
    loop: KubernetesLoop, company: Company, bob: User
) -> None:
    """Against: a Job that ends well after its notice has succeeded."""
    job = stopped_at_its_cap(loop, company, bob)
    assert loop.rig.log(job.attempts.get().key) == "began\nnoticed\n"


def test_a_submission_whose_answer_was_lost_runs_once(
    loop: KubernetesLoop, company: Company, bob: User
) -> None:
    """The submission arrives, its id is never recorded; the next send finds it."""
    proof = loop.rig.scratch / "proof"
    job = a_job(company.nlp, bob, company.pool, script=f"echo ran >> {proof}")
    loop.cycle()
    loop.deliver()
    attempt = job.attempts.get()
    first = attempt.native_id
    Attempt.objects.update(native_id=None, state="reserved")
    Message.objects.filter(kind="start_attempt").update(done_at=None, due_at=attempt.granted_at)
    loop.until(job, "succeeded", "failed")
    attempt.refresh_from_db()
    assert (job.state, attempt.native_id) == ("succeeded", first)
    assert proof.read_text() == "ran\n"


def test_a_submission_that_broke_off_in_its_middle_is_made_whole(
    loop: KubernetesLoop, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Job is there, found and released, before anybody made its script."""

    def breaks_off(self: Submitter, key: str, body: object) -> None:
        raise ClusterUnavailable("the API server does not answer")

    proof = loop.rig.scratch / "proof"
    job = a_job(company.nlp, bob, company.pool, script=f"echo ran >> {proof}")
    with monkeypatch.context() as patched:
        patched.setattr(Submitter, "_create_owned", breaks_off)
        loop.cycle()
        loop.deliver()

        def is_released() -> bool:
            loop.observe()
            return job.attempts.get().release_sent_at is not None

        assert eventually(is_released)
    Message.objects.filter(kind="start_attempt").update(due_at=job.attempts.get().granted_at)
    loop.until(job, "succeeded", "failed")
    assert (job.state, proof.read_text()) == ("succeeded", "ran\n")


def test_a_running_job_is_cancelled_with_notice_grace_and_stop(
    loop: KubernetesLoop, company: Company, bob: User
) -> None:
    """It hears the notice, does not end, and is stopped after its grace; metered to its end."""
    PriorityClass.objects.update(grace_period_s=2)
    job = a_job(
        company.nlp,
        bob,
        company.pool,
        script="exec 2> /dev/null; trap 'echo told' TERM; echo ready; while :; do sleep 0.1; done",
    )
    loop.until(job, "running")
    attempt = job.attempts.get()
    eventually(lambda: said(loop, attempt.key, 0) == "ready\n")
    cancel_job(job.id, actor=actor_of(bob), now=loop.clock.now())
    loop.until(job, "cancelled")
    attempt.refresh_from_db()
    assert said(loop, attempt.key, 0).startswith("ready\ntold\n")
    assert attempt.started_at is not None
    assert attempt.released_at is not None
    metered_s = sum(
        (segment.end - segment.start).total_seconds() for segment in UsageSegment.objects.all()
    )
    assert metered_s == (attempt.released_at - attempt.started_at).total_seconds()


def test_a_job_that_was_never_started_is_cancelled(
    loop: KubernetesLoop, company: Company, bob: User
) -> None:
    """It is on the cluster and waits for a vote; it never runs and costs nothing."""
    proof = loop.rig.scratch / "proof"
    job = a_job(company.nlp, bob, company.pool, script=f"echo ran >> {proof}")
    loop.cycle()
    loop.deliver()
    cancel_job(job.id, actor=actor_of(bob), now=loop.clock.now())
    loop.until(job, "cancelled")
    attempt = job.attempts.get()
    assert (attempt.started_at, proof.exists()) == (None, False)
    assert not UsageSegment.objects.exists()


def test_what_has_no_image_is_taken_back_and_costs_nothing(
    loop: KubernetesLoop, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: admitted was started. It was charged, and kept its GPUs until somebody cancelled."""
    monkeypatch.setattr("jobs.execution.withdrawing.START_WITHIN", timedelta(0))
    monkeypatch.setattr("jobs.execution.withdrawing.NEVER_WITHIN", timedelta(0))
    job = a_job(company.nlp, bob, company.pool)
    Job.objects.filter(pk=job.pk).update(image="registry.invalid/team/train:1")
    loop.cycle()
    loop.deliver()

    def ended() -> Attempt | None:
        loop.deliver()
        loop.observe()
        attempt = job.attempts.get()
        if "its image cannot be drawn (" in attempt.message:
            listing = loop.connector.observe()
            withdraw_stuck(loop.cluster, listing, leadership=loop.observer, now=loop.clock.now())  # type: ignore[arg-type]
        return attempt if attempt.released_at is not None else None

    attempt = eventually(ended)
    assert (attempt.outcome, attempt.started_at) == ("not_started", None)
    assert [slot["node"][:5] for slot in attempt.slots] == ["h100-"]
    assert not UsageSegment.objects.exists()


def test_what_was_lent_comes_back_on_kubernetes(
    loop: KubernetesLoop, company: Company, bob: User
) -> None:
    """Inference borrows all 32 that the company may use; nlp takes its 8 back."""
    Quota.objects.filter(node=company.organization).update(borrow_limit_mgpu=0)
    polite = "trap 'exit 0' TERM; echo ready; sleep 1000 & wait"
    lent = a_job(company.inference, bob, company.pool, gpus=8, nodes=4, script=polite)
    loop.until(lent, "running")
    key = Attempt.objects.get(job=lent).key
    eventually(lambda: [said(loop, key, rank) for rank in range(4)] == ["ready\n"] * 4)
    wanted = a_job(company.nlp, bob, company.pool, gpus=8, script="sleep 1")
    loop.until(wanted, "succeeded", "failed")
    loop.until(lent, "running")
    assert (wanted.state, lent.attempt_number) == ("succeeded", 2)
    assert list(
        Attempt.objects.filter(job=lent, number=1).values_list("outcome", "stop_reason")
    ) == [("succeeded", "preempted")]


def test_an_object_that_somebody_deleted_is_never_run_again_unasked(
    loop: KubernetesLoop, company: Company, bob: User
) -> None:
    """A running one whose object vanishes: nobody knows how it ended, and a person is asked."""
    job = a_job(company.nlp, bob, company.pool, script="sleep 1000")
    loop.until(job, "running")
    attempt = job.attempts.select_related("job__team").get()
    loop.rig.admin.delete(job_path(attempt), propagation="Background")

    def look() -> str | None:
        loop.observe()
        attempt.refresh_from_db()
        return attempt.outcome

    assert eventually(look) == "unknown"
    job.refresh_from_db()
    assert job.state == "held"
    assert attempt.started_at is not None
    assert attempt.released_at is not None


def test_the_name_of_an_attempt_that_a_stranger_has_taken(
    loop: KubernetesLoop, company: Company, bob: User
) -> None:
    """The stranger's object is left alone, and the job says what is to be done."""
    job = a_job(company.nlp, bob, company.pool)
    loop.cycle()
    attempt = job.attempts.select_related("job__team").get()
    path = job_path(attempt)
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": workload_name(attempt.key)},
        "spec": {
            "suspend": True,
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
            },
        },
    }
    stranger = loop.rig.admin.create(path.rpartition("/")[0], body)
    loop.deliver()
    attempt.refresh_from_db()
    assert attempt.outcome == "start_failed"
    assert "which is not ours; an administrator there must remove it" in attempt.message
    assert loop.rig.admin.get(path)["metadata"]["uid"] == stranger["metadata"]["uid"]
    loop.rig.admin.delete(path, propagation="Background")
