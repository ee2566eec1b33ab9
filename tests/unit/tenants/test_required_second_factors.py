"""Organizations that require a second factor: nothing else works until it is added."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from audit.models import AuditEvent
from builders.api_callers import Caller, by_session, by_token
from builders.browsers import PASSWORD, a_signed_in_browser, give_password
from builders.cast import Cast, a_cast
from builders.clocks import ClockAt
from builders.factor_builders import STEP, an_app, code_at, first_step, second_step
from builders.portal_builders import NOW, a_user
from portal.hint_audiences import may_listen
from tenants.models import AuthenticatorApp, Session, SignInPolicy
from tenants.session_store import SessionStore, SignInWay

pytestmark = pytest.mark.django_db

REQUIRED = "second_factor_enrolment_required"
#: What a person without the required factor can do: sign in and out, and add it.
SERVED = {
    "SessionView",
    "ProviderSignIn",
    "PasswordView",
    "SecondFactorsView",
    "AuthenticatorView",
    "AuthenticatorConfirmation",
    "SecurityKeyView",
    "SecurityKeyConfirmation",
}


@pytest.fixture(autouse=True)
def fast_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> ClockAt:
    """The clock of the views, which only the test moves."""
    clock = ClockAt(NOW)
    monkeypatch.setattr("primitives.clock.SystemClock.now", lambda self: clock.time)
    return clock


@pytest.fixture
def cast() -> Cast:
    cast = a_cast()
    for user in (cast.alice, cast.bob):
        give_password(user)
    return cast


def require(cast: Cast) -> None:
    SignInPolicy.objects.create(organization=cast.organization, requires_second_factor=True)


def enrol(browser: Caller) -> str:
    """The key of an authenticator app that this session added."""
    key: str = browser.post("second-factors/authenticator", {}).json()["key"]
    answer = browser.post("second-factors/authenticator/confirm", {"code": code_at(NOW, key)})
    assert answer.status_code == 200, answer.content
    return key


def views(patterns: list[URLPattern | URLResolver]) -> list[Any]:
    """The classes of all views below some routes."""
    found: list[Any] = []
    for each in patterns:
        if isinstance(each, URLResolver):
            found += views(each.url_patterns)
        else:
            found.append(getattr(each.callback, "view_class", each.callback))
    return found


def test_nothing_but_the_enrolment_works_before_it(cast: Cast) -> None:
    """Planted: another endpoint that serves a session without the required factor."""
    require(cast)
    browser = a_signed_in_browser(cast.bob)
    session = browser.get("session").json()
    assert session["user"]["must_add_second_factor"] is True
    for path in ("jobs", "teams", "tokens", "sessions", "users", "notices", "audit-events"):
        refused = browser.get(path)
        assert (refused.status_code, refused.json()["code"]) == (403, REQUIRED), path
    token = browser.post("tokens", {"name": "x", "scopes": ["read"], "expires_in_days": 1})
    assert (token.status_code, token.json()["code"]) == (403, REQUIRED)
    serving = {
        view.__name__
        for view in views(get_resolver().url_patterns)
        if getattr(view, "serves_before_enrolment", False)
    }
    assert serving == SERVED

    key = enrol(browser)
    assert browser.get("session").json()["user"]["must_add_second_factor"] is False
    assert browser.get("tokens").status_code == 200
    again, _ = first_step(cast.bob)
    assert (
        second_step(again, code_at(NOW + STEP, key)).json()["user"]["must_add_second_factor"]
        is False
    )


def test_only_people_with_a_password_are_asked(cast: Cast) -> None:
    """Planted: a requirement for people of a provider. Against: one for tokens."""
    require(cast)
    assert by_token(cast.bob, ["read"]).get("jobs").status_code == 200
    assert (
        by_token(cast.bob, ["read"]).get("session").json()["user"]["must_add_second_factor"]
        is False
    )
    assert by_token(cast.service, ["read"]).get("jobs").status_code == 200
    browser = by_session(cast.dave)
    assert browser.get("tokens").json()["code"] == REQUIRED
    session = SessionStore(browser.client.cookies["session"].value)
    session.note_way(SignInWay.PROVIDER)
    session.save()
    assert browser.get("tokens").status_code == 200
    # Another organization requires none.
    assert by_session(cast.charlie).get("tokens").status_code == 200


def test_open_pages_get_no_hints_before_the_enrolment(cast: Cast) -> None:
    """Planted: a socket that ignores the requirement."""
    session = SessionStore()
    session.note_way(SignInWay.PASSWORD)
    assert may_listen(cast.bob, session)
    require(cast)
    cast.bob.refresh_from_db()
    assert not may_listen(cast.bob, session)
    session.note_way(SignInWay.SECOND_FACTOR)
    assert not may_listen(cast.bob, session)
    an_app(cast.bob, at=NOW)
    assert may_listen(cast.bob, session)
    cast.bob.must_change_password = True
    assert not may_listen(cast.bob, session)


def test_an_initial_password_is_changed_before_the_factor_is_added(cast: Cast) -> None:
    """Against: two steps that wait for each other."""
    require(cast)
    new = a_user(cast.organization, "new", password=PASSWORD)
    new.must_change_password = True
    new.save()
    browser = a_signed_in_browser(new)
    assert browser.get("second-factors").json()["code"] == "password_change_required"
    body = {"old_password": PASSWORD, "new_password": "a password of my own"}
    assert browser.post("password", body).status_code == 200
    csrf = browser.get("session").json()["csrf_token"]
    enrol(Caller({"X-CSRFToken": csrf}, browser.client))
    assert AuthenticatorApp.objects.filter(user=new).exists()


def test_the_required_factor_is_not_removed(cast: Cast) -> None:
    """Planted: the last factor that its owner removes."""
    require(cast)
    app = an_app(cast.bob, at=NOW)
    browser, _ = first_step(cast.bob)
    csrf = second_step(browser, code_at(NOW)).json()["csrf_token"]
    signed_in = Caller({"X-CSRFToken": csrf}, browser.client)
    assert signed_in.get("second-factors").json()["is_required"] is True
    refused = signed_in.post(f"second-factors/{app.pk}/remove", {"proof": PASSWORD})
    assert refused.status_code == 409
    assert "an administrator for a reset" in refused.json()["detail"]


def test_a_session_whose_factor_was_removed_must_add_one_again(cast: Cast) -> None:
    """The session proved a factor once. Planted: the way of its sign-in is enough (200)."""
    app = an_app(cast.bob, at=NOW)
    browser, _ = first_step(cast.bob)
    csrf = second_step(browser, code_at(NOW)).json()["csrf_token"]
    signed_in = Caller({"X-CSRFToken": csrf}, browser.client)
    removed = signed_in.post(f"second-factors/{app.pk}/remove", {"proof": PASSWORD})
    assert removed.status_code == 204, removed.content
    assert signed_in.get("tokens").status_code == 200
    require(cast)
    assert signed_in.get("tokens").json()["code"] == REQUIRED
    enrol(signed_in)
    assert signed_in.get("tokens").status_code == 200


def test_administrators_require_it_with_if_match(cast: Cast) -> None:
    """Against: a lead who switches the requirement off; a change without If-Match."""
    address = f"organizations/{cast.organization.pk}/sign-in-policy"
    alice = by_token(cast.alice)
    found = alice.get(address)
    assert (found.json(), found["ETag"]) == (
        {"requires_second_factor": False, "version": 0},
        '"v0"',
    )
    assert alice.put(address, {"requires_second_factor": True}).status_code == 428
    made = alice.put(address, {"requires_second_factor": True}, If_Match='"v0"')
    assert made.json() == {"requires_second_factor": True, "version": 1}
    assert alice.put(address, {"requires_second_factor": False}, If_Match='"v0"').status_code == 412
    assert by_token(cast.nlp_lead).get(address).status_code == 403
    assert by_token(cast.charlie).get(address).status_code == 404
    event = AuditEvent.objects.get(action="second_factor_requirement_set")
    assert (event.actor, event.node_path) == ("alice@ai-company", "ai-company/")
    assert event.detail == {"before": False, "after": True}
    # Running sessions are asked, too.
    assert a_signed_in_browser(cast.alice).get("tokens").status_code == 403
    assert alice.put(address, {"requires_second_factor": False}, If_Match='"v1"').status_code == 200
    assert a_signed_in_browser(cast.alice).get("tokens").status_code == 200
    assert Session.objects.filter(user=cast.alice).count() == 2
