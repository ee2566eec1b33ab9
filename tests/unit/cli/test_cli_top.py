"""`tidegate top`: teams and running jobs, once or live."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_server, a_shown_job

NOW = datetime(2026, 11, 21, 12, 5, 10, tzinfo=UTC)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Server:
    server = a_server(monkeypatch, str(tmp_path_factory.mktemp("home")))
    monkeypatch.setattr("cli.top_command.now_utc", lambda: NOW)
    server.routes["GET quotas"] = {
        "items": [
            a_quota("ai", "organization", 10_000, 9_000, 3_000),
            a_quota("ai/research", "department", 8_000, 9_000, 3_000),
            a_quota("ai/research/nlp", "team", 4_000, 2_000, 0),
            a_quota("ai/research/vision", "team", 4_000, 7_000, 3_000),
        ],
        "next": None,
    }
    server.routes["GET jobs"] = {"items": [a_shown_job(state="running")], "next": None}
    return server


def a_quota(node: str, kind: str, guaranteed: int, in_use: int, borrowed: int) -> dict[str, Any]:
    return {
        **{"node": node, "node_kind": kind, "pool": "h100", "device": "gpu"},
        "guaranteed_mgpu": guaranteed,
        "use": {
            "in_use_mgpu": in_use,
            "protected_mgpu": in_use - borrowed,
            "borrowed_mgpu": borrowed,
            "lent_mgpu": 2_000,
            "waiting_mgpu": 16_000,
        },
    }


def test_a_pipe_gets_one_picture(server: Server) -> None:
    """Organizations come first, then the busiest team. Against: departments; the tree's order."""
    ran = server.run("top", "--pool", "h100", "--rows", "3")
    assert (ran.exit_code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[:4] == [
        "TEAM                POOL  GUARANTEED  IN USE  UNUSED  BORROWED  LENT  WAITING",
        "ai                  h100          10       9       4         3     2       16",
        "ai/research/vision  h100           4       7       0         3     2       16",
        "ai/research/nlp     h100           4       2       2         0     2       16",
    ]
    assert lines[4] == ""
    assert lines[6].split()[1:3] == ["bert", "running"]
    assert [request.url.params.get("state") for request in server.requests] == [
        None,
        "running,preempting",
    ]
    assert server.requests[1].url.params["limit"] == "3"
    rows = json.loads(server.run("top", "--rows", "1", "-o", "json").out)
    assert [row["node"] for row in rows["teams"]] == ["ai"]
    server.routes["GET jobs"] = {"items": [], "next": None}
    assert server.run("top", "--once").err == "No running jobs.\n"


def test_a_terminal_is_refreshed_until_the_server_stays_away(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen has as many rows as fit. Against: the first failure ends it; all rows shown."""
    monkeypatch.setattr("cli.top_command.is_terminal", lambda: True)
    monkeypatch.setenv("LINES", "8")
    pauses: list[int] = []
    monkeypatch.setattr("cli.top_command.sleep", pauses.append)
    good = httpx.Response(200, json=server.routes["GET quotas"])
    away = [httpx.ConnectError("away")] * 4
    server.routes["GET quotas"] = [good, *away, good, *away * 5]
    ran = server.run("top", "--interval", "7")
    assert ran.exit_code == 4
    assert ran.out.count("WAITING") == 2
    assert "ai/research/nlp" not in ran.out
    assert pauses == [7] * 7


def test_the_user_ends_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: ^C as an error."""

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cli.top_command.is_terminal", lambda: True)
    monkeypatch.setattr("cli.top_command.sleep", interrupt)
    assert server.run("top").exit_code == 0
