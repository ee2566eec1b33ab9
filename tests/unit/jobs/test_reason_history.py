"""For what a job has waited so far: a line whenever the cause changed, and bounded."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from builders.api_callers import by_token
from builders.job_builders import a_body, a_job, an_attempt
from builders.portal_builders import NOW, Company, a_user, an_organization
from jobs.actions.cancellation import hold_job, release_job
from jobs.arbitration.arbitration import Cycles
from jobs.execution import retention
from jobs.execution.retention import forget_old_reasons
from jobs.models import Job, JobReason, JobState
from jobs.queue import reason_lines
from jobs.queue.reason_lines import write_reasons
from quotas.models import Quota
from tenants.access import actor_of
from tenants.models import User

pytestmark = pytest.mark.django_db


def after(seconds: int) -> datetime:
    return NOW + timedelta(seconds=seconds)


def lines(job: Job) -> list[tuple[int, str, datetime]]:
    return [
        (line.number, line.code, line.since)
        for line in JobReason.objects.filter(job=job).order_by("number")
    ]


@pytest.fixture
def waiting(company: Company, bob: User) -> Job:
    """Bob's job asks for 24 GPUs; production holds 16 of 32, as it is guaranteed."""
    for index in range(2):
        serving = a_job(company, bob, team=company.inference, state="running", mgpu_per_node=8_000)
        an_attempt(
            serving,
            cluster=company.cluster,
            nodes=(f"ai-company-{index:03d}",),
            started_at=NOW,
            guaranteed_mgpu=8_000,
        )
    return a_job(company, bob, team=company.nlp, mgpu_per_node=8_000, node_count=3)


def borrow_nothing(company: Company) -> None:
    Quota.objects.filter(node=company.nlp).update(borrow_limit_mgpu=0)


def test_a_line_is_added_when_the_cause_changes_and_not_when_numbers_move(
    waiting: Job, company: Company, bob: User, cycles: Cycles
) -> None:
    """Mutant: every document that was written was a line."""
    cycles.run(NOW)
    # Somebody before it: only its numbers move.
    a_job(company, bob, team=company.nlp, mgpu_per_node=8_000, node_count=3, submitted_at=after(-9))
    cycles.run(after(2))
    waiting.refresh_from_db()
    assert waiting.explanation is not None
    assert (waiting.explanation["jobs_ahead"], waiting.explained_at) == (1, after(2))
    borrow_nothing(company)
    cycles.run(after(4))
    cycles.run(after(6))
    assert lines(waiting) == [
        (1, "waiting_for_free_gpus", NOW),
        (2, "never_fits", after(4)),
    ]
    assert JobReason.objects.get(job=waiting, number=1).document["jobs_ahead"] == 0


def test_a_new_leader_adds_nothing_that_is_known(waiting: Job, cycles: Cycles) -> None:
    cycles.run(NOW)
    cycles._reasons._stored.clear()
    cycles.run(after(2))
    assert lines(waiting) == [(1, "waiting_for_free_gpus", NOW)]


def test_waiting_again_is_a_line_though_the_cause_is_the_same(
    waiting: Job, bob: User, cycles: Cycles
) -> None:
    cycles.run(NOW)
    hold_job(waiting.pk, actor=actor_of(bob), now=after(1))
    release_job(waiting.pk, actor=actor_of(bob), now=after(2))
    cycles.run(after(3))
    assert lines(waiting) == [
        (1, "waiting_for_free_gpus", NOW),
        (2, "held_by_user", after(1)),
        (3, "waiting_for_free_gpus", after(3)),
    ]


def test_a_job_that_is_submitted_held_waits_for_somebody_from_the_first(
    company: Company, bob: User
) -> None:
    """Every task of an array, too, with what its explanation says."""
    caller = by_token(bob)
    told = caller.post("jobs", a_body(held=True, array="0-1")).json()
    tasks = Job.objects.filter(array_id=told["array"]["id"])
    for task in tasks:
        assert lines(task) == [(1, "held_by_user", task.submitted_at)]
    assert len(tasks) == 2
    (line,) = caller.get(f"jobs/{tasks[0].pk}/reasons").json()["items"]
    now = caller.get(f"jobs/{tasks[0].pk}/explanation").json()
    assert (line["sentence"], now["sentence"]) == (
        "The job is held until a person releases it.",
    ) * 2


