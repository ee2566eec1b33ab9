"""Costs, budgets and cost caps in plans of longer time limits (R-109, R-112, R-116)."""

from __future__ import annotations

from typing import Any

import pytest

from builders.api_callers import by_token
from builders.billing_builders import a_metered_attempt, a_rate_card, at, terms_of
from builders.budget_builders import GPU_HOUR, an_evaluated_budget
from builders.clocks import ClockAt
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import NOW, Company, a_grant, a_pool, a_user
from jobs.api import extending as views
from jobs.models import Job
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600
EURO = 10**9
START_S = int((NOW - at(0)).total_seconds())


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "SystemClock", lambda: ClockAt(NOW))


@pytest.fixture
def bob(company: Company) -> User:
    user = a_user(company.organization, "bob")
    a_grant(user, Role.RESEARCHER, company.nlp)
    return user


def a_running_job(company: Company, user: User, **changes: Any) -> Job:
    """2 guaranteed and 6 borrowed GPUs for an hour since NOW."""
    job = a_job(
        company,
        user,
        state="running",
        started_at=NOW,
        mgpu_per_node=8_000,
        time_limit_s=HOUR,
        **changes,
    )
    an_attempt(job, cluster=company.cluster, granted_at=NOW, started_at=NOW, guaranteed_mgpu=2_000)
    return job


def plan(user: User, job: Job, by_s: int) -> dict[str, Any]:
    answer = by_token(user).post(f"jobs/{job.pk}/extension-plan", {"by_s": by_s})
    assert answer.status_code == 200, answer.content
    body: dict[str, Any] = answer.json()
    return body


@pytest.mark.parametrize(("guaranteed", "borrowed"), [(10, 3), (3, 10)])
def test_a_longer_run_costs_at_most_the_dearest_class(
    company: Company, bob: User, guaranteed: int, borrowed: int
) -> None:
    """The class of a running job's eight GPUs may change in the two hours.

    Planted: the present split. Against: the whole new limit in place of what is longer.
    """
    prices = {"guaranteed": guaranteed, "borrowed": borrowed}
    a_rate_card(company.organization, prices, pool=company.pool)
    body = plan(bob, a_running_job(company, bob), 2 * HOUR)
    assert (body["cost_nano"], body["currency"]) == (2 * 8 * 10, "EUR")
    assert (body["unbilled_nano"], body["price_mode"]) == (0, "pay_per_use")


def test_a_longer_run_in_showback_is_not_billed(company: Company, bob: User) -> None:
    """Against: the listed cost as billed."""
    card = a_rate_card(company.organization, {"guaranteed": 10, "borrowed": 3}, pool=company.pool)
    terms_of(card, "showback", pool=company.pool)
    body = plan(bob, a_running_job(company, bob), 2 * HOUR)
    shown = (body["cost_nano"], body["unbilled_nano"], body["price_mode"])
    assert shown == (0, 2 * 8 * 10, "showback")


def test_a_waiting_job_costs_at_most_the_dearest_pool_and_class(
    company: Company, bob: User
) -> None:
    """Borrowed use of the second pool is dearest, because a commitment pays guaranteed use there.

    Planted: all GPUs guaranteed, in the first pool. Against: the highest listed price.
    """
    other = a_pool("a100")
    a_rate_card(company.organization, {"guaranteed": 5, "borrowed": 3}, pool=company.pool)
    card = a_rate_card(company.organization, {"guaranteed": 20, "borrowed": 7}, pool=other)
    terms_of(card, "commitment", pool=other)
    job = a_job(company, bob, mgpu_per_node=8_000, time_limit_s=HOUR)
    assert plan(bob, job, HOUR)["cost_nano"] == 8 * 5
    Job.objects.filter(pk=job.pk).update(pools=[company.pool.pk, other.pk])
    body = plan(bob, job, HOUR)
    shown = (body["cost_nano"], body["unbilled_nano"], body["price_mode"])
    assert shown == (8 * 7, 0, "commitment")


@pytest.mark.parametrize(("limit", "refused"), [(24, False), (23, True)])
def test_a_budget_that_stops_starts_covers_an_extension_or_refuses_it(
    company: Company, bob: User, limit: int, refused: bool
) -> None:
    """8 GPU-hours are on hold, and 2 hours more add 16.

    Against: the hold counted again, so that 24 is too little; ">=".
    """
    job = a_running_job(company, bob)
    an_evaluated_budget(company.nlp, limit, name="NLP")
    body = plan(bob, job, 2 * HOUR)
    sentence = (
        "Budget NLP of ai-company/research/nlp has too little left for the longer time limit. Ask "
        "for less, or ask somebody who may change the budget for more."
    )
    assert body["refusal"] == (sentence if refused else "")
    assert (body["notes"], body["budgets"]) == ([], [])
    answer = by_token(bob).post(f"jobs/{job.pk}/extend", {"by_s": 2 * HOUR})
    job.refresh_from_db()
    if refused:
        assert (answer.status_code, answer.json()["detail"]) == (409, sentence)
    assert job.time_limit_s == (HOUR if refused else 3 * HOUR)


