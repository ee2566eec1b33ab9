"""`tidegate files` lists and downloads, against a server that is a function."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from builders.cli_server import JOB_ID, Server, a_problem, a_server

FILES = {
    "attempt": 1,
    "items": [
        {"name": "a.txt", "size_bytes": 3, "modified_at": "2026-11-30T03:00:00Z"},
        {"name": "out/model.bin", "size_bytes": 12_345, "modified_at": "2026-11-30T03:01:00Z"},
    ],
    "next": None,
    "is_cut": False,
    "left_out": 0,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    found = a_server(monkeypatch, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return found


def test_a_list(server: Server) -> None:
    """Planted: the attempt is not sent."""
    server.routes[f"GET jobs/{JOB_ID}/files"] = FILES
    ran = server.run("files", JOB_ID, "--attempt", "2")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["NAME", "BYTES", "CHANGED"],
        ["a.txt", "3", "2026-11-30T03:00:00Z"],
        ["out/model.bin", "12345", "2026-11-30T03:01:00Z"],
    ]
    assert server.requests[-1].url.params["attempt"] == "2"
    assert json.loads(server.run("files", JOB_ID, "-o", "json").out) == FILES["items"]


def test_a_download_is_stored_under_its_own_name(server: Server, tmp_path: Path) -> None:
    """Planted: an existing file is replaced. Planted: a name with folders leaves this folder."""
    path = f"GET jobs/{JOB_ID}/files/download"
    server.routes[path] = httpx.Response(200, content=b"\x00weights")
    ran = server.run("files", JOB_ID, "../out/model.bin")
    assert (ran.exit_code, ran.out) == (0, "")
    assert ran.err == "../out/model.bin is stored as model.bin.\n"
    assert (tmp_path / "model.bin").read_bytes() == b"\x00weights"
    assert dict(server.requests[-1].url.params) == {"name": "../out/model.bin"}
    again = server.run("files", JOB_ID, "out/model.bin")
    assert again.err == (
        "Error: model.bin exists. Choose another name with --file, or add --force.\n"
    )
    server.routes[path] = httpx.Response(200, content=b"new")
    server.run("files", JOB_ID, "out/model.bin", "--force")
    assert (tmp_path / "model.bin").read_bytes() == b"new"
    server.run("files", JOB_ID, "out/model.bin", "--file", "other.bin", "--attempt", "1")
    assert (tmp_path / "other.bin").read_bytes() == b"new"


def test_a_refused_download_leaves_nothing(server: Server, tmp_path: Path) -> None:
    """Planted: an empty file."""
    server.routes[f"GET jobs/{JOB_ID}/files/download"] = a_problem(404, detail="There is none.")
    ran = server.run("files", JOB_ID, "a.txt")
    assert (ran.exit_code, ran.err) == (3, "Error: No: There is none.\n")
    assert not list(tmp_path.glob("a.txt*"))
