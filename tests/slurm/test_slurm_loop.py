"""From a submitted job to a usage segment on a real Slurm."""

from __future__ import annotations

import pytest

from billing.models import UsageSegment
from builders.api_callers import by_token
from builders.connector_builders import eventually
from builders.cost_cap_story import stopped_at_its_cap
from builders.job_builders import a_body
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_grant, a_user
from builders.slurm_loop import SlurmLoop
from clusters.models import ClusterNode
from conformance.rigs import SlurmRig
from connectors.errors import LogUnavailable
from connectors.protocol import WorkloadPhase
from jobs.actions.cancellation import cancel_job
from jobs.execution.workloads import workload_of
from jobs.models import Attempt, HeldSubmission, Job, JobArray, JobEvent
from outbox.models import Message
from quotas.models import Quota
from tenants.access import actor_of
from tenants.models import User
from tenants.roles import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slurm]


@pytest.fixture
def company() -> Company:
    company = a_company()
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def loop(company: Company, slurm_rig: SlurmRig, bob: User) -> SlurmLoop:
    loop = SlurmLoop(company.cluster, slurm_rig)
    loop.let_in(bob, company.nlp, company.inference)
    return loop


def said(loop: SlurmLoop, key: str, rank: int) -> str:
    """What a rank has said so far."""
    try:
        return loop.rig.log(key, rank=rank)
    except LogUnavailable:
        return ""


