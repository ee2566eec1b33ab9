"""Device logins (RFC 8628): a code in the terminal, a decision in the browser, one token."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from audit.models import AuditEvent
from builders.api_callers import Caller, as_nobody, by_session, by_token, with_secret
from builders.cast import Cast, a_cast
from builders.portal_builders import NOW
from identity import device_logins
from identity.device_logins import (
    CODE_LETTERS,
    DeviceLoginExpired,
    DeviceLoginPending,
    PollsTooFast,
    decide_device_login,
    poll_device_login,
    start_device_login,
)
from identity.models import DeviceLogin
from primitives.errors import PortalError, TooManyRequests
from tenants.access import actor_of
from tenants.models import AccessToken
from tenants.roles import Scope
from tenants.vouched_people import end_earlier_access

pytestmark = pytest.mark.django_db

BODY = {"host": "login-node-2", "scopes": ["jobs", "read"], "token_days": 30}


@pytest.fixture
def cast() -> Cast:
    """The people of ai-company and rival-lab."""
    return a_cast()


def started(caller: Caller | None = None, **changes: Any) -> dict[str, Any]:
    answer = (caller or as_nobody()).post("device-logins", {**BODY, **changes})
    assert answer.status_code == 201
    body: dict[str, Any] = answer.json()
    return body


def polled(device_code: str) -> Any:
    return as_nobody().post("device-logins/token", {"device_code": device_code})


def a_login(at: datetime = NOW, address: str = "192.0.2.1") -> str:
    """The device code of a login that was started at this time."""
    return start_device_login(
        host="h", scopes=[Scope.READ], token_days=1, address=address, now=at
    ).device_code


def test_an_approved_login_gets_one_token_of_limited_life(cast: Cast) -> None:
    """Planted: a second token for the same code; a token of the asked scopes and admin."""
    login = started()
    assert (login["expires_in"], login["interval"]) == (600, 5)
    assert login["verification_uri"] == "http://testserver/device"
    assert login["verification_uri_complete"].endswith(f"/device?code={login['user_code']}")
    first, _, second = login["user_code"].partition("-")
    assert (len(first), len(second)) == (4, 4)
    assert set(first + second) <= set(CODE_LETTERS)
    waiting = polled(login["device_code"])
    assert (waiting.status_code, waiting.json()["code"]) == (400, "authorization_pending")
    bob = by_session(cast.bob)
    shown = bob.get(f"device-logins/{login['user_code'].lower()}").json()
    times = [datetime.fromisoformat(shown.pop(name)) for name in ("created_at", "expires_at")]
    assert times[1] - times[0] == timedelta(minutes=10)
    assert shown == {
        "user_code": login["user_code"],
        "host": "login-node-2",
        "address": "127.0.0.1",
        "is_own_address": True,
        "scopes": ["jobs", "read"],
        "token_days": 30,
    }
    assert bob.post(f"device-logins/{login['user_code']}/approve", {}).status_code == 200
    answer = polled(login["device_code"])
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    token = AccessToken.objects.get()
    assert (token.user, token.name, token.scopes) == (
        cast.bob,
        "login on login-node-2",
        ["jobs", "read"],
    )
    assert token.expires_at - token.created_at == timedelta(days=30)
    secret = answer.json()["secret"]
    assert with_secret(secret).get("session").json()["user"]["login"] == "bob@ai-company"
    again = polled(login["device_code"])
    assert (again.status_code, again.json()["code"]) == (400, "expired_token")
    assert AccessToken.objects.count() == 1
    event = AuditEvent.objects.get(action="device_login_approved")
    assert (event.actor, event.node_path) == ("bob@ai-company", "ai-company/")
    assert event.detail == {
        "host": "login-node-2",
        "address": "127.0.0.1",
        "scopes": ["jobs", "read"],
        "token_days": 30,
    }
    assert login["device_code"] not in str(list(AuditEvent.objects.values()))


def test_a_refused_login_gets_none(cast: Cast) -> None:
    """Planted: a refusal that approves."""
    login = started()
    address = f"device-logins/{login['user_code']}"
    assert by_session(cast.bob).post(f"{address}/refuse", {}).status_code == 200
    assert polled(login["device_code"]).json()["code"] == "access_denied"
    assert polled(login["device_code"]).json()["code"] == "expired_token"
    assert not AccessToken.objects.exists()
    assert AuditEvent.objects.filter(action="device_login_refused").count() == 1


def test_a_decided_login_is_decided_once(cast: Cast) -> None:
    """Planted: an approval by a second person, whose token the machine then gets."""
    login = started()
    address = f"device-logins/{login['user_code']}"
    assert by_session(cast.bob).post(f"{address}/approve", {}).status_code == 200
    lead = by_session(cast.nlp_lead)
    assert lead.get(address).status_code == 404
    assert lead.post(f"{address}/approve", {}).status_code == 404
    assert polled(login["device_code"]).json()["user"] == "bob@ai-company"


def test_only_a_browser_session_decides(cast: Cast) -> None:
    """Planted: a token that approves a token with more rights."""
    address = f"device-logins/{started()['user_code']}"
    for caller in (by_token(cast.bob, ["read"]), by_token(cast.alice, ["admin"])):
        assert caller.get(address).status_code == 403
        assert caller.post(f"{address}/approve", {}).status_code == 403
        assert caller.post("device-logins", BODY).status_code == 409
        assert caller.post("device-logins/token", {"device_code": "x"}).status_code == 409
    assert as_nobody().get(address).status_code == 401
    assert DeviceLogin.objects.get().decided_at is None


def test_a_deactivated_person_approves_nothing_for_later(cast: Cast) -> None:
    """Planted: a token of an account that was deactivated after its approval."""
    login = started()
    by_session(cast.bob).post(f"device-logins/{login['user_code']}/approve", {})
    by_session(cast.alice).patch(f"users/{cast.bob.pk}", {"is_active": False})
    answer = polled(login["device_code"])
    assert (answer.status_code, answer.json()["code"]) == (400, "expired_token")
    assert not AccessToken.objects.exists()


@pytest.mark.parametrize("end", ["sessions", "earlier access", "logout"])
def test_an_approval_ends_with_its_session(cast: Cast, end: str) -> None:
    """Against: a token of a thief's approval after the owner ended all sessions."""
    login, other = started(), started()
    thief = by_session(cast.bob)
    thief.post(f"device-logins/{login['user_code']}/approve", {})
    bob = by_session(cast.bob)
    bob.post(f"device-logins/{other['user_code']}/approve", {})
    if end == "sessions":
        assert bob.post("sessions/end", {}).status_code == 200
    elif end == "earlier access":
        with transaction.atomic():
            end_earlier_access(cast.bob, now=NOW)
    else:
        thief.client.logout()
    refused = polled(login["device_code"])
    assert (refused.status_code, refused.json()["code"]) == (400, "expired_token")
    assert polled(other["device_code"]).status_code == (400 if end == "earlier access" else 200)


