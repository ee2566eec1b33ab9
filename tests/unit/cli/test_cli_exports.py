"""`tidegate export`."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_server

CONTENT = b"team,cost\r\nnlp,1\r\n"
ID = "01a1fd00-0000-7000-8000-00000000000e"


def an_export(**changes: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "file_name": "charges-ai-company-20261101-20261201.csv",
        "node": "ai-company",
        "start": "2026-11-01T00:00:00Z",
        "end": "2026-12-01T00:00:00Z",
        "as_of": "2026-11-21T12:00:00Z",
        "state": "queued",
        "progress_permille": 0,
        "message": "",
        "created_at": "2026-11-21T12:00:00Z",
        "removed_at": None,
        "manifest": None,
        **changes,
    }


DONE = an_export(
    state="done",
    progress_permille=1_000,
    manifest={"rows": 12_345, "sha256": hashlib.sha256(CONTENT).hexdigest()},
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    monkeypatch.setattr("cli.export_commands.sleep", lambda seconds: None)
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET organizations"] = {
        "items": [{"id": "7", "slug": "ai-company"}],
        "next": None,
    }
    server.routes["GET organizations/7/policy"] = {"time_zone": "Europe/Berlin"}
    return server


def test_the_names_of_users_are_shown_and_changed(server: Server) -> None:
    """Planted: a change without the version that was read; a change by a mere look."""
    policy = {
        "organization": "ai-company",
        "users": "pseudonyms",
        "changed_by": None,
        "changed_at": None,
        "version": 1,
    }
    answer = httpx.Response(200, json=policy, headers={"ETag": '"v1"'})
    server.routes["GET organizations/7/export-policy"] = answer
    assert server.run("export", "users").out.splitlines() == [
        "organization  ai-company",
        "users         pseudonyms",
        "changed by    -",
        "changed at    -",
    ]
    assert server.requests[-1].method == "GET"
    server.routes["PATCH organizations/7/export-policy"] = {
        **policy,
        "users": "names",
        "changed_by": "fay@ai-company",
        "changed_at": "2026-11-20T12:00:00Z",
    }
    assert server.run("export", "users", "names").out.splitlines()[1:] == [
        "users         names",
        "changed by    fay@ai-company",
        "changed at    2026-11-20T12:00:00Z",
    ]
    last = server.requests[-1]
    assert (json.loads(last.content), last.headers["If-Match"]) == ({"users": "names"}, '"v1"')
    assert server.run("export", "users", "initials").exit_code == 2


def test_audits_show_what_differs(server: Server) -> None:
    """Planted: the filters not sent."""
    server.routes["GET charge-audits"] = {
        "items": [
            {
                "organization": "ai-company", "month": "2026-10",
                "audited_at": "2026-11-21T02:00:00Z", "line_count": 12, "difference_count": 1,
                "difference_nano": 1_002, "difference_mgpu_s": 0,
            }
        ],
        "next": None,
    }  # fmt: skip
    ran = server.run("export", "audits", "--month", "2026-10", "--organization", "ai-company")
    assert ran.out.splitlines()[1].split() == [
        "ai-company", "2026-10", "2026-11-21T02:00:00Z", "12", "1", "1,002", "0",
    ]  # fmt: skip
    sent = server.requests[-1].url.params
    assert (sent["month"], sent["organization"]) == ("2026-10", "ai-company")
    server.routes["GET charge-audits"] = {"items": [], "next": None}
    assert "No audits yet" in server.run("export", "audits").err


def test_a_removed_file_is_named_and_made_again(server: Server) -> None:
    server.routes["GET exports"] = {
        "items": [{**DONE, "removed_at": "2026-12-21T12:00:00Z"}],
        "next": None,
    }
    assert "file removed" in server.run("export", "list").out
    server.routes[f"POST exports/{ID}/again"] = an_export(id="other")
    assert server.run("export", "again", ID).out == "other\n"


def test_create_prints_the_id(server: Server) -> None:
    server.routes["POST exports"] = an_export()
    ran = server.run(
        "export", "create", "ai-company/", "--format", "parquet", "--start", "2026-11-01",
        "--end", "2026-12-01", "--pool", "h100",
    )  # fmt: skip
    assert ran.out == f"{ID}\n"
    assert server.body() == {
        "dataset": "charges",
        "format": "parquet",
        "node": "ai-company",
        "start": "2026-10-31T23:00:00Z",
        "end": "2026-11-30T23:00:00Z",
        "as_of": None,
        "pool": "h100",
    }
    assert server.run("export", "create", "a", "--start", "2026-11-01").exit_code == 2


def test_a_month_is_of_the_organizations_zone(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Berlin, December begins an hour before it does in UTC.

    Planted: months and days of UTC."""
    server.routes["POST exports"] = an_export()
    monkeypatch.setattr("cli.moments.now_utc", lambda: datetime(2026, 11, 30, 23, tzinfo=UTC))
    for node in ("ai-company/research", "nlp"):
        ran = server.run("export", "create", node, "--dataset", "focus_cost_and_usage")
        assert ran.err == ("This month (Europe/Berlin): from 2026-12-01 to 2027-01-01, excluded.\n")
        assert (server.body()["start"], server.body()["end"]) == (
            "2026-11-30T23:00:00Z",
            "2026-12-31T23:00:00Z",
        )


