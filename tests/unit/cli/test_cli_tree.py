"""`tidegate tree`, `tidegate user deactivate`, and `archive` of clusters and pools."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from builders.cli_server import Server, a_server

NODE = "01a1fd00-0000-7000-8000-000000000013"
PATH = f"tree/{NODE}/archive"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET teams"] = {"items": [{"id": NODE, "path": "a/nlp"}], "next": None}
    job = {"name": "bert", "team": "a/nlp", "user": "bob", "state": "running"}
    server.routes[f"GET {PATH}"] = {"waiting": 2, "running": 1, "running_jobs": [job]}
    server.routes[f"POST {PATH}"] = {"id": NODE}
    return server


def test_what_runs_is_shown_and_asked_about_before_anything_is_archived(server: Server) -> None:
    """Planted: archived although nothing was said of what waits."""
    ran = server.run("tree", "archive", "a/nlp", "--running", "end")
    assert ran.exit_code == 2
    assert ran.out.splitlines()[1].split() == ["bert", "a/nlp", "bob", "running"]
    assert "2 jobs wait: add --waiting wait or --waiting cancel." in ran.err
    assert [request.method for request in server.requests] == ["GET", "GET"]


def test_the_end_of_a_path_names_a_node_of_any_kind(server: Server) -> None:
    """Planted: teams alone are asked for. Against: the name as it was given in the answer."""
    server.routes["GET teams"] = {"items": [], "next": None}
    server.routes["GET departments"] = {"items": [{"id": NODE, "path": "a/lab"}], "next": None}
    server.routes[f"POST tree/{NODE}/restore"] = {"id": NODE}
    ran = server.run("tree", "restore", "lab")
    assert (ran.exit_code, ran.err) == (0, "a/lab is restored.\n")
    assert server.sent[:2] == ["GET teams?path=lab&limit=1", "GET departments?path=lab&limit=1"]


def test_what_is_decided_is_sent(server: Server) -> None:
    ran = server.run("tree", "archive", "a/nlp", "--running", "end", "--waiting", "cancel")
    assert ran.exit_code == 0
    assert json.loads(server.requests[-1].content) == {"waiting": "cancel", "running": "end"}
    assert "tidegate tree restore a/nlp" in ran.err


def test_a_move_is_shown_before_it_is_made(server: Server) -> None:
    """Planted: moved without --yes; nothing said of clusters to push to."""
    move = f"tree/{NODE}/move"
    share = {"guaranteed_mgpu": 16_000, "reserve_before_mgpu": 0, "reserve_after_mgpu": 8_000}
    server.routes[f"GET {move}"] = {
        "node": {"parent": "a"},
        "parent": "a/b",
        "running": 1,
        "waiting": 2,
        "running_jobs": [{"name": "bert", "team": "a/nlp", "user": "bob", "state": "running"}],
        "guarantees": [
            {"pool": "h100", "guaranteed_mgpu": 8_000, "leaves": share, "joins": None},
        ],
        "gained_count": 1,
        "gained": [{"user": "eve@a", "role": "department_admin", "given_on": "a/b"}],
        "lost_count": 0,
        "lost": [],
        "clusters_to_push": ["slurm-1"],
        "problem": "",
    }
    server.routes[f"POST {move}"] = {"path": "a/b/nlp", "clusters_to_push": ["slurm-1"]}
    ran = server.run("tree", "move", "a/nlp", "--to", "a/b")
    assert ran.exit_code == 2
    assert [line.split() for line in ran.out.splitlines()][1] == (
        ["h100", "8", "0", "->", "8", "no", "quota"]
    )
    assert "gained" in ran.out
    assert "1 running job continues, and 2 jobs continue to wait." in ran.err
    assert "Nothing was moved. Add --yes to move it." in ran.err
    assert [request.method for request in server.requests] == ["GET", "GET"]

    ran = server.run("tree", "move", "a/nlp", "--to", "a/b", "--yes")
    assert ran.exit_code == 0
    assert json.loads(server.requests[-1].content) == {"parent": "a/b"}
    assert "a/nlp is a/b/nlp now. Its bills until now stay with a." in ran.err
    assert ran.err.splitlines()[-2:] == [
        "Its waiting jobs cannot start on these clusters until a platform administrator pushes "
        "the quotas:",
        "    tidegate quota push slurm-1",
    ]


def test_a_move_that_does_not_fit_says_why(server: Server) -> None:
    move = f"tree/{NODE}/move"
    counts = {"running": 0, "waiting": 0, "gained_count": 0, "lost_count": 0}
    lists = {"running_jobs": [], "guarantees": [], "gained": [], "lost": []}
    server.routes[f"GET {move}"] = {**counts, **lists, "problem": "Lower vision first."}
    ran = server.run("tree", "move", "a/nlp", "--to", "a/b", "--yes")
    assert (ran.exit_code, "It cannot be moved yet. Lower vision first." in ran.err) == (2, True)
    assert [request.method for request in server.requests] == ["GET", "GET"]


def test_what_was_never_used_is_deleted(server: Server) -> None:
    server.routes[f"DELETE tree/{NODE}"] = httpx.Response(204)
    ran = server.run("tree", "delete", "a/nlp")
    assert (ran.exit_code, ran.err.strip()) == (0, "a/nlp is deleted.")
    assert server.requests[-1].method == "DELETE"


def test_a_user_is_deactivated_once_all_is_decided(server: Server) -> None:
    bob = f"users/{NODE}"
    server.routes["GET users"] = {"items": [{"id": NODE, "login": "bob@a"}], "next": None}
    server.routes[f"GET {bob}/deactivate"] = {"waiting": 1, "running": 0, "running_jobs": []}
    server.routes[f"POST {bob}/deactivate"] = server.routes[f"PATCH {bob}"] = {"id": NODE}
    ran = server.run("user", "deactivate", "bob@a")
    assert ran.exit_code == 2
    assert "Nothing was changed. 1 job waits: add --waiting wait" in ran.err
    assert server.run("user", "deactivate", "bob@a", "--waiting", "wait").exit_code == 0
    assert json.loads(server.requests[-1].content) == {"waiting": "wait"}
    assert server.run("user", "reactivate", "bob@a").exit_code == 0
    assert json.loads(server.requests[-1].content) == {"is_active": True}
    server.routes[f"DELETE {bob}"] = {}
    assert server.run("user", "delete", "bob@a").exit_code == 0
    assert server.requests[-1].url.path.endswith(bob)


def test_a_cluster_is_archived_once_all_is_decided(server: Server) -> None:
    cluster = f"clusters/{NODE}"
    server.routes["GET clusters"] = {"items": [{"id": NODE, "name": "slurm-a"}], "next": None}
    server.routes[f"GET {cluster}/archive"] = {"waiting": 0, "running": 0, "running_jobs": []}
    server.routes[f"POST {cluster}/archive"] = server.routes[f"POST {cluster}/restore"] = {}
    server.routes[f"DELETE {cluster}"] = {}
    assert server.run("cluster", "archive", "slurm-a").exit_code == 0
    assert json.loads(server.requests[-1].content) == {}
    assert server.run("cluster", "restore", "slurm-a").exit_code == 0
    assert server.requests[-1].url.path.endswith(f"{cluster}/restore")
    assert server.run("cluster", "delete", "slurm-a").exit_code == 0
    assert server.requests[-1].method == "DELETE"
    ran = server.run("cluster", "archive", "slurm-b")
    assert (ran.exit_code, ran.err.strip()) == (2, "Error: There is no cluster 'slurm-b'.")


def test_a_pool_is_archived_once_all_is_decided(server: Server) -> None:
    pool = f"pools/{NODE}"
    server.routes["GET pools"] = {"items": [{"id": NODE, "name": "h100"}], "next": None}
    server.routes[f"GET {pool}/archive"] = {"waiting": 1, "running": 0, "running_jobs": []}
    server.routes[f"POST {pool}/archive"] = server.routes[f"POST {pool}/restore"] = {}
    server.routes[f"DELETE {pool}"] = {}
    ran = server.run("pool", "archive", "h100")
    assert ran.exit_code == 2
    assert "Nothing was changed. 1 job waits: add --waiting wait" in ran.err
    assert server.run("pool", "archive", "h100", "--waiting", "wait").exit_code == 0
    assert json.loads(server.requests[-1].content) == {"waiting": "wait"}
    assert server.run("pool", "restore", "h100").exit_code == 0
    assert server.requests[-1].url.path.endswith(f"{pool}/restore")
    assert server.run("pool", "delete", "h100").exit_code == 0
    assert server.requests[-1].method == "DELETE"
    ran = server.run("pool", "archive", "a100")
    assert (ran.exit_code, ran.err.strip()) == (2, "Error: There is no pool 'a100'.")


def test_nodes_are_created_and_renamed(server: Server) -> None:
    """Against: a department created as a team."""
    server.routes["POST teams"] = {"path": "a/lab/nlp"}
    server.routes["POST departments"] = {"path": "a/lab"}
    server.run("tree", "create", "a/lab", "--department", "--name", "Lab")
    assert server.body() == {"parent": "a", "slug": "lab", "name": "Lab"}
    ran = server.run("tree", "create", "a/lab/nlp/")
    assert (server.body(), ran.err) == (
        {"parent": "a/lab", "slug": "nlp", "name": "nlp"},
        "a/lab/nlp is created.\n",
    )
    assert "Give the whole path" in server.run("tree", "create", "nlp").err
    found = {"id": NODE, "path": "a/nlp", "kind": "team"}
    server.routes["GET teams"] = {"items": [found], "next": None}
    server.routes[f"PATCH teams/{NODE}"] = found
    ran = server.run("tree", "rename", "nlp", "Language")
    assert (server.body(), ran.err) == ({"name": "Language"}, "a/nlp is Language now.\n")
