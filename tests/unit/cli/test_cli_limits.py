"""`tidegate limits`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_server

LIMIT = "0197a000-0000-7000-8000-000000000003"


def limits(**changes: Any) -> dict[str, Any]:
    return {
        "id": LIMIT,
        "pool": None,
        "node": None,
        "priority_class": None,
        "organization": None,
        "default_s": 86_400,
        "longest_s": None,
        "can_edit": True,
        "version": 2,
        **changes,
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET time-limits"] = {
        "items": [
            limits(pool="h100"),
            limits(node="ai-company/research", organization="ai-company", longest_s=604_800),
            limits(priority_class="low", organization="ai-company", default_s=3_600),
        ],
        "next": None,
    }
    return server


def test_limits_are_listed_by_their_owners(server: Server) -> None:
    assert server.run("limits", "list").out.splitlines() == [
        "OF                       DEFAULT  LONGEST",
        "pool h100                1d       none",
        "ai-company/research      1d       7d",
        "class low of ai-company  1h       none",
    ]


def test_known_limits_are_changed_and_others_made(server: Server) -> None:
    """Against: the limits of a class found in any organization."""
    server.routes[f"PATCH time-limits/{LIMIT}"] = limits(pool="h100", longest_s=172_800)
    ran = server.run("limits", "set", "--pool", "h100", "--default", "none", "--longest", "2d")
    assert ran.out.splitlines()[0] == "of       pool h100"
    sent = server.requests[-1]
    assert (json.loads(sent.content), sent.headers["if-match"]) == (
        {"default_s": None, "longest_s": 172_800},
        '"v2"',
    )
    server.routes["POST time-limits"] = limits(priority_class="low", organization="rival")
    server.run("limits", "set", "--class", "low", "--organization", "rival", "--default", "1d")
    assert json.loads(server.requests[-1].content) == {
        "priority_class": "low",
        "organization": "rival",
        "default_s": 86_400,
    }


def test_limits_are_removed(server: Server) -> None:
    server.routes[f"DELETE time-limits/{LIMIT}"] = {}
    ran = server.run("limits", "remove", "--team", "ai-company/research")
    assert (ran.exit_code, server.requests[-1].headers["if-match"]) == (0, '"v2"')


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["set", "--default", "1d"], "Give exactly one of --pool, --team and --class."),
        (["set", "--pool", "h100"], "Nothing to set: give --default or --longest."),
        (["set", "--class", "low", "--default", "1d"], "with --organization"),
        (["remove", "--pool", "a100"], "It has no time limits."),
    ],
)
def test_what_is_missing_is_said(server: Server, words: list[str], told: str) -> None:
    ran = server.run("limits", *words)
    assert ran.exit_code != 0
    assert told in ran.err
