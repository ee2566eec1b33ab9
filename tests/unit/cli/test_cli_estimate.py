"""`tidegate estimate`, against a server that is a function."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.cli_server import JOB_ID, a_server


def test_when_a_job_is_to_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes[f"POST jobs/{JOB_ID}/estimate"] = {
        "as_of": "2026-11-21T12:00:00Z",
        "estimated_start": {
            "earliest": "2026-11-21T13:00:00Z",
            "latest": "2026-11-21T13:01:12Z",
            "method": "look_ahead",
        },
        "until": "2026-11-22T00:00:00Z",
        "asked_until": "2026-11-22T00:00:00Z",
        "assumed_ends": 2,
    }
    ran = server.run("estimate", JOB_ID, "--horizon", "12h")
    assert server.body() == {"horizon_s": 43_200}
    assert [line.split(maxsplit=1)[0] for line in ran.out.splitlines()] == [
        "starts",
        "looked",
        "jobs",
        "as",
    ]
    assert "between 2026-11-21T13:00:00Z and 2026-11-21T13:01:12Z (by look_ahead)\n" in ran.out
