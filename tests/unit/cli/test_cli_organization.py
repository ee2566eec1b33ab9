"""`tidegate organization create`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.cli_server import Server, a_problem, a_server

NODE = "01a1fd00-0000-7000-8000-000000000013"
MADE = {
    "path": "blue-whale",
    "team": "blue-whale/main",
    "first_administrator": "maria@blue-whale",
    "password_link": {
        "user": "maria@blue-whale",
        "expires_at": "2026-11-21T13:00:00Z",
        "sent_to": None,
        "link": "/set-password#tdl_x",
    },
    "invitation": None,
    "missing": ["It has no rate card yet, so its jobs cost nothing."],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def test_an_organization_is_made_in_one_step(server: Server) -> None:
    server.routes["POST organizations"] = MADE
    ran = server.run(
        "organization",
        "create",
        "Blue Whale",
        *("--admin", "maria", "--admin-name", "Maria Silva"),
        *("--pool", "h100", "--gpus", "64.5", "--currency", "EUR"),
        *("--time-zone", "Europe/Lisbon"),
    )
    assert ran.exit_code == 0
    shown = ran.out.splitlines()
    assert shown[:3] == [
        "organization   blue-whale",
        "team           blue-whale/main",
        "administrator  maria@blue-whale",
    ]
    assert shown[3].endswith("/set-password#tdl_x")
    assert ran.err.splitlines() == [
        "It has no rate card yet, so its jobs cost nothing.",
        "For maria@blue-whale, valid once, until 2026-11-21T13:00:00Z. It is not shown again:",
    ]
    (request,) = server.requests
    assert request.headers["Idempotency-Key"]
    assert json.loads(request.content) == {
        "name": "Blue Whale",
        "pool": "h100",
        "guaranteed_mgpu": 64_500,
        "currency": "EUR",
        "time_zone": "Europe/Lisbon",
        "first_administrator": {"username": "maria", "name": "Maria Silva", "email": ""},
    }


def test_a_name_is_enough(server: Server) -> None:
    server.routes["POST organizations"] = {
        **MADE,
        "team": None,
        "first_administrator": None,
        "password_link": None,
    }
    ran = server.run("organization", "create", "Third", "--slug", "third", "-o", "json")
    assert (ran.exit_code, ran.err) == (0, "")
    assert json.loads(ran.out)["path"] == "blue-whale"
    assert json.loads(server.requests[0].content) == {"name": "Third", "slug": "third"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--pool", "h100"], "Give both --pool and --gpus, or neither."),
        (["--gpus", "8"], "Give both --pool and --gpus, or neither."),
        (["--admin-email", "m@example.org"], "--admin-email needs --admin."),
        (["--admin-name", "Maria"], "--admin-name needs --admin or --invite."),
        (
            ["--admin", "maria", "--invite", "m@example.org"],
            "Give --admin, who gets an account, or --invite, and not both.",
        ),
        (
            ["--pool", "h100", "--gpus", "many"],
            "--gpus 'many': write a number such as 8 or 0.5.",
        ),
        (
            ["--pool", "h100", "--gpus", "0.0001"],
            "--gpus 0.0001: write at most three decimals.",
        ),
    ],
)
def test_what_means_nothing_is_not_sent(server: Server, options: list[str], told: str) -> None:
    ran = server.run("organization", "create", "Third", *options)
    assert (ran.exit_code, ran.err) == (2, f"Error: {told}\n")
    assert server.requests == []


def test_a_refusal_is_told(server: Server) -> None:
    server.routes["POST organizations"] = a_problem(403, detail="Only a platform administrator.")
    ran = server.run("organization", "create", "Third")
    assert ran.exit_code == 3
    assert "Only a platform administrator." in ran.err


def test_an_administrator_is_invited_and_a_tree_imported(server: Server, tmp_path: Path) -> None:
    """Against: the file read, but not sent."""
    tree = tmp_path / "tree.csv"
    tree.write_text("kind,path\n")
    invitation = {
        "email": "m@example.org",
        "expires_at": "2026-11-28T13:00:00Z",
        "is_mailed": False,
        "link": "/set-password#tdi_x",
    }
    server.routes["POST organizations"] = {
        **MADE,
        "first_administrator": None,
        "password_link": None,
        "invitation": invitation,
    }
    given = ("Third", "--invite", "m@example.org", "--admin-name", "Maria", "--tree", str(tree))
    ran = server.run("organization", "create", *given)
    assert ran.out.splitlines()[-1].endswith("/set-password#tdi_x")
    body = {
        "name": "Third",
        "invited_administrator": {"email": "m@example.org", "name": "Maria"},
        "tree": {"format": "csv", "text": "kind,path\n"},
    }
    assert server.body() == body
    server.routes["POST organizations/preview"] = {
        "path": "third",
        "team": None,
        "tree": {
            "line_errors": [{"line": 1, "sentence": "The file has no rows."}],
            "changes": [],
            "error_count": 1,
            "missing_nodes": 0,
            "missing_roles": 0,
            "second_person": None,
        },
        "missing": [],
    }
    ran = server.run("organization", "create", *given, "--dry-run")
    assert (ran.exit_code, ran.err) == (2, "Error: It cannot be created: 1 error.\n")
    assert "The file has no rows." in ran.out
    assert server.body() == body


def test_organizations_are_listed_and_renamed(server: Server) -> None:
    server.routes["GET organizations/summaries"] = {
        "items": [
            {
                "slug": "blue-whale",
                "name": "Blue Whale",
                "time_zone": "Europe/Lisbon",
                "currency": "EUR",
                "people": 42,
                "teams": 12,
                "guarantees": [{"pool": "h100", "device": "gpu", "guaranteed_mgpu": 64_500}],
                "jobs_running": 7,
                "archived_at": None,
                "created_at": "2026-11-21T13:00:00Z",
            }
        ],
        "next": None,
    }
    row = server.run("organization", "list").out.splitlines()[1]
    assert row.split("  ")[0] == "blue-whale"
    assert row.split()[-1:] == ["2026-11-21"]
    assert "h100 64.5" in row