def test_holding_and_releasing_again_and_again_keeps_no_more_lines(
    waiting: Job, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: only cycles drop old lines."""
    monkeypatch.setattr(reason_lines, "LINES_MAX", 2)
    for second in range(0, 10, 2):
        hold_job(waiting.pk, actor=actor_of(bob), now=after(second))
        release_job(waiting.pk, actor=actor_of(bob), now=after(second + 1))
    assert lines(waiting) == [(4, "held_by_user", after(6)), (5, "held_by_user", after(8))]


def test_another_node_whose_limit_binds_is_another_cause(waiting: Job) -> None:
    for second, node in enumerate(("a/b", "a/b", "a", None)):
        document = {"code": "parent_limit_reached", "node": node}
        write_reasons([{"id": str(waiting.pk), "document": document}], after(second))
    assert [since for _, _, since in lines(waiting)] == [after(0), after(2), after(3)]


@pytest.mark.parametrize("count", [3, 5])
def test_only_the_latest_lines_are_kept(
    count: int, waiting: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the first line that is too many is kept until there is another."""
    monkeypatch.setattr(reason_lines, "LINES_MAX", 2)
    for second in range(count):
        document = {"code": f"cause_{second}", "node": None}
        write_reasons([{"id": str(waiting.pk), "document": document}], after(second))
    assert lines(waiting) == [
        (number, f"cause_{number - 1}", after(number - 1)) for number in (count - 1, count)
    ]


def test_what_waits_no_more_gets_no_line(waiting: Job) -> None:
    Job.objects.update(state=JobState.STARTING)
    document = {"code": "borrow_limit_reached", "node": None}
    assert write_reasons([{"id": str(waiting.pk), "document": document}], NOW) == []
    assert lines(waiting) == []


def test_it_is_one_statement_whatever_the_number_of_jobs(waiting: Job) -> None:
    jobs = [str(pk) for pk in Job.objects.values_list("pk", flat=True)]
    Job.objects.update(state=JobState.QUEUED)
    document = {"code": "borrow_limit_reached", "node": None}
    with CaptureQueriesContext(connection) as captured:
        write_reasons([{"id": job, "document": document} for job in jobs], NOW)
    assert (len(captured), JobReason.objects.count()) == (1, len(jobs))


def test_it_is_shown_to_who_sees_the_job(
    waiting: Job, company: Company, bob: User, cycles: Cycles
) -> None:
    cycles.run(NOW)
    borrow_nothing(company)
    cycles.run(after(4))
    caller, path = by_token(bob), f"jobs/{waiting.pk}/reasons"
    first, second = caller.get(path).json()["items"]
    told = caller.get(f"jobs/{waiting.pk}/explanation").json()
    assert first == {
        "since": told["as_of"],
        **{
            name: told[name]
            for name in (
                "code",
                "sentence",
                "numbers",
                "node",
                "jobs_ahead",
                "estimated_start",
            )
        },
    }
    assert (first["since"], second["since"]) == ("2026-11-21T12:00:04Z", "2026-11-21T12:00:00Z")
    assert (first["code"], first["node"]) == ("never_fits", None)
    stranger = by_token(a_user(an_organization("rival"), "dave"))
    assert stranger.get(path).status_code == 404


def test_the_database_numbers_the_lines_of_a_job_once(waiting: Job) -> None:
    line = {"job": waiting, "number": 1, "since": NOW, "code": "x", "document": {}}
    JobReason.objects.create(**line)
    with pytest.raises(IntegrityError, match="job_reason_number_once"), transaction.atomic():
        JobReason.objects.create(**line)


def test_why_a_job_waited_goes_90_days_after_its_end(company: Company, bob: User) -> None:
    """Planted: by the age of the line alone, so that a job that waits for months forgot why."""
    day = timedelta(days=1)
    jobs = {
        name: a_job(company, bob, state=state, ended_at=ended_at)
        for name, state, ended_at in (
            ("old", "succeeded", NOW - 90 * day - timedelta(seconds=1)),
            ("at the bound", "failed", NOW - 90 * day),
            ("waits", "queued", None),
        )
    }
    for job in jobs.values():
        for number in (1, 2):
            JobReason.objects.create(
                job=job, number=number, since=NOW - 200 * day, code="never_fits", document={}
            )
    assert forget_old_reasons(now=NOW, limit=1) == 1
    assert forget_old_reasons(now=NOW) == 1
    assert forget_old_reasons(now=NOW) == 0
    kept = set(JobReason.objects.values_list("job_id", flat=True))
    assert kept == {jobs["at the bound"].pk, jobs["waits"].pk}


def test_old_reasons_go_a_part_at_a_time(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_AT_ONCE", 2)
    job = a_job(company, bob, state="failed", ended_at=NOW)
    for number in range(1, 6):
        JobReason.objects.create(job=job, number=number, since=NOW, code="x", document={})
    with CaptureQueriesContext(connection) as captured:
        assert forget_old_reasons(now=NOW + timedelta(days=91)) == 5
    assert len(captured) == 3
