"""`tidegate announcements`."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from builders.cli_server import Server, a_server

FOUND = {
    "id": "01935000-0000-7000-8000-0000000000a1",
    "version": 2,
    "node": None,
    "cluster": "kube-b",
    "level": "warning",
    "text": "Moved to the new hall.",
    "start": "2026-12-01T08:00:00Z",
    "end": None,
    "made_by": "root",
    "can_change": True,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET announcements"] = {"items": [FOUND], "next": None}
    server.routes["POST announcements"] = FOUND
    server.routes[f"PATCH announcements/{FOUND['id']}"] = FOUND
    server.routes[f"DELETE announcements/{FOUND['id']}"] = httpx.Response(204)
    return server


def test_announcements_are_listed(server: Server) -> None:
    ran = server.run("announcements", "list", "--current")
    assert ran.out.splitlines()[1].split() == [
        *("000000a1", "warning", "kube-b", "2026-12-01T08:00:00Z", "-"),
        *("Moved", "to", "the", "new", "hall."),
    ]
    assert server.sent == ["GET announcements?current=true&limit=500"]


def test_an_announcement_is_made_changed_and_removed(server: Server) -> None:
    """Against: a change without the version that was read."""
    made = server.run("announcements", "new", "Moved.", "--cluster", "kube-b")
    assert made.out.strip() == FOUND["id"]
    assert server.run("announcements", "set", "a1", "--level", "info").exit_code == 0
    assert server.run("announcements", "remove", "a1").exit_code == 0
    writes = [sent for sent in server.sent if not sent.startswith("GET")]
    assert writes == [
        "POST announcements",
        f"PATCH announcements/{FOUND['id']}",
        f"DELETE announcements/{FOUND['id']}",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("set", "a1"), "Nothing to change"),
        (("remove", "b2"), "No announcements end in 'b2'"),
    ],
)
def test_what_is_refused(server: Server, words: tuple[str, ...], sentence: str) -> None:
    ran = server.run("announcements", *words)
    assert ran.exit_code == 2
    assert sentence in ran.err
