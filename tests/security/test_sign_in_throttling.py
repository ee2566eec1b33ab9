"""Nobody locks somebody else out, and nobody guesses passwords quickly."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import Caller, as_nobody, by_token
from builders.portal_builders import NOW, a_user, an_organization
from primitives.errors import TooManyRequests, Unauthenticated
from tenants import throttling
from tenants.devices import LIFETIME, cookie_name, cookie_value, device_of
from tenants.models import SignInAttempts, User
from tenants.signing_in import authenticated_user
from tenants.throttling import (
    ATTACKED_LOGIN_AND_SOURCE,
    FORGOTTEN_AFTER,
    LOGIN_AND_SOURCE,
    LOGIN_FAILURES_MAX,
    SOURCE,
)

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"
LOGIN = "alice@ai-company"
HERE, THERE = "192.0.2.1", "198.51.100.7"


@pytest.fixture(autouse=True)
def fast_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the views at NOW, so that no wait of 1 s ends during a test."""
    monkeypatch.setattr("primitives.clock.SystemClock.now", lambda self: NOW)


@pytest.fixture
def alice() -> User:
    return a_user(an_organization("ai-company"), "alice", password=PASSWORD)


def attempt(
    password: str = PASSWORD,
    login: str = LOGIN,
    *,
    address: str = HERE,
    after_s: int = 0,
    cookies: Mapping[str, str] = {},
) -> User:
    now = NOW + timedelta(seconds=after_s)
    user, _ = authenticated_user(
        login=login, password=password, address=address, cookies=cookies, now=now
    )
    return user


def fail(login: str = LOGIN, **given: Any) -> None:
    with pytest.raises(Unauthenticated):
        attempt("wrong", login, **given)


def wait_s(password: str = "wrong", login: str = LOGIN, **given: Any) -> int:
    """How long the caller of a refused attempt is told to wait."""
    with pytest.raises(TooManyRequests) as refusal:
        attempt(password, login, **given)
    return int(refusal.value.data["retry_after_s"])


def test_each_failure_of_a_login_from_a_source_doubles_the_wait(alice: User) -> None:
    """Planted and seen to die: the wait is the same each time."""
    for _ in range(LOGIN_AND_SOURCE.free):
        fail()
    clock_s, waits = 0, []
    for _ in range(12):
        waits.append(wait_s(after_s=clock_s))
        clock_s += waits[-1]
        fail(after_s=clock_s)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]


def test_even_the_right_password_waits(alice: User) -> None:
    for _ in range(LOGIN_AND_SOURCE.free + 1):
        SignInAttempts.objects.update(blocked_until=None)
        fail()
    assert wait_s(PASSWORD) == 2
    assert attempt(after_s=2) == alice
    assert not SignInAttempts.objects.filter(attempts__gt=LOGIN_AND_SOURCE.free + 1).exists()


def test_no_failures_of_others_hinder_a_first_attempt_elsewhere(alice: User) -> None:
    """Planted and seen to die: an account has one wait for all sources."""
    for second in range(3 * LOGIN_FAILURES_MAX):
        SignInAttempts.objects.update(blocked_until=None)
        fail(after_s=second)
    assert wait_s(PASSWORD, after_s=3 * LOGIN_FAILURES_MAX) > 0
    assert attempt(address=THERE, after_s=3 * LOGIN_FAILURES_MAX) == alice


def test_refused_attempts_prolong_no_wait(alice: User) -> None:
    """Else a crowd at one address would hold the wait of all of it. Planted and seen to die."""
    for _ in range(LOGIN_AND_SOURCE.free + 3):
        SignInAttempts.objects.update(blocked_until=None)
        fail()
    assert [wait_s(after_s=second) for second in range(8)] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert attempt(after_s=8) == alice


def test_a_browser_that_signed_in_before_meets_only_its_own_failures(alice: User) -> None:
    """Planted and seen to die: a known browser is counted by source, too."""
    browser = {cookie_name(alice): cookie_value(alice, "laptop", now=NOW)}
    for number in range(SOURCE.free):
        fail(f"user-{number}")
    for _ in range(20):
        SignInAttempts.objects.update(blocked_until=None)
        fail()
    assert wait_s(PASSWORD) > 0
    assert attempt(cookies=browser) == alice
    for _ in range(throttling.DEVICE.free):
        fail(cookies=browser)
    assert wait_s(PASSWORD, cookies=browser) == 1
    assert attempt(cookies=browser, after_s=1) == alice


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "laptop",
        "{pk}/laptop/4102444800",
        "{pk}/laptop/4102444800:c2lnbmF0dXJl",
        "{of_bob}",
        "{over}",
    ],
)
def test_a_forged_or_foreign_cookie_is_none(alice: User, forged: str) -> None:
    """Planted and seen to die: whose browser it is was not looked at."""
    bob = a_user(alice.organization, "bob")
    value = forged.format(
        pk=alice.pk,
        of_bob=cookie_value(bob, "laptop", now=NOW),
        over=cookie_value(alice, "laptop", now=NOW - LIFETIME),
    )
    assert device_of(alice, {cookie_name(alice): value}, now=NOW) is None


