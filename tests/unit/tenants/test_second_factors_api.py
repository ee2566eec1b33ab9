"""Second factors over REST: an authenticator app is added, used, replaced and removed."""

from __future__ import annotations

import base64
import re
from datetime import timedelta
from itertools import count
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from django.core import mail

from audit.models import AuditEvent
from builders.api_callers import Caller, by_token
from builders.browsers import PASSWORD, a_signed_in_browser, give_password
from builders.cast import Cast, a_cast
from builders.clocks import ClockAt
from builders.factor_builders import (
    KEY,
    STEP,
    an_app,
    code_at,
    first_step,
    second_step,
    signed_in_with_code,
)
from builders.portal_builders import NOW
from tenants import throttling
from tenants.access import actor_of
from tenants.factor_codes import new_recovery_codes
from tenants.models import AuthenticatorApp, RecoveryCode, Session, SignInPolicy
from tenants.second_factors import reset_factors_by_operator
from tenants.second_step import FAILURES_MAX

pytestmark = pytest.mark.django_db

RECOVERY_CODE = r"[a-z2-7]{4}(-[a-z2-7]{4}){3}"


@pytest.fixture(autouse=True)
def fast_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.IS_MAIL_CONFIGURED = True


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
    cast.bob.email = "bob@example.org"
    cast.bob.save(update_fields=["email"])
    return cast


def new_key(browser: Caller, proof: str = "") -> Any:
    return browser.post("second-factors/authenticator", {"proof": proof} if proof else {})


def confirm(browser: Caller, code: str) -> Any:
    return browser.post("second-factors/authenticator/confirm", {"code": code})


def codes_of(browser: Caller, proof: str = PASSWORD) -> list[str]:
    made: list[str] = browser.post("second-factors/recovery-codes", {"proof": proof}).json()[
        "recovery_codes"
    ]
    return made


def subjects() -> list[str]:
    """The second sentences of the mails: what happened."""
    return [message.body.split("\n\n")[1].split(" This concerns")[0] for message in mail.outbox]


