"""Cost caps of jobs: when they are stopped, how they end, and what plans say."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from billing.models import RateCard
from billing.spending import cost_of_jobs
from builders.api_callers import by_token
from builders.billing_builders import a_metered_attempt, a_rate_card, at, terms_of
from builders.cast import Cast, a_cast
from builders.clocks import ClockAt
from builders.job_builders import a_body, a_job, an_attempt
from builders.portal_builders import NOW, Company
from clusters.models import Cluster
from jobs import lifecycle
from jobs.api import jobs as job_views
from jobs.execution.cost_caps import stop_at_cost_caps
from jobs.models import Attempt, Job, JobEvent
from outbox.models import Message

pytestmark = pytest.mark.django_db

EURO = 10**9
HOUR = timedelta(hours=1)
START_S = int((NOW - at(0)).total_seconds())


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_views, "SystemClock", lambda: ClockAt(NOW))


@pytest.fixture(autouse=True)
def _prices(company: Company) -> None:
    """2 EUR for a guaranteed GPU-hour."""
    a_rate_card(company.organization, start=START_S)


def metered(job: Job, number: int = 1) -> None:
    """8 guaranteed GPUs since NOW: 16 EUR an hour."""
    a_metered_attempt(
        job.team, START_S, None, user=job.user, job_id=job.pk, number=number, pool=job.pool
    )


def running(company: Company, cast: Cast, cap_nano: int | None, **changes: Any) -> Attempt:
    job = a_job(
        company, cast.bob, mgpu_per_node=8_000, state="running", cost_cap_nano=cap_nano, **changes
    )
    metered(job)
    return an_attempt(job, cluster=company.cluster, granted_at=NOW, started_at=NOW)


def test_a_job_gets_its_notice_when_its_charge_reaches_the_cap(
    company: Company, cast: Cast
) -> None:
    """40 EUR after 2.5 hours, not a second before. Planted: ">"."""
    capped, free = running(company, cast, 40 * EURO), running(company, cast, None)
    due = NOW + 2.5 * HOUR
    assert cost_of_jobs([capped.job_id, free.job_id], NOW + HOUR) == {
        capped.job_id: 16 * EURO,
        free.job_id: 16 * EURO,
    }
    assert stop_at_cost_caps(due - timedelta(seconds=1)) == 0
    assert stop_at_cost_caps(due) == 1
    capped.refresh_from_db()
    free.refresh_from_db()
    assert (capped.state, capped.stop_reason, capped.notice_at) == ("stopping", "cost_cap", due)
    assert capped.grace_until == due + timedelta(seconds=300)
    assert (free.state, free.stop_reason) == ("running", None)
    assert list(Message.objects.values_list("kind", flat=True)) == ["notify_attempt"]
    events = JobEvent.objects.filter(job=capped.job_id).values_list("event", flat=True)
    assert list(events) == ["cost_cap_reached"]
    # It is asked once.
    assert stop_at_cost_caps(due + timedelta(seconds=30)) == 0


def test_the_commitment_of_the_team_counts_for_no_job(company: Company, cast: Cast) -> None:
    """Use inside of the guarantee costs nothing beyond it. Against: one such job, and no cap of
    any job held."""
    attempt = running(company, cast, 40 * EURO)
    terms_of(RateCard.objects.get(organization=company.organization), "commitment", start=START_S)
    assert cost_of_jobs([attempt.job_id], NOW + HOUR) == {attempt.job_id: 0}
    assert stop_at_cost_caps(NOW + 10 * HOUR) == 0


def test_earlier_attempts_count(company: Company, cast: Cast) -> None:
    """Against: the present attempt alone."""
    attempt = running(company, cast, 40 * EURO)
    metered(attempt.job, number=2)
    assert stop_at_cost_caps(NOW + 1.25 * HOUR) == 1


def test_a_job_that_is_being_cancelled_is_left_alone(company: Company, cast: Cast) -> None:
    """Its notice was sent already. Against: a second reason to stop."""
    running(company, cast, 1, cancel_requested_at=NOW)
    assert stop_at_cost_caps(NOW + HOUR) == 0


def test_a_job_stopped_at_its_cap_fails_whatever_its_exit_code() -> None:
    """Against: exit code 0 succeeds, or a code in `requeue_on` queues it again."""
    end: dict[str, Any] = {
        "stop_reason": "cost_cap",
        "is_cancelled": False,
        "is_requeueable": True,
        "ended_before_notice": False,
    }
    for outcome in ("succeeded", "failed", "timed_out", "stopped", "node_failed"):
        found = lifecycle.verdict(outcome=outcome, exit_code=75, requeue_on=["75"], **end)
        assert (found.state, found.reason) == ("failed", "cost_cap_reached")
    before = {**end, "ended_before_notice": True}
    assert lifecycle.verdict(outcome="succeeded", **before).state == "succeeded"
    cancelled = {**end, "is_cancelled": True}
    assert lifecycle.verdict(outcome="stopped", **cancelled).state == "cancelled"


def test_a_plan_says_after_how_long_the_cap_is_reached(company: Company, cast: Cast) -> None:
    """8 guaranteed GPUs at 2 EUR: 50 EUR after 3 h 7 min 30 s. Against: rounded down."""
    Cluster.objects.update(seen_at=NOW)
    found = by_token(cast.bob).post("jobs?dry_run=true", a_body(gpus=8, cost_cap_nano=50 * EURO))
    assert found.json()["cost_cap_after_s"] == 11_250
    assert found.json()["job"]["cost_cap_nano"] == 50 * EURO
    more = by_token(cast.bob).post("jobs?dry_run=true", a_body(gpus=8, cost_cap_nano=50 * EURO + 1))
    assert more.json()["cost_cap_after_s"] == 11_251
    none = by_token(cast.bob).post("jobs?dry_run=true", a_body(gpus=8)).json()
    assert none["cost_cap_after_s"] is None


def test_a_cap_needs_prices(company: Company, cast: Cast) -> None:
    """An organization without a rate card. Against: a cap that nothing ever reaches."""
    answer = by_token(cast.charlie).post(
        "jobs?dry_run=true", a_body("rival-lab/team", cost_cap_nano=EURO)
    )
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "rival-lab has no rate card, so no cost can be counted. Leave the cost cap out.",
    )


@pytest.mark.parametrize("cap_nano", [0, 10**18 + 1])
def test_a_cap_is_in_range(company: Company, cast: Cast, cap_nano: int) -> None:
    """The API and the database refuse it. Against: one of both alone."""
    asked = by_token(cast.bob).post("jobs", a_body(cost_cap_nano=cap_nano))
    assert (asked.status_code, asked.json()["errors"][0]["pointer"]) == (400, "/cost_cap_nano")
    with pytest.raises(IntegrityError, match="job_cost_cap_is_in_range"), transaction.atomic():
        a_job(company, cast.bob, cost_cap_nano=cap_nano)
