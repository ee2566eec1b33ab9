"""Browser sessions over REST: listed with their browsers, and ended at once."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from audit.models import AuditEvent
from builders.api_callers import Caller, by_session, by_token
from builders.cast import Cast, a_cast
from live.publishing import person
from tenants.models import Session, User
from tenants.sessions import device_name
from tenants.signing_in import SESSIONS_MAX

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/143.0.0.0 Safari/537.36"
)


@pytest.fixture(autouse=True)
def fast_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def cast() -> Cast:
    cast = a_cast()
    for user in (cast.bob, cast.nlp_lead):
        user.set_password(PASSWORD)
        user.save()
    return cast


def signed_in(user: User, user_agent: str = FIREFOX, address: str = "192.0.2.7") -> Caller:
    """A browser that signed in with the password."""
    client = Client(enforce_csrf_checks=True, REMOTE_ADDR=address, HTTP_USER_AGENT=user_agent)
    caller = Caller({}, client)
    caller.get("session")
    csrf = client.cookies["csrftoken"].value
    answer = caller.post("session", {"login": user.login, "password": PASSWORD}, X_CSRFToken=csrf)
    return Caller({"X-CSRFToken": answer.json()["csrf_token"]}, client)


def own(caller: Caller, query: str = "") -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = caller.get(f"sessions{query}").json()["items"]
    return items


def test_the_own_sessions_are_listed_newest_first(cast: Cast) -> None:
    """Planted: `is_current` of every session; the key in the answer."""
    other = signed_in(cast.bob, CHROME, "198.51.100.4")
    browser = signed_in(cast.bob)
    signed_in(cast.nlp_lead)
    first, second = own(browser)
    assert (first["device"], first["address"], first["is_current"]) == (
        "Firefox on Linux",
        "192.0.2.7",
        True,
    )
    assert (second["device"], second["address"], second["is_current"]) == (
        "Chrome on Windows",
        "198.51.100.4",
        False,
    )
    assert {first["user"], second["user"]} == {"bob@ai-company"}
    assert first["user_agent"] == FIREFOX
    assert first["started_at"] == first["last_used_at"]
    lifetime = datetime.fromisoformat(first["expires_at"]) - datetime.fromisoformat(
        first["started_at"]
    )
    assert timedelta(hours=11, minutes=59) < lifetime < timedelta(hours=12, minutes=1)
    answer = other.get("sessions").content.decode()
    assert other.client.cookies["session"].value not in answer


def test_another_session_is_ended_at_once(cast: Cast) -> None:
    """Planted: an ended session whose next request brings it back."""
    stolen, browser = signed_in(cast.bob, CHROME), signed_in(cast.bob)
    ended = own(browser)[1]["id"]
    with CaptureQueriesContext(connection) as queries:
        assert browser.delete(f"sessions/{ended}").status_code == 204
    # Its sockets are checked at the commit.
    notices = [each["sql"] for each in queries if "pg_notify" in each["sql"]]
    assert any(person(cast.bob.pk) in notice for notice in notices)
    assert stolen.get("sessions").status_code == 401
    assert stolen.get("session").status_code == 401
    assert len(own(browser)) == 1
    assert browser.delete(f"sessions/{ended}").status_code == 404
    event = AuditEvent.objects.get(action="session_ended")
    assert (event.actor, event.subject_id, event.node_path) == (
        "bob@ai-company",
        ended,
        "ai-company/",
    )
    assert event.detail == {
        "user": "bob@ai-company",
        "device": "Chrome on Windows",
        "address": "192.0.2.7",
    }


def test_all_others_are_ended(cast: Cast) -> None:
    """Planted: an end of the session in use; an end of another person's sessions."""
    signed_in(cast.bob, CHROME)
    signed_in(cast.bob, CHROME)
    lead, browser = signed_in(cast.nlp_lead), signed_in(cast.bob)
    answer = browser.post("sessions/end", {})
    assert (answer.status_code, answer.json()) == (200, {"ended": 2})
    assert [each["is_current"] for each in own(browser)] == [True]
    assert len(own(lead)) == 1


def test_an_administrator_ends_all_sessions_of_another_person(cast: Cast) -> None:
    """Planted: a team lead may, too."""
    browser = signed_in(cast.bob)
    admin = by_session(cast.alice)
    (shown,) = own(admin, "?user=bob@ai-company")
    assert (shown["device"], shown["is_current"]) == ("Firefox on Linux", False)
    lead = signed_in(cast.nlp_lead)
    assert lead.get("sessions?user=bob@ai-company").status_code == 403
    assert lead.post("sessions/end", {"user": "bob@ai-company"}).status_code == 403
    assert lead.delete(f"sessions/{shown['id']}").status_code == 404
    charlie = by_session(cast.charlie)
    assert charlie.get("sessions?user=bob@ai-company").status_code == 404
    assert charlie.post("sessions/end", {"user": "bob@ai-company"}).status_code == 404
    answer = admin.post("sessions/end", {"user": "bob@ai-company"})
    assert answer.json() == {"ended": 1}
    assert browser.get("session").status_code == 401


def test_nobody_ends_sessions_of_a_person_with_more_rights(cast: Cast) -> None:
    """Planted: an end without the check of the owner's rights."""
    root = by_session(cast.root)
    (shown,) = own(root)
    assert by_session(cast.alice).delete(f"sessions/{shown['id']}").status_code == 404
    assert len(own(root)) == 1


