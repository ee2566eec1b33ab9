"""Due runs of schedules: once each, in time, with the present rights of the owner."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, transaction

from audit.models import AuditEvent
from builders.job_builders import a_job
from builders.parallel import at_once
from builders.portal_builders import NOW, Company
from builders.schedule_builders import FIRST, a_schedule
from jobs.models import Job, Schedule, ScheduleRun
from jobs.recurring import runs
from jobs.recurring.runs import forget_old_runs, last_runs, submit_due_runs
from tenants.models import RoleGrant, User

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def runs_of(schedule: Schedule) -> list[tuple[datetime, str, str]]:
    found = ScheduleRun.objects.filter(schedule=schedule).order_by("scheduled_at")
    return list(found.values_list("scheduled_at", "outcome", "reason"))


def jobs_of(schedule: Schedule) -> list[Job]:
    return list(Job.objects.filter(schedule_run__schedule=schedule).order_by("pk"))


def end(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(state="succeeded", ended_at=FIRST)


def test_a_due_run_is_a_job_of_the_owner(company: Company, bob: User) -> None:
    """Against: the next moment counted from the run before, which was due again at once."""
    schedule = a_schedule(company, bob)
    assert submit_due_runs(now=FIRST - timedelta(seconds=1)) == 0
    late = FIRST + timedelta(seconds=14)
    assert submit_due_runs(now=late) == 1
    (job,) = jobs_of(schedule)
    assert (job.user, job.team, job.name, job.mgpu, job.state) == (
        bob,
        company.nlp,
        "hourly",
        1_000,
        "queued",
    )
    assert job.submitted_at == late
    assert runs_of(schedule) == [(FIRST, "submitted", "")]
    schedule.refresh_from_db()
    assert schedule.next_at == FIRST + HOUR
    assert submit_due_runs(now=late) == 0
    assert AuditEvent.objects.get(subject_id=str(job.pk)).actor == bob.login


@pytest.mark.django_db(transaction=True)
def test_two_timers_at_once_submit_a_run_once(
    company: Company, bob: User, caplog: pytest.LogCaptureFixture
) -> None:
    """Planted: the timer did not lock the schedule, and the second one failed on the run's key."""
    schedules = [a_schedule(company, bob) for _ in range(5)]
    done = at_once([lambda: submit_due_runs(now=FIRST)] * 3)
    assert sum(done) == 5
    assert [len(jobs_of(schedule)) for schedule in schedules] == [1] * 5
    assert [runs_of(schedule) for schedule in schedules] == [[(FIRST, "submitted", "")]] * 5
    assert caplog.records == []


def test_of_missed_moments_only_the_last_one_runs(company: Company, bob: User) -> None:
    """The portal was off for five hours. Planted: the first of them."""
    schedule = a_schedule(company, bob)
    assert submit_due_runs(now=FIRST + 5 * HOUR + timedelta(minutes=20)) == 1
    assert runs_of(schedule) == [(FIRST + 5 * HOUR, "submitted", "")]
    schedule.refresh_from_db()
    assert schedule.next_at == FIRST + 6 * HOUR


@pytest.mark.parametrize(("late_s", "outcome"), [(600, "submitted"), (601, "missed")])
def test_a_run_after_its_starting_deadline_is_missed(
    company: Company, bob: User, late_s: int, outcome: str
) -> None:
    """Planted: at the deadline itself it is missed, too."""
    schedule = a_schedule(company, bob, starting_deadline_s=600)
    assert submit_due_runs(now=FIRST + timedelta(seconds=late_s)) == 1
    reason = "The portal handled it 10m1s late, and its starting deadline is 10m."
    assert runs_of(schedule) == [(FIRST, outcome, "" if outcome == "submitted" else reason)]
    assert len(jobs_of(schedule)) == (outcome == "submitted")


def test_with_allow_both_jobs_go_on(company: Company, bob: User) -> None:
    schedule = a_schedule(company, bob)
    submit_due_runs(now=FIRST)
    submit_due_runs(now=FIRST + HOUR)
    assert [job.state for job in jobs_of(schedule)] == ["queued", "queued"]


def test_with_forbid_a_run_waits_for_the_next_moment(company: Company, bob: User) -> None:
    """Planted: any older job of the schedule, which had ended."""
    schedule = a_schedule(company, bob, concurrency_policy="forbid")
    submit_due_runs(now=FIRST)
    submit_due_runs(now=FIRST + HOUR)
    (job,) = jobs_of(schedule)
    assert runs_of(schedule)[1:] == [
        (FIRST + HOUR, "skipped", f"The run before it has not ended: job {job.pk}.")
    ]
    end(job)
    submit_due_runs(now=FIRST + 2 * HOUR)
    assert [outcome for _, outcome, _ in runs_of(schedule)] == ["submitted", "skipped", "submitted"]


