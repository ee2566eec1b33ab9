"""Passwords over REST: changed by their owner, set with a link, changed at the first sign-in."""

from __future__ import annotations

import smtplib
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import as_nobody, by_session, by_token
from builders.browsers import (
    OTHER_PASSWORD,
    PASSWORD,
    a_signed_in_browser,
    give_password,
    sign_in,
)
from builders.cast import Cast, a_cast
from builders.portal_builders import NOW
from tenants.models import PasswordLink, User

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fast_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def a_change(old: str = PASSWORD, new: str = OTHER_PASSWORD) -> dict[str, str]:
    return {"old_password": old, "new_password": new}


def make_link(cast: Cast, user: User) -> dict[str, Any]:
    answer = by_session(cast.alice).post(f"users/{user.pk}/password-link", None)
    assert answer.status_code == 201
    body: dict[str, Any] = answer.json()
    return body


def test_one_changes_ones_own_password_and_stays_signed_in() -> None:
    cast = a_cast()
    give_password(cast.bob)
    browser = a_signed_in_browser(cast.bob)
    key = browser.client.cookies["session"].value

    assert browser.post("password", a_change()).status_code == 200

    assert browser.client.cookies["session"].value != key
    assert browser.get("session").json()["user"]["login"] == "bob@ai-company"
    assert sign_in(cast.bob, PASSWORD).status_code == 401
    assert sign_in(cast.bob, OTHER_PASSWORD).status_code == 200
    event = AuditEvent.objects.get(action="password_changed")
    assert (event.actor, event.subject_id, event.detail) == (
        "bob@ai-company",
        str(cast.bob.pk),
        {"login": "bob@ai-company"},
    )


@pytest.mark.parametrize(
    ("change", "status", "pointer", "sentence"),
    [
        (a_change(old="wrong"), 400, "/old_password", "The old password is wrong."),
        (a_change(new="short"), 400, "/new_password", "at least 12 characters"),
        (a_change(new="password1234"), 400, "/new_password", "too common"),
        (
            a_change(new=PASSWORD),
            400,
            "/new_password",
            "The new password is the same as the old one.",
        ),
        (a_change(new="x" * 1025), 400, "/new_password", "no more than 1024"),
        ({"new_password": OTHER_PASSWORD}, 400, "/old_password", "required"),
    ],
)
def test_a_refusal_says_what_to_do_and_changes_nothing(
    change: dict[str, str], status: int, pointer: str, sentence: str
) -> None:
    cast = a_cast()
    give_password(cast.bob)
    browser = a_signed_in_browser(cast.bob)

    answer = browser.post("password", change)

    assert answer.status_code == status
    body = answer.json()
    assert [error["pointer"] for error in body["errors"]] == [pointer]
    assert sentence in body["detail"] + body["errors"][0]["detail"]
    assert browser.get("session").status_code == 200
    assert sign_in(cast.bob, PASSWORD).status_code == 200


def test_the_command_changes_it_with_a_token_that_may_do_everything() -> None:
    cast = a_cast()
    give_password(cast.bob)
    assert by_token(cast.bob, ["read", "jobs"]).post("password", a_change()).status_code == 403
    assert by_token(cast.bob).post("password", a_change()).status_code == 200
    assert sign_in(cast.bob, OTHER_PASSWORD).status_code == 200


def test_a_link_sets_a_password() -> None:
    cast = a_cast()

    made = by_session(cast.alice).post(f"users/{cast.bob.pk}/password-link", None)

    body = made.json()
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    assert (body["user"], body["sent_to"]) == ("bob@ai-company", None)
    path, secret = body["link"].split("#")
    assert path == "/set-password"
    stored = PasswordLink.objects.get()
    assert stored.expires_at - stored.created_at == timedelta(hours=1)
    assert datetime.fromisoformat(body["expires_at"]) == stored.expires_at
    answer = as_nobody().post("password-links/use", {"secret": secret, "password": OTHER_PASSWORD})
    assert (answer.status_code, answer.json()) == (200, {"login": "bob@ai-company"})
    assert sign_in(cast.bob, OTHER_PASSWORD).status_code == 200
    events = AuditEvent.objects.order_by("pk").values_list("actor", "action", "node_path")
    assert list(events)[:2] == [
        ("alice@ai-company", "password_link_made", "ai-company/"),
        ("bob@ai-company", "password_link_used", "ai-company/"),
    ]
    told = str(list(AuditEvent.objects.values()))
    assert secret not in told
    assert OTHER_PASSWORD not in told


def test_a_weak_password_leaves_the_link_as_it_is() -> None:
    cast = a_cast()
    secret = make_link(cast, cast.bob)["link"].split("#")[1]
    refused = as_nobody().post("password-links/use", {"secret": secret, "password": "short"})
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"] == "/password"
    again = as_nobody().post("password-links/use", {"secret": secret, "password": OTHER_PASSWORD})
    assert again.status_code == 200


