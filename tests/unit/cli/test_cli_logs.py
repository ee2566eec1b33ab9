"""`tidegate` follows logs and waits for the end of jobs, against a server that is a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import (
    JOB_ID,
    Server,
    a_log_piece,
    a_problem,
    a_server,
    a_shown_job,
)
from cli import logs_command


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


# -- logs -------------------------------------------------------------------------------------


def test_logs_piece_by_piece(server: Server) -> None:
    server.routes[f"GET jobs/{JOB_ID}/logs"] = [
        a_log_piece("hällo\n"),
        a_log_piece("world\n", offset=7),
        a_log_piece("", offset=13),
    ]
    ran = server.run("logs", JOB_ID, "--rank", "3", "--stderr")
    assert (ran.exit_code, ran.out) == (0, "hällo\nworld\n")
    assert [dict(request.url.params) for request in server.requests] == [
        {"rank": "3", "stream": "stderr", "offset": "0", "limit": "262144"},
        {"rank": "3", "stream": "stderr", "attempt": "1", "offset": "7", "limit": "262144"},
        {"rank": "3", "stream": "stderr", "attempt": "1", "offset": "13", "limit": "262144"},
    ]


def a_match(text: str, *, rank: int = 0, at: str | None = None) -> dict[str, Any]:
    return {"rank": rank, "stream": "stdout", "offset": 7, "text": text, "at": at}


def a_found_page(*items: dict[str, Any], cursor: str | None = None) -> dict[str, Any]:
    following = None if cursor is None else f"/api/v1/jobs/{JOB_ID}/logs/search?cursor={cursor}"
    return {
        "attempt": 2,
        "ranks": 2,
        "items": list(items),
        "next": following,
        "scanned_bytes": 9,
        "untimed": 1 if cursor is None else 0,
    }


def test_a_search_prints_the_matches_of_all_pages(server: Server) -> None:
    """Against: a page without matches ends it; only rank 0 is searched."""
    server.routes[f"GET jobs/{JOB_ID}/logs/search"] = [
        a_found_page(cursor="c1"),
        a_found_page(a_match("loss nan", at="2026-11-24T17:52:01Z"), cursor="c2"),
        a_found_page(a_match("loss", rank=1)),
    ]
    ran = server.run("logs", JOB_ID, "--search", "loss", "--since", "2026-11-24T17:00:00Z")
    assert (ran.exit_code, ran.out) == (
        0,
        "rank 0 stdout 2026-11-24T17:52:01Z: loss nan\nrank 1 stdout unknown time: loss\n",
    )
    assert ran.err == "Matching lines without a known time, which are left out: 1.\n"
    first, _, last = (dict(request.url.params) for request in server.requests)
    assert first == {"q": "loss", "since": "2026-11-24T17:00:00Z", "limit": "500"}
    assert last["cursor"] == "c2"


def test_a_search_ends_after_a_number_of_pages(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server always has a next page. Planted: the command asks for ever."""
    monkeypatch.setattr(logs_command, "_SEARCH_PAGES_MAX", 3)
    server.routes[f"GET jobs/{JOB_ID}/logs/search"] = [
        a_found_page(a_match("loss"), cursor=f"c{number}") for number in range(4)
    ]
    ran = server.run("logs", JOB_ID, "--search", "loss")
    assert (ran.exit_code, ran.out.count("loss\n"), len(server.requests)) == (0, 3, 3)
    assert ran.err == (
        "The log is too large to search at once. Search on with --since, --rank or --stderr.\n"
    )


def test_a_search_of_one_stream_of_an_attempt(server: Server) -> None:
    server.routes[f"GET jobs/{JOB_ID}/logs/search"] = [{**a_found_page(), "untimed": 0}]
    ran = server.run(
        *("logs", JOB_ID, "--search", "x", "--case"),
        *("--rank", "1", "--stderr", "--attempt", "2"),
    )
    assert (ran.exit_code, ran.out, ran.err) == (0, "", "No line of the log has this text.\n")
    assert dict(server.requests[0].url.params) == {
        **{"q": "x", "case": "true", "rank": "1", "stream": "stderr", "attempt": "2"},
        "limit": "500",
    }


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--search", "x", "-f"), "Leave out -f and --tail"),
        (("--search", "x", "--zip", "a.zip"), "Leave out -f, --rank"),
        (("--since", "2026-11-24T17:00:00Z"), "need --search TEXT"),
        (("--case",), "need --search TEXT"),
    ],
)
def test_options_that_a_search_needs_or_excludes(
    server: Server, options: tuple[str, ...], why: str
) -> None:
    ran = server.run("logs", JOB_ID, *options)
    assert ran.exit_code != 0
    assert why in " ".join(ran.err.split())
    assert server.requests == []