def test_with_forbid_every_task_of_an_array_counts(company: Company, bob: User) -> None:
    """Planted: the first task only."""
    body = {"gpus": 1, "script": "true", "array": "0-1"}
    schedule = a_schedule(company, bob, concurrency_policy="forbid", request=body)
    submit_due_runs(now=FIRST)
    assert Job.objects.count() == 2
    end(jobs_of(schedule)[0])
    submit_due_runs(now=FIRST + HOUR)
    assert runs_of(schedule)[1][1] == "skipped"


def test_with_replace_the_older_job_is_cancelled(company: Company, bob: User) -> None:
    """Against: the new job cancelled, too."""
    schedule = a_schedule(company, bob, concurrency_policy="replace")
    submit_due_runs(now=FIRST)
    submit_due_runs(now=FIRST + HOUR)
    assert [job.state for job in jobs_of(schedule)] == ["cancelled", "queued"]


def test_with_replace_the_older_array_is_cancelled(company: Company, bob: User) -> None:
    body = {"gpus": 1, "script": "true", "array": "0-1"}
    a_schedule(company, bob, concurrency_policy="replace", request=body)
    submit_due_runs(now=FIRST)
    submit_due_runs(now=FIRST + HOUR)
    states = Job.objects.order_by("pk").values_list("state", flat=True)
    assert list(states) == ["cancelled", "cancelled", "queued", "queued"]


def test_a_refused_run_says_why_and_leaves_the_older_job_alone(company: Company, bob: User) -> None:
    """The request names a pool that is gone. Against: the older job cancelled first."""
    schedule = a_schedule(company, bob, concurrency_policy="replace")
    submit_due_runs(now=FIRST)
    body = {**schedule.request, "pool": "gone"}
    Schedule.objects.update(request=body)
    assert submit_due_runs(now=FIRST + HOUR) == 1
    (job,) = jobs_of(schedule)
    assert job.state == "queued"
    assert runs_of(schedule)[1] == (
        FIRST + HOUR,
        "refused",
        "pool: there is no pool 'gone' for you; you have h100",
    )
    schedule.refresh_from_db()
    assert (schedule.next_at, schedule.is_suspended) == (FIRST + 2 * HOUR, False)


def _deactivated(company: Company, bob: User) -> str:
    User.objects.filter(pk=bob.pk).update(is_active=False)
    return "Its owner bob is deactivated."


def _without_the_team(company: Company, bob: User) -> str:
    RoleGrant.objects.filter(user=bob).delete()
    return "Its owner bob may no longer submit jobs to ai-company/research/nlp."


def _archived(company: Company, bob: User) -> str:
    company.nlp.archived_at = NOW
    company.nlp.save()
    return "Its team ai-company/research/nlp is archived."


@pytest.mark.parametrize("lose", [_deactivated, _without_the_team, _archived])
def test_an_owner_without_the_right_suspends_the_schedule(
    company: Company, bob: User, lose: Any
) -> None:
    schedule = a_schedule(company, bob)
    reason = lose(company, bob)
    assert submit_due_runs(now=FIRST) == 1
    assert runs_of(schedule) == [(FIRST, "refused", reason)]
    schedule.refresh_from_db()
    assert (schedule.is_suspended, schedule.suspended_because, schedule.next_at) == (
        True,
        reason,
        None,
    )
    event = AuditEvent.objects.get(subject_id=str(schedule.pk))
    assert (event.action, event.actor, event.detail["reason"]) == (
        "schedule_suspended",
        "system",
        reason,
    )
    assert submit_due_runs(now=FIRST + HOUR) == 0


