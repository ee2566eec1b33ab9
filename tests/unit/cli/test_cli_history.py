"""`tidegate history`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_server

HOUR = 3_600_000
SCOPE: dict[str, Any] = {
    "node": "a/nlp",
    "pool": "h100",
    "device": "gpu",
    "start": "2026-11-01T00:00:00Z",
    "end": "2026-11-01T02:00:00Z",
    "as_of": "2026-11-20T00:00:00Z",
    "time_zone": "Europe/Berlin",
    "step": "hour",
    "edges": ["2026-11-01T00:00:00Z", "2026-11-01T01:00:00Z", "2026-11-01T02:00:00Z"],
}
STEPS = {
    "guaranteed_mgpu_s": [4 * HOUR, 0],
    "borrowed_mgpu_s": [2 * HOUR, 0],
    "unpaid_mgpu_s": [0, 0],
    "fault_mgpu_s": [0, 0],
    "waiting_mgpu_s": [0, HOUR],
    "guarantee_mgpu_s": [4 * HOUR, 4 * HOUR],
    "within_mgpu_s": [4 * HOUR, 0],
    "lent_mgpu_s": [0, 3 * HOUR],
}
USE = {
    **SCOPE,
    "series": {
        "node": "a/nlp",
        "sums": {name: sum(values) for name, values in STEPS.items()},
        "steps": STEPS,
    },
    "children": [],
    "pairs": [{"borrower": "a/x", "lender": "(reserve)", "mgpu_s": HOUR}],
    "week": [],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def test_the_table_has_averages_of_each_step_and_a_sum_that_checks(server: Server) -> None:
    """Against: steps are shown in UTC; ABOVE is what was charged as borrowed."""
    server.routes["GET history/use"] = USE
    days = ("--from", "2026-11-01", "--to", "2026-11-02")
    ran = server.run("history", "a/nlp", "--pool", "h100", *days, "--step", "hour")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["STEP", "IN", "USE", "WITHIN", "ABOVE", "GUARANTEE", "LENT", "IDLE", "WAITING"],
        ["2026-11-01", "01:00", "6", "4", "2", "4", "0", "0", "0"],
        ["2026-11-01", "02:00", "0", "0", "0", "4", "3", "1", "1"],
        ["BORROWER", "LENDER", "GPU-HOURS"],
        ["a/x", "(reserve)", "1.000"],
    ]
    assert ran.err == "Within 4.000 + lent 3.000 + idle 1.000 = guarantee 8.000 GPU-hours.\n"
    assert dict(server.requests[-1].url.params) == {
        "node": "a/nlp",
        "pool": "h100",
        "start": "2026-11-01",
        "end": "2026-11-02",
        "step": "hour",
    }
    assert json.loads(server.run("history", "a/nlp", "--pool", "h100", "-o", "json").out) == USE


def test_csv_is_what_the_server_sends(server: Server) -> None:
    server.routes["GET history/use"] = httpx.Response(200, text="node,pool\r\na,h100\r\n")
    ran = server.run("history", "a", "--pool", "h100", "-o", "csv")
    assert ran.out.split() == ["node,pool", "a,h100"]
    assert server.requests[-1].url.params["format"] == "csv"


def test_waits_and_preemptions_have_tables_of_their_own(server: Server) -> None:
    waits = {"usage_class": "guaranteed", "jobs": 3, "p50_s": 14, "p95_s": 260}
    server.routes["GET history/waits"] = {
        **SCOPE,
        "totals": [waits],
        "teams": [{**waits, "team": "a/nlp"}],
        "steps": [],
    }
    ran = server.run("history", "a", "--pool", "h100", "--waits")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["TEAM", "DEMAND", "JOBS", "P50", "P95"],
        ["all", "guaranteed", "3", "14s", "4m20s"],
        ["a/nlp", "guaranteed", "3", "14s", "4m20s"],
    ]
    row = {"team": "a/nlp", "for_team": "(outside)", "preemptions": 2, "jobs": 1}
    server.routes["GET history/preemptions"] = {
        **SCOPE,
        "preemptions": 2,
        "lost_mgpu_s": HOUR,
        "rows": [{**row, "lost_mgpu_s": HOUR}],
    }
    ran = server.run("history", "a/nlp", "--pool", "h100", "--preemptions")
    assert ran.out.splitlines()[1].split() == ["a/nlp", "(outside)", "2", "1", "1.000"]
    assert ran.err == "Jobs of a/nlp: preempted 2 times, 1.000 GPU-hours lost.\n"


@pytest.mark.parametrize("kind", ["waits", "preemptions"])
def test_the_csv_of_waits_and_preemptions(server: Server, kind: str) -> None:
    """Against: a step is sent, which these endpoints refuse."""
    server.routes[f"GET history/{kind}"] = httpx.Response(200, text="node,pool\r\na,h100\r\n")
    ran = server.run("history", "a", "--pool", "h100", f"--{kind}", "-o", "csv")
    assert ran.out.splitlines() == ["node,pool", "a,h100"]
    assert dict(server.requests[-1].url.params) == {"node": "a", "pool": "h100", "format": "csv"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "2026-11-01"], "Give both --from and --to"),
        (["--waits", "--preemptions"], "Give --waits or --preemptions, not both."),
        (["--waits", "--step", "hour"], "Give --waits without --step."),
    ],
)
def test_options_that_do_not_go_together(server: Server, options: list[str], said: str) -> None:
    assert said in server.run("history", "a", "--pool", "h100", *options).err