def test_polls_that_come_too_early_make_the_interval_longer() -> None:
    """Planted: an interval that stays; a note that the refusal rolls back."""
    code = a_login()

    def refused(after_s: int) -> type[PortalError]:
        with pytest.raises(PortalError) as caught:
            poll_device_login(device_code=code, now=NOW + timedelta(seconds=after_s))
        return type(caught.value)

    assert refused(0) is DeviceLoginPending
    assert refused(4) is PollsTooFast
    # 10 s from now on.
    assert refused(10) is PollsTooFast
    # 15 s.
    assert refused(25) is DeviceLoginPending
    assert DeviceLogin.objects.get().interval_s == 15


def test_a_login_expires_after_ten_minutes(cast: Cast) -> None:
    """Planted: a code that is approved after its end."""
    code = a_login()
    with pytest.raises(DeviceLoginExpired):
        poll_device_login(device_code=code, now=NOW + timedelta(minutes=10))
    began = datetime(2001, 1, 1, tzinfo=UTC)
    DeviceLogin.objects.update(created_at=began, expires_at=began + timedelta(minutes=10))
    address = f"device-logins/{DeviceLogin.objects.get().user_code}"
    assert by_session(cast.bob).get(address).status_code == 404
    assert by_session(cast.bob).post(f"{address}/approve", {}).status_code == 404


