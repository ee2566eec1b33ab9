"""`tidegate templates` and `tidegate submit --template`, against a server that is a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import JOB_ID, TEAM, Server, a_server, a_shown_job

TEMPLATE = "01a1fd00-0000-7000-8000-0000000000aa"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def a_template(**changes: Any) -> dict[str, Any]:
    return {
        "id": TEMPLATE,
        "team": TEAM,
        "name": "train",
        "description": "Two GPUs.",
        "request": {"gpus": 2, "script": "true\n"},
        "locked": ["gpus"],
        "version": 1,
        "changed_at": "2026-11-21T12:00:00Z",
        "can": ["change", "delete"],
        **changes,
    }


def listing(server: Server, *templates: dict[str, Any]) -> None:
    server.routes["GET job-templates"] = {"items": list(templates), "next": None}
    for one in templates:
        server.routes[f"GET job-templates/{one['id']}"] = httpx.Response(
            200, json=one, headers={"ETag": '"v1"'}
        )


def test_templates_are_listed_and_shown(server: Server) -> None:
    listing(server, a_template(), a_template(id=JOB_ID, name="free", locked=[], description=""))
    assert server.run("templates", "list").out == (
        "TEAM                     NAME   LOCKED  DESCRIPTION\n"
        f"{TEAM}  train  gpus    Two GPUs.\n"
        f"{TEAM}  free   -\n"
    )
    shown = server.run("templates", "show", "train").out
    assert "locked:\n- gpus\n" in shown


def test_a_template_is_created_and_changed(server: Server, tmp_path: Path) -> None:
    """Against: the team of the file among the members of the request."""
    file = tmp_path / "job.yaml"
    file.write_text(f"team: {TEAM}\ngpus: 2\n")
    listing(server)
    server.routes["POST job-templates"] = a_template()
    ran = server.run("templates", "set", "train", "--file", str(file), "--lock", "gpus")
    assert ran.out == f"train of {TEAM} locks gpus.\n"
    assert server.body() == {
        "team": TEAM,
        "name": "train",
        "request": {"gpus": 2},
        "locked": ["gpus"],
    }
    listing(server, a_template())
    server.routes[f"PATCH job-templates/{TEMPLATE}"] = a_template(locked=[])
    assert server.run("templates", "set", "train", "--lock", "").out == (
        f"train of {TEAM} locks nothing.\n"
    )
    assert server.body() == {"locked": []}


def test_a_new_template_needs_a_request(server: Server) -> None:
    listing(server)
    ran = server.run("templates", "set", "train", "--lock", "gpus")
    assert ran.err == "Error: There is no template train. Give --file to create it.\n"


def test_a_template_is_deleted(server: Server) -> None:
    listing(server, a_template())
    server.routes[f"DELETE job-templates/{TEMPLATE}"] = httpx.Response(204)
    assert server.run("templates", "delete", "train").err == "train is deleted.\n"


def test_a_job_is_submitted_from_a_template_without_a_file(server: Server) -> None:
    """Against: its name sent as the id; a script required."""
    listing(server, a_template())
    server.routes["POST jobs"] = httpx.Response(201, json=a_shown_job())
    assert server.run("submit", "--template", "train", "--time", "1h").out == f"{JOB_ID}\n"
    assert server.body() == {"template": TEMPLATE, "team": TEAM, "time_limit_s": 3_600}


def test_a_name_that_several_teams_have_needs_a_team(server: Server) -> None:
    listing(server, a_template(), a_template(id=JOB_ID, team="ai-company/research/vision"))
    ran = server.run("submit", "--template", "train")
    assert ran.err == (
        "Error: Several teams have a template train. Give --team: "
        f"{TEAM}, ai-company/research/vision.\n"
    )
    listing(server)
    assert server.run("submit", "--template", "train").err == (
        "Error: There is no template train. `tidegate templates list` lists them.\n"
    )
