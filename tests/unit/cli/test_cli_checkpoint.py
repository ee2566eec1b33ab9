"""`tidegate checkpoint`, inside a job and outside, against a server that is a function."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.cli_server import JOB_ID, SECRET, Server, a_server

PATH = f"jobs/{JOB_ID}/checkpoints"
KNOWN = {"attempt": 2, "checkpoint_at": "2026-11-21T12:00:00Z"}
SAVED = "attempt 2: saved at 2026-11-21T12:00:00Z\n"
TOKEN = "tgc_2_" + "0" * 64


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    for name in ("CHECKPOINT_URL", "CHECKPOINT_TOKEN", "JOB_ID", "ATTEMPT"):
        monkeypatch.delenv(f"TIDEGATE_{name}", raising=False)
    server = a_server(monkeypatch, str(tmp_path))
    server.routes[f"POST {PATH}"] = KNOWN
    return server


def test_a_job_tells_with_the_token_that_it_was_started_with(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever it is that is logged in. Mutant: the user's own token went to the job's address."""
    monkeypatch.setenv("TIDEGATE_CHECKPOINT_URL", f"https://portal.test/api/v1/{PATH}")
    monkeypatch.setenv("TIDEGATE_CHECKPOINT_TOKEN", TOKEN)
    monkeypatch.setenv("TIDEGATE_JOB_ID", JOB_ID)
    ran = server.run("checkpoint")
    assert (ran.exit_code, ran.out, ran.err) == (0, SAVED, "")
    (request,) = server.requests
    assert str(request.url) == f"https://portal.test/api/v1/{PATH}"
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert server.body() == {}


def test_without_one_it_tells_as_who_is_logged_in(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_JOB_ID", JOB_ID)
    monkeypatch.setenv("TIDEGATE_ATTEMPT", "2")
    ran = server.run("checkpoint", "--at", "2026-11-21T12:00:00Z", "-o", "json")
    assert ran.exit_code == 0
    assert server.body() == {"at": "2026-11-21T12:00:00Z", "attempt": 2}
    assert server.requests[0].headers["Authorization"] == f"Bearer {SECRET}"


def test_a_named_job_is_meant_wherever_it_is_said(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_CHECKPOINT_URL", "https://portal.test/api/v1/jobs/x/checkpoints")
    monkeypatch.setenv("TIDEGATE_CHECKPOINT_TOKEN", TOKEN)
    assert server.run("checkpoint", JOB_ID).out == SAVED
    assert server.sent == [f"POST {PATH}"]
    assert server.requests[0].headers["Authorization"] == f"Bearer {SECRET}"


def test_outside_of_jobs_one_must_be_named(server: Server) -> None:
    ran = server.run("checkpoint")
    assert (ran.exit_code, server.sent) == (2, [])
    assert "Which job?" in ran.err
