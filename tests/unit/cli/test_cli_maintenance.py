"""`tidegate maintenance`."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.cli_server import Server, a_server

FOUND = {
    "id": "01935000-0000-7000-8000-0000000000a1",
    "version": 2,
    "cluster": "kube-b",
    "pool": None,
    "nodes": None,
    "start": "2026-12-01T08:00:00Z",
    "end": "2026-12-01T12:00:00Z",
    "reason": "New switches.",
    "state": "planned",
    "made_by": "root",
    "can_change": True,
}
_PATH = f"maintenance-windows/{FOUND['id']}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET maintenance-windows"] = {"items": [FOUND], "next": None}
    server.routes["POST maintenance-windows"] = FOUND
    server.routes[f"PATCH {_PATH}"] = FOUND
    server.routes[f"POST {_PATH}/cancel"] = FOUND
    return server


def test_windows_are_listed(server: Server) -> None:
    ran = server.run("maintenance", "list", "--ahead", "--cluster", "kube-b")
    assert ran.out.splitlines()[1].split() == [
        *("000000a1", "planned", "kube-b", "all", "all"),
        *("2026-12-01T08:00:00Z", "2026-12-01T12:00:00Z", "New", "switches."),
    ]
    assert server.sent == ["GET maintenance-windows?cluster=kube-b&in_force=true&limit=500"]


def test_a_window_is_planned_changed_and_cancelled(server: Server) -> None:
    """Against: a change without the version that was read."""
    made = server.run(
        "maintenance", "plan", "kube-b", "New switches.", "--to", "2026-12-01T12:00:00Z"
    )
    assert made.out.strip() == FOUND["id"]
    assert server.run("maintenance", "set", "a1", "--reason", "x").exit_code == 0
    assert server.run("maintenance", "cancel", "a1").exit_code == 0
    writes = [sent for sent in server.sent if not sent.startswith("GET")]
    assert writes == ["POST maintenance-windows", f"PATCH {_PATH}", f"POST {_PATH}/cancel"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("set", "a1"), "Nothing to change"),
        (("cancel", "zz"), "No maintenance windows end in 'zz'"),
    ],
)
def test_what_is_refused(server: Server, words: tuple[str, ...], sentence: str) -> None:
    ran = server.run("maintenance", *words)
    assert ran.exit_code == 2
    assert sentence in ran.err


def test_jobs_that_would_still_run_are_listed(server: Server) -> None:
    job = {
        "job": "01935000-0000-7000-8000-0000000000b2",
        "name": "train",
        "team": "o/a",
        "user": "bob",
        "ends_at": None,
    }
    server.routes[f"GET {_PATH}/jobs"] = {"items": [job], "next": None}
    lines = server.run("maintenance", "jobs", "a1").out.splitlines()
    assert lines[1].split() == ["000000b2", "train", "o/a", "bob", "no", "limit"]
    server.routes[f"GET {_PATH}/jobs"] = {"items": [], "next": None}
    assert "All jobs that you may see end before it." in server.run("maintenance", "jobs", "a1").err


def test_a_window_of_nodes_is_planned_by_name_or_by_number(server: Server) -> None:
    """Against: the chosen nodes are not told."""
    server.routes["POST maintenance-windows"] = {**FOUND, "nodes": ["n1", "n4", "n7"]}
    plan = ("maintenance", "plan", "kube-b", "Cables.", "--to", "2026-12-01T12:00:00Z")
    assert server.run(*plan, "--node", "n4", "--node", "n1").err == ""
    assert server.body()["nodes"] == ["n4", "n1"]
    ran = server.run(*plan, "--nodes", "3")
    assert (server.body()["node_count"], ran.err) == (3, "Nodes: n1, n4, n7.\n")
    refused = server.run(*plan, "--nodes", "3", "--node", "n1")
    assert (refused.exit_code, "not both" in refused.err) == (2, True)
    server.routes["GET maintenance-windows"] = {
        "items": [{**FOUND, "nodes": ["n1", "n4", "n7"]}, {**FOUND, "nodes": ["n1", "n4"]}],
        "next": None,
    }
    first, second = server.run("maintenance", "list").out.splitlines()[1:]
    assert " n1 and 2 more " in first
    assert " n1, n4 " in second
