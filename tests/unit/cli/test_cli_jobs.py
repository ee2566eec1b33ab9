"""`tidegate` reads and changes jobs, against a server that is a function."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import (
    JOB_ID,
    TEAM,
    Server,
    a_problem,
    a_server,
    a_shown_job,
)

NOW = datetime(2026, 11, 21, 12, 5, 10, tzinfo=UTC)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


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
        *("--cluster", "slurm-a", "--class", "high", "--type", "training", "--schedule", JOB_ID),
        *("--until", "2026-11-22", "--ended-since", "2026-11-20", "--ended-until", "2026-11-23"),
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
        "cluster": "slurm-a",
        "priority_class": "high",
        "type": "training",
        "schedule": JOB_ID,
        "submitted_at__gte": "2026-11-21T12:00:00Z",
        "submitted_at__lt": "2026-11-22T00:00:00Z",
        "ended_at__gte": "2026-11-20T00:00:00Z",
        "ended_at__lt": "2026-11-23T00:00:00Z",
        "sort": "submitted_at",
    }
    assert second == {**first, "cursor": "abc"}


def test_ls_has_one_order(server: Server) -> None:
    """The order is sent as it is; two orders are refused before a request."""
    server.routes["GET jobs"] = {"items": [], "next": None}
    assert server.run("ls", "--sort", "-gpus").err == "No jobs.\n"
    assert server.requests[0].url.params["sort"] == "-gpus"
    refused = server.run("ls", "--sort", "name", "--oldest-first")
    assert (refused.exit_code, refused.err) == (
        2,
        "Error: Give either --sort or --oldest-first, not both.\n",
    )
    assert len(server.requests) == 1


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


def test_ls_says_cores_where_it_is_cores(server: Server) -> None:
    """Planted: the head is always GPUS; cells of cores among GPUs bear no word."""
    cores = a_shown_job(device="cpu", pool="cpu", mgpu=6_000)
    server.routes["GET jobs"] = {"items": [cores], "next": None}
    head, row = server.run("ls").out.splitlines()
    assert (head.split()[3], row.split()[3]) == ("CORES", "6")
    server.routes["GET jobs"] = {"items": [cores, a_shown_job()], "next": None}
    head, row, of_gpus = server.run("ls").out.splitlines()
    assert (head.split()[3], row.split()[3:5]) == ("GPUS", ["6", "cores"])
    assert "cores" not in of_gpus


def test_ls_of_nothing(server: Server) -> None:
    server.routes["GET jobs"] = {"items": [], "next": None}
    ran = server.run("ls")
    assert (ran.exit_code, ran.out, ran.err) == (0, "", "No jobs.\n")
    assert server.run("ls", "-o", "json").out == "[]\n"


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        ({"pool": "h100", "pools": ["h100", "a100"], "attempt": 0}, "h100, else a100"),
        ({"pool": "a100", "pools": ["h100", "a100"], "attempt": 1}, "a100 (of h100, else a100)"),
        ({"pool": "h100", "pools": ["h100"], "attempt": 1}, "h100"),
    ],
)
def test_which_pools_it_accepts_and_where_it_runs(
    server: Server, shown: dict[str, Any], told: str
) -> None:
    server.routes[f"GET jobs/{JOB_ID}"] = a_shown_job(**shown)
    assert f"\npool        {told}\n" in server.run("get", JOB_ID).out


def test_a_job_that_is_stopped_before_it_ran_says_so(server: Server) -> None:
    """Its cluster may need a while. Against: "starting" alone."""
    attempt = {"state": "stopping", "cluster": "local", "slots": [], "borrowed_mgpu": 0}
    shown = a_shown_job(state="starting", current_attempt=attempt)
    server.routes[f"GET jobs/{JOB_ID}"] = shown
    lines = server.run("get", JOB_ID).out.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("state ")] == [
        "starting (is being stopped)"
    ]


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
        exit_code_meaning="an exit code of the program's own",
        attempt=2,
        current_attempt=attempt,
        usage={"guaranteed_mgpu_s": 7_200_000, "borrowed_mgpu_s": 1_800},
        features=["ib", "nvlink"],
        image="x:1",
    )
    server.routes[f"GET jobs/{JOB_ID}"] = job
    assert json.loads(server.run("get", JOB_ID, "-o", "json").out) == job
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
        "exit code      3 (an exit code of the program's own)\n"
        "attempt        2\n"
        "cluster        local\n"
        "native id      4711\n"
        "nodes          n0, n1, n2, n3, n4, n5, n6, n7 and 2 more\n"
        "borrowed GPUs  4\n"
        "used           2.000 guaranteed and 0.001 borrowed GPU-hours\n"
    )


def test_what_a_job_has_waited_for(server: Server) -> None:
    server.routes[f"GET jobs/{JOB_ID}/reasons"] = {
        "items": [
            {
                "since": "2026-11-21T12:00:04Z",
                "code": "borrow_limit_reached",
                "sentence": "nlp may borrow nothing.",
            },
            {"since": "2026-11-21T12:00:00Z", "code": "begin_time", "sentence": "Not yet."},
        ]
    }
    ran = server.run("why", JOB_ID, "--history")
    assert ran.exit_code == 0
    assert [line.split() for line in ran.out.splitlines()] == [
        ["SINCE", "REASON", "SENTENCE"],
        ["2026-11-21T12:00:04Z", "borrow_limit_reached", "nlp", "may", "borrow", "nothing."],
        ["2026-11-21T12:00:00Z", "begin_time", "Not", "yet."],
    ]
    server.routes[f"GET jobs/{JOB_ID}/reasons"] = {"items": []}
    ran = server.run("why", JOB_ID, "--history")
    assert (ran.out, ran.err) == ("", "The job has not waited.\n")


def test_why_of_a_job_that_wants_cores(server: Server) -> None:
    """Mutants: the numbers, or the head of those who give back, say GPUs."""
    server.routes[f"GET jobs/{JOB_ID}"] = {"id": JOB_ID, "device": "cpu"}
    server.routes[f"GET jobs/{JOB_ID}/explanation"] = {
        "code": "waiting_for_reclaim",
        "sentence": "16 cores are being given back.",
        "numbers": {"need_mgpu": 16_000, "mgpu_per_node": 8_000},
        "node": None,
        "jobs_ahead": 0,
        "victims": [
            {
                "job": None,
                "name": None,
                "team": "a/b",
                "mgpu": 500,
                "grace_until": "T",
                "at_risk_mgpu_s": 1_800_000,
                "notice_handling": "reports_checkpoints",
            }
        ],
        "estimated_start": None,
        "as_of": "2026-11-21T12:00:10Z",
    }
    ran = server.run("why", JOB_ID)
    assert ran.out.splitlines()[4:] == [
        "need cores      16",
        "cores per node  8",
        "as of           2026-11-21T12:00:10Z",
        "",
        "PREEMPTED  TEAM  CORES  UNTIL  AT RISK       AT ITS NOTICE",
        "(hidden)   a/b     0.5  T      0.500 core-h  saves (reports checkpoints)",
    ]


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
    server.routes[f"GET jobs/{JOB_ID}"] = {"id": JOB_ID, "device": "gpu"}
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
        "PREEMPTED  TEAM  GPUS  UNTIL  AT RISK  AT ITS NOTICE\n"
        "(hidden)   a/b     16  T               not known\n"
    )


@pytest.mark.parametrize(
    ("code", "jobs_ahead", "numbers", "told"),
    [
        ("begin_time", 0, {"begin_at": 1_795_816_800}, "not before 2026-11-27T22:00:00Z"),
        ("dependency", 0, {"jobs_waited_for": 1}, "unknown: it starts after its dependencies"),
        (
            "topology_fragmented",
            0,
            {},
            "unknown; run `tidegate estimate` to simulate it",
        ),
        (
            "waiting_for_free_gpus",
            1,
            {},
            "unknown: 1 job comes before it; run `tidegate estimate` to simulate it",
        ),
        (
            "behind_fair_share",
            1_200,
            {},
            "unknown: 1,200 jobs come before it; run `tidegate estimate` to simulate it",
        ),
    ],
)
def test_why_says_what_an_unknown_start_hangs_on(
    server: Server, code: str, jobs_ahead: int, numbers: dict[str, int], told: str
) -> None:
    """In the words of the job's page. Mutant: nothing but "unknown", also of a job that waits for
    its begin time."""
    server.routes[f"GET jobs/{JOB_ID}"] = {"id": JOB_ID, "device": "gpu"}
    server.routes[f"GET jobs/{JOB_ID}/explanation"] = {
        "code": code,
        "sentence": "It waits.",
        "numbers": numbers,
        "node": None,
        "jobs_ahead": jobs_ahead,
        "victims": [],
        "estimated_start": None,
        "as_of": "2026-11-21T12:00:10Z",
    }
    ran = server.run("why", JOB_ID)
    starts = next(line for line in ran.out.splitlines() if line.startswith("starts"))
    assert starts.split(None, 1)[1] == told


def test_a_job_as_yaml_is_its_request(server: Server) -> None:
    """Planted: the job as the API shows it, which `tidegate submit` refuses."""
    text = "team: ai-company/research/nlp\nscript: |\n  true\n"
    server.routes[f"GET jobs/{JOB_ID}/request"] = httpx.Response(200, text=text)
    assert server.run("get", JOB_ID, "-o", "yaml").out == text
    assert server.sent == [f"GET jobs/{JOB_ID}/request?format=yaml"]


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
        "Error: 2 of your jobs match 'ber'. Give the id of one:\n"
        f"  {JOB_ID}  bert  queued\n  other  bert-2  queued\n"
    )
    server.routes["GET jobs"] = {"items": [], "next": None}
    assert server.run("get", "x").err == (
        "Error: No visible job has a name that begins with 'x', or an id that ends (4 to 12 "
        "digits) or begins (8 or more) with it. `tidegate ls` lists jobs.\n"
    )


@pytest.mark.parametrize(
    ("command", "states"),
    [
        pytest.param(["why", "--history"], "held,queued", id="why"),
        pytest.param(["estimate"], "held,queued", id="estimate"),
        pytest.param(["hold"], "queued", id="hold"),
        pytest.param(["release"], "held", id="release"),
        pytest.param(["cancel"], "held,queued,starting,running,preempting", id="cancel"),
        pytest.param(["wait"], "held,queued,starting,running,preempting", id="wait"),
        pytest.param(["checkpoint"], "running,preempting", id="checkpoint"),
    ],
)
def test_of_several_jobs_the_one_that_the_command_is_for(
    server: Server, command: list[str], states: str
) -> None:
    """It is asked for by state, as the newest of a name may all have ended. Planted: any that
    begins so is taken though one has exactly this name."""
    ended = [a_shown_job(id=f"old-{number}", state="failed") for number in (1, 2)]
    state = states.split(",")[0]
    open_ones = [a_shown_job(state=state), a_shown_job(id="x", name="bert-2", state=state)]
    server.routes["GET session"] = {"user": {"username": "bob"}}
    server.routes["GET jobs"] = [{"items": ended, "next": None}, {"items": open_ones, "next": None}]
    ran = server.run(command[0], "bert", *command[1:])
    assert ran.err.splitlines()[0] == (
        f"Of your jobs that match 'bert' only this one is {state}: {JOB_ID}  bert"
    )
    assert dict(server.requests[2].url.params) == {
        **{"user": "bob", "q": "bert", "limit": "200"},
        "state": states,
    }
    assert server.requests[3].url.path.split("/")[4] == JOB_ID


def test_why_asks_which_if_several_jobs_wait_or_none_does(server: Server) -> None:
    """Planted: the first that waits is taken; those that ended are offered too."""
    server.routes["GET session"] = {"user": {"username": "bob"}}
    ended = a_shown_job(id="old", state="failed")
    two = [a_shown_job(), a_shown_job(id="other", name="bert-2", state="held")]
    server.routes["GET jobs"] = [
        {"items": [ended, *two], "next": None},
        {"items": two, "next": None},
    ]
    ran = server.run("why", "ber")
    assert (ran.exit_code, ran.out, ran.err) == (
        *(2, ""),
        "Error: 2 of your jobs match 'ber' and are held or queued. Give the id of one:\n"
        f"  {JOB_ID}  bert  queued\n  other  bert-2  held\n",
    )
    none: dict[str, Any] = {"items": [], "next": None}
    server.routes["GET jobs"] = [{"items": [ended, {**ended, "id": "older"}], "next": None}, none]
    assert server.run("why", "ber").err == (
        "Error: 2 of your jobs match 'ber'. Give the id of one:\n"
        "  old  bert  failed\n  older  bert  failed\n"
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
    server.routes[f"POST jobs/{JOB_ID}/{action}"] = a_shown_job(state="cancelled")
    assert server.run(action, JOB_ID).out == f"{JOB_ID}  cancelled\n"


def a_failed_job(**changes: Any) -> dict[str, Any]:
    facts = {"exit_code": 127, "exit_code_meaning": "command not found", "can": ["logs"]}
    return a_shown_job(state="failed", end_reason="exit_code", **{**facts, **changes})


def a_summary(**changes: Any) -> dict[str, Any]:
    return {
        "attempt": 1,
        "rank": 3,
        "node": "a-18",
        "ranks": 8,
        "streams": [],
        "error_stream": "stderr",
        "error_lines": ["train.sh: line 1: pyton: command not found", "exit 127"],
        **changes,
    }


def test_get_says_why_a_job_failed(server: Server) -> None:
    server.routes[f"GET jobs/{JOB_ID}"] = a_failed_job()
    server.routes[f"GET jobs/{JOB_ID}/log-summary"] = a_summary()
    out = server.run("get", JOB_ID).out
    assert "\nexit code   127 (command not found)\n" in out
    assert out.endswith(
        "\n\nLast lines of stderr, rank 3 on a-18:\n"
        "  train.sh: line 1: pyton: command not found\n"
        "  exit 127\n"
        f"The whole log: tidegate logs {JOB_ID} --stderr --rank 3\n"
    )


@pytest.mark.parametrize(
    ("job", "answer"),
    [
        ({}, a_summary(error_stream=None, error_lines=[])),
        ({}, a_problem(404)),
        ({"can": []}, a_summary()),
        ({"state": "succeeded"}, a_summary()),
    ],
)
def test_get_shows_the_job_where_there_are_no_error_lines(
    server: Server, job: dict[str, Any], answer: Any
) -> None:
    server.routes[f"GET jobs/{JOB_ID}"] = {**a_failed_job(), **job}
    server.routes[f"GET jobs/{JOB_ID}/log-summary"] = answer
    ran = server.run("get", JOB_ID)
    assert (ran.exit_code, ran.err) == (0, "")
    assert "Last lines" not in ran.out
    assert "cannot be read" not in ran.out


@pytest.mark.parametrize("answer", [a_problem(503), httpx.ReadTimeout("too slow")])
def test_get_asks_once_for_error_lines_and_says_that_the_log_cannot_be_read(
    server: Server, answer: Any
) -> None:
    """Planted: four tries, as for all else; a time-out of 30 s; nothing is said."""
    server.routes[f"GET jobs/{JOB_ID}"] = a_failed_job()
    server.routes[f"GET jobs/{JOB_ID}/log-summary"] = answer
    ran = server.run("get", JOB_ID)
    assert (ran.exit_code, ran.err) == (0, "")
    assert ran.out.endswith(f"\n\nIts log cannot be read now. Try later: tidegate logs {JOB_ID}\n")
    assert server.pauses_s == []
    job, summary = server.requests
    every = {"connect": 5.0, "read": 30.0, "write": 30.0, "pool": 30.0}
    assert job.extensions["timeout"] == every
    assert summary.extensions["timeout"] == dict.fromkeys(every, 5.0)


def test_get_says_that_a_job_ignored_its_notice(server: Server) -> None:
    attempt = {"borrowed_mgpu": 0, "mgpu": 16_000, "slots": [], "ignored_notice": True}
    server.routes[f"GET jobs/{JOB_ID}"] = a_shown_job(state="cancelled", current_attempt=attempt)
    assert "\nnotice         ignored: stopped by force\n" in server.run("get", JOB_ID).out


def test_get_says_why_an_attempt_was_stopped(server: Server) -> None:
    attempt = {"borrowed_mgpu": 0, "mgpu": 16_000, "slots": [], "stop_reason": "requeued"}
    server.routes[f"GET jobs/{JOB_ID}"] = a_shown_job(current_attempt=attempt)
    assert "\nstopped as     requeued\n" in server.run("get", JOB_ID).out


# -- jobs by the end of their id ----------------------------------------------------------------


def ids_by_end(server: Server, *pages: list[dict[str, Any]]) -> None:
    server.routes["GET session"] = {"user": {"username": "bob"}}
    server.routes["GET jobs"] = [{"items": jobs, "next": None} for jobs in pages]


def test_the_end_of_an_id_names_a_job(server: Server) -> None:
    """What pages show; planted: only jobs of one's own."""
    job = a_shown_job(id=JOB_ID[:-4] + "c518", name="theirs")
    server.routes[f"GET jobs/{job['id']}"] = job
    ids_by_end(server, [], [a_shown_job(name="c518-b"), job])
    ran = server.run("get", "C518", "-o", "json")
    assert json.loads(ran.out)["name"] == "theirs"
    assert [dict(request.url.params) for request in server.requests[1:3]] == [
        {"limit": "200", "user": "bob", "q": "C518"},
        {"limit": "200", "q": "C518"},
    ]


