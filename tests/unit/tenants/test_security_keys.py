"""Security keys over REST, with a key made of software: registration, sign-in, and forgeries."""

from __future__ import annotations

from typing import Any

import pytest

from audit.models import AuditEvent
from builders.browsers import PASSWORD, a_signed_in_browser, give_password
from builders.cast import Cast, a_cast
from builders.factor_builders import an_app, first_step
from builders.portal_builders import NOW
from builders.software_key import SoftwareKey
from tenants.models import RecoveryCode, SecurityKey, SignInPolicy

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fast_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.ALLOWED_HOSTS = ["localhost", "testserver"]


@pytest.fixture
def cast() -> Cast:
    cast = a_cast()
    give_password(cast.bob)
    return cast


def add(browser: Any, key: SoftwareKey, name: str = "blue key", **forged: Any) -> Any:
    """The answer to the registration of a key."""
    options = browser.post("second-factors/security-key", {}, Host="localhost").json()["options"]
    body = {"name": name, "credential": key.registration(options, **forged)}
    return browser.post("second-factors/security-key/confirm", body, Host="localhost")


def challenge(browser: Any) -> dict[str, Any]:
    """The challenge of the second step."""
    answer = browser.post("session/security-key", {}, Host="localhost")
    assert answer.status_code == 200, answer.content
    options: dict[str, Any] = answer.json()["options"]
    return options


def send(browser: Any, credential: dict[str, Any]) -> Any:
    """The answer to a key's answer."""
    return browser.post(
        "session/security-key/confirm", {"credential": credential}, Host="localhost"
    )


def test_a_key_is_added_and_signs_in(cast: Cast) -> None:
    """Against: a password that is enough beside a key; a sign-in without the password."""
    key = SoftwareKey()
    browser = a_signed_in_browser(cast.bob)
    added = add(browser, key)
    assert (added.status_code, len(added.json()["recovery_codes"])) == (200, 10)
    (shown,) = browser.get("second-factors").json()["security_keys"]
    assert (shown["name"], shown["last_used_at"]) == ("blue key", None)
    assert AuditEvent.objects.get(action="second_factor_added").detail["kind"] == "security_key"

    step, answer = first_step(cast.bob)
    assert answer.json()["code"] == "second_factor_required"
    options = challenge(step)
    assert [each["id"] for each in options["allowCredentials"]] == [key.shown_id]
    signed_in = send(step, key.answer(options))
    assert (signed_in.status_code, signed_in.json()["user"]["login"]) == (200, "bob@ai-company")
    assert AuditEvent.objects.filter(
        action="signed_in", detail={"second_factor": "security_key"}
    ).exists()
    assert SecurityKey.objects.get().sign_count == 1
    nobody, _ = first_step(cast.bob, "wrong horse battery staple")
    assert nobody.post("session/security-key", {}, Host="localhost").status_code == 401


@pytest.mark.parametrize(
    "forged",
    [
        {"origin": "https://evil.example"},
        {"challenge": b"another challenge of 32 bytes ..."},
        {"host": "evil.example"},
        {"is_present": False},
    ],
    ids=["another site", "another challenge", "another host", "nobody there"],
)
def test_forged_answers_are_refused(cast: Cast, forged: dict[str, Any]) -> None:
    """Against: an answer that a page of another site got from the key."""
    key = SoftwareKey()
    browser = a_signed_in_browser(cast.bob)
    refused = add(browser, key, **forged)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/credential")
    assert add(browser, key).status_code == 200
    step, _ = first_step(cast.bob)
    assert send(step, key.answer(challenge(step), **forged)).status_code == 401
    assert send(step, {}).status_code == 401


def test_an_answer_works_once_and_a_copied_key_is_noticed(cast: Cast) -> None:
    """Planted: a counter that nobody compares. Against: a challenge that stays."""
    key = SoftwareKey()
    add(a_signed_in_browser(cast.bob), key)
    step, _ = first_step(cast.bob)
    used = key.answer(challenge(step))
    assert send(step, used).status_code == 200
    again, _ = first_step(cast.bob)
    assert send(again, used).status_code == 401
    key.counter = 0
    assert send(again, key.answer(challenge(again))).status_code == 401
    # A forged answer uses its challenge up.
    key.counter = 5
    options = challenge(again)
    assert send(again, key.answer(options, is_present=False)).status_code == 401
    assert send(again, key.answer(options)).status_code == 401
    assert send(again, key.answer(challenge(again))).status_code == 200


def test_a_key_of_another_person_is_none(cast: Cast) -> None:
    """Against: keys looked up by their id alone."""
    mine, other = SoftwareKey(), SoftwareKey()
    add(a_signed_in_browser(cast.bob), mine)
    give_password(cast.alice)
    alice = a_signed_in_browser(cast.alice)
    assert add(alice, mine).status_code == 409
    assert add(alice, other).status_code == 200
    step, _ = first_step(cast.bob)
    assert send(step, other.answer(challenge(step))).status_code == 401


def test_the_last_factor_stays_where_it_is_required(cast: Cast) -> None:
    """Planted: the last factor that its owner removes."""
    key = SoftwareKey()
    browser = a_signed_in_browser(cast.bob)
    add(browser, key)
    SignInPolicy.objects.create(organization=cast.organization, requires_second_factor=True)
    address = f"second-factors/{SecurityKey.objects.get().pk}/remove"
    assert browser.post(address, {"proof": PASSWORD}).status_code == 409
    an_app(cast.bob, at=NOW)
    assert browser.post(address, {"proof": PASSWORD}).status_code == 204
    assert RecoveryCode.objects.count() == 10
    assert AuditEvent.objects.get(action="second_factor_removed").detail["kind"] == "security_key"


def test_a_person_has_ten_keys_at_most(cast: Cast) -> None:
    browser = a_signed_in_browser(cast.bob)
    for number in range(10):
        assert add(browser, SoftwareKey(), f"key {number}").status_code == 200
    assert browser.post("second-factors/security-key", {}).status_code == 409
