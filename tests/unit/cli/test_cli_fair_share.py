"""`tidegate fair-share` and `tidegate capacity`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_server


def a_row(node: str, **changes: Any) -> dict[str, Any]:
    return {
        "node": node,
        "sentence": f"{node} comes first.",
        "weight": 100,
        "weight_permille": 500,
        "used_mgpu_s": 7_200_000,
        "used_permille": 823,
        "level_permille": 607,
        "place": 2,
        "siblings": 3,
        "half_life_s": 604_800,
        **changes,
    }


SHARES = {
    "pool": "h100",
    "device": "gpu",
    "as_of": "2026-11-21T12:00:00Z",
    "above": [a_row("a", place=1, siblings=1)],
    "node": a_row("a/nlp", sentence="nlp comes after vision."),
    "below": [a_row("a/nlp/x", level_permille=None, used_mgpu_s=0, used_permille=0)],
    "in_use_mgpu": 0,
    "outlook": [],
}
CAPACITY: dict[str, Any] = {
    "pool": "h100",
    "device": "gpu",
    "as_of": "2026-11-21T12:00:00Z",
    "organization": "a",
    "clusters": [
        {
            "cluster": "local",
            "is_accepting": True,
            "nodes": 4,
            "free_nodes": 2,
            "capacity_mgpu": 32_000,
            "free_mgpu": 23_000,
            "whole_mgpu": 16_000,
            "largest_mgpu": 8_000,
            "claimed_mgpu": 0,
            "fragmented_permille": 304,
            "blocks": [{"devices": 1, "blocks": 23}, {"devices": 16, "blocks": 1}],
        }
    ],
    "loans": [{"within": "a", "borrower": "a/x", "lender": "(reserve)", "mgpu": 4_000}],
    "starved": [
        {
            "team": "a/nlp",
            "missing_mgpu": 8_000,
            "waiting_mgpu": 12_000,
            "waiting_since": "2026-11-21T10:00:00Z",
        }
    ],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def test_the_fair_share_of_a_node(server: Server) -> None:
    """Against: a node without use has a level of 0."""
    server.routes["GET fair-share"] = SHARES
    ran = server.run("fair-share", "a/nlp", "--pool", "h100")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["NODE", "PLACE", "FAIR", "SHARE", "WEIGHT", "%", "USE", "%", "USED"],
        ["a", "1/1", "0.61", "50.0", "82.3", "2.000"],
        ["a/nlp", "2/3", "0.61", "50.0", "82.3", "2.000"],
        ["a/nlp/x", "2/3", "no", "use", "50.0", "0.0", "0.000"],
    ]
    assert ran.err == "nlp comes after vision.\nUse counts half after 7 days.\n"
    assert dict(server.requests[-1].url.params) == {"node": "a/nlp", "pool": "h100"}


def test_the_capacity_of_a_pool(server: Server) -> None:
    server.routes["GET capacity"] = CAPACITY
    ran = server.run("capacity", "a", "--pool", "h100")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["CLUSTER", "GPUS", "FREE", "FREE", "NODES", "FRAGMENTED", "BLOCKS"],
        ["local", "32", "23", "2/4", "30.4%", "1:23", "16:1"],
        ["WITHIN", "BORROWER", "LENDER", "GPUS"],
        ["a", "a/x", "(reserve)", "4"],
        ["STARVED", "TEAM", "MISSING", "GUARANTEE", "WAITING", "SINCE"],
        ["a/nlp", "8", "12", "2026-11-21T10:00:00Z"],
    ]


def test_nobody_borrows_or_starves(server: Server) -> None:
    cluster = {**CAPACITY["clusters"][0], "is_accepting": False, "blocks": []}
    server.routes["GET capacity"] = CAPACITY | {
        "clusters": [cluster],
        "loans": [],
        "starved": [],
    }
    ran = server.run("capacity", "a", "--pool", "h100")
    assert "local (starts nothing)" in ran.out
    assert ran.err == "No team waits inside of its guarantee.\n"


def test_other_formats(server: Server) -> None:
    server.routes |= {"GET fair-share": SHARES, "GET capacity": CAPACITY}
    given = ("a", "--pool", "h100", "-o")
    assert json.loads(server.run("fair-share", *given, "json").out) == SHARES
    assert len(server.run("fair-share", *given, "csv").out.splitlines()) == 4
    assert json.loads(server.run("capacity", *given, "json").out) == CAPACITY
    assert server.run("capacity", *given, "csv").out.startswith("cluster,is_accepting,nodes")