def test_an_authenticator_app_is_added_with_a_code_that_it_shows(
    cast: Cast, django_capture_on_commit_callbacks: Any
) -> None:
    """Planted: a key in clear in the session. Against: one that is stored without a code."""
    browser = a_signed_in_browser(cast.bob)
    other = a_signed_in_browser(cast.bob)
    made = new_key(browser)
    assert (made.status_code, made["Cache-Control"]) == (200, "no-store")
    key = made.json()["key"]
    address = urlsplit(made.json()["address"])
    assert (address.scheme, address.netloc, address.path) == (
        "otpauth",
        "totp",
        "/bob%40ai-company",
    )
    assert parse_qs(address.query) == {"secret": [key], "issuer": ["Tidegate"]}
    kind, _, picture = made.json()["picture"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(picture).startswith(b"<?xml")
    assert not AuthenticatorApp.objects.exists()
    session = Session.objects.get(session_key=browser.client.cookies["session"].value)
    assert key not in str(session.get_decoded())
    wrong = confirm(browser, "000000" if code_at(NOW, key) != "000000" else "111111")
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (400, "/code")

    with django_capture_on_commit_callbacks(execute=True):
        added = confirm(browser, code_at(NOW, key))
    codes = added.json()["recovery_codes"]
    assert (added.status_code, added["Cache-Control"], len(set(codes))) == (200, "no-store", 10)
    assert all(re.fullmatch(RECOVERY_CODE, code) for code in codes)
    app = AuthenticatorApp.objects.get()
    assert key.encode() not in bytes(app.sealed_key)
    assert browser.get("second-factors").json() == {
        "user": "bob@ai-company",
        "authenticator_app": {
            "id": str(app.pk),
            "created_at": NOW.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "last_used_at": NOW.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        "security_keys": [],
        "recovery_codes_left": 10,
        "can_enrol": True,
        "is_required": False,
    }
    event = AuditEvent.objects.get(action="second_factor_added")
    assert (event.actor, event.node_path) == ("bob@ai-company", "ai-company/")
    assert event.detail == {"login": "bob@ai-company", "kind": "authenticator_app"}
    assert [message.to for message in mail.outbox] == [["bob@example.org"]]
    assert subjects() == ["An authenticator app was added."]
    # The other session did not prove the new factor.
    assert other.get("session").status_code == 401
    assert confirm(browser, code_at(NOW + STEP, key)).status_code == 409
    assert new_key(browser).status_code == 409


def test_a_new_key_is_for_one_session_and_a_fresh_sign_in(cast: Cast, clock: ClockAt) -> None:
    """Planted: no proof an hour after the sign-in, so that an unlocked desk adds a factor."""
    browser = a_signed_in_browser(cast.bob)
    assert confirm(browser, "123456").status_code == 409
    clock.time = NOW + timedelta(minutes=10)
    late = new_key(browser)
    assert (late.status_code, late.json()["code"]) == (403, "proof_required")
    wrong = new_key(browser, "wrong horse battery staple")
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (400, "/proof")
    assert new_key(browser, PASSWORD).status_code == 200


def test_the_password_alone_signs_nobody_in(cast: Cast) -> None:
    """Planted: a session that starts with the first step."""
    an_app(cast.bob, at=NOW)
    browser, answer = first_step(cast.bob)
    assert (answer.status_code, answer.json()["code"]) == (401, "second_factor_required")
    assert "POST /api/v1/session/second-factor" in answer.json()["detail"]
    for path in ("session", "jobs", "second-factors", "tokens"):
        assert browser.get(path).status_code == 401
    assert not Session.objects.exclude(user=None).exists()
    assert not AuditEvent.objects.filter(action="signed_in").exists()


def test_the_second_step_signs_in_and_each_code_works_once(cast: Cast, clock: ClockAt) -> None:
    """Planted: a code that is accepted again. Against: the session key of the first step."""
    app = an_app(cast.bob, at=NOW)
    browser, _ = first_step(cast.bob)
    key = browser.client.cookies["session"].value
    answer = second_step(browser, code_at(NOW))
    assert (answer.status_code, answer.json()["user"]["login"]) == (200, "bob@ai-company")
    assert browser.client.cookies["session"].value != key
    assert "device-" in "".join(browser.client.cookies)
    event = AuditEvent.objects.get(action="signed_in")
    assert event.detail == {"second_factor": "authenticator_app"}
    app.refresh_from_db()
    assert (app.last_used_at, app.last_step) == (NOW, int(NOW.timestamp()) // 30)

    again, _ = first_step(cast.bob)
    assert second_step(again, code_at(NOW)).status_code == 401
    # An earlier code that was never used is refused, too.
    assert second_step(again, code_at(NOW - STEP)).status_code == 401
    assert second_step(again, code_at(NOW + STEP)).status_code == 200


def test_a_code_is_good_for_the_step_before_and_after(cast: Cast, clock: ClockAt) -> None:
    """Against: a clock that is 30 s off keeps nobody out; one that is 60 s off does."""
    an_app(cast.bob, at=NOW)
    clock.time = NOW + 2 * STEP
    browser, _ = first_step(cast.bob)
    assert second_step(browser, code_at(NOW)).status_code == 401
    assert second_step(browser, code_at(NOW + 4 * STEP)).status_code == 401
    code = code_at(NOW + STEP)
    assert second_step(browser, f"{code[:3]} {code[3:]}").status_code == 200


def test_the_second_step_needs_the_first_one_in_the_same_browser(
    cast: Cast, clock: ClockAt
) -> None:
    """Planted: a first step that never expires. Against: one that outlives a new password."""
    an_app(cast.bob, at=NOW)
    stranger, _ = first_step(cast.alice, "wrong horse battery staple")
    refused = second_step(stranger, code_at(NOW))
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
    changed, _ = first_step(cast.bob)
    give_password(cast.bob, "another horse battery staple")
    assert second_step(changed, code_at(NOW)).status_code == 401
    give_password(cast.bob)
    off, _ = first_step(cast.bob)
    policy = SignInPolicy.objects.create(organization=cast.organization, allows_passwords=False)
    assert second_step(off, code_at(NOW)).status_code == 401
    policy.delete()
    late, _ = first_step(cast.bob)
    clock.time = NOW + timedelta(minutes=10)
    assert second_step(late, code_at(clock.time)).status_code == 401
    assert AuthenticatorApp.objects.get().last_step == 0


def test_a_wrong_password_says_nothing_about_factors(cast: Cast) -> None:
    """Against: a second step that tells a stranger which logins exist."""
    an_app(cast.bob, at=NOW)
    answers = []
    for login in ("bob@ai-company", "alice@ai-company", "nobody@ai-company"):
        browser, _ = first_step(cast.bob, "wrong horse battery staple")
        answer = browser.post("session", {"login": login, "password": "wrong horse battery"})
        body = answer.json()
        body.pop("request_id")
        answers.append((answer.status_code, body))
        assert (
            second_step(browser, "123456").json()["detail"].startswith("This sign-in has expired")
        )
    assert answers[0] == answers[1] == answers[2]


def test_wrong_codes_make_wait_and_a_right_password_forgives_none(
    cast: Cast, clock: ClockAt
) -> None:
    """Planted: the counter of passwords for codes, which each first step clears."""
    an_app(cast.bob, at=NOW)
    for _ in range(5):
        browser, _ = first_step(cast.bob)
        assert second_step(browser, "000000").status_code == 401
    browser, _ = first_step(cast.bob)
    refused = second_step(browser, code_at(NOW))
    assert (refused.status_code, refused.json()["retry_after_s"]) == (429, 1)
    event = AuditEvent.objects.get(action="sign_in_throttled")
    assert event.detail["step"] == "second factor"
    assert AuditEvent.objects.filter(action="sign_in_failed").count() == 5
    clock.time = NOW + timedelta(seconds=1)
    assert second_step(browser, code_at(NOW)).status_code == 200


def test_wrong_codes_from_many_sources_make_the_login_wait(cast: Cast, clock: ClockAt) -> None:
    """A stranger with the password has many addresses. Planted: no wait of the login."""
    an_app(cast.bob, at=NOW)
    sources = count()
    with patch.object(throttling, "network_of", lambda _: f"source {next(sources)}"):
        for _ in range(throttling.SECOND_STEP.free):
            browser, _ = first_step(cast.bob)
            assert second_step(browser, "000000").status_code == 401
        browser, _ = first_step(cast.bob)
        assert second_step(browser, "000000").status_code == 429


def test_the_password_is_asked_again_after_five_wrong_codes(
    cast: Cast, clock: ClockAt, django_capture_on_commit_callbacks: Any
) -> None:
    """The person is told once. Planted: a first step that counts nothing; no mail."""
    an_app(cast.bob, at=NOW)
    browser, _ = first_step(cast.bob)
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(FAILURES_MAX):
            assert second_step(browser, "000000").status_code == 401
    assert subjects() == ["Somebody who knows your password entered a wrong second factor 5 times."]
    clock.time = NOW + timedelta(seconds=60)
    refused = second_step(browser, code_at(clock.time))
    assert (refused.status_code, refused.json()["detail"][:24]) == (401, "This sign-in has expired")


def test_wrong_codes_count_over_several_sign_ins(
    cast: Cast, clock: ClockAt, django_capture_on_commit_callbacks: Any
) -> None:
    """Four wrong codes, the right password, and four more: the person is told at the fifth.

    After an hour without one the count begins anew. Planted: each right password begins it anew.
    """
    an_app(cast.bob, at=NOW)

    def try_wrong_codes(count: int) -> None:
        browser, _ = first_step(cast.bob)
        with django_capture_on_commit_callbacks(execute=True):
            for _ in range(count):
                assert second_step(browser, "000000").status_code == 401

    sources = count()
    with patch.object(throttling, "network_of", lambda _: f"source {next(sources)}"):
        try_wrong_codes(4)
        assert subjects() == []
        try_wrong_codes(4)
        told = "Somebody who knows your password entered a wrong second factor 5 times."
        assert subjects() == [told]
        clock.time = NOW + timedelta(hours=2)
        try_wrong_codes(4)
        assert subjects() == [told]


def test_a_right_code_ends_a_row_of_wrong_ones(
    cast: Cast, clock: ClockAt, django_capture_on_commit_callbacks: Any
) -> None:
    """A typo before each of five sign-ins is no reason for a mail. Planted: a row goes on."""
    an_app(cast.bob, at=NOW)
    for number in range(FAILURES_MAX):
        clock.time = NOW + number * STEP
        browser, _ = first_step(cast.bob)
        with django_capture_on_commit_callbacks(execute=True):
            assert second_step(browser, "000000").status_code == 401
            assert second_step(browser, code_at(clock.time)).status_code == 200
    assert subjects() == []


def test_a_recovery_code_signs_in_once(cast: Cast, django_capture_on_commit_callbacks: Any) -> None:
    """Planted: a used code that stays."""
    an_app(cast.bob, at=NOW)
    codes = new_recovery_codes(cast.bob)
    stored = b"".join(bytes(row.digest) for row in RecoveryCode.objects.all())
    assert not any(code.replace("-", "").encode() in stored for code in codes)
    with django_capture_on_commit_callbacks(execute=True):
        browser = signed_in_with_code(cast.bob, f" {codes[3].upper()} ")
    assert browser.get("second-factors").json()["recovery_codes_left"] == 9
    assert AuditEvent.objects.get(action="signed_in").detail == {"second_factor": "recovery_code"}
    assert AuditEvent.objects.get(action="recovery_code_used").detail == {"codes_left": 9}
    assert subjects() == ["Somebody signed in with one of your recovery codes; 9 are left."]
    again, _ = first_step(cast.bob)
    assert second_step(again, codes[3]).status_code == 401
    # Codes of another person are none.
    an_app(cast.alice, at=NOW)
    other, _ = first_step(cast.alice)
    assert second_step(other, codes[4]).status_code == 401


def test_new_recovery_codes_replace_the_former_ones(
    cast: Cast, django_capture_on_commit_callbacks: Any
) -> None:
    """Planted: former codes that still work. Against: new ones without a proof."""
    an_app(cast.bob, at=NOW)
    former = new_recovery_codes(cast.bob)
    browser = signed_in_with_code(cast.bob, former[0])
    refused = browser.post("second-factors/recovery-codes", {})
    assert (refused.status_code, refused.json()["code"]) == (403, "proof_required")
    with django_capture_on_commit_callbacks(execute=True):
        codes = codes_of(browser)
    assert len(codes) == 10
    assert not set(codes) & set(former)
    assert subjects() == ["New recovery codes were made."]
    assert AuditEvent.objects.get(action="recovery_codes_made").detail["codes"] == 10
    again, _ = first_step(cast.bob)
    assert second_step(again, former[1]).status_code == 401
    assert second_step(again, codes[1]).status_code == 200
    without = a_signed_in_browser(cast.alice)
    assert without.post("second-factors/recovery-codes", {"proof": PASSWORD}).status_code == 409


def test_the_factor_is_removed_with_the_password_or_a_code(
    cast: Cast, django_capture_on_commit_callbacks: Any
) -> None:
    """Against: a removal without a proof; recovery codes that stay, or that are a proof."""
    app = an_app(cast.bob, at=NOW)
    codes = new_recovery_codes(cast.bob)
    browser = signed_in_with_code(cast.bob, code_at(NOW - STEP))
    address = f"second-factors/{app.pk}/remove"
    assert browser.post(address, {}).json()["code"] == "proof_required"
    assert browser.post(address, {"proof": codes[0]}).status_code == 400
    # The code of the sign-in is used up.
    assert browser.post(address, {"proof": code_at(NOW - STEP)}).status_code == 400
    assert browser.post(f"second-factors/{uuid4()}/remove", {"proof": PASSWORD}).status_code == 404
    alice = a_signed_in_browser(cast.alice)
    assert alice.post(address, {"proof": PASSWORD}).status_code == 404
    assert AuthenticatorApp.objects.count() == 1
    with django_capture_on_commit_callbacks(execute=True):
        assert browser.post(address, {"proof": code_at(NOW)}).status_code == 204
    assert not AuthenticatorApp.objects.exists()
    assert not RecoveryCode.objects.exists()
    assert subjects() == ["An authenticator app was removed."]
    assert AuditEvent.objects.get(action="second_factor_removed").actor == "bob@ai-company"
    assert first_step(cast.bob)[1].status_code == 200


def test_wrong_proofs_make_wait(cast: Cast) -> None:
    """Planted: the failure is counted in a transaction that the refusal takes back."""
    app = an_app(cast.bob, at=NOW)
    browser = signed_in_with_code(cast.bob, code_at(NOW))
    refusals = [
        browser.post(f"second-factors/{app.pk}/remove", {"proof": "000000"}).status_code
        for _ in range(7)
    ]
    assert refusals == [400] * 5 + [429] * 2


def test_no_token_changes_factors(cast: Cast) -> None:
    """Planted: a token with the scope admin that adds a factor of its thief."""
    app = an_app(cast.bob, at=NOW)
    token = by_token(cast.bob)
    for path, body in (
        ("second-factors/authenticator", {"proof": PASSWORD}),
        ("second-factors/authenticator/confirm", {"code": code_at(NOW)}),
        ("second-factors/recovery-codes", {"proof": PASSWORD}),
        (f"second-factors/{app.pk}/remove", {"proof": PASSWORD}),
    ):
        assert token.post(path, body).status_code == 403
    assert by_token(cast.bob, ["read"]).get("second-factors").status_code == 200


def test_people_without_a_local_password_have_nothing_to_add(cast: Cast) -> None:
    """Against: a second factor that is asked by nobody."""
    browser = a_signed_in_browser(cast.bob)
    SignInPolicy.objects.create(
        organization=cast.organization, allows_passwords=False, requires_second_factor=True
    )
    state = browser.get("second-factors").json()
    assert (state["can_enrol"], state["is_required"]) == (False, False)


def test_an_administrator_resets_the_factors_of_a_person(
    cast: Cast, django_capture_on_commit_callbacks: Any
) -> None:
    """Planted: sessions that stay. Against: a lead who resets an administrator's factors."""
    an_app(cast.bob, at=NOW)
    new_recovery_codes(cast.bob)
    stolen = signed_in_with_code(cast.bob, code_at(NOW))
    waiting, _ = first_step(cast.bob)
    alice = a_signed_in_browser(cast.alice)
    assert alice.get("second-factors?user=bob@ai-company").json()["recovery_codes_left"] == 10
    assert by_token(cast.bob).get("second-factors?user=alice@ai-company").status_code in (403, 404)
    address = f"users/{cast.bob.pk}/second-factors/reset"
    lead = by_token(cast.nlp_lead)
    assert lead.post(address, None).status_code in (403, 404)
    assert by_token(cast.alice, ["read"]).post(address, None).status_code == 403
    with django_capture_on_commit_callbacks(execute=True):
        answer = alice.post(address, None)
    assert (answer.status_code, answer.json()) == (200, {"removed": 1})
    assert stolen.get("session").status_code == 401
    assert second_step(waiting, code_at(NOW + STEP)).status_code == 401
    assert not RecoveryCode.objects.exists()
    event = AuditEvent.objects.get(action="second_factors_reset")
    assert (event.actor, event.subject_id) == ("alice@ai-company", str(cast.bob.pk))
    assert subjects() == [
        "The administrator alice@ai-company removed your second factors and ended your sessions."
    ]
    assert alice.post(address, None).status_code == 409
    assert alice.post(f"users/{cast.alice.pk}/second-factors/reset", None).status_code == 409
    assert first_step(cast.bob)[1].status_code == 200


def test_the_operator_resets_the_last_administrator(cast: Cast) -> None:
    """Against: an installation that nobody can enter after a lost phone."""
    an_app(cast.root, at=NOW)
    assert reset_factors_by_operator(login=cast.root.login, now=NOW) == 1
    event = AuditEvent.objects.get(action="second_factors_reset")
    assert (event.actor, event.subject_id) == ("operator", str(cast.root.pk))
    assert actor_of(cast.root).is_platform_admin


def test_a_key_of_a_lost_secret_leaves_the_recovery_codes(cast: Cast, settings: Any) -> None:
    """Against: a change of TIDEGATE_SECRET_KEY without fallbacks that shuts everybody out."""
    an_app(cast.bob, at=NOW)
    codes = new_recovery_codes(cast.bob)
    settings.SECRET_KEY = "another key of at least 32 characters"
    browser, _ = first_step(cast.bob)
    refused = second_step(browser, code_at(NOW, KEY))
    assert refused.status_code == 409
    assert "Sign in with a recovery code" in refused.json()["detail"]
    assert second_step(browser, codes[0]).status_code == 200
