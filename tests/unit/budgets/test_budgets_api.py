"""Budgets over REST: who makes, sees and changes them, and what is refused with which sentence."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit.models import AuditEvent
from budgets.evaluation import evaluate
from budgets.models import Budget
from builders.api_callers import Caller, by_token
from builders.billing_builders import a_metered_attempt, a_rate_card
from builders.budget_builders import GPU_HOUR, an_evaluated_budget
from builders.cast import Cast, a_cast
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import Company, a_pool
from clusters.models import Cluster
from primitives.clock import SystemClock

pytestmark = pytest.mark.django_db

NLP = "ai-company/research/nlp"
DAY = 86_400


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


def test_a_lead_may_not_change_the_budget_that_limits_the_lead(cast: Cast) -> None:
    """Only people above the team may. Planted: every budget of a user by the team's lead."""
    lead, root = by_token(cast.nlp_lead), by_token(cast.root)
    own = an_evaluated_budget(cast.nlp, user=cast.nlp_lead)
    path = f"budgets/{own.pk}"
    assert lead.get(path).json()["can_edit"] is False
    assert lead.patch(path, {"limit": 5}, If_Match='"v1"').status_code == 403
    assert lead.delete(path, If_Match='"v1"').status_code == 403
    assert lead.post("budgets", a_body(user=cast.nlp_lead.username)).status_code == 403
    assert root.patch(path, {"limit": 5}, If_Match='"v1"').status_code == 200


def test_a_token_for_quotas_alone_is_refused_before_anything(cast: Cast) -> None:
    """The answer shows use. Planted: found out when the budget is read back, as a 404."""
    budget = an_evaluated_budget(cast.nlp)
    sentence = (
        "The token needs the scope reports too, because the answer shows use. Make a token with "
        "the scopes quotas and reports."
    )
    alone = by_token(cast.root, ["quotas"])
    refused(alone.post("budgets", a_body()), 403, sentence)
    refused(alone.patch(f"budgets/{budget.pk}", {"limit": 5}, If_Match='"v1"'), 403, sentence)
    refused(alone.delete(f"budgets/{budget.pk}", If_Match='"v1"'), 403, sentence)
    both = by_token(cast.root, ["quotas", "reports"])
    assert both.post("budgets", a_body()).status_code == 201


def test_changes_take_the_lock_of_evaluations_before_a_row(cast: Cast) -> None:
    """The timer takes them in this order, too. Planted: the row of the budget first."""
    budget = an_evaluated_budget(cast.nlp)
    root, path = by_token(cast.root), f"budgets/{budget.pk}"
    for send in (
        lambda: root.post("budgets", a_body()),
        lambda: root.patch(path, {"limit": 5}, If_Match='"v1"'),
        lambda: root.delete(path, If_Match='"v2"'),
    ):
        with CaptureQueriesContext(connection) as captured:
            assert send().status_code < 300
        statements = [each["sql"] for each in captured.captured_queries]
        locked = next(n for n, sql in enumerate(statements) if "pg_advisory_xact_lock" in sql)
        rows = [
            n
            for n, sql in enumerate(statements)
            if "budgets_budget" in sql and ("FOR UPDATE" in sql or sql.startswith("INSERT"))
        ]
        assert locked < min(rows, default=len(statements))


def test_a_budget_made_while_a_later_evaluation_ran_has_a_state(cast: Cast) -> None:
    """The clock of another process may be ahead. Planted: evaluated as of the own time."""
    budget = an_evaluated_budget(cast.nlp)
    later = SystemClock().now().replace(microsecond=0) + timedelta(hours=1)
    evaluate(budget.organization_id, later)
    made = by_token(cast.root).post("budgets", a_body())
    assert made.status_code == 201
    assert made.json()["state"]["as_of"] == later.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_user_sees_the_own_budget_only(cast: Cast) -> None:
    an_evaluated_budget(cast.nlp)
    own = an_evaluated_budget(cast.nlp, name="of bob", user=cast.bob)
    shown = by_token(cast.bob).get("budgets").json()["items"]
    assert [(each["id"], each["can_edit"]) for each in shown] == [(str(own.pk), False)]


def test_a_budget_has_its_use_by_day(company: Company, cast: Cast) -> None:
    """8 and 16 GPU-hours on 1 and 19 November. October is counted for the forecast.

    Against: all days that are counted.
    """
    for start, hours in ((-DAY, 3), (0, 1), (18 * DAY, 2)):
        a_metered_attempt(cast.nlp, start, start + hours * 3_600)
    month = an_evaluated_budget(cast.nlp)
    week = an_evaluated_budget(cast.nlp, name="week", window="rolling", rolling_days=7)
    lead = by_token(cast.nlp_lead)

    def used(budget: Budget) -> dict[str, int]:
        shown = lead.get(f"budgets/{budget.pk}").json()
        assert sum(one["used"] for one in shown["days"]) == shown["state"]["used"]
        return {one["day"]: one["used"] // GPU_HOUR for one in shown["days"]}

    days = dict.fromkeys((f"2026-11-{day:02}" for day in range(1, 22)), 0)
    assert used(month) == {**days, "2026-11-01": 8, "2026-11-19": 16}
    last = {day: 0 for day in days if day >= "2026-11-15"}
    assert used(week) == {**last, "2026-11-19": 16}
    assert "days" not in lead.get("budgets").json()["items"][0]
    assert by_token(cast.bob).get(f"budgets/{month.pk}").status_code == 404


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


@pytest.mark.parametrize(
    ("kind", "options", "names"),
    [
        ("slurm", {}, ["local"]),
        ("kubernetes", {}, []),
        ("kubernetes", {"scheduler": "volcano"}, ["local"]),
        ("local", {}, []),
    ],
)
def test_a_budget_names_the_clusters_that_start_natives_by_themselves(
    company: Company, cast: Cast, kind: str, options: dict[str, Any], names: list[str]
) -> None:
    """Of its pool, and none where it only notifies. Against: clusters of other pools."""
    Cluster.objects.filter(pk=company.cluster.pk).update(kind=kind, options=options)
    other = a_pool("other")
    for name, changes in {
        "all": {},
        "here": {"pool": company.pool},
        "elsewhere": {"pool": other},
        "told": {"policy": "notify"},
    }.items():
        an_evaluated_budget(company.nlp, name=name, **changes)
    found = by_token(cast.finance).get("budgets").json()["items"]
    assert {one["name"]: one["not_held_on"] for one in found} == {
        "all": names,
        "here": names,
        "elsewhere": [],
        "told": [],
    }


def test_money_has_the_currency_of_the_rate_card(company: Company, cast: Cast) -> None:
    a_rate_card(company.organization, currency="CHF")
    caller: Caller = by_token(cast.alice)
    made = caller.post("budgets", a_body(measure="money"))
    assert (made.status_code, made.json()["currency"]) == (201, "CHF")