@pytest.mark.parametrize("who", ["service", "gone"])
def test_there_is_no_link_for_who_cannot_sign_in(who: str) -> None:
    cast = a_cast()
    if who == "gone":
        cast.bob.is_active = False
        cast.bob.save()
    user = cast.bob if who == "gone" else cast.service
    answer = by_session(cast.alice).post(f"users/{user.pk}/password-link", None)
    assert answer.status_code == 409
    assert ("deactivated" if who == "gone" else "access token") in answer.json()["detail"]
    assert not PasswordLink.objects.exists()


def test_a_repeated_request_does_not_show_the_link_again() -> None:
    cast = a_cast()
    alice = by_session(cast.alice)
    first = alice.post(f"users/{cast.bob.pk}/password-link", None, Idempotency_Key="k")
    again = alice.post(f"users/{cast.bob.pk}/password-link", None, Idempotency_Key="k")
    assert again.json() == {**first.json(), "link": None}
    assert PasswordLink.objects.count() == 1


@pytest.fixture
def with_mail(settings: Any) -> None:
    settings.IS_MAIL_CONFIGURED = True
    settings.PUBLIC_URL = "https://tidegate.example.org"


@pytest.mark.usefixtures("with_mail")
def test_where_mail_is_configured_the_link_is_mailed_and_not_shown() -> None:
    cast = a_cast()
    alice = by_session(cast.alice)
    assert alice.patch(f"users/{cast.bob.pk}", {"email": "bob@example.org"}).status_code == 200

    body = make_link(cast, cast.bob)

    assert (body["sent_to"], body["link"]) == ("bob@example.org", None)
    (message,) = mail.outbox
    assert message.to == ["bob@example.org"]
    (line,) = [line for line in message.body.splitlines() if line.startswith("https://")]
    address, secret = line.split("#")
    assert address == "https://tidegate.example.org/set-password"
    used = as_nobody().post("password-links/use", {"secret": secret, "password": OTHER_PASSWORD})
    assert used.status_code == 200


@pytest.mark.usefixtures("with_mail")
def test_without_an_address_or_a_mail_server_that_answers_the_link_is_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cast = a_cast()
    assert make_link(cast, cast.bob)["link"].startswith("/set-password#tdl_")
    cast.bob.email = "bob@example.org"
    cast.bob.save()

    def refuse(message: EmailMessage) -> int:
        raise smtplib.SMTPDataError(550, message.body.encode())

    monkeypatch.setattr(EmailMessage, "send", refuse)
    body = make_link(cast, cast.bob)
    assert body["sent_to"] is None
    secret = body["link"].split("#")[1]
    assert "A mail was not sent: SMTPDataError" in caplog.text
    assert secret not in caplog.text


@pytest.mark.parametrize("email", ["bob", "bob@", "a" * 250 + "@x.org", 7, "b@x.org\nBcc: c@x.org"])
def test_what_is_no_address_is_refused(email: Any) -> None:
    cast = a_cast()
    answer = by_session(cast.alice).patch(f"users/{cast.bob.pk}", {"email": email})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/email"


def test_a_first_password_has_to_be_changed_before_anything_else() -> None:
    cast = a_cast()
    person = {
        "organization": "ai-company",
        "username": "erin",
        "name": "Erin",
        "kind": "person",
        "password": PASSWORD,
    }
    assert by_session(cast.alice).post("users", person).status_code == 201
    erin = User.objects.get(username="erin")
    browser = a_signed_in_browser(erin)
    assert browser.get("session").json()["user"]["must_change_password"] is True
    refused = browser.get("jobs")
    assert (refused.status_code, refused.json()["code"]) == (403, "password_change_required")
    body = {"name": "x", "scopes": ["read"], "expires_in_days": 1}
    assert browser.post("tokens", body).status_code == 403

    assert browser.post("password", a_change()).status_code == 200

    assert browser.get("session").json()["user"]["must_change_password"] is False
    assert browser.get("jobs").status_code == 200


def test_who_makes_a_person_may_say_that_the_password_stays() -> None:
    cast = a_cast()
    person = {
        "organization": "ai-company",
        "username": "erin",
        "name": "Erin",
        "kind": "person",
        "password": PASSWORD,
        "must_change_password": False,
    }
    assert by_session(cast.alice).post("users", person).json()["must_change_password"] is False


@pytest.mark.parametrize("minutes", [0, -1, 61])
def test_the_database_keeps_links_within_an_hour(minutes: int) -> None:
    cast = a_cast()
    with pytest.raises(IntegrityError, match="password_link_lives_an_hour"), transaction.atomic():
        PasswordLink.objects.create(
            user=cast.bob,
            digest=b"x" * 32,
            created_at=NOW,
            expires_at=NOW + timedelta(minutes=minutes),
        )