def test_times_need_no_zone(server: Server) -> None:
    """Of two organizations, a short path does not say which. Planted: the first one's zone."""
    server.routes["POST exports"] = an_export()
    both = [{"id": "7", "slug": "ai-company"}, {"id": "8", "slug": "elsewhere"}]
    server.routes["GET organizations"] = {"items": both, "next": None}
    ran = server.run("export", "create", "nlp", "--start", "2026-11-01", "--end", "2026-12-01")
    assert ran.err == "Error: Write the whole path of nlp, with its organization.\n"
    times = ["--start", "2026-11-01T00:00:00Z", "--end", "2026-12-01T00:00:00Z"]
    assert server.run("export", "create", "nlp", *times).out == f"{ID}\n"
    assert server.body()["start"] == "2026-11-01T00:00:00Z"


def test_create_waits_for_the_file(server: Server, tmp_path: Path) -> None:
    """The file appears under its name only once it is complete and equal to its manifest."""
    server.routes["POST exports"] = an_export()
    server.routes[f"GET exports/{ID}"] = DONE
    server.routes[f"GET exports/{ID}/file"] = httpx.Response(200, content=CONTENT)
    file = tmp_path / "charges.csv"
    ran = server.run("export", "create", "ai-company", "--file", str(file))
    assert ran.exit_code == 0
    assert "12,345 rows, SHA-256 " in ran.err
    assert file.read_bytes() == CONTENT
    assert not list(tmp_path.glob("*.part"))


def test_a_download_that_differs_is_not_stored(server: Server, tmp_path: Path) -> None:
    """Against: the file stored before it is compared."""
    server.routes[f"GET exports/{ID}"] = DONE
    server.routes[f"GET exports/{ID}/file"] = httpx.Response(200, content=CONTENT[:-1])
    ran = server.run("export", "get", ID, "--file", str(tmp_path / "charges.csv"))
    assert ran.err == "Error: The download differs from its manifest. Try again.\n"
    assert not list(tmp_path.glob("charges*"))


def test_a_failed_export_says_why(server: Server, tmp_path: Path) -> None:
    server.routes[f"GET exports/{ID}"] = an_export(state="failed", message="Too many rows.")
    ran = server.run("export", "get", ID, "--file", str(tmp_path / "charges.csv"))
    assert ran.err == "Error: The export failed: Too many rows.\n"


def test_the_list_and_one_export(server: Server) -> None:
    running = an_export(state="running", progress_permille=345)
    server.routes["GET exports"] = {"items": [running, DONE], "next": None}
    lines = server.run("export", "list").out.splitlines()
    assert [line.split()[2:4] for line in lines] == [
        ["STATE", "ROWS"],
        ["running", "34%"],
        ["done", "12,345"],
    ]
    server.routes[f"GET exports/{ID}"] = DONE
    shown = server.run("export", "get", ID).out
    assert DONE["manifest"]["sha256"] in shown
    assert json.loads(server.run("export", "get", ID, "-o", "json").out) == DONE
    server.routes["GET exports"] = {"items": [], "next": None}
    assert "No exports yet" in server.run("export", "list").err