def test_the_end_of_several_ids_names_none(server: Server) -> None:
    ids_by_end(server, [a_shown_job(id=JOB_ID[:-5] + f"{n}c518") for n in range(2)])
    ran = server.run("get", "c518")
    assert (ran.exit_code, ran.err.splitlines()[0]) == (
        2,
        "Error: 2 of your jobs match 'c518'. Give the id of one:",
    )


def test_the_beginning_of_a_name_or_of_an_id_names_a_job_of_others(server: Server) -> None:
    """Planted: one's own jobs alone. Against: beginnings of ids of less than 8 digits."""
    server.routes[f"GET jobs/{JOB_ID}"] = job = a_shown_job(name="pt-vision")
    for given in ("pt-vis", JOB_ID[:8], JOB_ID[:13].upper()):
        ids_by_end(server, [], [job])
        ran = server.run("get", given, "-o", "json")
        assert json.loads(ran.out)["name"] == "pt-vision"
    ids_by_end(server, [], [job])
    assert server.run("get", JOB_ID[:7]).exit_code == 2
    ids_by_end(server, [], [job, a_shown_job(id="x", name="pt-vis-2")])
    assert server.run("get", "pt-vi").err == (
        "Error: 2 jobs match 'pt-vi'. Give the id of one:\n"
        f"  {JOB_ID}  pt-vision  queued\n  x  pt-vis-2  queued\n"
    )


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            {"job": "j", "name": "pretrain", "team": "a/b", "mgpu": 8_000},
            "pretrain (j) of a/b, 8 GPUs",
        ),
        ({"job": None, "name": None, "team": "a/b", "mgpu": 1_000}, "a job of a/b, 1 GPU"),
        ({"job": None, "name": None, "team": None, "mgpu": None}, "a job of another team"),
    ],
)
def test_get_says_for_whom_a_job_is_stopped(
    server: Server, other: dict[str, Any], told: str
) -> None:
    attempt = {"borrowed_mgpu": 0, "mgpu": 16_000, "slots": [], "made_room_for": other}
    server.routes[f"GET jobs/{JOB_ID}"] = a_shown_job(state="preempting", current_attempt=attempt)
    assert f"\nstopped for    {told}\n" in server.run("get", JOB_ID).out


