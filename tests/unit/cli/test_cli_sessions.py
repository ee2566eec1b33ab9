"""`tidegate session`."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.cli_server import Server, a_server

ID = "01a1fd00-0000-7000-8000-000000000021"
SESSION = {
    "id": ID,
    "user": "bob@ai-company",
    "device": "Firefox on Linux",
    "user_agent": "Mozilla/5.0",
    "address": "192.0.2.7",
    "started_at": "2026-11-21T08:00:00Z",
    "last_used_at": "2026-11-21T12:00:00Z",
    "expires_at": "2026-11-21T20:00:00Z",
    "is_current": False,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET sessions"] = {"items": [SESSION], "next": None}
    server.routes["POST sessions/end"] = {"ended": 2}
    server.routes[f"DELETE sessions/{ID}"] = {}
    return server


def test_the_sessions_of_a_person_are_listed(server: Server) -> None:
    """Planted: a list of the own sessions in spite of --user."""
    ran = server.run("session", "ls", "--user", "bob@ai-company")
    assert ran.exit_code == 0
    assert ran.out.splitlines()[-1].split() == [
        ID,
        *("Firefox", "on", "Linux"),
        "192.0.2.7",
        "2026-11-21T08:00:00Z",
        "2026-11-21T12:00:00Z",
    ]
    assert server.requests[-1].url.params["user"] == "bob@ai-company"


def test_a_session_and_all_sessions_are_ended(server: Server) -> None:
    ran = server.run("session", "end", ID)
    assert (ran.exit_code, ran.out + ran.err) == (0, "The session has ended.\n")
    ran = server.run("session", "end", "--all", "--user", "bob@ai-company")
    assert (ran.exit_code, ran.out + ran.err) == (0, "2 sessions have ended.\n")
    assert server.sent == [f"DELETE sessions/{ID}", "POST sessions/end"]
    assert server.body() == {"user": "bob@ai-company"}


@pytest.mark.parametrize("given", [[], ["--user", "bob"], [ID, "--all"], ["nonsense"]])
def test_an_end_of_nothing_in_particular_is_refused(server: Server, given: list[str]) -> None:
    """Planted: an end of all sessions where no session is named."""
    ran = server.run("session", "end", *given)
    assert ran.exit_code != 0
    assert server.sent == []
