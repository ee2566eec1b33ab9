"""Announcements over REST: who reads, makes, changes and removes them, and when they are shown."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.cast import Cast, a_cast
from builders.notice_builders import an_announcement
from builders.portal_builders import NOW, a_cluster
from notices.announcement_models import Announcement
from notices.announcements import OF_A_PLACE_MAX, current
from notices.retention import KEPT_FOR, drop_old_announcements

pytestmark = pytest.mark.django_db

NLP = "ai-company/research/nlp"
HOUR = timedelta(hours=1)


@pytest.fixture
def cast() -> Cast:
    return a_cast()


def texts(cast_user: Any, query: str = "") -> list[str]:
    found = by_token(cast_user).get(f"announcements{query}").json()["items"]
    return [each["text"] for each in found]


def test_a_lead_announces_something_of_the_team(cast: Cast) -> None:
    """The audit log has it, too. Against: an announcement that starts at no time."""
    body = {"text": "Rack 4 is moved.", "level": "warning", "node": NLP}
    answer = by_token(cast.nlp_lead).post("announcements", body)
    assert answer.status_code == 201, answer.content
    made = Announcement.objects.get()
    assert answer.json() == {
        "id": str(made.pk),
        "version": 1,
        "node": NLP,
        "cluster": None,
        "level": "warning",
        "text": "Rack 4 is moved.",
        "start": f"{made.made_at:%Y-%m-%dT%H:%M:%SZ}",
        "end": None,
        "made_by": cast.nlp_lead.login,
        "can_change": True,
    }
    event = AuditEvent.objects.get(action="announcement.created")
    assert (event.node_path, event.detail) == (cast.nlp.path, {"text": "Rack 4 is moved."})


def test_people_at_above_and_below_the_node_read_it(cast: Cast) -> None:
    """Nobody of a sibling department or another organization. Against: all members read all."""
    an_announcement(text="nlp", node=cast.nlp)
    an_announcement(text="research", node=cast.research)
    an_announcement(text="all")
    both = ["all", "research", "nlp"]
    readers = (cast.alice, cast.research_admin, cast.bob, cast.production_admin, cast.charlie)
    assert [texts(reader) for reader in readers] == [both, both, both, ["all"], ["all"]]


def test_only_administrators_of_the_platform_announce_to_everybody(cast: Cast) -> None:
    """The same of a cluster. Against: every administrator of an organization."""
    a_cluster("kube-b")
    for body in ({"text": "x"}, {"text": "x", "cluster": "kube-b"}):
        assert by_token(cast.alice).post("announcements", body).status_code == 403
        assert by_token(cast.root).post("announcements", body).status_code == 201
    assert texts(cast.charlie) == ["x", "x"]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"cluster": "none"}, 404),
        ({"node": NLP, "cluster": "local"}, 400),
        ({"start": "2026-11-21T12:00:00Z", "end": "2026-11-21T12:00:00Z"}, 400),
        ({"text": " "}, 400),
        ({"text": "a\u202eb"}, 400),
        ({"level": "loud"}, 400),
    ],
)
def test_what_is_refused(cast: Cast, changes: dict[str, str], status: int) -> None:
    answer = by_token(cast.root).post("announcements", {"text": "x", **changes})
    assert answer.status_code == status, answer.content
    assert not Announcement.objects.exists()


def test_a_place_has_a_bound(cast: Cast) -> None:
    """Against: the announcements of other nodes count."""
    for number in range(OF_A_PLACE_MAX):
        an_announcement(text=str(number), node=cast.nlp)
    caller = by_token(cast.research_admin)
    assert caller.post("announcements", {"text": "x", "node": NLP}).status_code == 409
    assert caller.post("announcements", {"text": "x", "node": "research"}).status_code == 201


def test_ended_announcements_leave_the_bound(cast: Cast) -> None:
    """Planted: they count for ever."""
    for number in range(OF_A_PLACE_MAX):
        an_announcement(text=str(number), node=cast.nlp, start=NOW - HOUR, end=NOW)
    caller = by_token(cast.research_admin)
    assert caller.post("announcements", {"text": "x", "node": NLP}).status_code == 201


def test_an_ended_one_comes_back_only_within_the_bound(cast: Cast) -> None:
    """A change of the text stays possible. Planted: a new end is not counted (200)."""
    ended = an_announcement(text="old", node=cast.nlp, start=NOW - HOUR, end=NOW)
    for number in range(OF_A_PLACE_MAX):
        an_announcement(text=str(number), node=cast.nlp)
    caller, path = by_token(cast.research_admin), f"announcements/{ended.pk}"
    assert caller.patch(path, {"end": None}, If_Match='"v1"').status_code == 409
    assert caller.patch(path, {"text": "older"}, If_Match='"v1"').status_code == 200
    Announcement.objects.filter(text="0").delete()
    assert caller.patch(path, {"end": None}, If_Match='"v2"').status_code == 200


def test_announcements_go_ninety_days_after_their_end(cast: Cast) -> None:
    """Planted: those without an end go, too; the moment itself."""
    an_announcement(text="old", start=NOW - 2 * HOUR, end=NOW - HOUR)
    an_announcement(text="ended", start=NOW - HOUR, end=NOW)
    an_announcement(text="shown", start=NOW - HOUR)
    assert drop_old_announcements(NOW + KEPT_FOR) == 1
    assert set(Announcement.objects.values_list("text", flat=True)) == {"ended", "shown"}


def test_it_is_shown_from_its_start_until_before_its_end(cast: Cast) -> None:
    """Against: the second of the end is shown."""
    an_announcement(text="x", start=NOW, end=NOW + HOUR)
    moments = (NOW - timedelta(seconds=1), NOW, NOW + HOUR - timedelta(seconds=1), NOW + HOUR)
    rows = Announcement.objects.all()
    assert [current(rows, moment).count() for moment in moments] == [0, 1, 1, 0]
    assert texts(cast.bob, "?current=true") == []


def test_a_change_needs_the_version_that_was_seen(cast: Cast) -> None:
    made = an_announcement(text="x", node=cast.nlp)
    caller, path = by_token(cast.nlp_lead), f"announcements/{made.pk}"
    assert caller.patch(path, {"text": "y"}).status_code == 428
    assert caller.patch(path, {"text": "y"}, If_Match='"v1"').json()["text"] == "y"
    assert caller.patch(path, {"text": "z"}, If_Match='"v1"').status_code == 412
    refused = caller.patch(path, {"end": "2026-11-01T00:00:00Z"}, If_Match='"v2"')
    assert refused.status_code == 400


def test_a_reader_may_not_remove_it(cast: Cast) -> None:
    made = an_announcement(text="x", node=cast.nlp)
    path = f"announcements/{made.pk}"
    assert by_token(cast.bob).delete(path).status_code == 403
    assert by_token(cast.charlie).delete(path).status_code == 404
    assert by_token(cast.alice).delete(path).status_code == 204
    assert not Announcement.objects.exists()


@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        ({"text": ""}, "announcement_has_a_text"),
        ({"level": "loud"}, "announcement_level_is_known"),
        ({"end": NOW}, "announcement_ends_later"),
        ({"node": True, "cluster": True}, "announcement_has_one_place"),
    ],
)
def test_the_database_refuses(cast: Cast, changes: dict[str, Any], constraint: str) -> None:
    if "node" in changes:
        changes = {"node": cast.nlp, "cluster": a_cluster("kube-b")}
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        an_announcement(**{"text": "x", **changes})
