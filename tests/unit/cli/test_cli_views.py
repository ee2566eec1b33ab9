"""`tidegate views` and `tidegate ls --view`, against a server that is a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import JOB_ID, TEAM, Server, a_server

VIEW = "01a1fd00-0000-7000-8000-0000000000bb"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def a_view(**changes: Any) -> dict[str, Any]:
    return {
        "id": VIEW,
        "name": "big",
        "parameters": {"state": "running", "sort": "-gpus", "columns": "state"},
        "user": "bob",
        "shared_with": None,
        "created_at": "2026-11-21T12:00:00Z",
        "can": ["delete"],
        **changes,
    }


def listing(server: Server, *views: dict[str, Any]) -> None:
    server.routes["GET job-views"] = {"items": list(views), "next": None}


def test_jobs_are_listed_by_a_view_and_options_win(server: Server) -> None:
    """Against: the view over the options; the columns of the page sent to the list of jobs."""
    listing(server, a_view())
    server.routes["GET jobs"] = {"items": [], "next": None}
    assert server.run("ls", "--view", "big", "--state", "failed").err == "No jobs.\n"
    assert server.sent[-1] == "GET jobs?state=failed&sort=-gpus&limit=50"


def test_views_are_listed_saved_and_deleted(server: Server) -> None:
    listing(server, a_view(), a_view(id=JOB_ID, name="all", parameters={}, shared_with=TEAM))
    assert server.run("views", "list").out == (
        "NAME  SHARED WITH              FILTERS\n"
        "big   -                        state=running sort=-gpus columns=state\n"
        f"all   {TEAM}  -\n"
    )
    server.routes["POST job-views"] = a_view()
    ran = server.run("views", "save", "big", "state=running", "sort=-gpus", "--share", TEAM)
    assert ran.err == "big is saved.\n"
    assert server.body() == {
        "name": "big",
        "parameters": {"state": "running", "sort": "-gpus"},
        "share_with": TEAM,
    }
    server.routes[f"DELETE job-views/{VIEW}"] = httpx.Response(204)
    assert server.run("views", "delete", "big").err == "big is deleted.\n"


def test_a_view_that_is_not_clear_is_refused(server: Server) -> None:
    """Against: the first of two shared views."""
    listing(server)
    assert server.run("ls", "--view", "big").err == (
        "Error: There is no view big. `tidegate views list` lists them.\n"
    )
    listing(server, a_view(shared_with="a"), a_view(id=JOB_ID, shared_with="b"))
    assert server.run("ls", "--view", "big").err == (
        f"Error: Several teams have a view big. Give the id of one: {VIEW} of a, {JOB_ID} of b.\n"
    )
    ran = server.run("views", "save", "big", "running")
    assert ran.err == "Error: 'running': write PARAMETER=VALUE, such as state=running.\n"
