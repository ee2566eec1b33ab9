"""`tidegate schedules`, `tidegate schedule`, and schedules of `tidegate submit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_server

ID = "01a22634-3f30-7593-8f2e-0431fee97f30"
JOB = "01a22634-3f30-7593-8f2e-0431fee97f31"
RUN = {
    "scheduled_at": "2026-11-29T02:00:00Z",
    "at": "2026-11-29T02:00:04Z",
    "outcome": "submitted",
    "reason": None,
    "job": {"id": JOB, "name": "nightly", "state": "running"},
}
SKIPPED = {**RUN, "scheduled_at": "2026-11-28T02:00:00Z", "outcome": "skipped", "job": None}
CRON_JOB = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def a_schedule(**changes: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "name": "nightly",
        "team": "ai-company/research/nlp",
        "user": "bob",
        "organization": "ai-company",
        "cron": "0 3 * * *",
        "time_zone": "Europe/Berlin",
        "concurrency_policy": "forbid",
        "starting_deadline_s": 600,
        "is_suspended": False,
        "suspended_because": None,
        "next_at": "2026-11-30T02:00:00Z",
        "last_run": RUN,
        "created_at": "2026-11-21T12:00:00Z",
        "ended_at": None,
        "can": ["suspend", "delete"],
        **changes,
    }


def a_page(*items: Any) -> dict[str, Any]:
    return {"items": list(items), "next": None}


def test_the_list_shows_next_and_last_run(server: Server) -> None:
    suspended = a_schedule(name="weekly", next_at=None, is_suspended=True, last_run=SKIPPED)
    server.routes["GET schedules"] = a_page(a_schedule(), suspended)
    ran = server.run("schedules", "--team", "nlp")
    assert server.sent == ["GET schedules?team=nlp&limit=50"]
    assert [line.split() for line in ran.out.splitlines()] == [
        ["SCHEDULE", "NAME", "CRON", "TIME", "ZONE", "NEXT", "RUN", "LAST", "RUN", "USER"],
        *(
            [ID[-12:], name, "0", "3", "*", "*", "*", "Europe/Berlin", coming, last, "bob"]
            for name, coming, last in (
                ("nightly", "2026-11-30T02:00:00Z", "running"),
                ("weekly", "suspended", "skipped"),
            )
        ),
    ]


def test_one_schedule_shows_its_runs(server: Server) -> None:
    template = {"id": ID, "name": "train-8"}
    runs = ["2026-11-30T02:00:00Z", "2026-12-01T02:00:00Z"]
    detail = a_schedule(next_runs=runs, template=template, request=None)
    reason = "The run before it has not ended."
    server.routes |= {
        "GET schedules": a_page(a_schedule()),
        f"GET schedules/{ID}": detail,
        f"GET schedules/{ID}/runs": a_page(RUN, {**SKIPPED, "reason": reason}),
    }
    ran = server.run("schedule", ID[-6:])
    assert server.sent == [
        "GET schedules?limit=500",
        f"GET schedules/{ID}",
        f"GET schedules/{ID}/runs?limit=10",
    ]
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert "cron 0 3 * * * (Europe/Berlin)" in lines
    assert "template train-8" in lines
    assert "starts within 10m" in lines
    assert "next run 2026-12-01T02:00:00Z" in lines
    assert f"2026-11-29T02:00:00Z submitted {JOB}" in lines
    assert f"2026-11-28T02:00:00Z skipped {reason}" in lines


@pytest.mark.parametrize(("act", "is_suspended"), [("suspend", True), ("resume", False)])
def test_suspend_and_resume(server: Server, act: str, is_suspended: bool) -> None:
    """Planted: resume sent as suspend."""
    server.routes[f"PATCH schedules/{ID}"] = a_schedule()
    assert server.run("schedule", ID, act).exit_code == 0
    assert server.sent == [f"PATCH schedules/{ID}"]
    assert server.body() == {"is_suspended": is_suspended}


def test_delete(server: Server) -> None:
    server.routes[f"DELETE schedules/{ID}"] = httpx.Response(204)
    assert server.run("schedule", ID, "delete").err == "Deleted. Its jobs stay.\n"
    assert server.sent == [f"DELETE schedules/{ID}"]


def test_a_name_of_several_schedules_is_refused(server: Server) -> None:
    other = a_schedule(id=JOB, user="alice")
    server.routes["GET schedules"] = a_page(a_schedule(), other)
    ran = server.run("schedule", "nightly", "delete")
    assert ran.exit_code == 2
    assert f"{ID[-12:]} of bob, {JOB[-12:]} of alice" in ran.err


def test_submit_with_cron_creates_a_schedule(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    server.routes["POST schedules"] = a_schedule(notes=[])
    ran = server.run(
        *("submit", "--team", "nlp", "--gpus", "1", "--cron", "0 3 * * *"),
        *("--time-zone", "Europe/Berlin", "--concurrency", "forbid"),
        *("--starting-deadline", "10m", str(script)),
    )
    assert server.sent == ["POST schedules"]
    assert server.body() == {
        "cron": "0 3 * * *",
        "time_zone": "Europe/Berlin",
        "concurrency_policy": "forbid",
        "starting_deadline_s": 600,
        "request": {
            "sbatch": "#!/bin/sh\ntrue\n",
            "script_file": "job.sh",
            "team": "nlp",
            "gpus": 1,
        },
    }
    assert ran.out == f"{ID}\n"
    assert "A schedule. Its first run is at 2026-11-30T02:00:00Z." in ran.err


@pytest.mark.parametrize("text", [CRON_JOB, '{"apiVersion": "batch/v1", "kind": "CronJob"}'])
def test_a_cron_job_is_a_schedule(server: Server, text: str) -> None:
    server.routes["POST schedules"] = a_schedule(notes=[])
    server.run("submit", "--team", "nlp", "-", stdin=text)
    assert server.sent == ["POST schedules"]
    assert server.body() == {"request": {"manifest": text, "team": "nlp"}}


def test_a_job_beside_a_cron_job_is_a_job(server: Server) -> None:
    """The plan of each is asked for, also where another was refused. Planted: both to schedules."""
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\n"
    server.run("submit", "--team", "nlp", "-", stdin=f"{job}---\n{CRON_JOB}")
    assert server.sent == ["POST jobs?dry_run=true", "POST schedules?dry_run=true"]


def test_a_time_zone_alone_is_refused(server: Server) -> None:
    ran = server.run("submit", "--time-zone", "UTC", "--team", "nlp", "--", "true")
    assert (ran.exit_code, server.sent) == (2, [])
    assert "belong to --cron" in ran.err
