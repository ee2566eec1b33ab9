"""Saved views of the list of jobs, over REST."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.portal_builders import NOW, Company, a_grant, a_user
from jobs.actions import saved_views
from jobs.models import SavedView
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NLP = "ai-company/research/nlp"
PARAMETERS = {"state": "running,queued", "sort": "-gpus", "columns": "state,gpus"}


@pytest.fixture
def lead(company: Company) -> User:
    user = a_user(company.organization, "lead")
    a_grant(user, Role.TEAM_LEAD, company.nlp)
    return user


def saved(user: User, **changes: Any) -> dict[str, Any]:
    answer = by_token(user).post("job-views", {"name": "big", "parameters": PARAMETERS, **changes})
    assert answer.status_code == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


def names(user: User) -> list[str]:
    return [view["name"] for view in by_token(user).get("job-views").json()["items"]]


def test_a_personal_view_is_of_its_owner_alone(company: Company, bob: User, lead: User) -> None:
    """Against: personal views of all for the administrator of the platform."""
    made = saved(bob)
    assert made | {"id": "", "created_at": ""} == {
        "id": "",
        "name": "big",
        "parameters": PARAMETERS,
        "user": "bob",
        "shared_with": None,
        "created_at": "",
        "can": ["delete"],
    }
    root = a_user(None, "root")
    a_grant(root, Role.PLATFORM_ADMIN, None)
    assert [names(user) for user in (bob, lead, root)] == [["big"], [], []]
    assert by_token(root).delete(f"job-views/{made['id']}").status_code == 404
    assert by_token(bob).delete(f"job-views/{made['id']}").status_code == 204
    assert (names(bob), AuditEvent.objects.filter(subject_kind="saved_view").count()) == ([], 0)


def test_a_shared_view_is_of_the_people_of_its_team(
    company: Company, bob: User, lead: User
) -> None:
    """Against: deletion by everybody who sees it; no audit event."""
    made = saved(bob, share_with=NLP)
    assert made["shared_with"] == NLP
    other = a_user(company.organization, "dana")
    a_grant(other, Role.RESEARCHER, company.nlp)
    stranger = a_user(company.organization, "mallory")
    a_grant(stranger, Role.RESEARCHER, company.inference)
    assert [names(user) for user in (other, lead, stranger)] == [["big"], ["big"], []]
    path = f"job-views/{made['id']}"
    assert [by_token(user).delete(path).status_code for user in (stranger, other, lead)] == [
        404,
        403,
        204,
    ]
    events = AuditEvent.objects.filter(subject_kind="saved_view").order_by("pk")
    assert [(one.action, one.actor, one.node_path) for one in events] == [
        ("view_shared", bob.login, f"{NLP}/"),
        ("view_deleted", lead.login, f"{NLP}/"),
    ]


def test_sharing_needs_the_right_to_submit_jobs(company: Company, bob: User) -> None:
    auditor = a_user(company.organization, "eve")
    a_grant(auditor, Role.AUDITOR, company.organization)
    body = {"name": "big", "parameters": {}, "share_with": NLP}
    assert by_token(auditor).post("job-views", body).status_code == 403
    elsewhere = {**body, "share_with": "ai-company/production/inference"}
    assert by_token(bob).post("job-views", elsewhere).status_code == 403
    a_grant(bob, Role.DEPARTMENT_ADMIN, company.research)
    department = by_token(bob).post("job-views", {**body, "share_with": "ai-company/research"})
    assert (department.status_code, department.json()["detail"]) == (
        400,
        "ai-company/research is no team; share the view with one of its teams.",
    )


def test_a_name_is_taken_once_and_the_number_is_bounded(
    company: Company, bob: User, lead: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: the error of the database; one name for personal and shared views together."""
    for user, share in ((bob, None), (lead, None), (bob, NLP)):
        saved(user, share_with=share)
    for share, whose in ((None, "You have"), (NLP, f"{NLP} has")):
        body = {"name": "big", "parameters": {}, "share_with": share}
        refused = by_token(bob).post("job-views", body)
        assert (refused.status_code, refused.json()["detail"]) == (
            409,
            f"{whose} a view named big already. Delete it first.",
        )
    monkeypatch.setattr(saved_views, "VIEWS_PER_USER_MAX", 2)
    refused = by_token(bob).post("job-views", {"name": "more", "parameters": {}})
    assert refused.json()["detail"] == (
        "You have 2 saved views, the most of a person. Delete one first."
    )


@pytest.mark.parametrize("parameters", [{"cursor": "x"}, {"state": 1}, {"q": "x" * 1_001}, []])
def test_a_view_has_the_filters_of_the_list_only(
    company: Company, bob: User, parameters: Any
) -> None:
    """Against: the position in the list, which says nothing tomorrow."""
    refused = by_token(bob).post("job-views", {"name": "big", "parameters": parameters})
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"].startswith("/parameters")


@pytest.mark.parametrize(
    ("first", "second", "constraint"),
    [
        ({}, {}, "personal_view_is_unique"),
        ({"node": "nlp"}, {"node": "nlp"}, "shared_view_is_unique"),
        ({}, {"name": ""}, "view_has_a_name"),
    ],
)
def test_the_database_keeps_views_whole(
    company: Company, bob: User, first: dict[str, Any], second: dict[str, Any], constraint: str
) -> None:
    def store(change: dict[str, Any]) -> None:
        row = {"user": bob, "name": "a", "parameters": {}, "created_at": NOW, **change}
        node = company.nlp if row.pop("node", None) else None
        SavedView.objects.create(**row, node=node)

    store(first)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        store(second)
