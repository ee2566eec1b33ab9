"""The choices of a person over REST, and the log of mails."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.cast import Cast, a_cast
from builders.notice_builders import a_notice
from builders.portal_builders import NOW
from notices.mail_models import ChannelChoice, Mail
from notices.models import NoticeEvent

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast() -> Cast:
    return a_cast()


def changed(cast: Cast, body: dict[str, Any], version: int = 1) -> Any:
    return by_token(cast.bob).patch("notices/preferences", body, If_Match=f'"v{version}"')


def channels(answer: Any, event: str) -> tuple[bool, bool]:
    assert answer.status_code == 200, answer.content
    (found,) = [each for each in answer.json()["events"] if each["event"] == event]
    return found["portal"], found["mail"]


def test_a_person_who_chose_nothing_has_the_defaults(cast: Cast) -> None:
    answer = by_token(cast.bob).get("notices/preferences")
    body = answer.json()
    events = body.pop("events")
    assert body == {
        "version": 1,
        "email": "",
        "is_mail_configured": False,
        "time_zone": "UTC",
        "digest": "none",
        "quiet_hours": None,
    }
    assert answer.headers["ETag"] == '"v1"'
    assert [each["event"] for each in events] == NoticeEvent.values
    assert all(each["portal"] for each in events)
    assert [each["event"] for each in events if not each["mail"]] == [
        "job_started",
        "job_ended",
        "job_requeued",
        "start_slipped",
        "team_preempted",
        "quota_changed",
    ]


def test_a_choice_is_stored_only_where_it_differs(cast: Cast) -> None:
    """Against: a row for each choice; the row of an earlier choice stays."""
    answer = changed(
        cast,
        {
            "events": [
                {"event": "job_started", "mail": True},
                {"event": "job_failed", "portal": False, "mail": True},
            ]
        },
    )
    assert channels(answer, "job_started") == (True, True)
    assert channels(answer, "job_failed") == (False, True)
    rows = ChannelChoice.objects.order_by("event")
    assert list(rows.values_list("event", "channel", "is_on")) == [
        ("job_failed", "portal", False),
        ("job_started", "mail", True),
    ]
    back = changed(cast, {"events": [{"event": "job_started", "mail": False}]}, version=2)
    assert channels(back, "job_started") == (True, False)
    assert ChannelChoice.objects.get().event == "job_failed"


def test_times_are_changed_and_audited(cast: Cast) -> None:
    """Against: a missing field is set to its default."""
    changed(cast, {"time_zone": "Europe/Berlin", "quiet_hours": {"start": "22:00", "end": "07:30"}})
    answer = changed(cast, {"digest": "daily"}, version=2)
    body = answer.json()
    assert (body["version"], body["time_zone"], body["digest"]) == (3, "Europe/Berlin", "daily")
    assert body["quiet_hours"] == {"start": "22:00", "end": "07:30"}
    event = AuditEvent.objects.filter(action="notice_preferences.changed").earliest("pk")
    assert (event.actor, event.detail) == (
        cast.bob.login,
        {"time_zone": "Europe/Berlin", "quiet_from": 1320, "quiet_until": 450, "events": {}},
    )
    assert changed(cast, {"quiet_hours": None}, version=3).json()["quiet_hours"] is None


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"time_zone": "Mars/Olympus"}, "time_zone"),
        ({"quiet_hours": {"start": "22:00", "end": "22:00"}}, "end at another time"),
        ({"quiet_hours": {"start": "24:00", "end": "22:00"}}, "start"),
        ({"events": [{"event": "birthday"}]}, "event"),
        ({"digest": "weekly"}, "digest"),
        ({"fax": True}, "fax"),
    ],
)
def test_bad_choices_are_refused(cast: Cast, body: dict[str, Any], sentence: str) -> None:
    answer = changed(cast, body)
    assert answer.status_code == 400
    assert sentence in answer.content.decode()
    assert by_token(cast.bob).get("notices/preferences").json()["version"] == 1


def test_a_change_names_its_version(cast: Cast) -> None:
    """The refusal shows the current choices. Against: the version is not compared."""
    assert by_token(cast.bob).patch("notices/preferences", {}).status_code == 428
    changed(cast, {"digest": "hourly"})
    stale = changed(cast, {"digest": "daily"})
    assert (stale.status_code, stale.json()["current"]["digest"]) == (412, "hourly")


def test_a_token_that_only_reads_changes_nothing(cast: Cast) -> None:
    """Against: the refusal left out."""
    caller = by_token(cast.bob, ["read"])
    answer = caller.patch("notices/preferences", {"digest": "daily"}, If_Match='"v1"')
    assert answer.status_code == 403
    assert caller.get("notices/preferences").json()["digest"] == "none"


def test_an_event_that_is_off_in_the_portal_is_not_listed(cast: Cast) -> None:
    """Nor is it counted. Against: hidden notices are listed."""
    a_notice(cast.bob, "1", is_shown=False)
    seen = a_notice(cast.bob, "2")
    items = by_token(cast.bob).get("notices").json()["items"]
    assert [item["id"] for item in items] == [str(seen.pk)]
    assert by_token(cast.bob).get("notices/unread").json() == {"unread": 1}


def test_mails_are_listed_to_their_person(cast: Cast) -> None:
    """Newest first, with the answer of the server. Against: mails of all people."""
    common = {"notice_count": 1, "created_at": NOW, "next_at": NOW + timedelta(minutes=5)}
    Mail.objects.create(user=cast.bob, subject="waits", error="451 busy", attempts=1, **common)
    Mail.objects.create(
        user=cast.bob, subject="sent", state="sent", attempts=1, ended_at=NOW, **common
    )
    Mail.objects.create(user=cast.alice, subject="hers", **common)
    items = by_token(cast.bob).get("notices/mails").json()["items"]
    assert [(one["subject"], one["state"], one["next_at"], one["error"]) for one in items] == [
        ("sent", "sent", None, ""),
        ("waits", "pending", "2026-11-21T12:05:00Z", "451 busy"),
    ]
    waiting = by_token(cast.bob).get("notices/mails?state=pending").json()["items"]
    assert [one["subject"] for one in waiting] == ["waits"]