def test_a_budget_that_stops_nothing_is_told(company: Company, bob: User) -> None:
    """The lead sees the numbers, and nobody is refused. Against: a refusal by any budget."""
    lead = a_user(company.organization, "lead")
    a_grant(lead, Role.TEAM_LEAD, company.nlp)
    job = a_running_job(company, bob)
    an_evaluated_budget(company.nlp, 10, name="NLP", policy="notify")
    body = plan(lead, job, HOUR)
    (budget,) = body["budgets"]
    assert (budget["needed"], budget["left_after"]) == (8 * GPU_HOUR, -6 * GPU_HOUR)
    assert (body["refusal"], body["notes"]) == (
        "",
        ["Budget NLP of ai-company/research/nlp has too little left and would be exceeded."],
    )


@pytest.mark.parametrize(
    ("limit", "by_hours", "refused", "waits"),
    [(32, 2, False, False), (20, 1, False, True), (20, 2, True, False)],
)
def test_a_waiting_job_counts_whole(
    company: Company, bob: User, limit: int, by_hours: int, refused: bool, waits: bool
) -> None:
    """A job of 8 GPUs with 1 hour, beside one that holds 8 of the budget.

    It waits for room, and is refused where it would never fit. Against: only the longer part.
    """
    other = a_job(company, bob, name="other", state="running", mgpu_per_node=4_000)
    Job.objects.filter(pk=other.pk).update(time_limit_s=2 * HOUR)
    an_attempt(other, cluster=company.cluster, granted_at=NOW, started_at=NOW)
    job = a_job(company, bob, mgpu_per_node=8_000, time_limit_s=HOUR)
    an_evaluated_budget(company.nlp, limit, name="NLP")
    body = plan(bob, job, by_hours * HOUR)
    assert bool(body["refusal"]) == refused
    wait = (
        "Budget NLP of ai-company/research/nlp has too little left, so the job would wait for it."
    )
    assert body["notes"] == ([wait] if waits else [])


def test_hours_after_the_period_of_a_budget_are_not_counted(company: Company, bob: User) -> None:
    """The month ends 9.5 days after NOW. Against: the whole longer run counts."""
    job = a_running_job(company, bob)
    an_evaluated_budget(company.nlp, 8 * 228, name="NLP")
    assert plan(bob, job, 400 * HOUR)["notes"] == []
    assert not plan(bob, job, 400 * HOUR)["refusal"].startswith("Budget")


@pytest.mark.parametrize(("cap", "told"), [(48, False), (40, True)])
def test_a_plan_says_that_the_cost_cap_ends_the_job_before_its_new_end(
    company: Company, bob: User, cap: int, told: bool
) -> None:
    """16 EUR an hour, for three hours. Against: ">=" for ">"."""
    a_rate_card(company.organization, {"guaranteed": 2 * EURO, "borrowed": 2 * EURO}, start=START_S)
    job = a_running_job(company, bob, cost_cap_nano=cap * EURO)
    note = (
        "At present prices the job may reach its cost cap after 2 h 30 min more, before its new "
        "end. It is stopped at the cap."
    )
    assert plan(bob, job, 2 * HOUR)["notes"] == ([note] if told else [])


def test_a_cost_cap_counts_what_earlier_attempts_cost(company: Company, bob: User) -> None:
    """Half of the cap of 32 EUR is spent. Against: the whole cap is left."""
    a_rate_card(company.organization, {"guaranteed": 2 * EURO, "borrowed": 2 * EURO}, start=0)
    job = a_job(company, bob, mgpu_per_node=8_000, time_limit_s=HOUR, cost_cap_nano=32 * EURO)
    ended_s = START_S - HOUR
    a_metered_attempt(
        job.team, ended_s - HOUR, ended_s, user=bob, job_id=job.pk, pool=job.pool, now=NOW
    )
    assert plan(bob, job, HOUR)["notes"] == [
        "At present prices the job may reach its cost cap after 1 h of its run, before its new "
        "end. It is stopped at the cap."
    ]
