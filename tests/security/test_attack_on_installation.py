"""The attacking job on a running Tidegate, as its weakest persona submits it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.connector_builders import eventually
from builders.installation import START_WITHIN_S, STOP_WITHIN_S, Tidegate, settle
from embedded.ports import a_free_port

pytestmark = [pytest.mark.story, pytest.mark.timeout(600)]
ATTACK = (Path(__file__).parent / "attacking_job.py").read_text()


@pytest.fixture(scope="module")
def tidegate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tidegate]:
    running = Tidegate(tmp_path_factory.mktemp("tidegate"), a_free_port())
    try:
        running.embedded("up", "--detach", timeout_s=START_WITHIN_S)
        yield running
    finally:
        running.hang_up()
        running.embedded("reset", "--yes", timeout_s=STOP_WITHIN_S)


def test_a_job_gets_nothing_of_the_portal(tidegate: Tidegate) -> None:
    researcher = tidegate.caller_in("researcher in nlp")
    (cluster,) = researcher.get("/clusters")["items"]
    expected = "Jobs are isolated:" if os.geteuid() == 0 else "Jobs see neither"
    assert cluster["isolation"].startswith(expected), cluster["isolation"]
    team = "ai-company/research/nlp"
    neighbour = researcher.submit(
        team, nodes=1, gpus=1, script="echo secret > private; sleep 600", name="neighbour"
    )
    attempts = tidegate.state / "local" / "attempts"
    researcher.until(neighbour["id"], "running")
    (key,) = settle(
        lambda: [path.name for path in attempts.iterdir() if (path / "work" / "private").exists()]
    )
    web = json.loads((tidegate.state / "run" / "web.json").read_text())
    target = {
        "secret": str(tidegate.state / "env"),
        "open_secret": str(tidegate.state / "phase"),
        "marker": "TIDEGATE_SECRET_KEY=",
        "victim": web["pid"],
        "attempts": str(attempts),
        "neighbour": str(attempts / key / "work" / "private"),
    }
    job = researcher.submit(
        team,
        nodes=1,
        gpus=1,
        name="attack",
        script=f"#!/usr/bin/python3\n{ATTACK.replace('forks, 200', 'forks, 5000')}",
        environment={"ATTACK": json.dumps(target)},
    )
    ended = researcher.until(job["id"], "succeeded", "failed")
    log, error = (
        researcher.get(f"/jobs/{job['id']}/logs", rank=0, stream=stream, offset=0)["text"]
        for stream in ("stdout", "stderr")
    )
    assert (ended["state"], error) == ("succeeded", ""), ended["end_reason"]
    got = json.loads(log)
    # A file of 64 MiB is allowed there.
    assert {what: found for what, found in got.items() if found is not None} == {
        "fills the disk": "a file of more than 67108864 bytes"
    }
    assert researcher.job(neighbour["id"])["state"] == "running"
    researcher.end_all()


def test_an_isolated_job_reports_its_checkpoint(tidegate: Tidegate) -> None:
    """The command and the portal are within its reach. Planted: a PATH without Tidegate's own
    programs."""
    researcher = tidegate.caller_in("researcher in nlp")
    job = researcher.submit(
        "ai-company/research/nlp",
        nodes=1,
        gpus=1,
        name="saves",
        script="tidegate checkpoint && exec sleep 600",
    )
    running = researcher.until(job["id"], "running", "failed")
    assert running["state"] == "running"

    def log(stream: str) -> str:
        return str(
            researcher.get(f"/jobs/{job['id']}/logs", rank=0, stream=stream, offset=0)["text"]
        )

    assert eventually(lambda: log("stdout") + log("stderr")).startswith("attempt 1: saved at ")
    attempt = researcher.job(job["id"])["current_attempt"]
    assert attempt["checkpoint_at"] is not None
    researcher.end_all()
