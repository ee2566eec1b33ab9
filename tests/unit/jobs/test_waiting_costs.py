"""The cost of a waiting job on its page, and the budgets after it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from builders.api_callers import by_token
from builders.billing_builders import a_metered_attempt, a_rate_card, at, terms_of
from builders.budget_builders import GPU_HOUR, an_evaluated_budget
from builders.cast import Cast, a_cast
from builders.clocks import ClockAt
from builders.job_builders import a_body, a_job
from builders.portal_builders import NOW, Company
from jobs.api import jobs as job_views
from jobs.models import Job
from tenants.models import User

pytestmark = pytest.mark.django_db

HOUR = 3_600
EURO = 10**9


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_views, "SystemClock", lambda: ClockAt(NOW))


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


def waiting(company: Company, user: User, **changes: Any) -> Job:
    return a_job(company, user, mgpu_per_node=4_000, time_limit_s=5 * HOUR, **changes)


def shown(user: User, job: Job, scope: str = "admin") -> Any:
    answer = by_token(user, [scope]).get(f"jobs/{job.pk}")
    assert answer.status_code == 200, answer.content
    return answer.json()["plan"]


def test_a_waiting_job_says_what_it_costs_at_most_and_what_budgets_have_left(
    company: Company, cast: Cast
) -> None:
    """4 GPUs for 5 hours at 2 EUR, of 100 GPU-hours: as the plan of the same request.

    Against: the price of borrowed use; the use of the budget without the job.
    """
    a_rate_card(company.organization)
    an_evaluated_budget(company.nlp, 100)
    job = waiting(company, cast.nlp_lead)
    found = shown(cast.nlp_lead, job)
    asked = a_body(gpus=4, time_limit_s=5 * HOUR)
    planned = by_token(cast.nlp_lead).post("jobs?dry_run=true", asked).json()
    assert found == {
        "seconds": 5 * HOUR,
        "cost_nano": 40 * EURO,
        "unbilled_nano": 0,
        "price_mode": "pay_per_use",
        "currency": "EUR",
        "budgets": planned["budgets"],
    }
    assert 5 * planned["cost_per_hour_nano"] == 40 * EURO
    (budget,) = found["budgets"]
    assert (budget["needed"], budget["left_after"]) == (20 * GPU_HOUR, 80 * GPU_HOUR)


def test_without_a_time_limit_it_is_the_cost_of_an_hour(company: Company, cast: Cast) -> None:
    """Against: no cost; the cost up to the end of the month."""
    card = a_rate_card(company.organization)
    job = waiting(company, cast.bob)
    Job.objects.filter(pk=job.pk).update(time_limit_s=None)
    found = shown(cast.bob, job)
    assert (found["seconds"], found["cost_nano"], found["unbilled_nano"]) == (HOUR, 8 * EURO, 0)
    terms_of(card, "showback")
    found = shown(cast.bob, job)
    assert (found["cost_nano"], found["unbilled_nano"], found["price_mode"]) == (
        0,
        8 * EURO,
        "showback",
    )


def test_costs_and_budgets_are_for_those_who_may_see_them(company: Company, cast: Cast) -> None:
    """Bob sees the cost of the own job and the own budget, the lead both budgets.

    Against: the cost for everybody who sees the job.
    Against: the budget of the team for its members.
    """
    a_rate_card(company.organization)
    team = an_evaluated_budget(company.nlp, 100)
    own = an_evaluated_budget(company.nlp, 30, name="own", user=cast.bob, policy="notify")
    job = waiting(company, cast.bob)

    def seen(user: User, scope: str = "admin") -> tuple[Any, list[str]]:
        found = shown(user, job, scope)
        return found["cost_nano"], sorted(one["id"] for one in found["budgets"])

    assert seen(cast.bob) == (40 * EURO, [str(own.pk)])
    assert seen(cast.nlp_lead) == (40 * EURO, sorted([str(team.pk), str(own.pk)]))
    assert seen(cast.nlp_lead, "jobs") == (None, [])


def test_a_job_that_does_not_wait_has_no_plan(company: Company, cast: Cast) -> None:
    a_rate_card(company.organization, start=int((NOW - at(0)) / timedelta(seconds=1)) - HOUR)
    for state, has_plan in (("queued", True), ("held", True), ("succeeded", False)):
        assert (shown(cast.bob, waiting(company, cast.bob, state=state)) is not None) is has_plan


@pytest.mark.parametrize(
    ("cap", "charged_s", "cost"), [(25, 0, 25), (50, 0, 40), (25, HOUR, 17), (5, HOUR, 0)]
)
def test_no_more_is_billed_than_the_cost_cap_leaves(
    company: Company, cast: Cast, cap: int, charged_s: int, cost: int
) -> None:
    """The job used 4 GPUs for `charged_s` at 2 EUR before. Against: the cap is not looked at."""
    a_rate_card(company.organization)
    job = waiting(company, cast.bob, cost_cap_nano=cap * EURO)
    if charged_s:
        a_metered_attempt(job.team, 0, charged_s, job_id=job.pk, mgpu=4_000)
    assert shown(cast.bob, job)["cost_nano"] == cost * EURO
