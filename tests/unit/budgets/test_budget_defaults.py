"""Default budgets: what new teams get, and who sets it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from audit.models import AuditEvent
from budgets import administration
from budgets.models import Budget, BudgetDefault, BudgetState
from builders.api_callers import by_token
from builders.billing_builders import a_rate_card
from builders.budget_builders import GPU_HOUR, a_budget, a_default_budget, an_evaluated_budget
from builders.cast import Cast, a_cast
from builders.portal_builders import NOW, Company, a_department
from tenants.models import Node

pytestmark = pytest.mark.django_db

RESEARCH = "ai-company/research"


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


def a_body(**changes: Any) -> dict[str, Any]:
    return {
        "name": "start",
        "node": RESEARCH,
        "measure": "gpu_hours",
        "limit": 100 * GPU_HOUR,
        "window": "month",
        "policy": "stop_starts",
        **changes,
    }


def make_team(cast: Cast, slug: str, parent: str = RESEARCH) -> Any:
    return by_token(cast.root).post("teams", {"parent": parent, "slug": slug, "name": slug})


def budgets() -> list[tuple[str, str, int]]:
    found = Budget.objects.select_related("node").order_by("pk")
    return [(one.node.slug, one.name, one.limit // GPU_HOUR) for one in found]


def test_a_new_team_gets_the_nearest_default(company: Company, cast: Cast) -> None:
    """Departments and existing teams get none. Planted: the outermost default."""
    a_default_budget(company.organization, 500)
    a_default_budget(company.research, 100)
    a_department(company.research, "deep")
    assert make_team(cast, "robotics", f"{RESEARCH}/deep").status_code == 201
    assert make_team(cast, "ops", "ai-company").status_code == 201
    assert budgets() == [
        ("robotics", "default of research of robotics", 100),
        ("ops", "default of ai-company of ops", 500),
    ]
    given = by_token(cast.root).get("budgets").json()["items"][0]
    assert (given["measure"], given["window"], given["policy"]) == (
        "gpu_hours",
        "month",
        "stop_starts",
    )
    assert given["state"]["left"] == 100 * GPU_HOUR
    event = AuditEvent.objects.filter(action="budget.created").first()
    assert event is not None
    assert (event.actor, event.detail["limit"]) == (cast.root.login, 100 * GPU_HOUR)


def test_a_new_team_leaves_the_other_budgets_for_the_timer(company: Company, cast: Cast) -> None:
    """Its own budget is as of their evaluation. Against: all budgets evaluated with the team."""
    a_default_budget(company.research, 100)
    an_evaluated_budget(company.nlp)
    with CaptureQueriesContext(connection) as captured:
        assert make_team(cast, "robotics").status_code == 201
    states = BudgetState.objects.values_list("budget__node__slug", "as_of")
    assert dict(states) == {"nlp": NOW, "robotics": NOW}
    stored = [
        one["sql"] for one in captured.captured_queries if "budgets_budgetstate" in one["sql"]
    ]
    assert [sql.split()[0] for sql in stored] == ["INSERT"]


def test_a_changed_or_removed_default_changes_no_budget(company: Company, cast: Cast) -> None:
    """The next team gets the new terms. Against: budgets that follow their default."""
    default = a_default_budget(company.research, 100)
    make_team(cast, "first")
    root, path = by_token(cast.root), f"budget-defaults/{default.pk}"
    week = {"limit": 7 * GPU_HOUR, "window": "rolling", "rolling_days": 7}
    assert root.patch(path, week, If_Match='"v1"').status_code == 200
    make_team(cast, "second")
    assert root.delete(path, If_Match='"v2"').status_code == 204
    make_team(cast, "third")
    assert [(slug, limit) for slug, _, limit in budgets()] == [("first", 100), ("second", 7)]
    assert Budget.objects.get(node__slug="second").rolling_days == 7


def test_a_taken_name_is_made_unique(company: Company, cast: Cast) -> None:
    """Teams of two departments may have one slug. Planted: the team refused."""
    a_default_budget(company.organization, name="start")
    a_budget(company.nlp, name="start of robotics")
    make_team(cast, "robotics")
    team = Node.objects.get(slug="robotics")
    assert Budget.objects.get(node=team).name == f"start of {team.pk}"


def test_a_team_is_not_made_without_its_budget(
    company: Company, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are one transaction. Against: a team without the limit that it should have."""
    monkeypatch.setattr(administration, "BUDGETS_MAX", 1)
    a_default_budget(company.research)
    make_team(cast, "first")
    refused = make_team(cast, "second")
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "ai-company has 1 budgets, and may not have more. Remove one.",
    )
    assert not Node.objects.filter(slug="second").exists()