@pytest.mark.parametrize(
    ("code", "answer", "told"),
    [
        (
            "waiting_for_free_gpus",
            {"estimated_start": {"earliest": None, "latest": "T", "method": "look_ahead"}},
            "by T at the latest (by look_ahead)",
        ),
        (
            "waiting_for_free_gpus",
            a_problem(429),
            "unknown; run `tidegate estimate` to simulate it",
        ),
        ("dependency", None, "unknown: it starts after its dependencies"),
    ],
)
def test_why_looks_ahead_where_the_start_is_unknown(
    server: Server, code: str, answer: Any, told: str
) -> None:
    """Planted: it looks ahead for a job that waits for another, which has no future."""
    server.routes[f"GET jobs/{JOB_ID}"] = {"id": JOB_ID, "device": "gpu"}
    server.routes[f"GET jobs/{JOB_ID}/explanation"] = {
        "code": code,
        "sentence": "It waits.",
        "numbers": {},
        "node": None,
        "jobs_ahead": 0,
        "victims": [],
        "estimated_start": None,
        "as_of": "2026-11-21T12:00:10Z",
    }
    if answer is not None:
        server.routes[f"POST jobs/{JOB_ID}/estimate"] = answer
    assert f"\nstarts  {told}\n" in server.run("why", JOB_ID).out
    assert any(sent.startswith("POST") for sent in server.sent) is (answer is not None)
