"""`tidegate caps`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_server

CAP = "0197a000-0000-7000-8000-000000000009"
TEAM = "ai-company/research/nlp"


def a_cap(**changes: Any) -> dict[str, Any]:
    return {
        "id": CAP,
        "team": TEAM,
        "user": None,
        "pool": None,
        "cap_mgpu": 8_000,
        "can_edit": True,
        "version": 2,
        **changes,
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    items = [a_cap(), a_cap(id="2", user="bob", pool="h100", cap_mgpu=None)]
    server.routes["GET user-caps"] = {"items": items, "next": None}
    return server


def test_caps_are_listed(server: Server) -> None:
    """Names for each user and all pools. Against: empty cells."""
    assert server.run("caps", "list").out.splitlines() == [
        "TEAM                     USER  POOL  AT ONCE",
        "ai-company/research/nlp  each  all         8",
        "ai-company/research/nlp  bob   h100     none",
    ]


def test_a_known_cap_is_changed_and_others_are_made(server: Server) -> None:
    """Against: the cap of bob found for each user."""
    server.routes[f"PATCH user-caps/{CAP}"] = a_cap(cap_mgpu=4_500)
    assert server.run("caps", "set", "4.5", "--team", TEAM).out.splitlines() == [
        "team     ai-company/research/nlp",
        "user     each",
        "pool     all",
        "at once  4.5",
    ]
    sent = server.requests[-1]
    assert (json.loads(sent.content), sent.headers["if-match"]) == ({"cap_mgpu": 4_500}, '"v2"')
    server.routes["POST user-caps"] = a_cap(user="dana", cap_mgpu=None)
    server.run("caps", "set", "none", "--team", TEAM, "--user", "dana")
    assert json.loads(server.requests[-1].content) == {
        "team": TEAM,
        "user": "dana",
        "pool": None,
        "cap_mgpu": None,
    }


def test_a_cap_is_removed(server: Server) -> None:
    """By its scope, and an absent one is refused. Against: the first cap of the team."""
    server.routes[f"DELETE user-caps/{CAP}"] = {}
    assert server.run("caps", "remove", "--team", TEAM).exit_code == 0
    assert server.sent[-1] == f"DELETE user-caps/{CAP}"
    missing = server.run("caps", "remove", "--team", TEAM, "--user", "nobody")
    assert "There is no such cap." in missing.err
