"""`tidegate notices`."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.cli_server import Server, a_server

NOTICE = {
    "id": "01935000-0000-7000-8000-000000000002",
    "at": "2026-11-21T12:00:00Z",
    "event": "job_preempting",
    "sentence": "bert is being preempted.",
    "deadline": "2026-11-21T12:05:00Z",
    "read_at": None,
}
OLDER = {
    **NOTICE,
    "id": "01935000-0000-7000-8000-000000000001",
    "event": "job_failed",
    "sentence": "bert failed.",
    "deadline": None,
    "read_at": "2026-11-21T12:01:00Z",
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def test_notices_are_listed_as_they_were_filtered(server: Server) -> None:
    """Against: the object sent as one word; no mark of what is unread."""
    server.routes["GET notices"] = {"items": [NOTICE, OLDER], "next": None}
    ran = server.run("notices", "--unread", "--event", "job_failed", "--object", "job/42")
    first, second = ran.out.splitlines()[1:]
    assert first == f"*  {NOTICE['at']}  job_preempting  {NOTICE['sentence']}  {NOTICE['deadline']}"
    assert second.split() == [OLDER["at"], "job_failed", "bert", "failed.", "-"]
    (request,) = server.requests
    assert dict(request.url.params) == {
        "event": "job_failed",
        "subject_kind": "job",
        "subject_id": "42",
        "unread": "true",
        "limit": "50",
    }


def test_all_listed_notices_are_marked_as_read(server: Server) -> None:
    """Against: the oldest one is sent, and newer ones stay unread."""
    server.routes["GET notices"] = {"items": [NOTICE, OLDER], "next": None}
    server.routes["POST notices/read"] = {"unread": 0}
    assert server.run("notices", "--read").exit_code == 0
    assert server.sent == ["GET notices?limit=50", "POST notices/read"]
    assert server.body() == {"through": NOTICE["id"]}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--object", "/42"], "--object takes a kind, or a kind and an id: job, or job/ID."),
        (["--read", "--event", "job_failed"], "Leave out --event and --object."),
    ],
)
def test_wrong_options_are_refused_before_anything_is_asked(
    server: Server, options: list[str], sentence: str
) -> None:
    ran = server.run("notices", *options)
    assert (ran.exit_code, server.requests) == (2, [])
    assert sentence in ran.err


def test_an_empty_inbox_is_said(server: Server) -> None:
    server.routes["GET notices"] = {"items": [], "next": None}
    assert server.run("notices", "--read").err == "No notices.\n"
