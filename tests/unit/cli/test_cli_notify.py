"""`tidegate notify`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_server


def choice(event: str, mail: bool, mail_default: bool) -> dict[str, Any]:
    return {
        "event": event,
        "portal": True,
        "mail": mail,
        "portal_default": True,
        "mail_default": mail_default,
    }


FOUND = {
    "version": 3,
    "email": "bob@example.org",
    "is_mail_configured": True,
    "time_zone": "Europe/Berlin",
    "digest": "none",
    "quiet_hours": {"start": "22:00", "end": "07:00"},
    "events": [choice("job_started", True, False), choice("job_failed", True, True)],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET notices/preferences"] = FOUND
    server.routes["PATCH notices/preferences"] = {**FOUND, "quiet_hours": None}
    return server


def test_choices_are_shown_with_a_star_where_they_are_the_own(server: Server) -> None:
    """Against: the star at each event that is on."""
    ran = server.run("notify", "list")
    assert ran.out.splitlines() == [
        "Address      bob@example.org",
        "Mail comes   at once, at most one mail a minute",
        "Quiet hours  22:00-07:00",
        "Time zone    Europe/Berlin",
        "",
        "EVENT        PORTAL  MAIL",
        "job_started  yes     yes*",
        "job_failed   yes     yes",
    ]


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (
            ["set", "job_started", "--no-mail"],
            {"events": [{"event": "job_started", "mail": False}]},
        ),
        (
            ["set", "all", "--mail", "--no-portal"],
            {
                "events": [
                    {"event": "job_started", "mail": True, "portal": False},
                    {"event": "job_failed", "mail": True, "portal": False},
                ]
            },
        ),
        (["quiet", "off"], {"quiet_hours": None}),
        (
            ["quiet", "23:00-06:00", "--zone", "Asia/Tokyo"],
            {"quiet_hours": {"start": "23:00", "end": "06:00"}, "time_zone": "Asia/Tokyo"},
        ),
        (["digest", "daily"], {"digest": "daily"}),
    ],
)
def test_changes_are_sent_on_the_version_that_was_read(
    server: Server, words: list[str], body: dict[str, Any]
) -> None:
    """Planted: channels that were not named are sent."""
    assert server.run("notify", *words).exit_code == 0
    assert server.sent == ["GET notices/preferences", "PATCH notices/preferences"]
    assert server.body() == body


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["set", "job_failed"], "Nothing to change: give --mail"),
        (["set", "birthday", "--mail"], "There is no event 'birthday'. Events are job_started"),
        (["quiet", "22:00"], "Give START-END, such as 22:00-07:00, or off."),
    ],
)
def test_wrong_words_are_refused(server: Server, words: list[str], sentence: str) -> None:
    ran = server.run("notify", *words)
    assert ran.exit_code == 2
    assert sentence in ran.err
    assert not [sent for sent in server.sent if sent.startswith("PATCH")]


def test_mails_are_listed_with_their_delivery(server: Server) -> None:
    server.routes["GET notices/mails"] = {
        "items": [
            {
                "created_at": "2026-11-21T12:00:00Z",
                "state": "failed",
                "attempts": 6,
                "subject": "bert failed.",
                "error": "The mail server answered 550: Gone",
            }
        ],
        "next": None,
    }
    ran = server.run("notify", "mails", "--state", "failed")
    row = ran.out.splitlines()[1]
    assert row.startswith("2026-11-21T12:00:00Z  failed      6  bert failed.  The mail server")
    assert server.sent == ["GET notices/mails?state=failed&limit=50"]


def test_the_week_is_shown_with_the_pages_behind_it(server: Server) -> None:
    """Against: a week that was asked for is not sent."""
    server.routes["GET history/week"] = {
        "sentence": "ai-company/research/nlp used 40.000 GPU-hours.",
        "figures": [
            {"title": "Used, h100", "value": "40.000 GPU-hours", "link": "/tree/1/history"}
        ],
    }
    ran = server.run("notify", "weekly", "research/nlp", "--start", "2026-11-16")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["ai-company/research/nlp", "used", "40.000", "GPU-hours."],
        ["FIGURE", "VALUE", "PAGE"],
        ["Used,", "h100", "40.000", "GPU-hours", "/tree/1/history"],
    ]
    assert server.sent == ["GET history/week?node=research%2Fnlp&start=2026-11-16"]
