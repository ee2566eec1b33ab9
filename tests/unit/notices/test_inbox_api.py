"""The inbox over REST: its filters, its count, and marking as read."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from builders.api_callers import by_token
from builders.cast import Cast, a_cast
from builders.hints import hints_told
from builders.notice_builders import a_notice
from builders.portal_builders import NOW
from live.publishing import person
from notices.models import Notice

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast() -> Cast:
    return a_cast()


def sentences(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [item["sentence"] for item in answer.json()["items"]]


def test_a_person_reads_the_own_notices_newest_first(cast: Cast) -> None:
    """An administrator does not read those of others. Planted: rows of all users."""
    a_notice(cast.bob, "1", sentence="first")
    a_notice(cast.bob, "2", sentence="second")
    assert sentences(by_token(cast.bob).get("notices")) == ["second", "first"]
    assert sentences(by_token(cast.alice).get("notices")) == []
    assert sentences(by_token(cast.bob, ["read"]).get("notices")) == ["second", "first"]


def test_a_notice_has_these_members(cast: Cast) -> None:
    notice = a_notice(cast.bob, deadline=NOW)
    (item,) = by_token(cast.bob).get("notices").json()["items"]
    assert item == {
        "id": str(notice.pk),
        "event": "job_failed",
        "subject_kind": "job",
        "subject_id": "1",
        "sentence": "bert failed.",
        "link": "/jobs/1",
        "at": "2026-11-21T12:00:00Z",
        "deadline": "2026-11-21T12:00:00Z",
        "read_at": None,
        "figures": [],
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?unread=true", ["budget"]),
        ("?event=job_failed", ["job"]),
        ("?event=job_failed,budget_alert", ["budget", "job"]),
        ("?subject_kind=budget", ["budget"]),
        ("?subject_kind=job&subject_id=7", ["job"]),
        ("?subject_id=8", []),
        ("?limit=1", ["budget"]),
    ],
)
def test_filters(cast: Cast, query: str, expected: list[str]) -> None:
    a_notice(cast.bob, "1", sentence="job", subject_id="7", read_at=NOW)
    a_notice(cast.bob, "2", sentence="budget", event="budget_alert", subject_kind="budget")
    assert sentences(by_token(cast.bob).get(f"notices{query}")) == expected


def test_pages_follow_each_other(cast: Cast) -> None:
    for number in range(3):
        a_notice(cast.bob, str(number), sentence=str(number))
    first = by_token(cast.bob).get("notices?limit=2").json()
    assert [item["sentence"] for item in first["items"]] == ["2", "1"]
    following = first["next"].removeprefix("/api/v1/")
    assert sentences(by_token(cast.bob).get(following)) == ["0"]


def test_an_unknown_event_is_refused(cast: Cast) -> None:
    answer = by_token(cast.bob).get("notices?event=birthday")
    assert answer.status_code == 400
    assert "job_started" in answer.json()["detail"]


def unread(cast: Cast) -> int:
    count: int = by_token(cast.bob).get("notices/unread").json()["unread"]
    return count


def test_a_notice_is_read_once(cast: Cast) -> None:
    """Repeating it changes nothing and gives no hint. Planted: a second time of reading."""
    notice = a_notice(cast.bob)
    a_notice(cast.bob, "other")
    caller = by_token(cast.bob)
    with hints_told() as hints:
        read = caller.post(f"notices/{notice.pk}/read", None)
        again = caller.post(f"notices/{notice.pk}/read", None)
    assert read.status_code == again.status_code == 200
    assert read.json()["read_at"] is not None
    assert read.json() == again.json()
    assert unread(cast) == 1
    assert hints == [{"topic": "notices", "ids": [], "to": person(cast.bob.pk)}]


def test_all_notices_up_to_one_are_read(cast: Cast) -> None:
    """A notice that arrived meanwhile stays unread. Planted: all are marked."""
    a_notice(cast.bob, "1")
    seen = a_notice(cast.bob, "2")
    a_notice(cast.bob, "3")
    a_notice(cast.alice, "hers")
    answer = by_token(cast.bob).post("notices/read", {"through": str(seen.pk)})
    assert (answer.status_code, answer.json()) == (200, {"unread": 1})
    assert by_token(cast.bob).post("notices/read", {}).json() == {"unread": 0}
    assert Notice.objects.filter(read_at=None).get().user == cast.alice


def test_nobody_marks_the_notice_of_another_person(cast: Cast) -> None:
    notice = a_notice(cast.bob)
    assert by_token(cast.alice).post(f"notices/{notice.pk}/read", None).status_code == 404
    assert by_token(cast.bob).post(f"notices/{uuid4()}/read", None).status_code == 404
    assert unread(cast) == 1


@pytest.mark.parametrize("scopes", [["read"], ["reports"], []])
def test_a_token_that_only_reads_marks_nothing(cast: Cast, scopes: list[str]) -> None:
    """Planted: the refusal left out."""
    notice = a_notice(cast.bob)
    caller = by_token(cast.bob, scopes)
    assert caller.post("notices/read", {}).status_code == 403
    assert caller.post(f"notices/{notice.pk}/read", None).status_code == 403
    assert unread(cast) == 1


def test_a_token_without_a_scope_to_read_shows_nothing(cast: Cast) -> None:
    a_notice(cast.bob)
    caller = by_token(cast.bob, [])
    assert sentences(caller.get("notices")) == []
    assert caller.get("notices/unread").json() == {"unread": 0}