def test_a_fault_in_one_schedule_does_not_stop_the_others(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = a_schedule(company, bob, request={"gpus": 1, "script": "true", "name": "faulty"})
    sound = a_schedule(company, bob)

    def read(body: dict[str, Any]) -> Any:
        if body["name"] == "faulty":
            raise ZeroDivisionError
        return runs_read(body)

    runs_read = runs.read_job_request
    monkeypatch.setattr(runs, "read_job_request", read)
    assert submit_due_runs(now=FIRST) == 2
    assert runs_of(sound) == [(FIRST, "submitted", "")]
    assert runs_of(faulty) == [
        (
            FIRST,
            "refused",
            "The portal failed to submit this run. Its log says why; ask its administrator.",
        )
    ]


def test_a_run_stays_due_while_the_database_is_busy(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: it counted as refused."""
    schedule = a_schedule(company, bob)

    def busy(*_: Any, **__: Any) -> Any:
        raise OperationalError("deadlock detected")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "submit_job_here", busy)
        assert submit_due_runs(now=FIRST) == 0
    assert runs_of(schedule) == []
    assert submit_due_runs(now=FIRST) == 1
    assert runs_of(schedule) == [(FIRST, "submitted", "")]


def test_a_round_is_bounded_and_begins_with_the_earliest(company: Company, bob: User) -> None:
    """Planted: the latest first."""
    later = a_schedule(company, bob, next_at=FIRST + timedelta(minutes=1), cron="1 * * * *")
    first = a_schedule(company, bob)
    now = FIRST + timedelta(minutes=2)
    assert submit_due_runs(now=now, limit=1) == 1
    assert (len(runs_of(first)), len(runs_of(later))) == (1, 0)
    assert submit_due_runs(now=now, limit=1) == 1
    assert (len(runs_of(first)), len(runs_of(later))) == (1, 1)


def test_the_latest_run_of_each_schedule(company: Company, bob: User) -> None:
    one, other = a_schedule(company, bob), a_schedule(company, bob, next_at=FIRST + 9 * HOUR)
    submit_due_runs(now=FIRST)
    submit_due_runs(now=FIRST + HOUR)
    found = last_runs([one, other])
    assert {pk: run.scheduled_at for pk, run in found.items()} == {one.pk: FIRST + HOUR}


def test_old_runs_without_a_job_are_forgotten(company: Company, bob: User) -> None:
    """Planted: those with a job, too, which the job's page names."""
    schedule = a_schedule(company, bob, concurrency_policy="forbid")
    submit_due_runs(now=FIRST)
    submit_due_runs(now=FIRST + HOUR)
    assert forget_old_runs(now=FIRST + HOUR + timedelta(days=90)) == 0
    assert forget_old_runs(now=FIRST + HOUR + timedelta(days=90, seconds=1)) == 1
    assert [outcome for _, outcome, _ in runs_of(schedule)] == ["submitted"]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"concurrency_policy": "both"}, "schedule_concurrency_policy_is_known"),
        ({"starting_deadline_s": 59}, "schedule_starting_deadline_is_in_range"),
        ({"starting_deadline_s": 31_536_001}, "schedule_starting_deadline_is_in_range"),
        ({"next_at": None}, "schedule_has_a_next_run_while_it_is_active"),
        ({"is_suspended": True}, "schedule_has_a_next_run_while_it_is_active"),
        ({"ended_at": NOW}, "schedule_has_a_next_run_while_it_is_active"),
        ({"suspended_because": "x"}, "schedule_says_why_only_while_suspended"),
    ],
)
def test_the_database_refuses_what_no_schedule_is(
    company: Company, bob: User, changes: dict[str, Any], name: str
) -> None:
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        a_schedule(company, bob, **changes)


@pytest.mark.parametrize(
    ("outcome", "has_job", "reason"),
    [
        ("submitted", False, ""),
        ("submitted", True, "x"),
        ("refused", True, "x"),
        ("refused", False, ""),
        ("unknown", False, "x"),
    ],
)
def test_the_database_refuses_a_run_without_job_and_reason(
    company: Company, bob: User, outcome: str, has_job: bool, reason: str
) -> None:
    with (
        pytest.raises(IntegrityError, match="schedule_run_has_a_job_or_a_reason"),
        transaction.atomic(),
    ):
        ScheduleRun.objects.create(
            schedule=a_schedule(company, bob),
            scheduled_at=FIRST,
            at=FIRST,
            outcome=outcome,
            job=a_job(company, bob) if has_job else None,
            reason=reason,
        )


def test_the_database_has_one_run_for_each_moment(company: Company, bob: User) -> None:
    schedule = a_schedule(company, bob)
    submit_due_runs(now=FIRST)
    with (
        pytest.raises(IntegrityError, match="schedule_runs_once_at_each_moment"),
        transaction.atomic(),
    ):
        ScheduleRun.objects.create(
            schedule=schedule, scheduled_at=FIRST, at=FIRST, outcome="missed", reason="x"
        )
