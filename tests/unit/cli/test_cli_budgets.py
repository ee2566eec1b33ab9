"""`tidegate budgets`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_server

BUDGET = "0197a000-0000-7000-8000-000000000009"
HOUR = 3_600_000
NODE = "ai-company/research"


def a_state(**changes: Any) -> dict[str, Any]:
    return {
        "as_of": "2026-11-21T12:00:00Z",
        "window_start": "2026-11-01T00:00:00Z",
        "window_end": "2026-12-01T00:00:00Z",
        "used": 700 * HOUR,
        "on_hold": 120 * HOUR,
        "left": 180 * HOUR,
        "room_at": "2026-12-01T00:00:00Z",
        "forecast_low": 900 * HOUR,
        "forecast": 1_050 * HOUR,
        "forecast_high": 1_200 * HOUR,
        **changes,
    }


def a_budget(**changes: Any) -> dict[str, Any]:
    return {
        "id": BUDGET,
        "name": "training",
        "node": NODE,
        "user": None,
        "pool": None,
        "measure": "gpu_hours",
        "limit": 1_000 * HOUR,
        "currency": None,
        "window": "month",
        "rolling_days": None,
        "policy": "stop_starts",
        "state": a_state(),
        "not_held_on": ["slurm-a"],
        "can_edit": True,
        "version": 3,
        **changes,
    }


MONEY = a_budget(
    id="0197a000-0000-7000-8000-00000000000a",
    name="of bob",
    user="bob",
    measure="money",
    currency="EUR",
    limit=5_000_000_000_000,
    window="rolling",
    rolling_days=30,
    policy="notify",
    state=a_state(used=6_000_000_000_000, on_hold=0, left=-1_000_000_000_000, forecast=None),
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET budgets"] = {"items": [a_budget(), MONEY], "next": None}
    return server


def test_budgets_are_listed_with_what_is_left(server: Server) -> None:
    assert server.run("budgets", "list").out.splitlines() == [
        "NAME      OF                          PERIOD   LIMIT                  USED  ON HOLD  "
        "     LEFT  FORECAST  AT 100 %",
        "training  ai-company/research         month    1,000.0 GPU-hours     700.0    120.0  "
        "    180.0   1,050.0  stop starts",
        "of bob    bob in ai-company/research  30 days  5,000.00 EUR       6,000.00     0.00  "
        "-1,000.00         -  notify",
    ]


def test_a_budget_is_shown_with_its_alerts(server: Server) -> None:
    server.routes["GET budget-alerts"] = {
        "items": [
            {
                "id": 1,
                "budget": BUDGET,
                "at": "2026-11-20T08:00:00Z",
                "window_start": "2026-11-01T00:00:00Z",
                "kind": "forecast",
                "percent": 100,
                "amount": 1_010 * HOUR,
                "limit": 1_000 * HOUR,
            }
        ],
        "next": None,
    }
    out = server.run("budgets", "show", "training").out
    assert "1,050.0 GPU-hours (from 900.0 to 1,200.0)" in out
    assert "100 % (forecast)" in out
    assert "counted, not held  slurm-a\n" in out
    assert f"budget={BUDGET}" in str(server.requests[-1].url)


def test_a_known_budget_is_changed(server: Server) -> None:
    """Amounts are in the unit of its own measure. Planted: always GPU-hours."""
    server.routes[f"PATCH budgets/{MONEY['id']}"] = MONEY
    server.run("budgets", "set", "of bob", "--limit", "7,500.5", "--per", "14d")
    sent = server.requests[-1]
    assert (json.loads(sent.content), sent.headers["if-match"]) == (
        {"limit": 7_500_500_000_000, "window": "rolling", "rolling_days": 14},
        '"v3"',
    )


def test_an_unknown_budget_is_made(server: Server) -> None:
    server.routes["POST budgets"] = a_budget()
    server.run(
        "budgets", "set", "new", "--node", NODE, "--limit", "5", "--in", "credits",
        "--at-limit", "stop_borrowing",
    )  # fmt: skip
    assert json.loads(server.requests[-1].content) == {
        "name": "new",
        "node": NODE,
        "user": None,
        "pool": None,
        "measure": "credits",
        "window": "month",
        "policy": "stop_borrowing",
        "limit": 18_000_000_000,
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["new"], "There is no budget 'new'. To make it, give --node and --limit."),
        (["training"], "Nothing to set: give --limit, --per, --at-limit or --rename."),
        (
            ["training", "--node", NODE, "--limit", "5"],
            "training exists, and its node, user and pool stay. Remove it, and make it anew.",
        ),
        (
            ["training", "--limit", "-5"],
            "--limit must be a number above 0, such as 5000 or 12.5, not '-5'.",
        ),
        (
            ["training", "--per", "week"],
            "--per must be month, quarter, year, or a number of days such as 30d, not 'week'.",
        ),
    ],
)
def test_what_is_missing_is_said(server: Server, arguments: list[str], sentence: str) -> None:
    ran = server.run("budgets", "set", *arguments)
    assert (ran.exit_code, ran.err.strip()) == (2, f"Error: {sentence}")


def test_a_budget_is_removed_by_its_version(server: Server) -> None:
    server.routes[f"DELETE budgets/{BUDGET}"] = httpx.Response(204)
    server.run("budgets", "remove", "training")
    assert server.requests[-1].headers["if-match"] == '"v3"'


DEFAULT = {
    "id": BUDGET,
    "name": "start",
    "node": NODE,
    "measure": "money",
    "limit": 5_000_000_000_000,
    "currency": "EUR",
    "window": "rolling",
    "rolling_days": 30,
    "policy": "stop_starts",
    "can_edit": True,
    "version": 4,
}


def test_defaults_are_listed(server: Server) -> None:
    server.routes["GET budget-defaults"] = {"items": [DEFAULT], "next": None}
    assert server.run("budgets", "default", "list").out.splitlines() == [
        "TEAMS BELOW          NAME   PERIOD   LIMIT         AT 100 %",
        "ai-company/research  start  30 days  5,000.00 EUR  stop starts",
    ]


def test_the_default_of_a_node_is_changed_and_removed(server: Server) -> None:
    """Amounts are in its own unit, and a node below has another. Planted: the first default."""
    other = {**DEFAULT, "id": "0197a000-0000-7000-8000-00000000000b", "node": f"{NODE}/deep"}
    server.routes["GET budget-defaults"] = {"items": [other, DEFAULT], "next": None}
    server.routes[f"PATCH budget-defaults/{BUDGET}"] = DEFAULT
    server.routes[f"DELETE budget-defaults/{BUDGET}"] = httpx.Response(204)
    server.run("budgets", "default", "set", NODE, "--limit", "7", "--per", "year")
    sent = server.requests[-1]
    assert (json.loads(sent.content), sent.headers["if-match"]) == (
        {"limit": 7_000_000_000, "window": "year"},
        '"v4"',
    )
    assert sent.url.path.endswith(f"/{BUDGET}")
    server.run("budgets", "default", "remove", NODE)
    assert server.requests[-1].headers["if-match"] == '"v4"'


def test_a_first_default_is_made(server: Server) -> None:
    server.routes["GET budget-defaults"] = {"items": [], "next": None}
    server.routes["POST budget-defaults"] = DEFAULT
    server.run("budgets", "default", "set", NODE, "--limit", "5", "--name", "start")
    assert json.loads(server.requests[-1].content) == {
        "name": "start",
        "node": NODE,
        "measure": "gpu_hours",
        "window": "month",
        "policy": "notify",
        "limit": 18_000_000,
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["set", "lab"], "lab has no default budget. To make it, give --limit."),
        (["set", NODE], "Nothing to set: give --limit, --per, --at-limit or --name."),
        (["remove", "lab"], "lab has no default budget, or you may not see it."),
    ],
)
def test_impossible_defaults_are_refused(
    server: Server, arguments: list[str], sentence: str
) -> None:
    server.routes["GET budget-defaults"] = {"items": [DEFAULT], "next": None}
    ran = server.run("budgets", "default", *arguments)
    assert (ran.exit_code, ran.err.strip()) == (2, f"Error: {sentence}")
