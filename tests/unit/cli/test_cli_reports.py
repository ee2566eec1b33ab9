"""`tidegate quota` and `tidegate report`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_server
from cli.output import duration, gpu_hours, gpus, money, plain

USE = {
    "in_use_mgpu": 700_000,
    "borrowed_mgpu": 300_000,
    "lent_mgpu": 0,
    "available_mgpu": -500,
    "waiting_mgpu": 0,
}
QUOTA = {
    "node": "ai-company/production",
    "pool": "h100",
    "guaranteed_mgpu": 400_000,
    "borrow_limit_mgpu": None,
    "use": USE,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def test_quota_get(server: Server) -> None:
    server.routes["GET quotas"] = {"items": [QUOTA], "next": None}
    ran = server.run("quota", "get", "ai-company/production/", "--pool", "h100")
    assert server.sent == ["GET quotas?pool=h100&node=ai-company%2Fproduction&limit=500"]
    assert ran.out.splitlines() == [
        "NODE                   POOL  GUARANT  MAY BORROW  IN USE  BORROWED  LENT  FREE  WAIT",
        "ai-company/production  h100      400  any            700       300     0  -0.5     0",
    ]
    assert json.loads(server.run("quota", "get", "a", "--subtree", "-o", "json").out) == [QUOTA]
    assert server.sent[-1] == "GET quotas?subtree=a&limit=500"


def test_quota_get_fits_80_columns(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.output.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    server.routes["GET quotas"] = {"items": [{**QUOTA, "node": "x" * 50}], "next": None}
    assert max(len(line) for line in server.run("quota", "get", "x").out.splitlines()) == 80


def test_no_quota(server: Server) -> None:
    server.routes["GET quotas"] = {"items": [], "next": None}
    ran = server.run("quota", "get", "a/b", "--pool", "tpu")
    assert (ran.exit_code, ran.out, ran.err) == (0, "", "a/b has no quota in tpu.\n")


def a_report(**changes: Any) -> dict[str, Any]:
    amounts = {
        "guaranteed_mgpu_s": 3_600_000,
        "borrowed_mgpu_s": 1_800_000,
        "cost_nano": 2_500_000_000,
        "jobs": 2,
    }
    return {
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-12-01T00:00:00Z",
        "as_of": "2026-11-21T12:00:00Z",
        "currency": "EUR",
        "rows": [{**amounts, "node": "ai-company/research/nlp", "pool": "h100"}],
        "totals": amounts,
        "check": {"is_equal": True},
        **changes,
    }


def test_chargeback(server: Server) -> None:
    server.routes["GET reports/chargeback"] = a_report()
    ran = server.run(
        *("report", "chargeback", "--start", "2026-11-01", "--end", "2026-12-01T00:00:00Z"),
        *("--team", "a/b", "--group-by", "department", "--pool", "h100"),
    )
    assert dict(server.requests[0].url.params) == {
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-12-01T00:00:00Z",
        "team": "a/b",
        "group_by": "department",
        "pool": "h100",
    }
    assert ran.out.splitlines() == [
        "NODE                     POOL  GUARANTEED  BORROWED  COST EUR  JOBS",
        "ai-company/research/nlp  h100       1.000     0.500      2.50     2",
        "total                               1.000     0.500      2.50     2",
    ]
    assert ran.err == (
        "GPU-hours from 2026-11-01T00:00:00Z to 2026-12-01T00:00:00Z, as of 2026-11-21T12:00:00Z.\n"
    )


def test_a_report_that_does_not_add_up_fails(server: Server) -> None:
    server.routes["GET reports/chargeback"] = a_report(check={"is_equal": False})
    period = ("--start", "2026-11-01", "--end", "2026-12-01")
    assert server.run("report", "chargeback", *period).exit_code == 2


def test_chargeback_as_csv_is_what_the_server_sends(server: Server) -> None:
    server.routes["GET reports/chargeback"] = httpx.Response(200, text="node,pool\r\na,b\r\n")
    ran = server.run(
        "report", "chargeback", "--start", "2026-11-01", "--end", "2026-12-01", "--csv"
    )
    assert server.requests[0].url.params["format"] == "csv"
    assert (ran.exit_code, ran.out) == (0, "node,pool\na,b\n")


@pytest.mark.parametrize("start", ["november", "2026-11-1", "20261101", ""])
def test_a_period_that_is_none(server: Server, start: str) -> None:
    ran = server.run("report", "chargeback", "--start", start, "--end", "2026-12-01")
    assert (ran.exit_code, server.requests) == (2, [])


@pytest.mark.parametrize(
    ("mgpu", "text"),
    [(0, "0"), (500, "0.5"), (8_000, "8"), (1_234_567, "1,234.567"), (-500, "-0.5")],
)
def test_gpus(mgpu: int, text: str) -> None:
    assert gpus(mgpu) == text


@pytest.mark.parametrize(
    ("mgpu_s", "text"),
    [(0, "0.000"), (1_799, "0.000"), (1_800, "0.001"), (3_600_000_000, "1,000.000")],
)
def test_gpu_hours(mgpu_s: int, text: str) -> None:
    assert gpu_hours(mgpu_s) == text


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "0.00"),
        (4_999_999, "0.00"),
        (5_000_000, "0.01"),
        (10**12, "1,000.00"),
        (-(10**9), "-1.00"),
    ],
)
def test_money(nano: int, text: str) -> None:
    assert money(nano) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (310, "5m10s"), (3_600, "1h"), (183_700, "2d3h")]
)
def test_duration(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_plain_text_has_no_controls() -> None:
    assert plain("a\x1b[31mb\u202ec\nd\te\x9b") == "a[31mbc\nd\te"
    assert plain(None) == "-"
