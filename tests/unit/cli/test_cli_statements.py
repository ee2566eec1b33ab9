"""`tidegate statements`: issued, listed, downloaded and credited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_server

STATEMENT: dict[str, Any] = {
    "id": "s1",
    "number": "2026-00001",
    "kind": "statement",
    "month": "2026-11",
    "unit": "ai-company/research",
    "unit_name": "Research",
    "currency": "EUR",
    "total_cents": 123_456,
    "line_count": 1,
    "issued_at": "2026-12-04T09:00:00Z",
    "issued_by": "fiona@ai-company",
    "due_on": "2027-01-03",
    "terms": "30 days",
    "credits": None,
    "credited_by": None,
    "reason": "",
}
LINE: dict[str, Any] = {
    "number": 1,
    "month": "2026-10",
    "is_correction": True,
    "team": "ai-company/research/nlp",
    "pool": "h100",
    "device": "gpu",
    "usage_class": "borrowed",
    "adjustment": None,
    "reason": None,
    "mgpu_s": -3_600_000,
    "cost_nano": -1_000_000_000,
    "amount_cents": -100,
}
STATEMENTS = "organizations/o1/periods/2026-11/statements"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    """The server knows one organization and one statement."""
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET organizations"] = {
        "items": [{"id": "o1", "slug": "ai-company"}],
        "next": None,
    }
    server.routes[f"GET {STATEMENTS}"] = {"items": [STATEMENT], "next": None}
    return server


def test_statements_are_issued_and_listed(server: Server) -> None:
    server.routes[f"POST {STATEMENTS}"] = {"items": [STATEMENT], "next": None}
    ran = server.run("statements", "issue", "2026-11", "--unit", "team", "--due", "2027-01-03")
    listed = server.run("statements", "list", "2026-11")
    assert ran.out == listed.out
    assert ran.out.splitlines()[1].split() == [
        *("2026-00001", "statement", "ai-company/research", "1,234.56", "EUR", "2027-01-03"),
        *("-", "-"),
    ]


def test_the_lines_of_a_statement(server: Server) -> None:
    server.routes["GET statements/s1"] = {**STATEMENT, "lines": [LINE]}
    ran = server.run("statements", "get", "2026-11", "2026-00001")
    assert ran.out.splitlines()[-1].split() == [
        *("ai-company/research/nlp", "h100", "borrowed", "2026-10", "correction", "-1.000"),
        "-1.00",
    ]
    adjusted = {"adjustment": "a1", "reason": "storage", "usage_class": "adjustment", "mgpu_s": 0}
    line = {**LINE, **adjusted, "is_correction": False}
    server.routes["GET statements/s1"] = {**STATEMENT, "lines": [line]}
    ran = server.run("statements", "get", "2026-11", "2026-00001")
    assert ran.out.splitlines()[-1].split()[2:] == [
        "adjustment",
        "2026-10",
        "storage",
        "-",
        "-1.00",
    ]


def test_an_unknown_statement_or_ending_is_refused(server: Server, tmp_path: Path) -> None:
    ran = server.run("statements", "get", "2026-11", "2026-00009")
    assert "2026-11 has no statement 2026-00009" in ran.err
    ran = server.run("statements", "get", "2026-11", "2026-00001", "--file", "x.docx")
    assert "ends with .pdf or .html" in ran.err


def test_a_statement_is_credited(server: Server) -> None:
    note = {**STATEMENT, "number": "2026-00002", "kind": "credit_note", "lines": []}
    server.routes["POST statements/s1/credit"] = note
    ran = server.run("statements", "credit", "2026-11", "2026-00001", "--reason", "wrong unit")
    assert ran.err == "2026-00001 is credited by 2026-00002.\n"
