"""`tidegate tree`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.cli_server import Server, a_server

NODE = "01a1fd00-0000-7000-8000-000000000013"
PATH = f"tree/{NODE}/archive"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET teams"] = {"items": [{"id": NODE, "path": "a/nlp"}], "next": None}
    job = {"name": "bert", "team": "a/nlp", "user": "bob", "state": "running"}
    server.routes[f"GET {PATH}"] = {"waiting": 2, "running": 1, "running_jobs": [job]}
    server.routes[f"POST {PATH}"] = {"id": NODE}
    return server


def test_what_runs_is_shown_and_asked_about_before_anything_is_archived(server: Server) -> None:
    """Planted: archived although nothing was said of what waits."""
    ran = server.run("tree", "archive", "a/nlp", "--running", "end")
    assert ran.exit_code == 2
    assert ran.out.splitlines()[1].split() == ["bert", "a/nlp", "bob", "running"]
    assert "2 jobs wait: add --waiting wait or --waiting cancel." in ran.err
    assert [request.method for request in server.requests] == ["GET", "GET"]


def test_what_is_decided_is_sent(server: Server) -> None:
    ran = server.run("tree", "archive", "a/nlp", "--running", "end", "--waiting", "cancel")
    assert ran.exit_code == 0
    assert json.loads(server.requests[-1].content) == {"waiting": "cancel", "running": "end"}
    assert "tidegate tree restore a/nlp" in ran.err