def test_a_job_runs_on_slurm_and_its_usage_is_metered(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    job = a_job(company.nlp, bob, company.pool, gpus=4, nodes=2, script="echo rank $RANK; sleep 2")
    loop.until(job, "succeeded", "failed")
    assert (job.state, job.exit_code, job.attempt_number) == ("succeeded", 0, 1)
    attempt = job.attempts.get()
    assert attempt.cluster_user == loop.rig.bed.users[0]
    assert attempt.release_sent_at is not None
    nodes = {slot["node"] for slot in attempt.slots}
    known = set(ClusterNode.objects.values_list("name", flat=True))
    assert len(nodes) == 2
    assert nodes <= known
    segment = UsageSegment.objects.get(attempt_id=attempt.id)
    assert (segment.guaranteed_mgpu, segment.borrowed_mgpu) == (8000, 0)
    assert (segment.start, segment.end) == (attempt.started_at, attempt.released_at)
    assert loop.rig.log(attempt.key, rank=1) == "rank 1\n"
    events = list(JobEvent.objects.filter(job=job).order_by("id").values_list("event", flat=True))
    assert events == ["granted", "started", "succeeded"]


def test_an_array_runs_on_slurm_as_under_slurm_and_a_job_waits_for_it(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    """Each task is one Slurm job; the cluster sees neither the array nor the dependency."""
    a_grant(bob, Role.RESEARCHER, company.nlp)
    script = (
        "#!/bin/bash\n#SBATCH --array=1-5:2%2\n#SBATCH --gpus=1\n"
        'echo "$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT '
        '$SLURM_ARRAY_TASK_MIN-$SLURM_ARRAY_TASK_MAX ${SLURM_ARRAY_JOB_ID:-unset}"\n'
    )
    caller = by_token(bob)
    answer = caller.post("jobs", a_body(script=..., gpus=..., sbatch=script))
    assert answer.status_code == 201, answer.content
    array = JobArray.objects.get()
    wish = {"array": str(array.id), "condition": "succeeded"}
    last = Job.objects.get(pk=caller.post("jobs", a_body(depends_on=[wish])).json()["id"])
    holding: set[int] = set()

    def look() -> bool | None:
        loop.cycle()
        holding.add(Attempt.objects.filter(job__array=array, released_at=None).count())
        loop.deliver()
        loop.observe()
        last.refresh_from_db()
        return last.state != "queued" or None

    eventually(look, deadline_s=120)
    assert max(holding) == 2
    tasks = list(Job.objects.filter(array=array).order_by("array_index"))
    assert [task.state for task in tasks] == ["succeeded"] * 3
    assert [loop.rig.log(task.attempts.get().key, rank=0) for task in tasks] == [
        f"{index} of 3 1-5 unset\n" for index in (1, 3, 5)
    ]
    assert len({task.attempts.get().native_id for task in tasks}) == 3
    loop.until(last, "running", "succeeded", "failed")


def test_the_inventory_of_slurm_is_the_fleet(loop: SlurmLoop) -> None:
    partition = loop.rig.bed.partitions["h100"]
    nodes = ClusterNode.objects.filter(cluster=loop.cluster)
    assert nodes.count() == partition.node_count
    assert set(nodes.values_list("capacity_mgpu", flat=True)) == {8_000}


def test_a_submission_whose_answer_was_lost_runs_once(
    loop: SlurmLoop, company: Company, bob: User
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


def test_a_second_copy_is_removed_and_never_runs(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    proof = loop.rig.scratch / "proof"
    job = a_job(company.nlp, bob, company.pool, script=f"echo ran >> {proof}; sleep 1")
    loop.cycle()
    attempt = Attempt.objects.select_related("job__team", "job__pool", "job__user").get()
    attempt.cluster_user = loop.rig.bed.users[0]
    copy = loop.connector.submit(workload_of(attempt), is_first=True)
    recorded = loop.connector.submit(workload_of(attempt), is_first=True)
    Attempt.objects.update(native_id=recorded, cluster_user=attempt.cluster_user)
    loop.until(job, "succeeded", "failed")
    assert (job.state, proof.read_text()) == ("succeeded", "ran\n")

    def is_gone() -> bool:
        seen = loop.connector.observe().seen(attempt.key, copy)
        return seen is not None and seen.is_released and seen.started_at is None

    eventually(is_gone)


def test_a_running_job_is_cancelled(loop: SlurmLoop, company: Company, bob: User) -> None:
    job = a_job(
        company.nlp, bob, company.pool, script="trap 'echo bye; exit 0' TERM; sleep 1000 & wait"
    )
    loop.until(job, "running")
    cancel_job(job.id, actor=actor_of(bob), now=loop.clock.now())
    loop.until(job, "cancelled")
    attempt = job.attempts.get()
    assert loop.rig.log(attempt.key) == "bye\n"
    assert attempt.started_at is not None
    assert attempt.released_at is not None
    metered_s = sum(
        (segment.end - segment.start).total_seconds() for segment in UsageSegment.objects.all()
    )
    assert metered_s == (attempt.released_at - attempt.started_at).total_seconds()


def test_a_job_ends_at_its_cost_cap_on_slurm(loop: SlurmLoop, company: Company, bob: User) -> None:
    """Against: a Slurm job that ends well after its notice has succeeded."""
    job = stopped_at_its_cap(loop, company, bob)
    assert loop.rig.log(job.attempts.get().key) == "began\nnoticed\n"


def test_a_job_of_somebody_unmapped_waits_and_says_so(loop: SlurmLoop, company: Company) -> None:
    stranger = a_user(company.organization, "stranger")
    job = a_job(company.nlp, stranger, company.pool)
    loop.cycle()
    job = Job.objects.get(pk=job.pk)
    assert job.explanation is not None
    assert (job.state, job.explanation["code"]) == ("queued", "cluster_unavailable")
    assert job.explanation["sentence"] == (
        "No cluster with such GPUs on which you have a user accepts jobs now."
    )


def test_what_was_lent_comes_back_on_slurm(loop: SlurmLoop, company: Company, bob: User) -> None:
    """Inference borrows all 32 that the company may use; nlp takes its 8 back. The bed has more,
    and other tests are on it: the company may not borrow from outside."""
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


def test_the_job_of_a_claim_is_held_on_slurm_while_its_victim_has_its_grace(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    """Then only its release is left. Planted: released as soon as it has settled, beside its
    victim."""
    nodes = [company.organization, company.research, company.nlp]
    Quota.objects.update(guaranteed_mgpu=0)
    Quota.objects.filter(node__in=nodes).update(guaranteed_mgpu=8_000)
    Quota.objects.filter(node=company.organization).update(borrow_limit_mgpu=0)
    script = "trap 'sleep 10; exit 0' TERM; sleep 300 & wait"
    victim = a_job(company.inference, bob, company.pool, gpus=8, script=script)
    loop.until(victim, "running")
    job = a_job(company.nlp, bob, company.pool, gpus=8, script="sleep 1")
    loop.until(victim, "preempting")
    submission = HeldSubmission.objects.get()

    def phase_there() -> WorkloadPhase | None:
        loop.turn()
        seen = loop.connector.observe().seen(f"tg-{submission.id}", None)
        return None if seen is None else seen.phase

    assert eventually(phase_there) is WorkloadPhase.HELD
    assert not Attempt.objects.filter(job=job).exists()
    loop.until(job, "succeeded", "failed")
    attempt = job.attempts.get()
    submission.refresh_from_db()
    assert (job.state, attempt.id, attempt.number) == ("succeeded", submission.id, 1)
    assert attempt.native_id == submission.native_id
    gone_at = victim.attempts.get(number=1).released_at
    assert gone_at is not None
    assert attempt.release_sent_at is not None
    assert attempt.started_at is not None
    assert gone_at <= attempt.granted_at <= attempt.release_sent_at
    assert gone_at <= attempt.started_at
    assert UsageSegment.objects.get(attempt_id=attempt.id).start == attempt.started_at
