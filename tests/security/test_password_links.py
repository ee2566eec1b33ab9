"""Attacks with password links, and sessions that a change of the password must end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from builders.api_callers import as_nobody, by_session, by_token
from builders.browsers import (
    OTHER_PASSWORD,
    PASSWORD,
    a_signed_in_browser,
    give_password,
    sign_in,
)
from builders.cast import Cast, a_cast
from tenants.models import PasswordLink, User

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fast_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def a_secret(cast: Cast, user: User) -> str:
    answer = by_session(cast.alice).post(f"users/{user.pk}/password-link", None)
    return str(answer.json()["link"]).split("#")[1]


def use(secret: str, password: str = OTHER_PASSWORD) -> Any:
    return as_nobody().post("password-links/use", {"secret": secret, "password": password})


def assert_dead(secret: str) -> None:
    answer = use(secret)
    assert answer.status_code == 404
    assert "This link does not work" in answer.json()["detail"]


def test_a_link_works_once() -> None:
    """Planted bug: with the link left in place after its use, the second use succeeds."""
    cast = a_cast()
    secret = a_secret(cast, cast.bob)
    assert use(secret).status_code == 200
    assert_dead(secret)


def test_a_link_works_for_an_hour() -> None:
    """Planted bug: with `<` in the place of `<=`, the link works at the second it ends."""
    cast = a_cast()
    secret = a_secret(cast, cast.bob)
    link = PasswordLink.objects.get()
    link.created_at -= timedelta(hours=1)
    link.expires_at -= timedelta(hours=1)
    link.save()
    assert_dead(secret)
    assert not User.objects.get(pk=cast.bob.pk).has_usable_password()


def test_a_later_link_replaces_the_earlier() -> None:
    cast = a_cast()
    first, second = a_secret(cast, cast.bob), a_secret(cast, cast.bob)
    assert_dead(first)
    assert use(second).status_code == 200


def test_a_link_dies_when_the_password_is_changed_without_it() -> None:
    """Planted bug: with the link kept, who was sent it long ago takes the account over."""
    cast = a_cast()
    give_password(cast.bob)
    secret = a_secret(cast, cast.bob)
    change = {"old_password": PASSWORD, "new_password": OTHER_PASSWORD}
    assert a_signed_in_browser(cast.bob).post("password", change).status_code == 200
    assert_dead(secret)


def test_a_link_dies_with_the_account() -> None:
    cast = a_cast()
    secret = a_secret(cast, cast.bob)
    alice = by_session(cast.alice)
    assert alice.patch(f"users/{cast.bob.pk}", {"is_active": False}).status_code == 200
    assert_dead(secret)
    assert alice.patch(f"users/{cast.bob.pk}", {"is_active": True}).status_code == 200
    assert_dead(secret)


def test_a_link_sets_the_password_of_its_owner_only() -> None:
    cast = a_cast()
    give_password(cast.alice)
    browser = a_signed_in_browser(cast.alice)
    secret = a_secret(cast, cast.bob)
    # Even sent with the cookie of somebody else.
    body = {"secret": secret, "password": OTHER_PASSWORD}
    answer = browser.post("password-links/use", body)
    assert answer.json() == {"login": "bob@ai-company"}
    assert browser.get("session").json()["user"]["login"] == "alice@ai-company"
    assert sign_in(cast.alice, OTHER_PASSWORD).status_code == 401


@pytest.mark.parametrize("secret", ["", "tdl_", "tdl_" + "A" * 43, "é" * 47, "x" * 100, "\x00"])
def test_a_guess_is_told_nothing(secret: str) -> None:
    cast = a_cast()
    a_secret(cast, cast.bob)
    answer = use(secret)
    assert answer.status_code in {400, 404}
    assert "bob" not in str(answer.json())
    assert PasswordLink.objects.count() == 1


def test_nobody_takes_over_who_may_do_more() -> None:
    """An administrator of an organization makes no link for the platform's, nor for others'."""
    cast = a_cast()
    for user, status in ((cast.root, 404), (cast.charlie, 404), (cast.alice, 409)):
        answer = by_session(cast.alice).post(f"users/{user.pk}/password-link", None)
        assert answer.status_code == status
    for lead in (cast.nlp_lead, cast.research_admin):
        answer = by_session(lead).post(f"users/{cast.bob.pk}/password-link", None)
        assert answer.status_code == 403
    assert not PasswordLink.objects.exists()


def test_a_stolen_session_makes_no_link_for_itself() -> None:
    """Without the old password: that is what it is asked for."""
    cast = a_cast()
    give_password(cast.root)
    answer = by_session(cast.root).post(f"users/{cast.root.pk}/password-link", None)
    assert answer.status_code == 409


def test_a_token_that_may_only_read_makes_no_link() -> None:
    cast = a_cast()
    caller = by_token(cast.alice, ["read", "jobs", "quotas", "reports"])
    assert caller.post(f"users/{cast.bob.pk}/password-link", None).status_code == 404


@pytest.mark.parametrize("way", ["own", "link"])
def test_a_change_ends_all_other_sessions(way: str) -> None:
    """Planted bug: with the hash of sessions made of neither password nor generation, the other
    browser goes on."""
    cast = a_cast()
    give_password(cast.bob)
    mine, other = a_signed_in_browser(cast.bob), a_signed_in_browser(cast.bob)
    if way == "own":
        change = {"old_password": PASSWORD, "new_password": OTHER_PASSWORD}
        assert mine.post("password", change).status_code == 200
        assert mine.get("session").status_code == 200
    else:
        assert use(a_secret(cast, cast.bob)).status_code == 200
        assert mine.get("session").status_code == 401
    assert other.get("session").status_code == 401
    assert other.get("jobs").status_code == 401


def test_setting_the_same_password_with_a_link_ends_sessions_too() -> None:
    cast = a_cast()
    give_password(cast.bob)
    other = a_signed_in_browser(cast.bob)
    assert use(a_secret(cast, cast.bob), PASSWORD).status_code == 200
    assert other.get("session").status_code == 401
    assert sign_in(cast.bob, PASSWORD).status_code == 200


def test_guesses_of_the_old_password_are_throttled() -> None:
    """Planted bug: with the hash compared directly, a stolen session guesses without end."""
    cast = a_cast()
    give_password(cast.bob)
    browser = a_signed_in_browser(cast.bob)
    statuses = {
        browser.post(
            "password", {"old_password": f"guess {n}", "new_password": OTHER_PASSWORD}
        ).status_code
        for n in range(30)
    }
    assert statuses == {400, 429}
    assert sign_in(cast.bob, OTHER_PASSWORD).status_code in {401, 429}


def test_no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    cast = a_cast()
    give_password(cast.bob)
    caplog.set_level(0)
    secret = a_secret(cast, cast.bob)
    use(secret, "short")
    use(secret, OTHER_PASSWORD)
    use(secret, OTHER_PASSWORD)
    browser = a_signed_in_browser(cast.bob, OTHER_PASSWORD)
    browser.post("password", {"old_password": "wrong-one-here", "new_password": PASSWORD})
    for word in (secret, OTHER_PASSWORD, PASSWORD, "wrong-one-here"):
        assert word not in caplog.text


def test_a_first_password_opens_nothing() -> None:
    """Planted bug: with the look at it left out of sessions, all of these are answered."""
    cast = a_cast()
    give_password(cast.bob)
    User.objects.filter(pk=cast.bob.pk).update(must_change_password=True)
    browser = a_signed_in_browser(cast.bob)
    for route in ("jobs", "organizations", "tokens", "audit-events", "users", "quotas"):
        assert browser.get(route).json()["code"] == "password_change_required"
