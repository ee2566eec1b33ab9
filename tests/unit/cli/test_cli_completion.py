"""Completion in a shell: names from the server, quickly or not at all."""

from __future__ import annotations

import httpx
import pytest
from typer.testing import CliRunner

from builders.cli_server import JOB_ID, Server, a_problem, a_server, a_shown_job
from cli.main import app


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Server:
    return a_server(monkeypatch, str(tmp_path_factory.mktemp("home")))


def completions(server: Server, words: str) -> tuple[list[str], str]:
    """Words that bash is offered after these, and the text on standard error."""
    ran = CliRunner().invoke(
        app,
        prog_name="tidegate",
        env={
            "_TIDEGATE_COMPLETE": "complete_bash",
            "COMP_WORDS": f"tidegate {words}",
            "COMP_CWORD": str(len(words.split(" "))),
        },
        obj=httpx.MockTransport(server.handle),
    )
    return ran.stdout.split(), ran.stderr


def test_jobs_paths_pools_and_clusters_complete_in_every_command(server: Server) -> None:
    """Against: arguments with several values left out; names that begin otherwise offered."""
    server.routes |= {
        "GET jobs": {"items": [a_shown_job()], "next": None},
        "GET quotas": {
            "items": [
                {"node": node, "node_name": "A"} for node in ("ai", "ai/nlp", "ai/nlp", "zoo")
            ],
            "next": None,
        },
        "GET pools": {"items": [{"name": "h100"}], "next": None},
        "GET clusters": {"items": [{"name": "slurm-a", "kind": "slurm"}], "next": None},
    }
    assert completions(server, f"get {JOB_ID[:4]}") == ([JOB_ID], "")
    assert completions(server, "cancel ") == ([JOB_ID], "")
    assert completions(server, "submit --team ai") == (["ai", "ai/nlp"], "")
    assert completions(server, "quota get z") == (["zoo"], "")
    assert completions(server, "report chargeback --pool ") == (["h100"], "")
    assert completions(server, "nodes --cluster s") == (["slurm-a"], "")
    assert completions(server, "credits state") == (["statement"], "")


@pytest.mark.parametrize(
    "answer",
    [
        httpx.ConnectTimeout("slow"),
        a_problem(403, detail="No."),
        a_problem(503, detail="Later."),
        httpx.Response(200, text="<html>"),
        {"items": None},
    ],
)
def test_a_server_that_fails_offers_nothing_and_says_nothing(
    server: Server, answer: httpx.Response
) -> None:
    """Each is asked once. Against: the retries of other commands; a sentence in the prompt."""
    server.routes["GET pools"] = answer
    assert completions(server, "ls --pool h") == ([], "")
    assert (len(server.requests), server.pauses_s) == (1, [])


def test_nobody_logged_in_completes_commands_only(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEGATE_TOKEN")
    assert completions(server, "ls --pool h") == ([], "")
    assert completions(server, "canc") == (["cancel"], "")
