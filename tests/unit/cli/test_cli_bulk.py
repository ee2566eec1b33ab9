"""`tidegate cancel --all` and its like: the number first, then the action on what was shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import JOB_ID, Server, a_server

OTHER_ID = "01935000-0000-7000-8000-00000000beef"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    """A server whose preview has two jobs, one of which is then refused."""
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["POST job-actions/preview"] = a_plan()
    server.routes["POST job-actions"] = {
        "items": [
            {"job": JOB_ID, "state": "cancelled", "problem": None},
            {"job": OTHER_ID, "state": None, "problem": {"code": "conflict", "detail": "Ended."}},
        ],
        "changed": 1,
        "refused": 1,
    }
    return server


def a_plan(**changes: Any) -> dict[str, Any]:
    """A preview of two queued jobs, beside one that may not be changed."""
    return {
        "jobs": [JOB_ID, OTHER_ID],
        "states": {"queued": 2},
        "users": {"ana": 1, "bob": 1},
        "own": 1,
        "forbidden": 1,
        "unsuited": {},
        **changes,
    }


def test_all_asks_first_and_changes_what_it_showed(server: Server) -> None:
    """Against: the filters sent with the action, which may match other jobs by then."""
    ran = server.run("cancel", "--all", "--team", "a/b", "--state", "queued", stdin="y\n")
    assert ran.exit_code == 1
    # The runner echoes the answer.
    assert ran.out == " y\n1 job cancelled\n"
    assert ran.err.splitlines() == [
        "1 job more matches, but you may not change it.",
        "2 jobs would be cancelled: 2 queued.",
        "Users: 1 ana, 1 bob. Your own: 1.",
        f"Go on? [y/N]:Error: {OTHER_ID}: Ended.",
    ]
    preview, act = server.requests
    assert dict(preview.url.params) == {"team": "a/b", "state": "queued"}
    assert json.loads(preview.content) == {"action": "cancel"}
    assert json.loads(act.content) == {"action": "cancel", "jobs": [JOB_ID, OTHER_ID]}
    assert act.headers["Idempotency-Key"]


def test_without_agreement_nothing_is_changed(server: Server) -> None:
    """The answer no, and the end of the input, send no action."""
    for given in ("n\n", ""):
        ran = server.run("hold", "--all", "--user", "ana", stdin=given)
        assert ran.exit_code != 0
    assert [request.url.path for request in server.requests] == [
        "/api/v1/job-actions/preview",
        "/api/v1/job-actions/preview",
    ]


def test_several_that_may_not_be_changed_are_counted(server: Server) -> None:
    """With the verb of the number."""
    server.routes["POST job-actions/preview"] = a_plan(forbidden=2)
    ran = server.run("hold", "--all", "--user", "ana", stdin="n\n")
    assert ran.err.splitlines()[0] == "2 jobs more match, but you may not change them."


def test_yes_does_not_ask(server: Server) -> None:
    """A script changes jobs with --yes."""
    ran = server.run("release", "--all", "--search", "sweep", "-y")
    assert "Go on?" not in ran.err
    assert len(server.requests) == 2


def test_nothing_to_change_is_no_error(server: Server) -> None:
    """The action is not sent."""
    server.routes["POST job-actions/preview"] = a_plan(jobs=[], states={}, users={}, forbidden=0)
    ran = server.run("requeue", "--all", "--pool", "h100")
    assert (ran.exit_code, ran.err) == (0, "No matching job can be requeued.\n")


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["cancel", "--all"], "All of which jobs? Give a filter, such as --team"),
        (["cancel", "--team", "a/b"], "Filters need --all."),
        (["hold", "--all", JOB_ID, "--team", "a"], "Give either jobs or --all, not both."),
        (["release"], "Which jobs? Give their ids, or --all with filters."),
        (["requeue"], "or --all with filters. Only inside a job they are optional."),
    ],
)
def test_unclear_requests_are_refused(server: Server, words: list[str], refusal: str) -> None:
    """Nothing is sent."""
    ran = server.run(*words)
    assert ran.exit_code == 2
    assert refusal in ran.err
    assert not server.requests
