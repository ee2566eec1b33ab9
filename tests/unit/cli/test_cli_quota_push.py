"""`tidegate quota push`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_problem, a_server

CLUSTER = "0197a000-0000-7000-8000-000000000001"
PUSH = "0197a000-0000-7000-8000-000000000002"
PATH = f"clusters/{CLUSTER}/quota-pushes"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET clusters"] = {
        "items": [{"id": CLUSTER, "name": "hpc1", "kind": "slurm"}],
        "next": None,
    }
    return server


def a_push(status: str = "done", **changes: Any) -> dict[str, Any]:
    return {
        "id": PUSH,
        "kind": "push",
        "status": status,
        "error": "",
        "changes": [],
        "change_count": 0,
        **changes,
    }


CHANGES = [
    {
        "kind": "lower",
        "subject": "qos g-ai-company_nlp",
        "before": {"gres/gpu:h100": 16},
        "after": {"gres/gpu:h100": 8},
        "note": "12 gres/gpu:h100 are in use and run on",
        "result": "done",
    },
    {
        "kind": "create",
        "subject": "account ai-company",
        "before": {},
        "after": {"parent": "root", "gres/gpu:h100": None, "qos": ["a", "b"]},
        "note": "",
        "result": "done",
    },
]


def test_a_push_shows_the_exact_difference(server: Server) -> None:
    server.routes[f"POST {PATH}"] = a_push("waiting")
    server.routes[f"GET {PATH}/{PUSH}"] = [
        a_push("waiting", error="no connection to the database"),
        a_push(changes=CHANGES, change_count=3),
    ]
    ran = server.run("quota", "push", "hpc1")
    assert ran.exit_code == 0
    assert ran.out.splitlines() == [
        "CHANGE  OF                    SETTING        BEFORE  AFTER  RESULT",
        "lower   qos g-ai-company_nlp  gres/gpu:h100      16  8      done",
        "create  account ai-company    parent              -  root   done",
        "create  account ai-company    gres/gpu:h100       -  none   done",
        "create  account ai-company    qos                 -  a,b    done",
    ]
    assert ran.err.splitlines() == [
        "Waiting: no connection to the database",
        "qos g-ai-company_nlp: 12 gres/gpu:h100 are in use and run on",
        "And 1 more differences.",
    ]
    assert server.body(1) == {"kind": "push"}
    assert "Idempotency-Key" in server.requests[1].headers
    assert server.pauses_s == [1.0, 1.5]


def test_a_dry_run_asks_for_no_change(server: Server) -> None:
    server.routes[f"POST {PATH}"] = a_push()
    ran = server.run("quota", "push", "hpc1", "--dry-run")
    assert (ran.exit_code, ran.out, ran.err) == (0, "", "No differences.\n")
    assert server.body() == {"kind": "dry_run"}
    assert json.loads(server.run("quota", "push", CLUSTER, "-o", "json").out) == a_push()


def test_what_goes_wrong_is_told(server: Server) -> None:
    server.routes[f"POST {PATH}"] = a_push("failed", error="write QOS: no permission")
    ran = server.run("quota", "push", "hpc1")
    assert (ran.exit_code, ran.err) == (3, "Error: write QOS: no permission\n")
    server.routes[f"POST {PATH}"] = a_push("waiting")
    server.routes[f"GET {PATH}/{PUSH}"] = a_push("waiting")
    ran = server.run("quota", "push", "hpc1", "--timeout", "2s")
    assert (ran.exit_code, ran.err.splitlines()) == (
        75,
        [
            "hpc1 has not answered yet.",
            f"The request continues without this command: {PUSH}",
        ],
    )
    server.routes[f"POST {PATH}"] = a_problem(400, detail="A local cluster keeps no limits.")
    assert server.run("quota", "push", "hpc1").exit_code == 3
    ran = server.run("quota", "push", "nope")
    assert (ran.exit_code, ran.err) == (2, "Error: There is no cluster 'nope'. Known: hpc1.\n")