def test_wrong_codes_make_a_person_wait(cast: Cast) -> None:
    """Planted: guesses that a right code forgives; wrong approvals that are not counted."""
    own = started()["user_code"]
    bob = by_session(cast.bob)
    for number in range(4):
        assert bob.get(f"device-logins/BBBB-BBB{CODE_LETTERS[number]}").status_code == 404
        assert bob.get(f"device-logins/{own}").status_code == 200
    assert bob.post("device-logins/BBBB-BBBZ/approve", {}).status_code == 404
    answer = bob.get(f"device-logins/{own}")
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
    assert by_session(cast.nlp_lead).get(f"device-logins/{own}").status_code == 200


def test_starts_from_one_source_are_bounded() -> None:
    """Planted: logins without a bound."""
    for _ in range(20):
        a_login()
    with pytest.raises(TooManyRequests):
        a_login()
    assert a_login(address="198.51.100.1")


def test_an_approved_start_does_not_count(cast: Cast) -> None:
    """Against: a busy network that waits although each login was approved."""
    for _ in range(21):
        a_login()
        code = DeviceLogin.objects.get(decided_at=None).user_code
        decide_device_login(
            actor=actor_of(cast.bob), session_id=None, user_code=code, is_approved=True, now=NOW
        )
    assert DeviceLogin.objects.count() == 21


def test_the_oldest_undecided_login_makes_room(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: starts of anybody that refuse the login of everybody; a dropped approval."""
    monkeypatch.setattr(device_logins, "OPEN_MAX", 2)
    for second in range(2):
        a_login(NOW + timedelta(seconds=second))
    old, kept = DeviceLogin.objects.order_by("created_at")
    approve = {"user": cast.bob, "decided_at": NOW, "is_approved": True}
    DeviceLogin.objects.filter(pk=old.pk).update(**approve)
    a_login(NOW + timedelta(seconds=2))
    left = DeviceLogin.objects.order_by("created_at")
    assert [(each.created_at - NOW).seconds for each in left] == [0, 2]
    assert kept not in left
    DeviceLogin.objects.update(**approve)
    with pytest.raises(TooManyRequests, match="Too many approved logins are open"):
        a_login(NOW + timedelta(seconds=3))


def test_ended_logins_are_deleted_by_the_next_start() -> None:
    """Planted: rows that stay for ever."""
    a_login()
    a_login(at=NOW + timedelta(minutes=10))
    assert DeviceLogin.objects.count() == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"host": ""},
        {"host": "x" * 81},
        {"host": "a\x1b[31mb"},
        {"scopes": []},
        {"scopes": ["everything"]},
        {"token_days": 0},
        {"token_days": 91},
        {"more": 1},
    ],
)
def test_bad_starts_are_refused(changes: dict[str, Any]) -> None:
    assert as_nobody().post("device-logins", {**BODY, **changes}).status_code == 400
    assert not DeviceLogin.objects.exists()


def test_the_address_of_another_machine_is_pointed_out(cast: Cast) -> None:
    """Planted: an address that is always called the reader's own."""
    machine = Caller({}, Client(REMOTE_ADDR="198.51.100.20"))
    code = started(machine)["user_code"]
    shown = by_session(cast.bob).get(f"device-logins/{code}").json()
    assert (shown["address"], shown["is_own_address"]) == ("198.51.100.20", False)


def test_unknown_addresses_are_not_the_same(cast: Cast) -> None:
    """Against: an own address where neither address is known."""
    code = started(Caller({}, Client(REMOTE_ADDR="")))["user_code"]
    bob = by_session(cast.bob)
    bob.client.defaults["REMOTE_ADDR"] = ""
    shown = bob.get(f"device-logins/{code}").json()
    assert (shown["address"], shown["is_own_address"]) == ("", False)


def test_the_database_bounds_the_life_and_names_who_decided(cast: Cast) -> None:
    a_login()
    for constraint, values in {
        "identity_device_login_lives_ten_minutes": {"expires_at": NOW + timedelta(minutes=11)},
        "identity_device_login_decided_by_a_person": {"is_approved": True},
    }.items():
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            DeviceLogin.objects.update(**values)
