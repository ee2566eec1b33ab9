"""Signing in and out with a browser."""

from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import Caller, as_nobody, by_session, by_token
from builders.portal_builders import (
    NOW,
    a_department,
    a_grant,
    a_team,
    a_user,
    an_organization,
)
from primitives.errors import Unauthenticated
from tenants.models import Session, SignInAttempts, User
from tenants.roles import Permission, Role
from tenants.signing_in import authenticated_user

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"


@pytest.fixture(autouse=True)
def fast_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def a_browser() -> Caller:
    """A browser that has been shown the login page: it has a CSRF cookie."""
    caller = as_nobody()
    assert caller.get("session").status_code == 401
    return Caller({"X-CSRFToken": caller.client.cookies["csrftoken"].value}, caller.client)


def alice() -> User:
    return a_user(an_organization("ai-company"), "alice", password=PASSWORD)


def sign_in(browser: Caller, login: str = "alice@ai-company", password: str = PASSWORD) -> Any:
    return browser.post("session", {"login": login, "password": password})


def test_nobody_is_signed_in_but_gets_the_csrf_cookie() -> None:
    caller = as_nobody()
    answer = caller.get("session")
    assert answer.status_code == 401
    assert answer.json()["code"] == "unauthenticated"
    assert len(caller.client.cookies["csrftoken"].value) == 32


