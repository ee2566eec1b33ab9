"""From a submitted job to a usage segment, with real processes and a real database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import transaction

from billing.models import UsageSegment
from builders.connector_builders import eventually
from builders.loop_builders import Loop, a_job
from builders.portal_builders import Company, a_company, a_user
from connectors.errors import ClusterUnavailable
from jobs.actions.cancellation import ask_to_stop
from jobs.execution.retention import LOGS_KEPT_FOR, forget_ended_attempts
from jobs.execution.workloads import workload_of
from jobs.models import Attempt, Job, JobEvent, StopReason
from outbox.delivery import LEASE
from outbox.models import Message
from primitives.units import gpus_text
from quotas.models import NodeUse
from tenants.models import User

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def loop(company: Company, tmp_path: Path) -> Iterator[Loop]:
    company.cluster.nodes.all().delete()
    loop = Loop(company.cluster, tmp_path / "local")
    yield loop
    for attempt in Attempt.objects.filter(released_at=None):
        loop.connector.stop(attempt.key)


def test_a_job_runs_and_its_usage_is_metered(loop: Loop, company: Company, bob: User) -> None:
    job = a_job(company.nlp, bob, company.pool, gpus=8, script="echo hello; sleep 1.1")
    loop.until(job, "succeeded", "failed")
    assert (job.state, job.exit_code, job.attempt_number) == ("succeeded", 0, 1)
    attempt = job.attempts.get()
    segment = UsageSegment.objects.get(attempt_id=attempt.id)
    assert (segment.guaranteed_mgpu, segment.borrowed_mgpu) == (8000, 0)
    assert (segment.start, segment.end) == (attempt.started_at, attempt.released_at)
    log = loop.connector.read_log(attempt.key, rank=0, stream="stdout", offset=0, limit=100)
    assert log.data == b"hello\n"
    events = list(JobEvent.objects.filter(job=job).order_by("id").values_list("event", flat=True))
    assert events == ["granted", "started", "succeeded"]


def test_a_failing_job_keeps_its_exit_code(loop: Loop, company: Company, bob: User) -> None:
    job = a_job(company.nlp, bob, company.pool, script="exit 7")
    loop.until(job, "succeeded", "failed")
    assert (job.state, job.exit_code, job.end_reason) == ("failed", 7, "exit_code")


def test_research_gets_its_lent_gpus_back(loop: Loop, company: Company, bob: User) -> None:
    """Inference borrows everything; nlp reclaims; who exits on notice frees at once, who
    ignores it is stopped at the deadline; the victims queue again as attempt 2."""
    polite = "trap 'exit 0' TERM; echo $TIDEGATE_ATTEMPT; while :; do sleep 0.05; done"
    gangs = [
        a_job(company.inference, bob, company.pool, gpus=8, script=polite, name=f"serve-{n}")
        for n in range(4)
    ]
    for gang in gangs:
        loop.until(gang, "running")
    use = NodeUse.objects.get(node=company.inference)
    assert (use.in_use_mgpu, use.borrowed_mgpu) == (32_000, 16_000)

    wanted = a_job(company.nlp, bob, company.pool, gpus=8, script="sleep 0.2", name="train")
    loop.cycle()
    wanted.refresh_from_db()
    assert wanted.state == "queued"
    assert wanted.explanation["code"] == "waiting_for_reclaim"
    victims = Attempt.objects.filter(state="stopping")
    assert victims.count() == 1
    victim = victims.get().job
    loop.until(wanted, "succeeded", "failed")
    assert wanted.state == "succeeded"
    loop.until(victim, "running")
    assert victim.attempt_number == 2
    first, second = victim.attempts.order_by("number")
    assert (first.outcome, first.stop_reason) == ("stopped", "preempted") or (
        first.outcome == "succeeded"
    )
    assert second.number == 2
    total = sum(
        (segment.guaranteed_mgpu + segment.borrowed_mgpu)
        for segment in UsageSegment.objects.filter(end=None)
    )
    assert gpus_text(total) == "32"


def test_a_cluster_whose_folder_is_away_or_another_s_loses_nothing(
    loop: Loop, company: Company, bob: User, tmp_path: Path
) -> None:
    """Mutant: every opening prepared the root, so that an empty one was made, answered three
    times, and the job was lost and run again beside itself."""
    trace, go = tmp_path / "trace", tmp_path / "go"
    script = f"echo $TIDEGATE_ATTEMPT >> {trace}; while ! [ -e {go} ]; do sleep 0.02; done"
    job = a_job(company.nlp, bob, company.pool, gpus=8, script=script)
    loop.until(job, "running")
    root = Path(loop.cluster.options["root"])
    away = root.rename(tmp_path / "away")
    for _ in range(4):
        with pytest.raises(ClusterUnavailable, match="is gone"):
            loop.observe()
    root.mkdir()
    for _ in range(4):
        with pytest.raises(ClusterUnavailable, match=str(company.cluster.pk)):
            loop.turn()
    root.rmdir()
    away.rename(root)
    go.touch()
    loop.until(job, "succeeded", "failed", "queued")
    assert (job.state, job.attempt_number) == ("succeeded", 1)
    assert trace.read_text() == "1\n"


def test_what_ended_fourteen_days_ago_leaves_no_folder_behind(
    loop: Loop, company: Company, bob: User
) -> None:
    """Once, and not a second earlier. Mutant: forgetting was counted from the grant."""
    job = a_job(company.nlp, bob, company.pool, script="echo big > file; sleep 1.1")
    loop.until(job, "succeeded", "failed")
    attempt = job.attempts.get()
    assert attempt.released_at is not None
    assert attempt.released_at > attempt.granted_at
    attempts = Path(loop.cluster.options["root"]) / "attempts"
    assert [path.name for path in attempts.iterdir()] == [attempt.key]
    due = attempt.released_at + LOGS_KEPT_FOR
    assert forget_ended_attempts(now=due) == 0
    assert forget_ended_attempts(now=due + timedelta(seconds=1)) == 1
    assert forget_ended_attempts(now=due + timedelta(seconds=2)) == 0
    # Due at the time of the forgetting, which is days ahead of this loop's clock.
    Message.objects.filter(kind="forget_attempt").update(due_at=loop.clock.now())
    loop.deliver()
    assert list(attempts.iterdir()) == []
    assert list((attempts.parent / "trash").iterdir()) == []
    loop.observe()
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == ("succeeded", 1)


@pytest.mark.parametrize("has_arrived", [False, True])
def test_a_preempted_start_that_nobody_acknowledged_is_stopped_at_once(
    loop: Loop, company: Company, bob: User, tmp_path: Path, has_arrived: bool
) -> None:
    """Whoever sent the start died before the answer. Whether it arrived or not, the attempt is
    given up by the cluster's own word and not by the grace, and its successor runs alone.

    Mutants: a notice was sent, and the attempt waited out its grace; it was given up without
    the cluster's word, and what had arrived ran beside its successor."""
    trace = tmp_path / "trace"
    script = f"echo $TIDEGATE_ATTEMPT >> {trace}; test $TIDEGATE_ATTEMPT = 2 || sleep 600"
    job = a_job(company.nlp, bob, company.pool, gpus=8, script=script)
    loop.cycle()
    attempt = job.attempts.get()
    dead_until = loop.clock.now() + LEASE
    Message.objects.filter(kind="start_attempt").update(sends=1, due_at=dead_until)
    if has_arrived:
        loop.connector.submit(workload_of(attempt))
        eventually(trace.exists)
    with transaction.atomic():
        now = loop.clock.now()
        ask_to_stop([attempt], StopReason.PREEMPTED, grace=timedelta(hours=1), now=now)
        Job.objects.filter(pk=job.pk).update(state="preempting")

    def given_up() -> bool:
        loop.deliver()
        loop.observe()
        job.refresh_from_db()
        return job.state == "queued"

    eventually(given_up)
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.stop_reason) == ("stopped", "preempted")
    assert loop.connector.observe().observations[attempt.key].is_released
    Message.objects.filter(kind="start_attempt").update(due_at=loop.clock.now())
    loop.until(job, "succeeded", "failed")
    assert (job.state, job.attempt_number) == ("succeeded", 2)
    assert trace.read_text() == ("1\n2\n" if has_arrived else "2\n")
