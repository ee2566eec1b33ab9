"""`tidegate passwd`, `user` and `token`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_problem, a_server
from cli import people_commands

TOKEN_ID = "01a1fd00-0000-7000-8000-000000000009"
USER_ID = "01a1fd00-0000-7000-8000-000000000008"


def a_token(**changes: Any) -> dict[str, Any]:
    return {
        "id": TOKEN_ID,
        "user": "robot@ai-company",
        "made_by": None,
        "name": "ci",
        "prefix": "tdg_abcdefgh",
        "scopes": ["jobs", "read"],
        "created_at": "2026-11-21T12:00:00Z",
        "expires_at": "2026-12-21T12:00:00Z",
        "last_used_at": None,
        "revoked_at": None,
        **changes,
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def body_of(request: httpx.Request) -> Any:
    return json.loads(request.content)


def test_a_password_is_changed_from_two_lines(server: Server) -> None:
    server.routes["POST password"] = {"login": "bob@ai-company"}
    ran = server.run("passwd", "--stdin", stdin="the old one\nthe new one here\n")
    assert (ran.exit_code, ran.out) == (0, "")
    assert ran.err == "Password changed. Your browser sessions have ended.\n"
    assert body_of(server.requests[0]) == {
        "old_password": "the old one",
        "new_password": "the new one here",
    }


def test_a_new_password_is_typed_twice(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["old", "new one", "other one"])
    monkeypatch.setattr(people_commands.getpass, "getpass", lambda prompt: next(typed))
    ran = server.run("passwd")
    assert ran.exit_code == 2
    assert ran.err == "Error: The two new passwords differ. Try again.\n"
    assert server.requests == []


def test_a_refusal_is_told(server: Server) -> None:
    server.routes["POST password"] = a_problem(400, detail="The old password is wrong.")
    ran = server.run("passwd", "--stdin", stdin="x\ny\n")
    assert ran.exit_code == 3
    assert "The old password is wrong." in ran.err


def test_a_password_link_is_printed_or_mailed(server: Server) -> None:
    user = {"id": USER_ID, "login": "bob@ai-company"}
    server.routes["GET users"] = {"items": [user], "next": None}
    made = {
        "user": "bob@ai-company",
        "expires_at": "2026-11-21T13:00:00Z",
        "sent_to": None,
        "link": "/set-password#tdl_x",
    }
    server.routes[f"POST users/{USER_ID}/password-link"] = [
        made,
        {**made, "sent_to": "bob@example.org", "link": None},
    ]
    ran = server.run("user", "password-link", "bob@ai-company")
    assert ran.out.endswith("/set-password#tdl_x\n")
    assert ran.out.startswith("http")
    assert ran.err == (
        "For bob@ai-company, valid once, until 2026-11-21T13:00:00Z. It is not shown again:\n"
    )
    mailed = server.run("user", "password-link", "bob@ai-company")
    assert (mailed.out, mailed.err) == (
        "",
        "The link for bob@ai-company was mailed to bob@example.org.\n",
    )
    nobody = server.run("user", "password-link", "eve")
    assert (nobody.exit_code, nobody.err) == (
        2,
        "Error: There is no user 'eve' that you can see.\n",
    )


def test_people_are_listed(server: Server) -> None:
    user = {"login": "bob@ai-company", "kind": "person", "is_active": False, "name": "Bob"}
    server.routes["GET users"] = {"items": [user], "next": None}
    lines = server.run("user", "ls").out.splitlines()
    assert lines[1].split() == ["bob@ai-company", "person", "deactivated", "Bob"]


def test_tokens_are_listed(server: Server) -> None:
    server.routes["GET tokens"] = {"items": [a_token()], "next": None}
    ran = server.run("token", "ls", "--user", "robot@ai-company")
    assert ran.out.splitlines()[1].split() == [
        "tdg_abcdefgh",
        "robot@ai-company",
        "jobs,read",
        "2026-12-21T12:00:00Z",
        "never",
        "-",
        "ci",
    ]
    assert server.sent == ["GET tokens?user=robot%40ai-company&limit=500"]
    both = server.run("token", "ls", "--user", "x", "--organization", "y")
    assert both.err == "Error: Give --user or --organization, not both.\n"


def test_a_token_of_a_service_account_is_made(server: Server) -> None:
    server.routes["POST tokens"] = a_token(secret="tdg_secret")
    ran = server.run(
        *("token", "create", "ci", "--scope", "jobs", "--scope", "read"),
        *("--user", "robot@ai-company"),
    )
    assert ran.out == "tdg_secret\n"
    assert body_of(server.requests[0]) == {
        "name": "ci",
        "scopes": ["jobs", "read"],
        "expires_in_days": 30,
        "user": "robot@ai-company",
    }
    assert server.requests[0].headers["Idempotency-Key"]


def test_a_token_is_replaced_by_its_first_characters_and_revoked_by_its_id(
    server: Server,
) -> None:
    server.routes["GET tokens"] = {"items": [a_token()], "next": None}
    server.routes[f"POST tokens/{TOKEN_ID}/rotate"] = a_token(secret="tdg_new")
    server.routes[f"DELETE tokens/{TOKEN_ID}"] = httpx.Response(204)
    ran = server.run("token", "rotate", "tdg_abcdefgh", "--overlap-hours", "2")
    assert ran.out == "tdg_new\n"
    assert body_of(server.requests[1]) == {"overlap_s": 7_200}
    gone = server.run("token", "revoke", TOKEN_ID)
    assert (gone.exit_code, gone.err) == (0, "The token no longer works.\n")
    assert server.run("token", "revoke", "tdg_").err == (
        "Error: Give the id of the token, or its first 12 characters.\n"
    )
    assert server.run("token", "revoke", "tdg_zzzzzzzz").err == (
        "Error: No tokens begin with tdg_zzzzzzzz. See `tidegate token ls`. For tokens of another "
        "account, add --user LOGIN.\n"
    )
