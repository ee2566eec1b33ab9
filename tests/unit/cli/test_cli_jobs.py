"""`tidegate` on jobs, against a server that is a function."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
import yaml

from builders.cli_server import (
    JOB_ID,
    SECRET,
    Server,
    a_log_piece,
    a_problem,
    a_server,
    a_shown_job,
)

TEAM = "ai-company/research/nlp"
NOW = datetime(2026, 11, 21, 12, 5, 10, tzinfo=UTC)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def created(**changes: Any) -> httpx.Response:
    return httpx.Response(201, json=a_shown_job(**changes))


# -- submit -----------------------------------------------------------------------------------


def test_a_command_is_submitted(server: Server) -> None:
    server.routes["POST jobs"] = created()
    ran = server.run(
        *("submit", "--team", TEAM, "--gpus", "0.5", "--time", "1h30m", "--pool", "h100"),
        *("--class", "high", "--env", "A=b=c", "--env", "D=", "--checkpoint", "/ckpt"),
        *("--no-requeue", "--preemptible", "--hold", "--cluster", "local", "--signal", "USR1"),
        *("--feature", "nvlink", "--feature", "ib", "--image", "nvcr.io#nvidia/pytorch:24.05"),
        *("--", "python", "train me.py", "--gpus", "9"),
    )
    assert (ran.exit_code, ran.out, ran.err) == (0, f"{JOB_ID}\n", "")
    assert server.sent == ["POST jobs"]
    assert server.body() == {
        "name": "python",
        "script": "#!/bin/sh\nexec python 'train me.py' --gpus 9\n",
        "team": TEAM,
        "pool": "h100",
        "gpus": 0.5,
        "time_limit_s": 5_400,
        "priority_class": "high",
        "checkpoint_path": "/ckpt",
        "cluster": "local",
        "notice_signal": "USR1",
        "features": ["nvlink", "ib"],
        "image": "nvcr.io#nvidia/pytorch:24.05",
        "is_preemptible": True,
        "is_requeueable": False,
        "held": True,
        "environment": {"A": "b=c", "D": ""},
    }
    (request,) = server.requests
    assert request.headers["Authorization"] == f"Bearer {SECRET}"
    assert UUID(request.headers["Idempotency-Key"])
    assert request.extensions["timeout"] == {
        "connect": 5.0,
        "read": 30.0,
        "write": 30.0,
        "pool": 30.0,
    }


def test_a_batch_script_is_sent_as_it_stands(server: Server, tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH -N 2\n#SBATCH -o x\nsrun träin\n"
    (tmp_path / "job.sbatch").write_text(text, encoding="utf-8")
    server.routes["POST jobs"] = created(
        notes=[
            {"line": 2, "text": "#SBATCH -N 2", "verdict": "understood", "detail": "nodes = 2"},
            {"line": 3, "text": "#SBATCH -o x", "verdict": "ignored", "detail": "Logs are kept."},
        ]
    )
    ran = server.run("submit", str(tmp_path / "job.sbatch"), "--team", TEAM, "--gpus-per-node", "8")
    assert server.body() == {"sbatch": text, "team": TEAM, "gpus_per_node": 8}
    assert (ran.exit_code, ran.out) == (0, f"{JOB_ID}\n")
    assert ran.err == (
        "understood  line 2: #SBATCH -N 2: nodes = 2\n"
        "ignored     line 3: #SBATCH -o x: Logs are kept.\n"
    )


def test_a_batch_script_on_standard_input(server: Server) -> None:
    server.routes["POST jobs"] = created()
    assert server.run("submit", "-", "--team", TEAM, stdin="#!/bin/sh\ntrue\n").exit_code == 0
    assert server.body() == {"sbatch": "#!/bin/sh\ntrue\n", "team": TEAM}


def test_a_yaml_file_and_options_that_win(server: Server, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "team: a/b\ngpus_per_node: 8\nnodes: 2\nscript: |\n  true\nenvironment: {SEED: 1, A: x}\n"
    )
    server.routes["POST jobs"] = created()
    path = str(tmp_path / "job.yaml")
    assert server.run("submit", path, "--team", TEAM, "--gpus", "4", "--env", "A=y").exit_code == 0
    assert server.body() == {
        "team": TEAM,
        "gpus": 4,
        "nodes": 2,
        "script": "true\n",
        "environment": {"SEED": "1", "A": "y"},
    }


def test_the_team_may_come_from_the_environment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_TEAM", "a/b")
    server.routes["POST jobs"] = created()
    assert server.run("submit", "--gpus", "1", "--", "true").exit_code == 0
    assert server.body()["team"] == "a/b"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["submit", "--team", TEAM], "Give a file, or a command after --, and not both."),
        (["submit", "x.sh", "--team", TEAM, "--", "true"], "Give a file, or a command"),
        (["submit", "--team", TEAM, "--"], "There is no command after --."),
        (["submit", "/no/such", "--team", TEAM], "Cannot read /no/such: No such file"),
        (["submit", "--gpus", "1", "--", "true"], "Which team?"),
        (["submit", "--gpus", "many", "--", "true"], "--gpus 'many': write a number"),
        (["submit", "--gpus", "-1", "--", "true"], "--gpus '-1': write a number"),
        (["submit", "--gpus", "٣", "--", "true"], "write a number"),
        (["submit", "--time", "soon", "--", "true"], "--time 'soon': write 90s"),
        (["submit", "--env", "A", "--", "true"], "--env 'A': write NAME=VALUE."),
    ],
)
def test_wrong_use_sends_nothing(server: Server, arguments: list[str], told: str) -> None:
    ran = server.run(*arguments)
    assert (ran.exit_code, ran.out, server.requests) == (2, "", [])
    assert told in ran.err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"- a\n", "must be a YAML mapping"),
        (b"a: [\n", "is not YAML"),
        (b"!!python/object/apply:os.system ['id']\n", "is not YAML"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"environment: {A: [1]}\n", "environment A must be text"),
        (b"environment: {A: yes}\n", "environment A must be text"),
        (b"#" * ((1 << 20) + 1), "is larger than 1,048,576 bytes"),
    ],
)
def test_files_that_cannot_be_used(
    server: Server, tmp_path: Path, content: bytes, told: str
) -> None:
    (tmp_path / "job.yaml").write_bytes(content)
    ran = server.run("submit", str(tmp_path / "job.yaml"), "--team", TEAM)
    assert (ran.exit_code, server.requests) == (2, [])
    assert told in ran.err


def test_a_lost_answer_is_asked_for_again_under_the_same_key(server: Server) -> None:
    server.routes["POST jobs"] = [
        httpx.ReadTimeout("timed out"),
        httpx.ConnectError("refused"),
        a_problem(503),
        created(),
    ]
    ran = server.run("submit", "--team", TEAM, "--gpus", "1", "--", "true")
    assert (ran.exit_code, ran.out) == (0, f"{JOB_ID}\n")
    assert len({request.headers["Idempotency-Key"] for request in server.requests}) == 1
    assert len(server.requests) == 4
    assert server.pauses_s == [0.5, 1.0, 2.0]


def test_a_server_that_is_away(server: Server) -> None:
    server.routes["POST jobs"] = httpx.ConnectError("Connection refused")
    ran = server.run("submit", "--team", TEAM, "--gpus", "1", "--", "true")
    assert (ran.exit_code, ran.out, len(server.requests)) == (4, "", 4)
    assert ran.err == (
        "Error: https://tidegate.example does not answer (Connection refused). Is the address "
        "right and the server up?\n"
    )


def test_something_else_answers(server: Server) -> None:
    server.routes["GET jobs"] = httpx.Response(200, text="<html>")
    assert server.run("ls").exit_code == 4
    server.routes["GET jobs"] = httpx.Response(302, headers={"Location": "https://elsewhere/"})
    assert server.run("ls").exit_code == 4
    server.routes["GET jobs"] = httpx.Response(404, text="nginx")
    ran = server.run("ls")
    assert (ran.exit_code, ran.err) == (
        4,
        "Error: tidegate.example answered 404, but not as Tidegate does. Is the address right?\n",
    )


def test_a_refusal_is_told_field_by_field(server: Server) -> None:
    server.routes["POST jobs"] = a_problem(
        400,
        title="The request is not valid",
        errors=[
            {"pointer": "/gpus", "detail": "must be above 0\x1b[31m", "code": "out_of_range"},
            {"pointer": "/pool", "detail": "there is no pool", "code": "unknown"},
        ],
    )
    ran = server.run("submit", "--team", TEAM, "--gpus", "1", "--", "true")
    assert (ran.exit_code, ran.out) == (3, "")
    assert ran.err == (
        "Error: The request is not valid\n  gpus: must be above 0[31m\n  pool: there is no pool\n"
    )


def test_a_bad_token_says_what_to_do(server: Server) -> None:
    server.routes["GET jobs"] = a_problem(401, title="Sign in first", detail="It has expired.")
    ran = server.run("ls")
    assert (ran.exit_code, ran.err) == (
        3,
        "Error: Sign in first: It has expired.\nRun `tidegate login` with a fresh access token.\n",
    )


PLAN = {
    "job": {
        "features": ["ib"],
        "image": None,
        "tasks": 1,
        "tasks_at_once": None,
        "name": "bert",
        "team": TEAM,
        "pool": "h100",
        "priority_class": "normal",
        "mgpu_per_node": 8_000,
        "node_count": 2,
        "mgpu": 16_000,
        "time_limit_s": None,
    },
    "notes": [],
    "fits": True,
    "explanation": {"sentence": "It would start now on local."},
    "would_start_now": True,
    "guaranteed_mgpu": 8_000,
    "borrowed_mgpu": 8_000,
    "cluster": "local",
    "cost_per_hour_nano": 24_005_000_000,
    "currency": "EUR",
}


def test_a_plan_of_an_array_says_what_is_of_each_task(server: Server) -> None:
    job = {**PLAN["job"], "node_count": 1, "mgpu": 8_000, "tasks": 10, "tasks_at_once": 3}
    server.routes["POST jobs"] = {**PLAN, "job": job}
    words = ("submit", "--team", TEAM, "--gpus", "8", "--array", "0-9%3", "--plan", "--", "true")
    out = server.run(*words).out.splitlines()
    assert out[:3] == [
        "For each of 10 tasks; at most 3 at once. What becomes of the first:",
        "It would start now on local.",
        "",
    ]
    assert "GPUs             8 for each task" in out
    assert out[-3:] == [
        "guaranteed GPUs  8 for each task",
        "borrowed GPUs    8 for each task",
        "costs an hour    24.01 EUR for each task",
    ]
    server.routes["POST jobs"] = {**PLAN, "job": {**job, "tasks_at_once": None}}
    assert server.run(*words).out.startswith("For each of 10 tasks. What becomes of the first:\n")


def test_the_lines_of_a_refused_plan_are_shown(server: Server) -> None:
    note = {"line": 1, "text": "#SBATCH -G 8", "verdict": "understood", "detail": "gpus = 8"}
    server.routes["POST jobs"] = a_problem(400, notes=[note])
    ran = server.run("submit", "--team", TEAM, "--plan", "--", "true")
    assert ran.exit_code == 3
    assert ran.err.startswith("understood  line 1: #SBATCH -G 8: gpus = 8\n")


def test_a_plan(server: Server) -> None:
    server.routes["POST jobs"] = PLAN
    ran = server.run("submit", "--team", TEAM, "--gpus", "16", "--plan", "--", "true")
    assert server.sent == ["POST jobs?dry_run=true"]
    assert "Idempotency-Key" not in server.requests[0].headers
    assert (ran.exit_code, ran.out) == (
        0,
        "It would start now on local.\n"
        "\n"
        "name             bert\n"
        "team             ai-company/research/nlp\n"
        "pool             h100\n"
        "class            normal\n"
        "GPUs             8 on each of 2 nodes\n"
        "features         ib\n"
        "could run        yes\n"
        "starts now       yes\n"
        "on               local\n"
        "guaranteed GPUs  8\n"
        "borrowed GPUs    8\n"
        "costs an hour    24.01 EUR\n",
    )
    server.routes["POST jobs"] = {**PLAN, "fits": False}
    assert server.run("submit", "--team", TEAM, "--plan", "--", "true").exit_code == 3


# -- ls, get, why -----------------------------------------------------------------------------


def test_ls_sends_its_filters_and_follows_pages(server: Server) -> None:
    def page(first: int, following: str | None) -> dict[str, Any]:
        jobs = [a_shown_job(name=f"job-{first + i}") for i in range(500)]
        return {"items": jobs, "next": following}

    server.routes["GET jobs"] = [page(0, "/api/v1/jobs?limit=500&cursor=abc"), page(500, None)]
    ran = server.run(
        *("ls", "--state", "queued,running", "--team", "a/b", "--user", "bob", "--pool", "h100"),
        *("--name", "x y", "--usage-class", "borrowed", "--since", "2026-11-21T12:00:00Z"),
        *("--origin", "native", "--oldest-first", "--limit", "600", "-o", "json"),
    )
    assert [job["name"] for job in json.loads(ran.out)] == [f"job-{i}" for i in range(600)]
    first, second = (dict(request.url.params) for request in server.requests)
    assert first == {
        "limit": "500",
        "state": "queued,running",
        "team": "a/b",
        "user": "bob",
        "pool": "h100",
        "q": "x y",
        "usage_class": "borrowed",
        "origin": "native",
        "submitted_at__gte": "2026-11-21T12:00:00Z",
        "sort": "submitted_at",
    }
    assert second == {**first, "cursor": "abc"}


def test_ls_as_a_table_without_a_terminal(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.job_commands.now_utc", lambda: NOW)
    server.routes["GET jobs"] = {
        "items": [a_shown_job(), a_shown_job(name="x" * 60, mgpu=500, state="preempting")],
        "next": None,
    }
    ran = server.run("ls")
    assert ran.out.splitlines() == [
        "ID" + " " * 36 + "NAME" + " " * 30 + "STATE       GPUS  AGE    POOL  USER  TEAM",
        f"{JOB_ID}  bert{' ' * 28}  queued        16  5m10s  h100  bob   {TEAM}",
        # Nothing is cut in a pipe, and one long name does not push the other lines apart.
        f"{JOB_ID}  {'x' * 60}  preempting   0.5  5m10s  h100  bob   {TEAM}",
    ]
    server.routes["GET jobs"] = {"items": [a_shown_job()], "next": None}
    assert server.run("ls").out.splitlines() == [
        "ID" + " " * 36 + "NAME  STATE   GPUS  AGE    POOL  USER  TEAM",
        f"{JOB_ID}  bert  queued    16  5m10s  h100  bob   {TEAM}",
    ]


def test_ls_marks_what_was_submitted_beside_the_portal(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cli.job_commands.now_utc", lambda: NOW)
    shown = a_shown_job(state="running", origin="native")
    server.routes["GET jobs"] = {"items": [shown], "next": None}
    assert server.run("ls").out.splitlines()[1] == (
        f"{JOB_ID}  bert  running (native)    16  5m10s  h100  bob   {TEAM}"
    )


def test_ls_fits_a_terminal_of_80_columns(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.job_commands.now_utc", lambda: NOW)
    monkeypatch.setattr("cli.output.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    server.routes["GET jobs"] = {"items": [a_shown_job(name="n" * 60)], "next": None}
    lines = server.run("ls").out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert lines[1] == f"{JOB_ID}  {'n' * 20}…  queued    16  5m10s"


def test_ls_of_nothing(server: Server) -> None:
    server.routes["GET jobs"] = {"items": [], "next": None}
    ran = server.run("ls")
    assert (ran.exit_code, ran.out, ran.err) == (0, "", "No jobs.\n")
    assert server.run("ls", "-o", "json").out == "[]\n"


def test_get_in_every_form(server: Server) -> None:
    attempt = {
        "cluster": "local",
        "native_id": "4711",
        "slots": [{"node": f"n{i}", "mgpu": 8_000} for i in range(10)],
        "borrowed_mgpu": 4_000,
        "grace_until": None,
        "message": "",
    }
    job = a_shown_job(
        state="failed",
        end_reason="exit_code",
        exit_code=3,
        attempt=2,
        current_attempt=attempt,
        usage={"guaranteed_mgpu_s": 7_200_000, "borrowed_mgpu_s": 1_800},
        features=["ib", "nvlink"],
        image="x:1",
    )
    server.routes[f"GET jobs/{JOB_ID}"] = job
    assert json.loads(server.run("get", JOB_ID, "-o", "json").out) == job
    assert yaml.safe_load(server.run("get", JOB_ID, "-o", "yaml").out) == job
    assert server.run("get", JOB_ID.upper()).out == (
        f"id             {JOB_ID}\n"
        "name           bert\n"
        "state          failed (exit_code)\n"
        "team           ai-company/research/nlp\n"
        "user           bob\n"
        "pool           h100\n"
        "GPUs           16 (8 on each of 2 nodes)\n"
        "features       ib, nvlink\n"
        "image          x:1\n"
        "class          normal\n"
        "time limit     1h\n"
        "submitted      2026-11-21T12:00:00Z\n"
        "exit code      3\n"
        "attempt        2\n"
        "cluster        local\n"
        "native id      4711\n"
        "nodes          n0, n1, n2, n3, n4, n5, n6, n7 and 2 more\n"
        "borrowed GPUs  4\n"
        "used           2.000 guaranteed and 0.001 borrowed GPU-hours\n"
    )


def test_why(server: Server) -> None:
    server.routes[f"GET jobs/{JOB_ID}/explanation"] = {
        "code": "waiting_for_reclaim",
        "sentence": "16 GPUs are being given back.",
        "numbers": {"need_mgpu": 16_000, "victims": 1, "grace_left_s": 290, "mgpu_per_node": 8_000},
        "node": "ai-company/research",
        "jobs_ahead": 2,
        "victims": [{"job": None, "name": None, "team": "a/b", "mgpu": 16_000, "grace_until": "T"}],
        "estimated_start": {
            "earliest": None,
            "latest": "2026-11-21T12:05:00Z",
            "method": "reclaim",
        },
        "as_of": "2026-11-21T12:00:10Z",
    }
    ran = server.run("why", JOB_ID)
    assert ran.out == (
        "16 GPUs are being given back.\n"
        "\n"
        "reason         waiting_for_reclaim\n"
        "limit of       ai-company/research\n"
        "jobs ahead     2\n"
        "starts         by 2026-11-21T12:05:00Z at the latest (by reclaim)\n"
        "need GPUs      16\n"
        "victims        1\n"
        "grace left     4m50s\n"
        "GPUs per node  8\n"
        "as of          2026-11-21T12:00:10Z\n"
        "\n"
        "GIVES BACK          TEAM  GPUS  UNTIL\n"
        "(not yours to see)  a/b     16  T\n"
    )


def test_a_job_by_the_beginning_of_its_name(server: Server) -> None:
    server.routes["GET session"] = {"user": {"username": "bob"}}
    server.routes[f"GET jobs/{JOB_ID}"] = a_shown_job()
    server.routes["GET jobs"] = {
        "items": [a_shown_job(), a_shown_job(id="other", name="not-bert")],
        "next": None,
    }
    assert server.run("get", "be").exit_code == 0
    assert server.sent[1] == "GET jobs?user=bob&q=be&limit=200"
    twice = [a_shown_job(), a_shown_job(id="other", name="bert-2")]
    server.routes["GET jobs"] = {"items": twice, "next": None}
    assert server.run("get", "bert").exit_code == 0
    ran = server.run("get", "ber")
    assert ran.exit_code == 2
    assert ran.err == (
        "Error: 2 of your jobs match 'ber'; give the id of one:\n"
        f"  {JOB_ID}  bert  queued\n  other  bert-2  queued\n"
    )
    server.routes["GET jobs"] = {"items": [], "next": None}
    assert server.run("get", "x").err == (
        "Error: You have no job whose name begins with 'x'; give its id.\n"
    )


# -- cancel, hold, release --------------------------------------------------------------------


@pytest.mark.parametrize("action", ["cancel", "hold", "release"])
def test_changing_jobs(server: Server, action: str) -> None:
    other = JOB_ID[:-1] + "2"
    server.routes[f"POST jobs/{JOB_ID}/{action}"] = a_shown_job(state="held")
    server.routes[f"POST jobs/{other}/{action}"] = a_problem(409, title="Too late")
    ran = server.run(action, JOB_ID)
    # A cancelled job may take its grace to end.
    shown = "cancelling" if action == "cancel" else "held"
    assert (ran.exit_code, ran.out) == (0, f"{JOB_ID}  {shown}\n")
    ran = server.run(action, other, JOB_ID)
    assert (ran.exit_code, ran.out) == (3, f"{JOB_ID}  {shown}\n")
    assert ran.err == f"Error: {other}: Too late: It is refused.\n"


# -- logs -------------------------------------------------------------------------------------


def test_logs_piece_by_piece(server: Server) -> None:
    server.routes[f"GET jobs/{JOB_ID}/logs"] = [
        a_log_piece("hällo\n"),
        a_log_piece("world\n", offset=7),
        a_log_piece("", offset=13),
    ]
    ran = server.run("logs", JOB_ID, "--rank", "3", "--stderr", "--tail", "9")
    assert (ran.exit_code, ran.out) == (0, "hällo\nworld\n")
    assert [dict(request.url.params) for request in server.requests] == [
        {"rank": "3", "stream": "stderr", "offset": "-9", "limit": "262144"},
        {"rank": "3", "stream": "stderr", "attempt": "1", "offset": "7", "limit": "262144"},
        {"rank": "3", "stream": "stderr", "attempt": "1", "offset": "13", "limit": "262144"},
    ]


def test_a_log_that_was_cut_says_so(server: Server) -> None:
    server.routes[f"GET jobs/{JOB_ID}/logs"] = a_log_piece("x", is_final=True, is_truncated=True)
    ran = server.run("logs", JOB_ID)
    assert (ran.out, ran.err) == ("x", "(the log was cut at its size limit)\n")


@pytest.mark.parametrize("follow", [[], ["-f"]])
def test_an_empty_log_says_whether_the_other_one_has_something(
    server: Server, follow: list[str]
) -> None:
    server.routes[f"GET jobs/{JOB_ID}"] = a_shown_job(
        state="failed", attempt=2, current_attempt={"slots": [{}, {}]}
    )
    empty = a_log_piece("", attempt=2, is_final=True)
    server.routes[f"GET jobs/{JOB_ID}/logs"] = [empty, a_log_piece("oops", attempt=2)]
    ran = server.run("logs", JOB_ID, "--rank", "1", *follow)
    assert (ran.exit_code, ran.out, ran.err) == (
        0,
        "",
        "Nothing was written to stdout, but there is stderr: "
        f"tidegate logs {JOB_ID} --stderr --rank 1\n",
    )
    assert dict(server.requests[-1].url.params) == {
        "rank": "1",
        "stream": "stderr",
        "attempt": "2",
        "offset": "0",
        "limit": "16",
    }
    server.routes[f"GET jobs/{JOB_ID}/logs"] = [empty, a_log_piece("fine", attempt=2)]
    ran = server.run("logs", JOB_ID, "--stderr", "--attempt", "2", *follow)
    assert (ran.out, ran.err) == (
        "",
        f"Nothing was written to stderr, but there is stdout: tidegate logs {JOB_ID} --attempt 2\n",
    )


@pytest.mark.parametrize("other", [a_log_piece("", is_final=True), a_problem(404)])
def test_a_job_that_wrote_nothing(server: Server, other: dict[str, Any] | httpx.Response) -> None:
    server.routes[f"GET jobs/{JOB_ID}/logs"] = [a_log_piece("", is_final=True), other]
    ran = server.run("logs", JOB_ID)
    assert (ran.exit_code, ran.out, ran.err) == (0, "", "Nothing was written to stdout.\n")


def test_following_over_a_requeue_and_a_bad_network(server: Server) -> None:
    server.routes[f"GET jobs/{JOB_ID}"] = [
        a_shown_job(),
        a_shown_job(state="starting", attempt=1),
        a_shown_job(state="running", attempt=1),
        a_shown_job(state="running", attempt=1),
        a_shown_job(state="queued", attempt=1),
        a_shown_job(state="running", attempt=2),
        a_shown_job(state="succeeded", attempt=2),
    ]
    down: list[Any] = [httpx.ReadError("reset")] * 4
    server.routes[f"GET jobs/{JOB_ID}/logs"] = [
        a_problem(404, detail="not yet"),
        a_log_piece("a"),
        *down,
        a_log_piece("b", offset=1),
        a_log_piece("", offset=2),
        a_log_piece("", offset=2, is_final=True),
        a_log_piece("", offset=2, is_final=True),
        a_log_piece("c", attempt=2),
        a_log_piece("", offset=1, attempt=2),
        a_log_piece("d", offset=1, attempt=2, is_final=True),
    ]
    ran = server.run("logs", "-f", JOB_ID)
    assert (ran.exit_code, ran.out, ran.err) == (0, "abcd", "--- attempt 2 ---\n")


@pytest.mark.parametrize(
    ("job", "arguments", "exit_code", "told"),
    [
        (a_shown_job(state="cancelled"), [], 0, "The job is cancelled and never started"),
        (a_shown_job(state="running", attempt=1), ["--attempt", "2"], 2, "no attempt 2"),
        (
            a_shown_job(state="running", attempt=1, current_attempt={"slots": [{}, {}]}),
            ["--rank", "2"],
            2,
            "2 ranks, the last of them is rank 1",
        ),
        (a_shown_job(state="failed", attempt=1), [], 3, "Nothing here."),
    ],
)
def test_following_ends_when_there_is_nothing_to_come(
    server: Server, job: dict[str, Any], arguments: list[str], exit_code: int, told: str
) -> None:
    server.routes[f"GET jobs/{JOB_ID}"] = job
    ran = server.run("logs", "-f", JOB_ID, *arguments)
    assert ran.exit_code == exit_code
    assert told in ran.err


def test_following_gives_up_on_a_server_that_is_gone(server: Server) -> None:
    server.routes[f"GET jobs/{JOB_ID}"] = httpx.ConnectError("refused")
    assert server.run("logs", "-f", JOB_ID).exit_code == 4
    assert len(server.requests) == 5 * 4


# -- wait -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "code", "exit_code"),
    [
        ("succeeded", 0, 0),
        ("succeeded", None, 0),
        ("failed", 3, 3),
        ("failed", 255, 255),
        ("failed", -9, 137),
        ("failed", None, 1),
        ("failed", 0, 1),
        ("cancelled", -15, 130),
        ("timed_out", -9, 124),
    ],
)
def test_wait_exits_as_the_job_did(
    server: Server, state: str, code: int | None, exit_code: int
) -> None:
    server.routes[f"GET jobs/{JOB_ID}"] = [
        a_shown_job(),
        a_shown_job(state="running"),
        a_shown_job(state=state, exit_code=code),
    ]
    ran = server.run("wait", JOB_ID)
    assert (ran.exit_code, ran.out, ran.err) == (exit_code, "", f"{JOB_ID}  {state}\n")
    assert server.pauses_s == [1.0, 1.5]


def test_wait_has_an_end(server: Server) -> None:
    server.routes[f"GET jobs/{JOB_ID}"] = a_shown_job()
    ran = server.run("wait", JOB_ID, "--timeout", "20s")
    assert (ran.exit_code, ran.err) == (75, "Not ended after 20s.\n")
    assert sum(server.pauses_s) == 20.0
    assert server.run("wait", JOB_ID, "--timeout", "0s").exit_code == 75


def test_wait_for_a_job_that_is_not_there(server: Server) -> None:
    assert server.run("wait", JOB_ID).exit_code == 3


# -- arrays and dependencies ------------------------------------------------------------------

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
    assert "the end of a job that is not yours to see" in out
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
        f"{ARRAY_ID} is an array of 3 tasks; name one of them. They are listed by: tidegate ls "
        f"--array {ARRAY_ID}" in ran.err
    )
    server.routes[f"GET job-arrays/{ARRAY_ID}"] = NO_ARRAY
    assert server.run(*words, ARRAY_ID).exit_code == 3


def test_logs_followed_of_an_array_are_none(server: Server) -> None:
    server.routes[f"GET jobs/{ARRAY_ID}"] = a_problem(404)
    server.routes[f"GET job-arrays/{ARRAY_ID}"] = a_shown_array(queued=1)
    assert "is an array of 1 task;" in server.run("logs", "-f", ARRAY_ID).err


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


@pytest.mark.parametrize(
    ("counts", "exit_code"),
    [({"succeeded": 3}, 0), ({"succeeded": 2, "failed": 1}, 1), ({"cancelled": 3}, 1)],
)
def test_wait_for_an_array(server: Server, counts: dict[str, int], exit_code: int) -> None:
    server.routes[f"GET job-arrays/{ARRAY_ID}"] = a_shown_array(**counts)
    assert server.run("wait", ARRAY_ID).exit_code == exit_code
    server.routes[f"GET job-arrays/{ARRAY_ID}"] = a_shown_array(**counts, held=1)
    assert server.run("wait", ARRAY_ID, "--timeout", "3s").exit_code == 75