def test_the_longest_names_fit(company: Company, cast: Cast) -> None:
    a_default_budget(company.research, name="n" * 33)
    slug = "t" * 63
    assert make_team(cast, slug).status_code == 201
    assert len(Budget.objects.get().name) == 100


def test_a_default_is_made_changed_and_removed(cast: Cast) -> None:
    """Each step with its version and an audit event. Planted: the version not raised."""
    finance = by_token(cast.finance)
    made = finance.post("budget-defaults", a_body())
    assert made.status_code == 201, made.content
    assert made.headers["ETag"] == '"v1"'
    path = f"budget-defaults/{made.json()['id']}"
    changed = finance.patch(path, {"name": "begin", "policy": "notify"}, If_Match='"v1"').json()
    assert (changed["version"], changed["name"], changed["policy"]) == (2, "begin", "notify")
    stale = finance.patch(path, {"limit": 6}, If_Match='"v1"')
    assert (stale.status_code, stale.json()["current"]["name"]) == (412, "begin")
    assert finance.get(path).json() == changed
    assert finance.get(f"budget-defaults?node={RESEARCH}/nlp").json()["items"] == []
    assert finance.delete(path, If_Match='"v2"').status_code == 204
    events = AuditEvent.objects.filter(subject_kind="budget_default").order_by("pk")
    assert [(event.action, event.detail["policy"]) for event in events] == [
        ("budget_default.created", "stop_starts"),
        ("budget_default.changed", "notify"),
        ("budget_default.removed", "notify"),
    ]


@pytest.mark.parametrize(
    ("changes", "status", "detail"),
    [
        (
            {"node": f"{RESEARCH}/nlp"},
            400,
            "ai-company/research/nlp is a team, and no team is made below it. Make a budget.",
        ),
        (
            {"node": "ai-company"},
            409,
            "ai-company has a default budget already. Change that one.",
        ),
        (
            {"measure": "money"},
            400,
            "ai-company has no rate card, so money cannot be counted. Make one, or choose "
            "gpu_hours or credits.",
        ),
        (
            {"window": "rolling"},
            400,
            "Give rolling_days, from 1 to 366, with a rolling window.",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(
    company: Company, cast: Cast, changes: dict[str, Any], status: int, detail: str
) -> None:
    a_default_budget(company.organization)
    answer = by_token(cast.alice).post("budget-defaults", a_body(**changes))
    assert (answer.status_code, answer.json()["detail"]) == (status, detail)
    assert BudgetDefault.objects.count() == 1


def test_those_who_may_not_set_a_default_see_it(company: Company, cast: Cast) -> None:
    """A department's administrator sets its default. Planted: everybody who sees it."""
    default = a_default_budget(company.research)
    path = f"budget-defaults/{default.pk}"
    admin, auditor = by_token(cast.research_admin), by_token(cast.auditor)
    assert auditor.get(path).json()["can_edit"] is False
    refused = auditor.patch(path, {"limit": 5}, If_Match='"v1"')
    assert (refused.status_code, refused.json()["detail"]) == (
        403,
        "You need the right manage_prices or manage_quota on this node; ask an administrator.",
    )
    assert admin.patch(path, {"limit": 5}, If_Match='"v1"').status_code == 200


def test_money_has_the_currency_of_the_rate_card(company: Company, cast: Cast) -> None:
    a_rate_card(company.organization, currency="CHF")
    made = by_token(cast.alice).post("budget-defaults", a_body(measure="money"))
    assert (made.status_code, made.json()["currency"]) == (201, "CHF")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"limit": 0}, "budgetdefault_limit_is_in_range"),
        ({"measure": "euros"}, "budgetdefault_measure_is_known"),
        ({"rolling_days": 7}, "budgetdefault_window_is_whole"),
        ({"window": "rolling"}, "budgetdefault_window_is_whole"),
        ({"policy": "kill"}, "budgetdefault_policy_is_known"),
    ],
)
def test_the_database_refuses_impossible_defaults(
    company: Company, changes: dict[str, object], name: str
) -> None:
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        a_default_budget(company.research, **changes)  # type: ignore[arg-type]


def test_the_database_keeps_one_default_for_each_node_above_teams(company: Company) -> None:
    a_default_budget(company.research)
    with (
        pytest.raises(IntegrityError, match="budgets_budgetdefault_node_id_key"),
        transaction.atomic(),
    ):
        a_default_budget(company.research)
    with pytest.raises(IntegrityError, match="a team has no default budget"), transaction.atomic():
        a_default_budget(company.nlp)
