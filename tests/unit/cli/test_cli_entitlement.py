"""`tidegate entitlement`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_server

ENTITLEMENT: dict[str, Any] = {
    "team": "a/nlp",
    "team_id": "0198c0de-0000-7000-8000-000000000001",
    "contacts": [{"username": "leo", "name": "Leo", "role": "team_lead", "node": "a/nlp"}],
    "pools": [
        {
            "pool": "h100",
            "device": "gpu",
            "as_of": "2026-11-21T12:00:00Z",
            "sentence": "nlp uses all of its 8 guaranteed GPUs and 4 borrowed ones; 12 may be "
            "reclaimed.",
            "guaranteed_mgpu": 8_000,
            "lend_limit_mgpu": None,
            "borrow_limit_mgpu": None,
            "in_use_mgpu": 12_000,
            "borrowed_mgpu": 4_000,
            "at_risk_mgpu": 12_000,
            "lent_mgpu": 0,
            "available_mgpu": 0,
            "waiting_mgpu": 2_000,
            "fair_share": {
                "weight": 100,
                "weight_permille": 500,
                "used_mgpu_s": 3_600_000,
                "used_permille": 823,
                "level_permille": 607,
                "place": 2,
                "siblings": 2,
                "half_life_s": 604_800,
            },
            "reclaimed": {"jobs": 1, "mgpu": 6_000, "until": "2026-11-21T12:05:00Z"},
            "borrowers": [],
            "lenders": [{"node": "a/vision", "mgpu": 4_000}],
            "starts": [
                {
                    "devices": 1,
                    "nodes": 1,
                    "kind": "borrowed",
                    "borrowed_mgpu": 1_000,
                    "cluster": "local",
                    "latest": None,
                    "code": "would_start",
                    "sentence": "It would start now on local.",
                }
            ],
            "waits": [{"devices": 8, "jobs": 3, "p50_s": 20, "p95_s": 7_200}],
        }
    ],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def test_a_team_with_its_sizes(server: Server) -> None:
    """Against: a size without starts has a wait of 0; the reclaim is not shown."""
    server.routes["GET entitlement"] = ENTITLEMENT
    ran = server.run("entitlement", "a/nlp", "--pool", "h100")
    lines = [line.split(maxsplit=1) for line in ran.out.splitlines()]
    assert ["pool", "h100"] in lines
    table = [line.split() for line in ran.out.splitlines()[-3:]]
    assert table == [
        ["GPUS", "START", "P50", "P95", "JOBS"],
        ["1", "now,", "borrowed", "no", "data", "no", "data", "0"],
        ["8", "unknown", "20s", "2h", "3"],
    ]
    assert "fair share 0.61 (1 = even)" in " ".join(ran.out.split())
    assert "borrowed from a/vision 4" in " ".join(ran.out.split())
    assert ran.err == (
        "6 GPUs of 1 job are being reclaimed, the first by 2026-11-21T12:05:00Z.\n"
        "Talk to: Leo (team lead).\n"
    )
    assert dict(server.requests[-1].url.params) == {"team": "a/nlp", "pool": "h100"}


def test_other_formats(server: Server) -> None:
    server.routes["GET entitlement"] = ENTITLEMENT
    assert json.loads(server.run("entitlement", "a/nlp", "-o", "json").out) == ENTITLEMENT
    head = server.run("entitlement", "a/nlp", "-o", "csv").out.splitlines()[0]
    assert head.startswith("pool,device,as_of,sentence,guaranteed_mgpu,")


def test_a_reclaim_without_a_known_end(server: Server) -> None:
    """Against: "by None"."""
    (pool,) = ENTITLEMENT["pools"]
    reclaimed = {"jobs": 2, "mgpu": 1_000, "until": None}
    server.routes["GET entitlement"] = ENTITLEMENT | {"pools": [pool | {"reclaimed": reclaimed}]}
    ran = server.run("entitlement", "a/nlp")
    assert ran.err.splitlines()[0] == "1 GPU of 2 jobs is being reclaimed."


def test_the_team_of_the_settings(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: only the argument counts."""
    server.routes["GET entitlement"] = ENTITLEMENT
    monkeypatch.setenv("TIDEGATE_TEAM", "a/nlp")
    assert server.run("entitlement").exit_code == 0
    assert dict(server.requests[-1].url.params) == {"team": "a/nlp"}


def test_without_a_team_the_command_asks_for_one(server: Server) -> None:
    ran = server.run("entitlement")
    assert ran.err == (
        "Error: Give the path of a team: tidegate entitlement ai-company/research/nlp.\n"
    )
