"""`tidegate` on arrays and on jobs that wait for others, against a server that is a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import (
    JOB_ID,
    TEAM,
    Server,
    a_problem,
    a_server,
    a_shown_job,
    created,
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


ARRAY_ID = "01a1fd00-0000-7000-8000-00000000aaaa"


NO_ARRAY = a_problem(404)


def a_shown_array(**counts: int) -> dict[str, Any]:
    states = ("held", "queued", "running", "succeeded", "failed", "cancelled")
    return {
        "id": ARRAY_ID,
        "name": "sweep",
        "size": sum(counts.values()),
        "counts": {state: counts.get(state, 0) for state in states},
    }


def test_an_array_is_submitted_and_its_id_printed(server: Server) -> None:
    server.routes["POST jobs"] = created(array={"id": ARRAY_ID, "index": 0, "size": 10})
    ran = server.run("submit", "--team", TEAM, "--gpus", "1", "--array", "0-9%3", "--", "true")
    assert (ran.exit_code, ran.out, ran.err) == (0, f"{ARRAY_ID}\n", "")
    assert server.body()["array"] == "0-9%3"


def test_a_job_waits_for_jobs_and_arrays(server: Server) -> None:
    server.routes["POST jobs"] = created()
    server.routes[f"GET job-arrays/{JOB_ID}"] = NO_ARRAY
    server.routes[f"GET job-arrays/{ARRAY_ID}"] = a_shown_array(queued=1)
    ran = server.run(
        *("submit", "--team", TEAM, "--gpus", "1", "--after-ok", ARRAY_ID),
        *("--after-any", JOB_ID, "--after-not-ok", JOB_ID, "--", "true"),
    )
    assert ran.exit_code == 0, ran.err
    assert server.body()["depends_on"] == [
        {"array": ARRAY_ID, "condition": "succeeded"},
        {"job": JOB_ID, "condition": "ended"},
        {"job": JOB_ID, "condition": "failed"},
    ]


def test_what_a_job_waits_for_is_shown(server: Server) -> None:
    def one(job: str | None, array: str | None, name: str | None) -> dict[str, Any]:
        state = "running" if job else None
        return {"job": job, "array": array, "name": name, "state": state, "condition": "ended"}

    server.routes[f"GET jobs/{JOB_ID}"] = a_shown_job(
        array={"id": ARRAY_ID, "index": 3, "size": 10},
        depends_on=[
            one(JOB_ID, None, "prepare"),
            one(None, ARRAY_ID, "sweep"),
            one(None, None, None),
        ],
    )
    out = server.run("get", JOB_ID).out
    assert f"the end of prepare ({JOB_ID}), which is running" in out
    assert f"the end of array sweep ({ARRAY_ID})" in out
    assert "the end of a job that you cannot see" in out
    assert f"{ARRAY_ID}, 10 tasks" in out


@pytest.mark.parametrize(
    ("words", "what"), [(("get",), ""), (("why",), "/explanation"), (("logs",), "/logs")]
)
def test_where_a_job_is_wanted_an_array_is_told_as_such(
    server: Server, words: tuple[str, ...], what: str
) -> None:
    server.routes[f"GET jobs/{ARRAY_ID}{what}"] = a_problem(404)
    server.routes[f"GET job-arrays/{ARRAY_ID}"] = a_shown_array(queued=3)
    ran = server.run(*words, ARRAY_ID)
    assert (ran.exit_code, ran.out) == (2, "")
    assert (
        f"{ARRAY_ID} is an array of 3 tasks. Name one of its tasks. List them with: tidegate ls "
        f"--array {ARRAY_ID}" in ran.err
    )
    server.routes[f"GET job-arrays/{ARRAY_ID}"] = NO_ARRAY
    assert server.run(*words, ARRAY_ID).exit_code == 3


def test_logs_followed_of_an_array_are_none(server: Server) -> None:
    server.routes[f"GET jobs/{ARRAY_ID}"] = a_problem(404)
    server.routes[f"GET job-arrays/{ARRAY_ID}"] = a_shown_array(queued=1)
    assert "is an array of 1 task." in server.run("logs", "-f", ARRAY_ID).err


@pytest.mark.parametrize("option", ["--gpus", "--gpus-per-node"])
def test_more_gpus_than_there_can_be_are_refused_with_the_maximum(
    server: Server, option: str
) -> None:
    ran = server.run("submit", "--team", TEAM, option, "9" * 23, "--", "true")
    assert (ran.exit_code, server.requests) == (2, [])
    assert f"{option} {'9' * 23}: at most 10,000,000 GPUs can be asked for." in ran.err


def test_the_tasks_of_an_array_are_listed(server: Server) -> None:
    server.routes["GET jobs"] = {"items": [], "next": None}
    server.run("ls", "--array", ARRAY_ID)
    assert server.requests[-1].url.params["array"] == ARRAY_ID


def test_an_array_is_cancelled_whole(server: Server) -> None:
    server.routes[f"POST job-arrays/{ARRAY_ID}/cancel"] = a_shown_array(cancelled=8, succeeded=2)
    ran = server.run("cancel", "--array", ARRAY_ID)
    assert (ran.exit_code, ran.out) == (0, f"{ARRAY_ID}  2 succeeded, 8 cancelled\n")
    assert server.run("cancel").exit_code == 2
    assert server.run("cancel", JOB_ID, "--array", ARRAY_ID).exit_code == 2


@pytest.mark.parametrize("command", ["ls", "cancel"])
def test_what_is_no_id_of_an_array_is_told_and_nothing_asked(server: Server, command: str) -> None:
    ran = server.run(command, "--array", "sweep")
    assert (ran.exit_code, server.requests) == (2, [])
    assert "'sweep' is not the id of an array. `tidegate submit --array` prints that id" in ran.err


@pytest.mark.parametrize(
    ("counts", "exit_code"),
    [({"succeeded": 3}, 0), ({"succeeded": 2, "failed": 1}, 1), ({"cancelled": 3}, 1)],
)
def test_wait_for_an_array(server: Server, counts: dict[str, int], exit_code: int) -> None:
    server.routes[f"GET job-arrays/{ARRAY_ID}"] = a_shown_array(**counts)
    assert server.run("wait", ARRAY_ID).exit_code == exit_code
    server.routes[f"GET job-arrays/{ARRAY_ID}"] = a_shown_array(**counts, held=1)
    assert server.run("wait", ARRAY_ID, "--timeout", "3s").exit_code == 75