def test_signing_in_names_the_browser_for_half_a_year(alice: User) -> None:
    browser = a_browser()
    assert sign_in(browser).status_code == 200
    cookie = browser.client.cookies[cookie_name(alice)]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (
        True,
        "Strict",
        "/api/v1/",
    )
    assert cookie["max-age"] == 180 * 24 * 3600
    first = device_of(alice, {cookie_name(alice): cookie.value}, now=NOW)
    assert first is not None
    again = Caller({"X-CSRFToken": browser.client.cookies["csrftoken"].value}, browser.client)
    assert sign_in(again).status_code == 200
    second = again.client.cookies[cookie_name(alice)].value
    assert device_of(alice, {cookie_name(alice): second}, now=NOW) == first


def test_a_source_that_tries_many_logins_waits_at_most_a_minute(alice: User) -> None:
    for number in range(SOURCE.free):
        fail(f"user-{number}")
    assert wait_s(PASSWORD) == 1
    clock_s, waits = 1, []
    for number in range(8):
        fail(f"other-{number}", after_s=clock_s)
        waits.append(wait_s(PASSWORD, after_s=clock_s))
        clock_s += waits[-1]
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    assert attempt(after_s=clock_s) == alice
    assert attempt(address=THERE) == alice


def test_one_ipv6_network_is_one_source(alice: User) -> None:
    for number in range(LOGIN_AND_SOURCE.free):
        fail(address=f"2001:db8:0:1::{number + 1}")
    assert wait_s(address="2001:db8:0:1:ffff::9") == 1
    fail(address="2001:db8:0:2::1")


def test_a_login_that_many_sources_fail_at_gives_each_source_one_attempt(alice: User) -> None:
    """Planted and seen to die: five for each of a thousand sources."""
    for number in range(LOGIN_FAILURES_MAX):
        fail(address=f"203.0.113.{number}")
    assert ATTACKED_LOGIN_AND_SOURCE.free == 1
    fail(address=THERE)
    assert wait_s(PASSWORD, address=THERE) == 1
    # Nobody who has not failed waits.
    assert attempt(address=HERE) == alice


def test_success_does_not_count(alice: User) -> None:
    for _ in range(20):
        attempt()
    assert sorted(SignInAttempts.objects.values_list("attempts", flat=True)) == [0, 0]


def test_parallel_guesses_are_counted_before_they_are_judged(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted and seen to die: an attempt counts once its password was found to be wrong."""
    meanwhile: list[int] = []

    def slow(user: User, password: str) -> bool:
        if not meanwhile:
            meanwhile.append(0)
            meanwhile[0] = wait_s()
        return False

    for _ in range(LOGIN_AND_SOURCE.free - 1):
        fail()
    monkeypatch.setattr(User, "check_password", slow)
    fail()
    assert meanwhile == [1]


def test_failures_are_forgotten_after_an_hour_and_their_rows_deleted(alice: User) -> None:
    for number in range(20):
        fail(f"user-{number}", address=f"192.0.2.{number}")
    for _ in range(LOGIN_AND_SOURCE.free):
        fail()
    assert wait_s() == 1
    after_s = int(FORGOTTEN_AFTER.total_seconds())
    fail(after_s=after_s)
    assert sorted(SignInAttempts.objects.values_list("attempts", flat=True)) == [1, 1, 1]


def test_failures_and_the_first_refusal_of_each_wait_are_audited(alice: User) -> None:
    """Planted and seen to die: every refused attempt is, so that whoever is refused fills it."""
    for _ in range(LOGIN_AND_SOURCE.free):
        fail()
    for _ in range(3):
        wait_s()
    fail(after_s=1)
    wait_s(after_s=1)
    events = AuditEvent.objects.order_by("id")
    assert [event.action for event in events] == [
        *["sign_in_failed"] * 5,
        "sign_in_throttled",
        "sign_in_failed",
        "sign_in_throttled",
    ]
    known = {"login": LOGIN, "address": HERE, "is_known_device": False}
    assert [events[number].detail for number in (0, 5, 7)] == [
        known,
        {**known, "wait_s": 1},
        {**known, "wait_s": 2},
    ]
    assert {event.subject_id for event in events} == {str(alice.pk)}


def test_tokens_meet_no_wait(alice: User, standing_clock: None) -> None:
    caller = by_token(alice)
    browser = a_browser()
    for _ in range(LOGIN_AND_SOURCE.free):
        assert sign_in(browser, password="wrong").status_code == 401
    assert sign_in(browser).status_code == 429
    assert caller.get("session").status_code == 200


def test_over_http_the_answer_says_when_to_come_back(alice: User, standing_clock: None) -> None:
    browser = a_browser()
    for _ in range(LOGIN_AND_SOURCE.free):
        assert sign_in(browser, password="wrong").status_code == 401
    answer = sign_in(browser)
    assert (answer.status_code, answer["Retry-After"]) == (429, "1")
    assert answer.json()["code"] == "too_many_requests"
    assert answer.json()["detail"] == "Signing in failed too often. Wait 1 s, then try again."


def a_browser() -> Caller:
    """A browser that has been shown the login page: it has a CSRF cookie."""
    caller = as_nobody()
    assert caller.get("session").status_code == 401
    return Caller({"X-CSRFToken": caller.client.cookies["csrftoken"].value}, caller.client)


def sign_in(browser: Caller, login: str = LOGIN, password: str = PASSWORD) -> Any:
    return browser.post("session", {"login": login, "password": password})
