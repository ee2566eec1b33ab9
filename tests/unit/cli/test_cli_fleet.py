"""`tidegate clusters`, `nodes` and `node`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_problem, a_server

NODE_ID = "01a1fd00-0000-7000-8000-000000000009"
NOW = datetime(2026, 11, 21, 12, 0, 10, tzinfo=UTC)
CLUSTER = {
    "name": "hpc",
    "kind": "slurm",
    "api_version": "v0.0.40",
    "is_enabled": True,
    "state": "reachable",
    "seen_at": "2026-11-21T12:00:08Z",
    "message": "",
    "pools": [
        {
            "pool": "h100",
            "device": "gpu",
            "capacity_mgpu": 512_000,
            "healthy_mgpu": 504_000,
            "nodes": 64,
            "nodes_healthy": 63,
        }
    ],
}


def a_node(request: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "id": NODE_ID,
        "cluster": "hpc",
        "name": "h001",
        "pool": "h100",
        "device": "gpu",
        "capacity_mgpu": 8_000,
        "is_schedulable": True,
        "state": "idle",
        "reason": "",
        "features": [],
        "seen_at": "2026-11-21T12:00:08Z",
        "request": request,
        **changes,
    }


def a_request(state: str = "pending", **changes: Any) -> dict[str, Any]:
    return {
        "action": "drain",
        "reason": "fans",
        "requested_by": "root",
        "requested_at": "2026-11-21T12:00:09Z",
        "state": state,
        "answered_at": None,
        "message": "",
        **changes,
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    monkeypatch.setattr("cli.fleet_commands.now_utc", lambda: NOW)
    return a_server(monkeypatch, str(tmp_path))


def test_clusters(server: Server) -> None:
    away = {
        **CLUSTER,
        "name": "local",
        "kind": "local",
        "api_version": "",
        "is_enabled": False,
        "state": "never_seen",
        "seen_at": None,
        "message": "its folder is gone",
        "pools": [],
    }
    server.routes["GET clusters"] = {"items": [CLUSTER, away], "next": None}
    ran = server.run("clusters")
    assert ran.out.splitlines() == [
        "CLUSTER  KIND           STATE                 SEEN  POOL  HEALTHY GPUS  NODES",
        "hpc      slurm v0.0.40  reachable             2s    h100  504/512       63/64",
        "local    local          disabled, never_seen  -     -     -             -",
    ]
    assert ran.err == "local: its folder is gone\n"
    assert json.loads(server.run("clusters", "-o", "json").out) == [CLUSTER, away]
    server.routes["GET clusters"] = {"items": [], "next": None}
    assert "No clusters yet" in server.run("clusters").err


def test_healthy_gpus_of_a_cluster_that_does_not_answer_are_of_a_time(server: Server) -> None:
    """Planted: the figure alone, as if it were of now."""
    silent = {**CLUSTER, "state": "unreachable"}
    server.routes["GET clusters"] = {"items": [silent], "next": None}
    assert server.run("clusters").out.splitlines() == [
        "CLUSTER  KIND           STATE        SEEN  POOL  HEALTHY GPUS      NODES",
        "hpc      slurm v0.0.40  unreachable  2s    h100  504/512 (2s ago)  63/64",
    ]


def test_pools_of_cores_are_named(server: Server) -> None:
    """Mutants: "HEALTHY GPUS" above cores; the cells of cores among GPUs bear no word."""
    gpus = CLUSTER["pools"][0]  # type: ignore[index]
    cores = {**gpus, "pool": "cpu", "device": "cpu"}  # type: ignore[dict-item]
    server.routes["GET clusters"] = {"items": [{**CLUSTER, "pools": [gpus, cores]}], "next": None}
    lines = server.run("clusters").out.splitlines()
    assert [line[line.index("2s") + 6 :].split() for line in lines[1:]] == [
        ["h100", "504/512", "63/64"],
        ["cpu", "504/512", "cores", "63/64"],
    ]
    assert "HEALTHY GPUS" in lines[0]
    server.routes["GET clusters"] = {"items": [{**CLUSTER, "pools": [cores]}], "next": None}
    assert "HEALTHY CORES" in server.run("clusters").out
    nodes = [a_node(pool="cpu", device="cpu"), a_node()]
    server.routes["GET nodes"] = {"items": nodes, "next": None}
    assert [line.split()[3:5] for line in server.run("nodes").out.splitlines()] == [
        ["GPUS", "TAKES"],
        ["8", "cores"],
        ["8", "yes"],
    ]
    server.routes["GET nodes"] = {"items": nodes[:1], "next": None}
    assert [line.split()[3:5] for line in server.run("nodes").out.splitlines()] == [
        ["CORES", "TAKES"],
        ["8", "yes"],
    ]


def test_nodes(server: Server) -> None:
    drained = a_node(
        a_request("done"),
        name="h002",
        is_schedulable=False,
        state="idle+drain",
        reason="fans",
        features=["ib", "nvlink"],
    )
    refused = a_node(a_request("refused", message="not allowed"), name="h003")
    waiting = a_node(a_request(), name="h004")
    emptied = a_node(a_request(message="Still there: x."), name="h005")
    items = [a_node(), drained, refused, waiting, emptied]
    server.routes["GET nodes"] = {"items": items, "next": None}
    ran = server.run("nodes", "--cluster", "hpc", "--pool", "h100")
    assert server.sent == ["GET nodes?cluster=hpc&pool=h100&limit=500"]
    assert ran.out.splitlines() == [
        "CLUSTER  NODE  POOL  GPUS  TAKES WORK  STATE       SEEN  FEATURES   REASON",
        "hpc      h001  h100     8  yes         idle        2s    -          -",
        "hpc      h002  h100     8  no          idle+drain  2s    ib,nvlink  fans",
        "hpc      h003  h100     8  yes         idle        2s    -          "
        "drain refused: not allowed",
        "hpc      h004  h100     8  yes         idle        2s    -          "
        "drain requested 2026-11-21T12:00:09Z",
        "hpc      h005  h100     8  yes         idle        2s    -          "
        "drain requested 2026-11-21T12:00:09Z; Still there: x.",
    ]
    assert json.loads(server.run("nodes", "--out", "-o", "json").out) == [drained]
    server.routes["GET nodes"] = {"items": [], "next": None}
    assert server.run("nodes").err == "No matching nodes.\n"


def test_a_node_is_drained(server: Server) -> None:
    path = f"nodes/{NODE_ID}"
    server.routes["GET nodes"] = {"items": [a_node(), a_node(name="h0")], "next": None}
    server.routes[f"POST {path}/drain"] = a_node(a_request())
    server.routes[f"GET {path}"] = [a_node(a_request()), a_node(a_request("done"))]
    ran = server.run("node", "drain", "h001", "--reason", "fans", "--cluster", "hpc")
    assert (ran.exit_code, ran.out) == (0, "")
    assert ran.err == "h001 of hpc: done by the cluster. The list shows it at the next update.\n"
    assert server.sent == [
        "GET nodes?cluster=hpc&limit=500",
        f"POST {path}/drain",
        f"GET {path}",
        f"GET {path}",
    ]
    assert (server.pauses_s, server.body(1)) == ([1.0, 1.0], {"reason": "fans"})


def test_a_node_is_emptied(server: Server) -> None:
    """A grace alone evicts nothing."""
    path = f"nodes/{NODE_ID}"
    server.routes[f"POST {path}/drain"] = server.routes[f"GET {path}"] = a_node(a_request("done"))
    drain = ("node", "drain", NODE_ID, "--reason", "fans")
    for more, body in (
        (("--evict",), {"reason": "fans", "evict_grace_s": 300}),
        (("--evict", "--grace", "60"), {"reason": "fans", "evict_grace_s": 60}),
        (("--grace", "60"), {"reason": "fans"}),
    ):
        assert server.run(*drain, *more).exit_code == 0
        assert server.body(-1) == body
    assert server.run(*drain, "--evict", "--grace", "0").exit_code == 2


@pytest.mark.parametrize(
    ("state", "message", "code", "words"),
    [
        ("pending", "", 75, "h001 of hpc: no answer from the cluster yet."),
        ("pending", "Still there: x.", 75, "h001 of hpc: Still there: x."),
        ("refused", "no right", 3, "Error: h001 of hpc: no right"),
        ("given_up", "no right", 3, "Error: h001 of hpc: no right"),
    ],
)
def test_what_became_of_it_is_told(
    server: Server, state: str, message: str, code: int, words: str
) -> None:
    path = f"nodes/{NODE_ID}"
    server.routes[f"POST {path}/resume"] = a_node(a_request())
    server.routes[f"GET {path}"] = a_node(a_request(state, message=message))
    ran = server.run("node", "resume", NODE_ID)
    assert ran.exit_code == code
    assert ran.err.startswith(words)


def test_which_node_is_meant(server: Server) -> None:
    both = [a_node(), a_node(cluster="other")]
    server.routes["GET nodes"] = {"items": both, "next": None}
    ran = server.run("node", "resume", "h001")
    assert (ran.exit_code, ran.err) == (
        2,
        "Error: h001 is in hpc, other. Choose one with --cluster.\n",
    )
    assert "There is no node h9 in hpc" in server.run("node", "resume", "h9", "--cluster=hpc").err
    assert server.run("node", "resume", "a b").exit_code == 2
    assert server.run("node", "drain", "h001").exit_code == 2


def test_the_portals_refusal_and_a_change_by_somebody_else(server: Server) -> None:
    path = f"nodes/{NODE_ID}"
    server.routes[f"POST {path}/resume"] = a_problem(409, detail="It cannot.")
    assert server.run("node", "resume", NODE_ID).exit_code == 3
    server.routes[f"POST {path}/resume"] = a_node(a_request())
    server.routes[f"GET {path}"] = a_node(a_request(requested_at="2026-11-21T12:00:10Z"))
    ran = server.run("node", "resume", NODE_ID)
    assert (ran.exit_code, "Somebody else changed" in ran.err) == (2, True)


def test_pool_alias_shows_and_changes_the_other_names(server: Server) -> None:
    """Planted: an alias that is added replaces the others."""
    pool = {"id": NODE_ID, "name": "h100", "aliases": ["h100-sxm", "nvidia-h100"]}
    server.routes["GET pools"] = {"items": [pool], "next": None}
    server.routes[f"GET pools/{NODE_ID}"] = pool
    server.routes[f"PATCH pools/{NODE_ID}"] = {**pool, "aliases": ["h100-pcie", "nvidia-h100"]}
    assert server.run("pool", "alias", "h100").out == "h100-sxm, nvidia-h100\n"
    ran = server.run("pool", "alias", "h100", "--add", "H100_PCIe", "--remove", "H100_SXM")
    assert (ran.exit_code, ran.out) == (0, "h100-pcie, nvidia-h100\n")
    assert server.body() == {"aliases": ["nvidia-h100", "H100_PCIe"]}
    ran = server.run("pool", "alias", "h100", "--remove", "k80")
    assert (ran.exit_code, ran.err) == (2, "Error: h100 has no alias 'k80'.\n")


ANSWER = {
    "is_answered": True,
    "message": "",
    "api_version": "v0.0.44",
    "pools": [CLUSTER["pools"][0]],  # type: ignore[index]
}


def test_a_cluster_is_tested_added_and_changed(server: Server, tmp_path: Path) -> None:
    """Against: the stored options tested although others are given."""
    options = tmp_path / "hpc.yaml"
    options.write_text("url: http://slurm:6820\npools: {h100: {partition: gpu}}\n")
    given = {"url": "http://slurm:6820", "pools": {"h100": {"partition": "gpu"}}}
    at = f"clusters/{NODE_ID}"
    server.routes["GET clusters"] = {"items": [{**CLUSTER, "id": NODE_ID}], "next": None}
    server.routes["POST clusters/check"] = ANSWER
    server.routes[f"POST {at}/check"] = {**ANSWER, "message": "2 nodes are left out."}
    server.routes["POST clusters"] = CLUSTER
    server.routes[f"PATCH {at}"] = CLUSTER

    ran = server.run("cluster", "test", "--kind", "slurm", "--options", str(options))
    assert (ran.exit_code, ran.err) == (0, "It answers.\n")
    assert ran.out.splitlines()[1].split() == ["h100", "504/512", "63/64"]
    assert server.body() == {"kind": "slurm", "options": given}
    assert server.run("cluster", "test", "hpc").err == "2 nodes are left out.\n"
    assert server.body() == {}
    server.run("cluster", "test", "hpc", "--options", str(options))
    assert server.body() == {"options": given}
    server.run("cluster", "create", "hpc", "--kind", "slurm", "--options", str(options))
    assert server.body() == {
        "name": "hpc",
        "kind": "slurm",
        "options": given,
        "is_enabled": True,
    }
    server.run("cluster", "set", "hpc", "--options", str(options))
    assert server.body() == {"options": given}
    server.run("cluster", "disable", "hpc")
    assert server.body() == {"is_enabled": False}
    server.run("cluster", "enable", "hpc")
    assert server.body() == {"is_enabled": True}


def test_a_test_of_a_silent_cluster_fails_with_its_reason(server: Server, tmp_path: Path) -> None:
    options = tmp_path / "list.yaml"
    options.write_text("- 1\n")
    server.routes["GET clusters"] = {"items": [{**CLUSTER, "id": NODE_ID}], "next": None}
    server.routes[f"POST clusters/{NODE_ID}/check"] = {
        **ANSWER,
        "is_answered": False,
        "message": "connection refused",
        "pools": [],
    }
    ran = server.run("cluster", "test", "hpc")
    assert (ran.exit_code, ran.err) == (3, "Error: It does not answer: connection refused\n")
    ran = server.run("cluster", "test")
    assert "Give the name of a cluster, or --kind and --options of a new one." in ran.err
    ran = server.run("cluster", "set", "hpc", "--options", str(options))
    assert "must be a mapping of the cluster's options." in ran.err
    ran = server.run("cluster", "set", "hpc")
    assert "Give --options with a file" in ran.err


def test_pools_are_listed_added_and_changed(server: Server) -> None:
    pool = {
        "id": NODE_ID,
        "name": "h100",
        "description": "H100 80 GB",
        "device": "gpu",
        "weight": 1_000,
        "archived_at": None,
        "aliases": ["h100-sxm"],
        "capacity_mgpu": 512_000,
        "guaranteed_mgpu": None,
    }
    server.routes["GET pools"] = {"items": [pool], "next": None}
    server.routes["POST pools"] = pool
    server.routes[f"PATCH pools/{NODE_ID}"] = pool
    assert [line.split() for line in server.run("pool", "list").out.splitlines()] == [
        ["POOL", "GPUS", "GUARANTEED", "WORTH", "STATE", "ALIASES"],
        ["h100", "512", "-", "1000", "in", "use", "h100-sxm"],
    ]
    server.run("pool", "create", "h100", "--weight", "900", "--alias", "h100-sxm")
    assert server.body() == {"name": "h100", "weight": 900, "aliases": ["h100-sxm"]}
    server.run("pool", "set", "h100", "--description", "", "--device", "gpu")
    assert server.body() == {"description": "", "device": "gpu"}
    ran = server.run("pool", "set", "h100")
    assert "Nothing to change: give --description, --device or --weight." in ran.err


def test_users_of_a_cluster_are_listed_mapped_and_removed(server: Server) -> None:
    """Against: the id of another user; a name that replaces nothing."""
    at = f"clusters/{NODE_ID}"
    bob = {"id": "01a1fd00-0000-7000-8000-00000000000b", "user": "bob@ai", "name": "bob3"}
    alice = {"id": "01a1fd00-0000-7000-8000-00000000000a", "user": "alice@ai", "name": "alice"}
    server.routes["GET clusters"] = {"items": [{**CLUSTER, "id": NODE_ID}], "next": None}
    server.routes[f"GET {at}/users"] = {"items": [bob, alice], "next": None}
    server.routes[f"PUT {at}/users"] = alice
    server.routes[f"DELETE {at}/users/{alice['id']}"] = httpx.Response(204)

    lines = server.run("cluster", "users", "hpc").out.splitlines()
    assert [line.split() for line in lines] == [
        ["USER", "NAME"],
        ["bob@ai", "bob3"],
        ["alice@ai", "alice"],
    ]
    ran = server.run("cluster", "map", "hpc", "alice@ai", "alice")
    assert (server.body(), ran.err) == (
        {"user": "alice@ai", "name": "alice"},
        "Jobs of alice@ai run on hpc as alice.\n",
    )
    assert server.run("cluster", "unmap", "hpc", "alice@ai").exit_code == 0
    assert server.requests[-1].method == "DELETE"
    ran = server.run("cluster", "unmap", "hpc", "carol@ai")
    assert (ran.exit_code, "carol@ai has no name on hpc." in ran.err) == (2, True)


def test_accepted_differences_are_listed_and_withdrawn(server: Server) -> None:
    at = f"clusters/{NODE_ID}/accepted-differences"
    difference = {
        "id": 7,
        "subject": "account nlp",
        "before": {"GrpTRES": 8, "FairShare": None},
        "after": {},
        "accepted_by": "root",
        "accepted_at": "2026-11-21T12:00:08Z",
    }
    server.routes["GET clusters"] = {"items": [{**CLUSTER, "id": NODE_ID}], "next": None}
    server.routes[f"GET {at}"] = {"items": [difference], "next": None}
    server.routes[f"DELETE {at}/7"] = httpx.Response(204)
    shown = server.run("cluster", "accepted", "hpc").out.splitlines()[1]
    assert " ".join(shown.split()) == "7 account nlp GrpTRES=8, FairShare=none - root"
    ran = server.run("cluster", "accepted", "hpc", "--withdraw", "7")
    assert (ran.exit_code, server.requests[-1].method) == (0, "DELETE")