def test_signing_in_says_who_one_is_and_what_one_may_do_where() -> None:
    user = alice()
    organization = user.organization
    assert organization is not None
    research = a_department(organization, "research")
    nlp = a_team(research, "nlp")
    a_grant(user, Role.FINANCE, research)
    a_grant(user, Role.RESEARCHER, nlp)
    browser = a_browser()
    answer = sign_in(browser)
    assert answer.status_code == 200
    body = answer.json()
    assert len(body.pop("csrf_token")) == 64
    assert body == {
        "user": {
            "id": str(user.pk),
            "login": "alice@ai-company",
            "username": "alice",
            "name": "Alice",
            "organization": {
                "id": str(organization.pk),
                "slug": "ai-company",
                "name": "ai-company",
            },
            "kind": "person",
            "must_change_password": False,
            "must_add_second_factor": False,
        },
        "grants": [
            {"role": "finance", "node_path": "ai-company/research"},
            {"role": "researcher", "node_path": "ai-company/research/nlp"},
        ],
        "permissions": {
            "ai-company/research": ["manage_prices", "view_costs", "view_jobs", "view_tree"],
            "ai-company/research/nlp": [
                "manage_prices",
                "submit_jobs",
                "view_costs",
                "view_jobs",
                "view_tree",
            ],
        },
        "features": {"version": "0.1.0"},
    }
    cookie = browser.client.cookies["session"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert browser.get("session").json()["user"]["login"] == "alice@ai-company"


def test_a_platform_admin_has_every_permission_on_the_empty_path() -> None:
    user = a_user(None, "root", password=PASSWORD)
    a_grant(user, Role.PLATFORM_ADMIN, None)
    body = sign_in(a_browser(), "root").json()
    assert body["grants"] == [{"role": "platform_admin", "node_path": None}]
    assert body["permissions"] == {"": sorted(Permission)}
    assert body["user"]["organization"] is None


def test_a_token_sees_its_scopes_counted_and_gets_no_csrf_token() -> None:
    organization = an_organization("ai-company")
    user = a_user(organization, "alice")
    a_grant(user, Role.ORGANIZATION_ADMIN, organization)
    body = by_token(user, ["quotas"]).get("session").json()
    assert body["permissions"] == {"ai-company": ["manage_quota", "view_tree"]}
    assert body["csrf_token"] == ""


def test_signing_in_needs_the_csrf_token() -> None:
    alice()
    answer = sign_in(as_nobody())
    assert answer.status_code == 403
    assert "CSRF" in answer.json()["detail"]
    assert Session.objects.count() == 0


def test_the_session_key_and_the_csrf_token_change_when_signing_in() -> None:
    alice()
    bob = a_user(User.objects.get().organization, "bob", password=PASSWORD)
    browser = a_browser()
    csrf = browser.headers["X-CSRFToken"]
    sign_in(browser)
    first = browser.client.cookies["session"].value
    assert browser.client.cookies["csrftoken"].value != csrf
    again = Caller({"X-CSRFToken": browser.client.cookies["csrftoken"].value}, browser.client)
    assert sign_in(again, bob.login).json()["user"]["login"] == "bob@ai-company"
    assert browser.client.cookies["session"].value != first
    assert not Session.objects.filter(session_key=first).exists()


def test_signing_out_ends_the_session() -> None:
    user = alice()
    browser = by_session(user)
    key = browser.client.cookies["session"].value
    answer = browser.delete("session")
    assert answer.status_code == 204
    assert not Session.objects.filter(session_key=key).exists()
    browser.client.cookies["session"] = key
    assert browser.get("session").status_code == 401
    event = AuditEvent.objects.get(action="signed_out")
    assert (event.actor, event.subject_id) == ("alice@ai-company", str(user.pk))


def test_nobody_cannot_sign_out_and_a_token_is_no_session() -> None:
    assert as_nobody().delete("session").status_code == 401
    caller = by_token(alice())
    assert caller.delete("session").status_code == 409
    assert caller.get("session").status_code == 200
    answer = caller.post("session", {"login": "alice@ai-company", "password": PASSWORD})
    assert answer.status_code == 409


def test_wrong_unknown_inactive_and_service_are_told_the_same() -> None:
    user = alice()
    a_user(user.organization, "gone", password=PASSWORD)
    User.objects.filter(username="gone").update(is_active=False)
    a_user(user.organization, "robot", password=PASSWORD)
    User.objects.filter(username="robot").update(kind="service")
    a_user(user.organization, "token-only")
    details = set()
    for login, password in (
        ("alice@ai-company", "wrong"),
        ("alice@ai-company", PASSWORD + " "),
        ("alice@ai-company", PASSWORD.upper()),
        ("nobody@ai-company", PASSWORD),
        ("alice", PASSWORD),
        ("Alice@ai-company", PASSWORD),
        ("gone@ai-company", PASSWORD),
        ("robot@ai-company", PASSWORD),
        ("token-only@ai-company", ""),
        ("token-only@ai-company", "!"),
    ):
        answer = sign_in(a_browser(), login, password)
        if password == "":
            assert answer.status_code == 400
            continue
        assert answer.status_code == 401
        details.add(answer.json()["detail"])
    assert details == {"Login or password is wrong, or the account cannot sign in."}
    assert Session.objects.count() == 0


def test_an_unknown_login_costs_one_password_hash_like_a_known_one(monkeypatch: Any) -> None:
    alice()
    hashed = []
    monkeypatch.setattr(
        "tenants.signing_in.make_password", lambda password: hashed.append(password) or "x"
    )
    with pytest.raises(Unauthenticated):
        authenticated_user(
            login="nobody", password="guess", address="127.0.0.1", cookies={}, now=NOW
        )
    assert hashed == ["guess"]


def test_success_and_failure_are_audited_without_the_password_or_an_unknown_login() -> None:
    user = alice()
    sign_in(a_browser(), password="hunter2-hunter2")
    sign_in(a_browser(), login="my-secret-password-in-the-wrong-field", password="hunter2-hunter2")
    answer = sign_in(a_browser())
    known, unknown, good = AuditEvent.objects.order_by("id")
    assert (known.action, known.actor, known.subject_id) == (
        "sign_in_failed",
        "anonymous",
        str(user.pk),
    )
    assert known.node_path == "ai-company/"
    assert known.detail == {
        "login": "alice@ai-company",
        "address": "127.0.0.1",
        "is_known_device": False,
    }
    assert (unknown.action, unknown.subject_id, unknown.node_path) == ("sign_in_failed", "", "")
    assert unknown.organization_id is None
    assert unknown.detail == {"login": None, "address": "127.0.0.1", "is_known_device": False}
    assert (good.action, good.actor) == ("signed_in", "alice@ai-company")
    assert good.request_id == answer["X-Request-ID"]
    assert len(good.request_id) == 36
    stored = str(list(AuditEvent.objects.values()))
    assert "hunter2" not in stored
    assert "my-secret" not in stored


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"login": "alice@ai-company"},
        {"login": "alice@ai-company", "password": 5},
        {"login": ["alice@ai-company"], "password": PASSWORD},
        {"login": "x" * 128, "password": PASSWORD},
        {"login": "alice@ai-company", "password": "x" * 1025},
        {"login": "alice@ai-company", "password": PASSWORD, "remember": True},
        {"login": None, "password": None},
    ],
)
def test_other_bodies_are_refused(body: Any) -> None:
    alice()
    assert a_browser().post("session", body).status_code == 400
    assert SignInAttempts.objects.count() == 0
