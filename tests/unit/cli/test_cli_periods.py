"""`tidegate periods`: months, what blocks their closing, and closed ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_server

DUE: dict[str, Any] = {
    "organization": "ai-company",
    "month": "2026-11",
    "start": "2026-11-01T00:00:00Z",
    "end": "2026-12-01T00:00:00Z",
    "time_zone": "UTC",
    "state": "due",
    "due_at": "2026-12-04T00:00:00Z",
    "unconfirmed": [{"cluster": "alpha", "day": "2026-11-20", "status": "red"}] * 11,
    "closed_at": None,
    "closed_by": None,
    "reason": None,
    "currency": None,
    "row_count": None,
    "digest": None,
    "charges": [],
    "adjustments_nano": 0,
}
CLOSED = {
    **DUE,
    "state": "closed",
    "unconfirmed": [],
    "closed_at": "2026-12-04T09:00:00Z",
    "closed_by": "ai-company/fiona",
    "reason": "known",
    "currency": "EUR",
    "row_count": 2,
    "digest": "0123456789abcdef",
    "adjustments_nano": -2_500_000_000,
    "charges": [
        {
            "team": "ai-company/research/nlp",
            "pool": "h100",
            "device": "gpu",
            "usage_class": "guaranteed",
            "is_correction": is_correction,
            "mgpu_s": mgpu_s,
            "extra_mgpu_s": 0,
            "unpriced_mgpu_s": 0,
            "cost_nano": mgpu_s * 1_000,
        }
        for is_correction, mgpu_s in ((False, 7_200_000), (True, -3_600_000))
    ],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def routes(server: Server, **more: Any) -> None:
    """The server knows one organization and `more`."""
    server.routes["GET organizations"] = {
        "items": [{"id": "o1", "slug": "ai-company"}],
        "next": None,
    }
    server.routes.update(more)


def test_months_are_listed(server: Server) -> None:
    routes(server, **{"GET organizations/o1/periods": {"items": [DUE, CLOSED], "next": None}})
    lines = server.run("periods", "list").out.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["2026-11", "due", "11", "-", "-"],
        ["2026-11", "closed", "0", "ai-company/fiona", "0123456789ab"],
    ]


def test_what_blocks_a_month_is_shown(server: Server) -> None:
    routes(server, **{"GET organizations/o1/periods/2026-11": DUE})
    ran = server.run("periods", "show", "2026-11")
    assert ran.out.splitlines()[-10:] == ["2026-11-20       alpha    red"] * 10
    assert ran.err == "1 more days: use -o json.\n"


def test_a_month_is_closed_with_a_reason(server: Server) -> None:
    routes(server, **{"POST organizations/o1/periods/2026-11/close": CLOSED})
    ran = server.run("periods", "close", "2026-11", "--reason", "known")
    assert server.sent[-1] == "POST organizations/o1/periods/2026-11/close"
    assert ran.err == "2026-11 is closed with 2 charges.\n"
    assert [line.split() for line in ran.out.splitlines() if "Adjust" in line] == [
        ["Adjustments", "-2.50", "EUR"]
    ]
    assert [line.split() for line in ran.out.splitlines()[-2:]] == [
        ["ai-company/research/nlp", "h100", "guaranteed", "use", "2.000", "7.20"],
        ["ai-company/research/nlp", "h100", "guaranteed", "correction", "-1.000", "-3.60"],
    ]
