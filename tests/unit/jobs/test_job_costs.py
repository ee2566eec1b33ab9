"""The cost of one job: who sees it, and its sum."""

from __future__ import annotations

from datetime import timedelta

import pytest

from billing.models import MeteredAttempt
from builders.api_callers import by_token
from builders.billing_builders import a_metered_attempt, a_rate_card, at
from builders.cast import Cast, a_cast
from builders.clocks import ClockAt
from builders.job_builders import a_job
from builders.portal_builders import NOW, Company
from jobs.api import attempts as attempt_views
from jobs.api import jobs as job_views
from jobs.models import Job

pytestmark = pytest.mark.django_db

EURO = 10**9
START_S = int((NOW - at(0)).total_seconds())


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


@pytest.fixture
def job(company: Company, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Two attempts of bob's 8 GPUs, 30 and 15 minutes long; the clock is an hour later."""
    monkeypatch.setattr(attempt_views, "SystemClock", lambda: ClockAt(NOW + timedelta(hours=1)))
    monkeypatch.setattr(job_views, "SystemClock", lambda: ClockAt(NOW + timedelta(hours=1)))
    made = a_job(company, cast.bob, mgpu_per_node=8_000, state="succeeded")
    for number, (start_s, end_s) in enumerate([(0, 1_800), (2_000, 2_900)], 1):
        a_metered_attempt(
            made.team,
            START_S + start_s,
            START_S + end_s,
            user=made.user,
            job_id=made.pk,
            number=number,
            pool=made.pool,
            now=NOW + timedelta(hours=1),
        )
    return made


def test_the_owner_and_finance_see_the_cost_of_all_attempts(
    company: Company, cast: Cast, job: Job
) -> None:
    """8 GPUs for 45 minutes at 2 EUR. Planted: the last attempt alone."""
    a_rate_card(company.organization, start=START_S)
    for user in (cast.bob, cast.finance):
        shown = by_token(user).get(f"jobs/{job.pk}").json()
        assert shown["cost"] == {"cost_nano": 12 * EURO, "currency": "EUR"}


def test_each_attempt_has_its_part_of_the_cost(company: Company, cast: Cast, job: Job) -> None:
    """8 GPUs for 30 and 15 minutes at 2 EUR. Planted: each attempt has the cost of the job."""
    a_rate_card(company.organization, start=START_S)
    first, second = MeteredAttempt.objects.filter(job_id=job.pk).order_by("number")
    for user in (cast.bob, cast.finance):
        shown = by_token(user).get(f"jobs/{job.pk}/attempt-costs").json()
        assert shown["currency"] == "EUR"
        costs = {each["attempt"]: (each["mgpu_s"], each["cost_nano"]) for each in shown["items"]}
        assert costs == {
            str(first.pk): (14_400_000, 8 * EURO),
            str(second.pk): (7_200_000, 4 * EURO),
        }


def test_costs_of_attempts_are_for_those_who_see_the_cost_of_the_job(
    company: Company, cast: Cast, job: Job
) -> None:
    """Planted: no question for the right. Planted: use without a rate card costs 0."""
    path = f"jobs/{job.pk}/attempt-costs"
    nothing = {"currency": None, "items": []}
    assert by_token(cast.bob).get(path).json() == nothing
    a_rate_card(company.organization, start=START_S)
    assert by_token(cast.nlp_lead, ["jobs"]).get(path).json() == nothing


def test_a_token_without_the_right_to_costs_shows_none_of_others(
    company: Company, cast: Cast, job: Job
) -> None:
    """The team's lead, with a token for jobs alone. Planted: no question for the right."""
    a_rate_card(company.organization, start=START_S)
    shown = by_token(cast.nlp_lead, ["jobs"]).get(f"jobs/{job.pk}").json()
    assert shown["id"] == str(job.pk)
    assert shown["cost"] is None


def test_without_a_rate_card_there_is_no_cost(cast: Cast, job: Job) -> None:
    """Planted: a cost of 0 in no currency."""
    assert by_token(cast.bob).get(f"jobs/{job.pk}").json()["cost"] is None
