"""`tidegate codes`: cost centres and project codes by node and month."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_server

CODE: dict[str, Any] = {
    "id": "01935000-0000-7000-8000-00000000c0de",
    "node": "ai-company/research",
    "kind": "cost_centre",
    "code": "4711",
    "start": "2026-12",
    "end": None,
    "set_at": "2026-12-04T00:00:00Z",
    "set_by": "fiona@ai-company",
}
PATH = "organizations/o1/accounting-codes"
LINE = ["0000c0de", "ai-company/research", "cost_centre", "4711", "2026-12", "-"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    found = a_server(monkeypatch, str(tmp_path))
    organizations = [{"id": "o1", "slug": "ai-company"}]
    found.routes["GET organizations"] = {"items": organizations, "next": None}
    found.routes[f"GET {PATH}"] = {"items": [CODE], "next": None}
    found.routes[f"POST {PATH}"] = {"items": [CODE], "next": None}
    found.routes[f"PATCH accounting-codes/{CODE['id']}"] = {**CODE, "end": "2027-01"}
    found.routes[f"DELETE accounting-codes/{CODE['id']}"] = {}
    return found


def lines(out: str) -> list[list[str]]:
    return [line.split()[:6] for line in out.splitlines()[1:]]


def test_codes_are_listed_and_set(server: Server) -> None:
    """Against: the project code sent as a cost centre."""
    assert lines(server.run("codes", "list").out) == [LINE]
    both = ("--cost-centre", "4711", "--project-code", "P-12")
    ran = server.run("codes", "set", "ai-company/research", "--from", "2026-12", *both)
    assert lines(ran.out) == [LINE]
    start = {"node": "ai-company/research", "start": "2026-12", "end": None}
    assert server.body() == {
        "codes": [
            {**start, "kind": "cost_centre", "code": "4711"},
            {**start, "kind": "project_code", "code": "P-12"},
        ]
    }
    ran = server.run("codes", "set", "ai-company/research", "--from", "2026-12")
    assert (ran.exit_code, "Give --cost-centre, --project-code or both." in ran.err) == (2, True)


def test_codes_are_imported_from_a_file(server: Server, tmp_path: Path) -> None:
    """An end may be empty. Against: the empty text sent as an end."""
    file = tmp_path / "codes.csv"
    file.write_text(
        "node,kind,code,start,end\n"
        "ai-company/research,cost_centre,4711,2026-12,\n"
        "ai-company,project_code,P-12,2026-12,2027-02\n"
    )
    server.run("codes", "import", str(file))
    assert [(one["code"], one["end"]) for one in server.body()["codes"]] == [
        ("4711", None),
        ("P-12", "2027-02"),
    ]
    for content, words in (
        (b"node,code\n", "must be node,kind,code,start,end"),
        (b"\xff\xfe", "no CSV in UTF-8"),
        (b"n" * (1 << 21), "larger than 1 MiB"),
    ):
        file.write_bytes(content)
        ran = server.run("codes", "import", str(file))
        assert ran.exit_code == 2
        assert words in ran.err


def test_a_code_is_ended_and_removed_by_the_end_of_its_id(server: Server) -> None:
    ran = server.run("codes", "end", "c0de", "2027-01")
    assert lines(ran.out) == [[*LINE[:5], "2027-01"]]
    assert server.run("codes", "remove", "c0de").err == "Removed 4711 of ai-company/research.\n"
    assert server.sent[-1] == f"DELETE accounting-codes/{CODE['id']}"
    assert server.run("codes", "remove", "beef").exit_code == 2
