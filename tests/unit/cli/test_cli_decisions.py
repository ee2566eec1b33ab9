"""`tidegate decisions`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import JOB_ID, Server, a_server

SERVE = {"id": JOB_ID, "name": "serve", "user": "ana", "team": "a/inference"}
TRAIN = {"id": JOB_ID, "name": "train", "user": "bob", "team": "a/nlp"}
UNSEEN = {"id": None, "name": None, "user": None, "team": None}


def a_line(decision: str, job: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "decided_at": "2026-11-21T12:07:00Z",
        "decision": decision,
        "job": job,
        "pool": "h100",
        "device": "gpu",
        "mgpu": 8_000,
        "guaranteed_mgpu": 6_000,
        "beneficiary": None,
        "right": None,
        "at_risk_mgpu_s": None,
        "victims": 0,
        "victims_mgpu": 0,
        **changes,
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def test_decisions_are_listed_with_whom_they_were_for_and_what_was_at_risk(server: Server) -> None:
    """Planted: a team that may not be seen was told as "None"."""
    stopped = {"mgpu": 32_000, "right": "borrowed", "at_risk_mgpu_s": 32_000 * 1_800}
    server.routes["GET decisions"] = {
        "items": [
            a_line("stopped", SERVE, beneficiary=TRAIN, **stopped),
            a_line("stopped", SERVE, beneficiary={**UNSEEN, "team": "a/nlp"}, **stopped),
            a_line("stopped", SERVE, beneficiary=UNSEEN, **{**stopped, "right": "borrowed_above"}),
            a_line("claimed", TRAIN, victims=2, victims_mgpu=40_000),
            a_line("claim_dropped", TRAIN),
            a_line("started", TRAIN),
            a_line("started", TRAIN, guaranteed_mgpu=8_000),
        ],
        "next": None,
    }
    ran = server.run("decisions", "--team", "a", "--decision", "stopped,claimed", "--pool", "h100")
    assert [line.split("  ", 1)[1] for line in ran.out.splitlines()] == [
        "             DECISION       JOB    TEAM         POOL  GPUS  AT RISK  FOR OR FROM",
        "stopped        serve  a/inference  h100    32   16.000  for train of a/nlp (borrowed)",
        "stopped        serve  a/inference  h100    32   16.000  for a/nlp (borrowed)",
        "stopped        serve  a/inference  h100    32   16.000  "
        "for another organization (borrowed above)",
        "claimed        train  a/nlp        h100     8     none  from 2 jobs with 40",
        "claim dropped  train  a/nlp        h100     8     none  -",
        "started        train  a/nlp        h100     8     none  2 borrowed",
        "started        train  a/nlp        h100     8     none  -",
    ]
    assert dict(server.requests[-1].url.params) == {
        "team": "a",
        "decision": "stopped,claimed",
        "pool": "h100",
        "limit": "20",
    }


def test_a_moment_is_asked_for_as_with_replay(server: Server) -> None:
    server.routes["GET decisions"] = {"items": [], "next": None}
    ran = server.run("decisions", "--at", "2026-11-21T14:03")
    assert (ran.exit_code, ran.err) == (0, "No decisions are recorded at 2026-11-21T14:03.\n")
    parameters = server.requests[-1].url.params
    assert (parameters["decided_at__gte"], parameters["decided_at__lt"]) == (
        "2026-11-21T14:03:00Z",
        "2026-11-21T14:04:00Z",
    )
    assert server.run("decisions", "--at", "noon").exit_code == 2
