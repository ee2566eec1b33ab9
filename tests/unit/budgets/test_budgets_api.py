"""Budgets over REST: who makes, sees and changes them, and what is refused with which sentence."""

from __future__ import annotations

from typing import Any

import pytest

from audit.models import AuditEvent
from budgets.models import Budget
from builders.api_callers import Caller, by_token
from builders.billing_builders import a_rate_card
from builders.budget_builders import GPU_HOUR, an_evaluated_budget
from builders.cast import Cast, a_cast
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import Company, a_pool

pytestmark = pytest.mark.django_db

NLP = "ai-company/research/nlp"


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


def a_body(**changes: Any) -> dict[str, Any]:
    return {
        "name": "training",
        "node": NLP,
        "measure": "gpu_hours",
        "limit": 100 * GPU_HOUR,
        "window": "month",
        "policy": "stop_starts",
        **changes,
    }


def refused(answer: Any, status: int, detail: str) -> None:
    assert (answer.status_code, answer.json()["detail"]) == (status, detail)


def test_a_budget_is_made_evaluated_changed_and_removed(cast: Cast) -> None:
    """Each step with its version and an audit event. Planted: the version not raised."""
    finance = by_token(cast.finance)
    made = finance.post("budgets", a_body())
    assert made.status_code == 201, made.content
    budget = made.json()
    assert budget["state"]["left"] == 100 * GPU_HOUR
    assert (budget["can_edit"], budget["version"], budget["currency"]) == (True, 1, None)
    path = f"budgets/{budget['id']}"

    week = {"window": "rolling", "rolling_days": 7, "limit": 5}
    changed = finance.patch(path, week, If_Match='"v1"').json()
    assert (changed["version"], changed["rolling_days"], changed["limit"]) == (2, 7, 5)
    stale = finance.patch(path, {"limit": 6}, If_Match='"v1"')
    assert (stale.status_code, stale.json()["current"]["limit"]) == (412, 5)
    month = finance.patch(path, {"window": "month"}, If_Match='"v2"').json()
    assert (month["window"], month["rolling_days"]) == ("month", None)
    assert finance.delete(path, If_Match='"v3"').status_code == 204
    assert not Budget.objects.exists()
    events = AuditEvent.objects.filter(subject_kind="budget").order_by("pk")
    assert [(event.action, event.detail["window"]) for event in events] == [
        ("budget.created", "month"),
        ("budget.changed", "rolling"),
        ("budget.changed", "month"),
        ("budget.removed", "month"),
    ]


def test_a_lead_sees_the_teams_budget_and_sets_those_of_its_users(cast: Cast) -> None:
    """A lead could raise the own limit otherwise. Planted: the team's own budget by its lead."""
    lead = by_token(cast.nlp_lead)
    budget = an_evaluated_budget(cast.nlp)
    assert lead.get(f"budgets/{budget.pk}").json()["can_edit"] is False
    refused(
        lead.patch(f"budgets/{budget.pk}", {"limit": 5}, If_Match='"v1"'),
        403,
        "You need the right manage_prices on this node, or manage_quota above it; ask an "
        "administrator.",
    )
    made = lead.post("budgets", a_body(user="bob"))
    assert (made.status_code, made.json()["user"]) == (201, "bob")


def test_a_user_sees_the_own_budget_only(cast: Cast) -> None:
    an_evaluated_budget(cast.nlp)
    own = an_evaluated_budget(cast.nlp, name="of bob", user=cast.bob)
    shown = by_token(cast.bob).get("budgets").json()["items"]
    assert [(each["id"], each["can_edit"]) for each in shown] == [(str(own.pk), False)]


def test_lists_are_cut_to_a_node(company: Company, cast: Cast) -> None:
    for node in (company.research, company.nlp, company.inference):
        an_evaluated_budget(node)
    root = by_token(cast.root)
    names = {each["node"] for each in root.get("budgets?node=ai-company/research").json()["items"]}
    assert names == {"ai-company/research", NLP}


def test_alerts_are_listed_newest_first(company: Company, cast: Cast) -> None:
    """Only those of visible budgets. Planted: alerts of all budgets."""
    job = a_job(company, cast.bob, state="running", time_limit_s=3_600, mgpu_per_node=8_000)
    an_attempt(job, cluster=company.cluster)
    budget = an_evaluated_budget(cast.nlp, 10)
    an_evaluated_budget(cast.research, 16)
    shown = by_token(cast.nlp_lead).get("budget-alerts").json()["items"]
    assert [(one["budget"], one["kind"], one["percent"]) for one in shown] == [
        (str(budget.pk), "used", 80),
        (str(budget.pk), "used", 50),
    ]
    assert by_token(cast.charlie).get("budget-alerts").json()["items"] == []


@pytest.mark.parametrize(
    ("changes", "status", "detail"),
    [
        ({"user": "nobody"}, 400, "There is no user 'nobody' in ai-company."),
        ({"user": "dave", "node": "ai-company/nowhere"}, 404, None),
        (
            {"user": "bob", "policy": "stop_borrowing"},
            400,
            "A user's budget cannot stop borrowing, because a team borrows and not a user. Choose "
            "notify or stop_starts.",
        ),
        (
            {"window": "rolling"},
            400,
            "Give rolling_days, from 1 to 366, with a rolling window.",
        ),
        (
            {"rolling_days": 7},
            400,
            "rolling_days goes with the window rolling only. Leave it out.",
        ),
        (
            {"measure": "money"},
            400,
            "ai-company has no rate card, so money cannot be counted. Make one, or choose "
            "gpu_hours or credits.",
        ),
        (
            {"pool": "cores"},
            400,
            "cores is a pool of cores, without GPU-hours. Choose credits or money.",
        ),
        (
            {"name": "taken"},
            409,
            "ai-company has a budget 'taken' already. Choose another name.",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(
    cast: Cast, changes: dict[str, Any], status: int, detail: str | None
) -> None:
    a_pool("cores", device="cpu")
    an_evaluated_budget(cast.nlp, name="taken")
    answer = by_token(cast.alice).post("budgets", a_body(**changes))
    assert answer.status_code == status, answer.content
    if detail is not None:
        assert answer.json()["detail"] == detail
    assert Budget.objects.count() == 1


def test_money_has_the_currency_of_the_rate_card(company: Company, cast: Cast) -> None:
    a_rate_card(company.organization, currency="CHF")
    caller: Caller = by_token(cast.alice)
    made = caller.post("budgets", a_body(measure="money"))
    assert (made.status_code, made.json()["currency"]) == (201, "CHF")
