"""`tidegate today`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import JOB_ID, Server, a_server

JOB = {"id": JOB_ID, "name": "train", "user": "bob", "team": "a/nlp", "device": "gpu"}
HOUR = 3_600_000
TODAY: dict[str, Any] = {
    "team": "a/nlp",
    "since": "2026-11-20T12:00:00Z",
    "until": "2026-11-21T12:00:00Z",
    "totals": [
        {"device": "gpu", "attempts": 3, "used_mgpu_s": 40 * HOUR, "lost_mgpu_s": 10 * HOUR}
    ],
    "waste": [
        {
            **JOB,
            "how": "node_lost",
            "attempts": 2,
            "has_checkpoint": False,
            "lost_mgpu_s": 8 * HOUR,
        },
        {**JOB, "how": "preempted", "attempts": 1, "has_checkpoint": True, "lost_mgpu_s": 2 * HOUR},
        {**JOB, "how": "withdrawn", "attempts": 1, "has_checkpoint": True, "lost_mgpu_s": HOUR},
    ],
    "ends": [
        {
            **JOB,
            "how": "timed_out",
            "attempt": 3,
            "mgpu": 8_000,
            "ended_at": "2026-11-21T11:00:00Z",
            "used_mgpu_s": HOUR,
            "end_reason": "time_limit",
            "exit_code": None,
        },
        {
            **JOB,
            "how": "unknown",
            "attempt": 1,
            "mgpu": 4_000,
            "ended_at": "2026-11-21T10:30:00Z",
            "used_mgpu_s": HOUR,
            "end_reason": None,
            "exit_code": None,
        },
    ],
    "quota_changes": [
        {
            "id": JOB_ID,
            "at": "2026-11-21T10:00:00Z",
            "actor": None,
            "node": "a/nlp",
            "pool": "h100",
            "before": None,
            "after": {},
            "reason": "planned",
        }
    ],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def test_today_tells_lost_work_ends_and_changes(server: Server) -> None:
    """Planted: `since` is not passed on; a checkpoint is not told from none."""
    server.routes["GET today"] = TODAY
    ran = server.run("today", "a/nlp", "--since", "2026-11-20")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["LOST", "WORK", "OF", "TEAM", "USER", "WHAT", "HAPPENED", "TIMES", "GPU-HOURS"],
        ["train", "a/nlp", "bob", "lost", "its", "node,", "no", "checkpoint", "2", "8.000"],
        ["train", "a/nlp", "bob", "preempted", "1", "2.000"],
        ["train", "a/nlp", "bob", "withdrawn", "from", "its", "cluster", "1", "1.000"],
        ["ENDED", "JOB", "TEAM", "USER", "HOW", "GPUS"],
        ["2026-11-21T11:00:00Z", "train", "a/nlp", "bob", "reached", "its", "time", "limit", "8"],
        ["2026-11-21T10:30:00Z", "train", "a/nlp", "bob", "outcome", "unknown", "4"],
        ["CHANGED", "NODE", "POOL", "BY", "REASON"],
        ["2026-11-21T10:00:00Z", "a/nlp", "h100", "Tidegate", "planned"],
    ]
    assert ran.err == "Lost: 10.000 of 40.000 GPU-hours that ended.\n"
    assert dict(server.requests[-1].url.params) == {
        "team": "a/nlp",
        "since": "2026-11-20T00:00:00Z",
    }
    assert json.loads(server.run("today", "-o", "json").out) == TODAY


def test_a_day_without_anything_says_so(server: Server) -> None:
    empty: dict[str, Any] = {name: [] for name in ("totals", "waste", "ends", "quota_changes")}
    server.routes["GET today"] = {**TODAY, **empty}
    assert server.run("today").err == "No jobs ended and no quotas changed.\n"
