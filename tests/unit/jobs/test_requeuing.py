"""A running job that is asked to end and to queue again, and one that does so after its limit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from billing.metering import Grant, record_started, register_attempts
from billing.models import UsageSegment
from builders.api_callers import by_token
from builders.job_builders import a_body, a_job, an_attempt
from builders.portal_builders import NOW, Company, a_grant, a_user
from connectors.protocol import Observation, Outcome, WorkloadPhase
from jobs.execution.observation import apply_one
from jobs.models import Attempt, Job, JobEvent
from outbox.models import Message
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

STARTED = int(NOW.timestamp())


@pytest.fixture
def bob(company: Company) -> User:
    user = a_user(company.organization, "bob")
    a_grant(user, Role.RESEARCHER, company.nlp)
    return user


def a_running_job(company: Company, user: User, number: int = 1, **changes: Any) -> Attempt:
    job = a_job(company, user, state="running", started_at=NOW, **changes)
    return started(job, company, number)


def started(job: Job, company: Company, number: int) -> Attempt:
    attempt = an_attempt(job, cluster=company.cluster, number=number, started_at=NOW, native_id="1")
    grant = Grant(
        attempt_id=attempt.id,
        job_id=job.id,
        job_name=job.name,
        number=number,
        organization_id=company.nlp.organization_id,
        team_id=company.nlp.pk,
        user_id=job.user_id,
        pool_id=company.pool.id,
        cluster_id=company.cluster.id,
        priority_class="normal",
        multiplier_ppm=1_000_000,
        job_type=job.type,
        mgpu=attempt.mgpu,
        guaranteed_mgpu=attempt.mgpu,
        at=NOW,
    )
    register_attempts([grant], now=NOW)
    record_started(attempt.id, at=NOW, now=NOW)
    return attempt


def end(attempt: Attempt, outcome: Outcome, code: int) -> Job:
    """The attempt ended an hour after its start; its job is returned."""
    told = Observation(
        key=attempt.key,
        native_id="1",
        native_state="ended",
        phase=WorkloadPhase.ENDED,
        started_at=STARTED,
        ended_at=STARTED + 3_600,
        released_at=STARTED + 3_600,
        is_released=True,
        outcome=outcome,
        exit_codes={0: code},
    )
    with transaction.atomic():
        apply_one(attempt.pk, attempt.job_id, told, None, NOW + timedelta(hours=1))
    return Job.objects.get(pk=attempt.job_id)


def test_a_person_requeues_a_running_job(company: Company, bob: User) -> None:
    """Exit code 0 after that is no success. Against: the stop reason of a cancellation."""
    attempt = a_running_job(company, bob, is_requeueable=False)
    caller, path = by_token(bob), f"jobs/{attempt.job_id}/requeue"
    shown = caller.get(f"jobs/{attempt.job_id}").json()
    assert "requeue" in shown["can"]
    answer = caller.post(path, None)
    assert (answer.status_code, answer.json()["state"]) == (200, "running")
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_reason) == ("stopping", "requeued")
    assert attempt.notice_at is not None
    assert attempt.grace_until == attempt.notice_at + timedelta(seconds=300)
    assert caller.post(path, None).status_code == 200
    assert [message.kind for message in Message.objects.all()] == ["notify_attempt"]
    assert list(JobEvent.objects.values_list("event", "detail__by")) == [
        ("requeue_requested", "bob")
    ]
    assert AuditEvent.objects.filter(action="job_requeued").count() == 1
    job = end(attempt, Outcome.SUCCEEDED, 0)
    assert (job.state, job.ended_at, job.attempt_number) == ("queued", None, 1)
    (shown,) = caller.get(f"jobs/{attempt.job_id}/attempts").json()["items"]
    assert (shown["stop_reason"], shown["outcome"]) == ("requeued", "succeeded")


def test_a_job_may_ask_before_its_start_was_observed(company: Company, bob: User) -> None:
    """Against: only attempts whose start is known."""
    job = a_job(company, bob, state="starting")
    attempt = an_attempt(job, cluster=company.cluster, state="starting")
    assert by_token(bob).post(f"jobs/{job.pk}/requeue", None).status_code == 200
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_reason) == ("stopping", "requeued")


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("queued", "Only a running job can be requeued; this one is queued."),
        ("failed", "Submit it again."),
    ],
)
def test_only_a_running_job_is_requeued(company: Company, bob: User, state: str, told: str) -> None:
    job = a_job(company, bob, state=state)
    refused = by_token(bob).post(f"jobs/{job.pk}/requeue", None)
    assert refused.status_code == 409
    assert told in refused.json()["detail"]
    assert "requeue" not in by_token(bob).get(f"jobs/{job.pk}").json()["can"]


def test_a_cancelled_job_is_not_requeued(company: Company, bob: User) -> None:
    attempt = a_running_job(company, bob)
    assert by_token(bob).post(f"jobs/{attempt.job_id}/requeue", None).status_code == 200
    assert by_token(bob).post(f"jobs/{attempt.job_id}/cancel", None).status_code == 200
    assert by_token(bob).post(f"jobs/{attempt.job_id}/requeue", None).status_code == 409
    assert end(attempt, Outcome.STOPPED, 0).state == "cancelled"


def test_a_job_goes_on_after_its_time_limit_a_bounded_number_of_times(
    company: Company, bob: User
) -> None:
    """Against: `requeue_max` + 1 restarts; an attempt that was preempted counted, too."""
    asked = {"requeue_on": ["time_limit", "75"], "requeue_max": 2}
    attempt = a_running_job(company, bob, number=4, **asked)
    for number, outcome, stop_reason in (
        (1, "timed_out", None),
        (2, "failed", "preempted"),
        (3, "node_failed", None),
    ):
        an_attempt(
            attempt.job,
            cluster=company.cluster,
            number=number,
            state="ended",
            outcome=outcome,
            stop_reason=stop_reason,
            ended_at=NOW,
            released_at=NOW,
        )
    Job.objects.filter(pk=attempt.job_id).update(attempt_number=4)
    job = end(attempt, Outcome.FAILED, 75)
    assert (job.state, job.end_reason) == ("queued", None)
    assert JobEvent.objects.latest("id").detail == {
        "attempt": 4,
        "outcome": "failed",
        "reason": "exit_code",
    }
    last = started(job, company, 5)
    Job.objects.filter(pk=job.pk).update(state="running")
    job = end(last, Outcome.TIMED_OUT, 0)
    assert (job.state, job.end_reason) == ("timed_out", "time_limit")


def test_the_ends_are_named_in_the_request(company: Company, bob: User) -> None:
    caller = by_token(bob)
    made = caller.post("jobs", a_body(requeue_on=["time_limit", "75", "75"], requeue_max=3))
    assert made.status_code == 201
    shown = caller.get(f"jobs/{made.json()['id']}").json()
    assert (shown["requeue_on"], shown["requeue_max"]) == (["time_limit", "75"], 3)
    for wrong in ("time_limit", ["0"], ["256"], ["preemption"], ["never"], [75], ["1"] * 17):
        assert caller.post("jobs", a_body(requeue_on=wrong)).status_code == 400
    for many in (0, 1_001):
        assert caller.post("jobs", a_body(requeue_max=many)).status_code == 400


def test_the_database_bounds_both(company: Company, bob: User) -> None:
    a_job(company, bob)
    for change, name in (
        ({"requeue_on": ["1"] * 17}, "job_requeues_on_16_causes_at_most"),
        ({"requeue_max": 0}, "job_is_requeued_a_bounded_number_of_times"),
        ({"requeue_max": 1_001}, "job_is_requeued_a_bounded_number_of_times"),
    ):
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            Job.objects.update(**change)


def segments() -> list[tuple[int, int, str]]:
    return [
        (int(one.start.timestamp()) - STARTED, int(one.end.timestamp()) - STARTED, one.fault)
        for one in UsageSegment.objects.order_by("start")
        if one.end is not None
    ]


@pytest.mark.parametrize(
    ("outcome", "checkpoint_s", "expected"),
    [
        (Outcome.NODE_FAILED, None, [(0, 3_600, "node_failed")]),
        (Outcome.NODE_FAILED, 600, [(0, 600, ""), (600, 3_600, "node_failed")]),
        (Outcome.FAILED, 600, [(0, 3_600, "")]),
    ],
)
def test_work_that_a_failed_node_lost_is_free(
    company: Company,
    bob: User,
    outcome: Outcome,
    checkpoint_s: int | None,
    expected: list[tuple[int, int, str]],
) -> None:
    """It is all since the last checkpoint. Against: the whole attempt in each case."""
    attempt = a_running_job(company, bob)
    if checkpoint_s is not None:
        saved_at = NOW + timedelta(seconds=checkpoint_s)
        Attempt.objects.filter(pk=attempt.pk).update(checkpoint_at=saved_at)
    end(attempt, outcome, 1)
    assert segments() == expected


@pytest.mark.parametrize(("notice_s", "fault"), [(599, "preempted"), (600, "")])
def test_an_attempt_that_was_preempted_within_ten_minutes_is_free(
    company: Company, bob: User, notice_s: int, fault: str
) -> None:
    """The time of the notice counts. Against: that of the end; eleven minutes."""
    attempt = a_running_job(company, bob)
    noticed_at = NOW + timedelta(seconds=notice_s)
    Attempt.objects.filter(pk=attempt.pk).update(
        state="stopping", stop_reason="preempted", notice_at=noticed_at, grace_until=noticed_at
    )
    Job.objects.filter(pk=attempt.job_id).update(state="preempting")
    assert end(attempt, Outcome.SUCCEEDED, 0).state == "queued"
    assert segments() == [(0, 3_600, fault)]