def test_a_token_ends_sessions_with_the_scope_admin_only(cast: Cast) -> None:
    """Planted: a token with the scope read that ends a session."""
    browser = signed_in(cast.bob)
    (shown,) = own(by_token(cast.bob, ["read"]))
    assert shown["is_current"] is False
    for caller in (by_token(cast.bob, ["read"]), by_token(cast.bob, ["jobs", "quotas"])):
        assert caller.delete(f"sessions/{shown['id']}").status_code == 403
        assert caller.post("sessions/end", {}).status_code == 403
    assert browser.get("session").status_code == 200
    assert by_token(cast.bob, ["admin"]).post("sessions/end", {}).json() == {"ended": 1}


def test_a_change_of_the_password_ends_the_rows_of_other_sessions(cast: Cast) -> None:
    """Planted: rows of ended sessions that are still listed."""
    signed_in(cast.bob, CHROME)
    browser = signed_in(cast.bob)
    before = own(browser)[0]
    answer = browser.post(
        "password", {"old_password": PASSWORD, "new_password": "another long passphrase"}
    )
    assert answer.status_code == 200
    (shown,) = own(browser)
    assert shown["is_current"] is True
    assert shown["device"] == before["device"]
    assert shown["started_at"] == before["started_at"]


def test_a_deactivation_leaves_no_row(cast: Cast) -> None:
    """Planted: a deactivation that keeps the rows."""
    signed_in(cast.bob)
    by_session(cast.alice).patch(f"users/{cast.bob.pk}", {"is_active": False})
    assert not Session.objects.filter(user=cast.bob).exists()


def test_the_last_use_is_written_once_a_minute(cast: Cast) -> None:
    """Planted: a write at each request; no write at all."""
    browser = signed_in(cast.bob)
    rows = Session.objects.filter(user=cast.bob)
    now = rows.get().last_used_at
    assert now is not None
    recent, old = now - timedelta(seconds=30), now - timedelta(seconds=70)
    rows.update(started_at=old - timedelta(days=1), last_used_at=recent)
    browser.client.defaults["REMOTE_ADDR"] = "198.51.100.9"
    browser.get("session")
    assert (rows.get().last_used_at, rows.get().address) == (recent, "192.0.2.7")
    rows.update(last_used_at=old)
    browser.get("session")
    row = rows.get()
    assert row.last_used_at is not None
    assert row.last_used_at >= now
    assert row.address == "198.51.100.9"


def test_the_least_recently_used_of_many_sessions_ends(cast: Cast) -> None:
    """Planted: an unbounded number; the end of the newest."""
    at = datetime(2026, 11, 21, tzinfo=UTC)
    for number in range(SESSIONS_MAX):
        Session.objects.create(
            id=f"00000000-0000-7000-8000-{number:012}",
            session_key=f"key{number}",
            session_data="",
            expire_date=datetime(2199, 1, 1, tzinfo=UTC),
            user=cast.bob,
            started_at=at,
            last_used_at=at + timedelta(seconds=number),
        )
    signed_in(cast.bob)
    kept = Session.objects.filter(user=cast.bob)
    assert kept.count() == SESSIONS_MAX
    assert not kept.filter(session_key="key0").exists()
    assert kept.filter(session_key="key1").exists()


def test_signing_in_again_in_a_browser_ends_its_earlier_session(cast: Cast) -> None:
    """Planted: data of the earlier session that stay."""
    browser = signed_in(cast.bob)
    earlier = Session.objects.get(user=cast.bob).pk
    session = browser.client.session
    session["left"] = "behind"
    session.save()
    answer = browser.post("session", {"login": cast.bob.login, "password": PASSWORD})
    assert answer.status_code == 200
    assert "left" not in browser.client.session
    assert Session.objects.get(user=cast.bob).pk != earlier


def test_the_database_refuses_a_session_of_a_person_without_times(cast: Cast) -> None:
    with pytest.raises(IntegrityError, match="session_of_a_person_has_times"), transaction.atomic():
        Session.objects.create(
            id="00000000-0000-7000-8000-000000000001",
            session_key="key",
            session_data="",
            expire_date=datetime(2199, 1, 1, tzinfo=UTC),
            user=cast.bob,
        )


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (FIREFOX, "Firefox on Linux"),
        (CHROME, "Chrome on Windows"),
        (f"{CHROME} Edg/143.0.0.0", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0) Version/19.0 Safari/604.1", "Safari on iPhone"),
        ("python-httpx/0.28.1", "python-httpx"),
        ("", "Unknown browser"),
    ],
)
def test_a_browser_is_named_by_its_header(user_agent: str, name: str) -> None:
    assert device_name(user_agent) == name


def test_no_query_is_needed_for_whose_session_it_is(cast: Cast) -> None:
    """Against: a query per listed session."""
    browser = signed_in(cast.bob)
    for _ in range(3):
        signed_in(cast.bob)
    with CaptureQueriesContext(connection) as few:
        assert len(own(browser, "?limit=1")) == 1
    with CaptureQueriesContext(connection) as many:
        assert len(own(browser)) == 4
    assert len(many) == len(few)