def test_tail_counts_lines(server: Server) -> None:
    """Against: bytes, as `--tail 2` counted until then; and lines printed twice."""
    server.routes[f"GET jobs/{JOB_ID}/logs"] = [
        a_log_piece("one\ntwo\n", offset=300_000),
        a_log_piece("drei\nvi", offset=300_008),
        a_log_piece("", offset=300_015),
        a_log_piece("er\n", offset=300_015),
        a_log_piece("", offset=300_018, is_final=True),
    ]
    ran = server.run("logs", JOB_ID, "--tail", "2")
    assert (ran.exit_code, ran.out) == (0, "drei\nvier\n")
    assert [request.url.params["offset"] for request in server.requests] == [
        "-262144",
        "300008",
        "300015",
        "300015",
        "300018",
    ]


def test_tail_looks_further_back_where_lines_are_long(server: Server) -> None:
    server.routes[f"GET jobs/{JOB_ID}/logs"] = [
        a_log_piece("of a long line\n", offset=900_000, is_final=True),
        a_log_piece("a\nthe end of a long line\n", offset=0, is_final=True),
        a_log_piece("", offset=25, is_final=True),
    ]
    ran = server.run("logs", JOB_ID, "--tail", "1")
    assert ran.out == "the end of a long line\n"
    assert [request.url.params["offset"] for request in server.requests] == [
        "-262144",
        "-1048576",
        "25",
    ]


def test_a_log_that_was_cut_says_so(server: Server) -> None:
    server.routes[f"GET jobs/{JOB_ID}/logs"] = a_log_piece("x", is_final=True, is_truncated=True)
    ran = server.run("logs", JOB_ID)
    assert (ran.out, ran.err) == ("x", "(the log was cut at its size limit)\n")


def test_all_logs_in_one_archive(server: Server, tmp_path: Path) -> None:
    """Against: a broken download is stored under its name, and an existing file is replaced."""
    path = f"GET jobs/{JOB_ID}/logs/download"
    server.routes[path] = httpx.Response(200, content=b"PK12")
    file = tmp_path / "logs.zip"
    ran = server.run("logs", JOB_ID, "--attempt", "2", "--zip", str(file))
    assert (ran.exit_code, ran.out, ran.err) == (0, "", f"{file}: the logs of all ranks.\n")
    assert (file.read_bytes(), dict(server.requests[-1].url.params)) == (b"PK12", {"attempt": "2"})
    again = server.run("logs", JOB_ID, "--zip", str(file))
    assert (again.exit_code, again.err) == (2, f"Error: {file} exists. Choose another name.\n")
    ran = server.run("logs", JOB_ID, "--zip", "all.zip", "--rank", "1")
    assert ran.err == (
        "Error: --zip stores all ranks and streams. Leave out -f, --rank, --stderr, --tail and "
        "--search.\n"
    )
    server.routes[path] = a_problem(404, detail="The job has no attempt 9.")
    ran = server.run("logs", JOB_ID, "--attempt", "9", "--zip", str(tmp_path / "none.zip"))
    assert (ran.exit_code, ran.err) == (3, "Error: No: The job has no attempt 9.\n")
    assert [each.name for each in tmp_path.glob("*.zip*")] == ["logs.zip"]


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
        "Nothing was written to stdout, but stderr has output: "
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
        "Nothing was written to stderr, but stdout has output: "
        f"tidegate logs {JOB_ID} --attempt 2\n",
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


def test_following_a_log_that_does_not_come_says_why_once(server: Server) -> None:
    server.routes[f"GET jobs/{JOB_ID}"] = [
        *[a_shown_job(state="running", attempt=1)] * 5,
        a_shown_job(state="succeeded", attempt=1),
    ]
    no_log = a_problem(404, detail="this cluster keeps no outputs")
    server.routes[f"GET jobs/{JOB_ID}/logs"] = [no_log] * 6
    ran = server.run("logs", "-f", JOB_ID)
    assert (ran.exit_code, ran.out) == (3, "")
    told = "No log yet. Waiting: No: this cluster keeps no outputs"
    assert ran.err.splitlines()[0] == told
    assert ran.err.count(told) == 1


@pytest.mark.parametrize(
    ("job", "arguments", "exit_code", "told"),
    [
        (a_shown_job(state="cancelled"), [], 0, "The job was cancelled and never started"),
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
