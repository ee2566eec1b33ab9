"""Something is deleted or archived at the same moment as somebody else uses or deletes it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import transaction

from audit.models import AuditEvent
from builders.api_callers import Caller, as_nobody, by_token
from builders.connector_builders import eventually
from builders.job_builders import a_body
from builders.parallel import in_thread, somebody_waits_for_a_lock
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_department,
    a_grant,
    a_user,
    an_actor,
)
from jobs.actions.archiving import archive, deactivate
from jobs.actions.deleting import delete_node
from tenants.access import Actor
from tenants.membership import delete_user
from tenants.models import Node, User, UserKind
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 30
PASSWORD = "correct horse battery staple"
GONE = "It was deleted meanwhile."
NOT_HERE = "It does not exist, or you may not see it."
NO_PLACE = "The organization, department or team was deleted meanwhile. Name another one."
Act = Callable[[Caller, Any], Any]


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def admin(company: Company) -> Actor:
    return an_actor(company.organization, Role.ORGANIZATION_ADMIN)


def beside(first: Callable[[], object], then: Callable[[], Any]) -> tuple[int, str | None]:
    """What `then` answers, which begins before `first` ends and waits for it."""
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first()
            later = in_thread(pool, then)
            eventually(somebody_waits_for_a_lock)
        answer = later.result(WAIT_S)
    return answer.status_code, answer.json()["detail"] if answer.content else None


def in_tree(act: str) -> Act:
    return lambda caller, node: caller.post(f"tree/{node.pk}/{act}", None)


def delete_in_tree(caller: Caller, node: Node) -> Any:
    return caller.delete(f"tree/{node.pk}")


def create_team(caller: Caller, node: Node) -> Any:
    return caller.post("teams", {"parent": node.path, "slug": "new", "name": "New"})


def give_role(caller: Caller, node: Node) -> Any:
    body = {"user": "bob@ai-company", "role": "auditor", "node": node.path}
    return caller.post("role-grants", body)


def give_quota(caller: Caller, node: Node) -> Any:
    body = {"node": node.path, "pool": "h100", "guaranteed_mgpu": 0, "reason": "new"}
    return caller.post("quotas", body)


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (in_tree("archive"), (404, NOT_HERE)),
        (in_tree("restore"), (404, NOT_HERE)),
        (delete_in_tree, (404, NOT_HERE)),
        (create_team, (404, GONE)),
        (give_role, (409, NO_PLACE)),
        (give_quota, (409, NO_PLACE)),
    ],
)
def test_a_node_that_is_deleted_at_the_same_moment(
    company: Company, admin: Actor, act: Act, expected: tuple[int, str]
) -> None:
    """Planted: the node as it was read before the lock; no answer to rows that are gone; references
    looked up by the constraint's whole name.
    """
    a_user(company.organization, "bob")
    lab, caller = a_department(company.research, "lab"), by_token(admin.user)
    answer = beside(
        lambda: delete_node(lab.pk, actor=admin, now=NOW),
        lambda: act(caller, lab),
    )
    assert answer == expected
    assert AuditEvent.objects.filter(action="department_deleted").count() == 1


def test_a_team_is_created_where_somebody_archives(company: Company, admin: Actor) -> None:
    lab, caller = a_department(company.research, "lab"), by_token(admin.user)
    answer = beside(
        lambda: archive(lab.pk, waiting=None, running=None, actor=admin, now=NOW),
        lambda: create_team(caller, lab),
    )
    assert answer == (409, "Its parent was archived meanwhile. Restore the parent first.")


def of_user(method: str, below: str = "", body: Any = None) -> Act:
    return lambda caller, user: caller.send(method, f"users/{user.pk}{below}", body)


def make_token(caller: Caller, user: User) -> Any:
    body = {"name": "ci", "scopes": ["read"], "expires_in_days": 1, "user": user.login}
    return caller.post("tokens", body)


@pytest.mark.parametrize(
    ("act", "kind", "detail"),
    [
        (of_user("DELETE"), UserKind.PERSON, GONE),
        (of_user("POST", "/deactivate", {}), UserKind.PERSON, GONE),
        (of_user("PATCH", "", {"name": "Robert"}), UserKind.PERSON, GONE),
        (of_user("POST", "/password-link"), UserKind.PERSON, GONE),
        (make_token, UserKind.SERVICE, "bob@ai-company was deleted meanwhile."),
    ],
)
def test_a_user_who_is_deleted_at_the_same_moment(
    company: Company, admin: Actor, act: Act, kind: UserKind, detail: str
) -> None:
    """Planted: no answer to rows that are gone; a token for whoever is not there any more."""
    bob, caller = a_user(company.organization, "bob"), by_token(admin.user)
    User.objects.filter(pk=bob.pk).update(kind=kind)
    answer = beside(
        lambda: delete_user(actor=admin, user_id=bob.pk, now=NOW), lambda: act(caller, bob)
    )
    assert answer == (404, detail)
    assert AuditEvent.objects.filter(action="user_deleted").count() == 1


@pytest.mark.parametrize("is_deleted", [True, False])
def test_nobody_signs_in_who_is_deleted_or_deactivated_at_the_same_moment(
    company: Company, admin: Actor, is_deleted: bool
) -> None:
    """Planted: a session begun for whoever is not there, or not active, any more."""
    bob, browser = a_user(company.organization, "bob", password=PASSWORD), as_nobody()
    browser.get("session")
    browser.headers["X-CSRFToken"] = browser.client.cookies["csrftoken"].value

    def first() -> None:
        if is_deleted:
            delete_user(actor=admin, user_id=bob.pk, now=NOW)
        else:
            deactivate(bob.pk, waiting=None, running=None, actor=admin, now=NOW)

    answer = beside(
        first,
        lambda: browser.post("session", {"login": bob.login, "password": PASSWORD}),
    )
    assert answer == (401, "Login or password is wrong, or the account cannot sign in.")
    assert "session" not in browser.client.cookies
    assert not AuditEvent.objects.filter(action="signed_in").exists()


@pytest.mark.parametrize(
    ("is_archived", "detail"),
    [
        (True, "The team was archived or deleted meanwhile and takes no jobs. Name another team."),
        (
            False,
            "The account was deactivated or deleted meanwhile and submits no jobs. Ask an "
            "administrator.",
        ),
    ],
)
def test_a_job_is_submitted_where_somebody_archives_or_deactivates(
    company: Company, admin: Actor, is_archived: bool, detail: str
) -> None:
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    caller = by_token(bob)

    def first() -> None:
        if is_archived:
            archive(company.nlp.pk, waiting=None, running=None, actor=admin, now=NOW)
        else:
            deactivate(bob.pk, waiting=None, running=None, actor=admin, now=NOW)

    assert beside(first, lambda: caller.post("jobs", a_body())) == (409, detail)
