"""Notices of queued jobs whose start estimate moved back."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from builders.job_builders import a_job
from builders.notice_builders import a_webhook, told
from builders.portal_builders import NOW, Company, a_company, a_user
from jobs.execution.slipped_starts import give_slip_notices
from jobs.models import Job, StartExpectation
from notices.webhook_models import WebhookDelivery
from tenants.models import User

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


def expect(job: Job, latest: datetime | None) -> None:
    """Store an estimate as a cycle does; None is an unknown start."""
    estimate = None
    if latest is not None:
        words = latest.isoformat().replace("+00:00", "Z")
        estimate = {"earliest": words, "latest": words, "method": "reserved"}
    Job.objects.filter(pk=job.pk).update(explanation={"estimated_start": estimate})


def given(job: Job, *minutes: int) -> list[int]:
    """The number of notices after each of these estimates, in minutes from NOW."""
    counts = []
    for minute in minutes:
        expect(job, NOW + minute * MINUTE)
        counts.append(give_slip_notices(NOW))
    return counts


def test_a_slip_of_half_an_hour_is_told_once(company: Company, bob: User) -> None:
    """Against the first estimate, then against the one that was told.

    Against: a slip is compared with the previous estimate, so that many small ones are never told;
    the expectation stays after the notice.
    """
    job = a_job(company, bob, state="queued")
    assert given(job, 60, 75, 89, 90, 90, 119, 120) == [0, 0, 0, 1, 0, 0, 1]
    words = "train is expected to start by 2026-11-21 {} UTC, no longer by 2026-11-21 {} UTC."
    assert told(bob) == [
        ("start_slipped", words.format("13:30", "13:00")),
        ("start_slipped", words.format("14:00", "13:30")),
    ]


def test_a_long_wait_slips_by_a_quarter(company: Company, bob: User) -> None:
    """Of 8 hours that are left, 2 hours. Against: half an hour for all."""
    job = a_job(company, bob, state="queued")
    assert given(job, 480, 599, 600) == [0, 0, 1]


def test_better_and_unknown_estimates_change_nothing(company: Company, bob: User) -> None:
    """Against: an estimate that comes and goes is told each time."""
    job = a_job(company, bob, state="queued")
    assert given(job, 60, 10, 60) == [0, 0, 0]
    expect(job, None)
    assert give_slip_notices(NOW) == 0
    assert given(job, 89, 90) == [0, 1]


def test_a_job_that_started_is_expected_no_longer(company: Company, bob: User) -> None:
    """A requeued job begins with a new estimate. Against: the old expectation stays."""
    job = a_job(company, bob, state="queued")
    given(job, 60)
    Job.objects.filter(pk=job.pk).update(state="held")
    give_slip_notices(NOW)
    assert not StartExpectation.objects.exists()
    Job.objects.filter(pk=job.pk).update(state="queued")
    assert given(job, 300, 301) == [0, 0]


def test_the_channel_of_the_team_gets_slips_of_service_accounts(company: Company) -> None:
    """Nobody reads the inbox of a program. Against: only jobs of people are looked at."""
    a_webhook(node=company.nlp, events=["start_slipped"])
    program = a_user(company.organization, "program")
    User.objects.filter(pk=program.pk).update(kind="service")
    job = a_job(company, program, team=company.nlp, state="queued")
    assert given(job, 60, 120, 120) == [0, 0, 0]
    assert WebhookDelivery.objects.get().event == "start_slipped"
