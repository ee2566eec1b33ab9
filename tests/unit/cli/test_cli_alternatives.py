"""`tidegate why JOB --alternatives`, against a server that is a function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import JOB_ID, Server, a_problem, a_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def an_alternative(
    label: str, changes: dict[str, Any], job: dict[str, Any] | None = None, **plan: Any
) -> dict[str, Any]:
    """One that would start now, with 2 nodes of 8 GPUs."""
    size = {"device": "gpu", "mgpu_per_node": 8_000, "node_count": 2, "node_count_min": 2}
    told = {"code": "would_start", "sentence": "Now.", "estimated_start": None}
    return {
        "label": label,
        "changes": changes,
        "request": None,
        "plan": {
            "job": {**size, **(job or {})},
            "fits": True,
            "would_start_now": True,
            "mgpu": 16_000,
            "borrowed_mgpu": 0,
            "cluster": "slurm-a",
            **plan,
            "explanation": {**told, **plan.get("explanation", {})},
        },
    }


def answer(server: Server, *items: dict[str, Any], sentence: str = "In all.") -> dict[str, Any]:
    found = {
        "as_of": "2026-11-21T12:00:00Z",
        "sentence": sentence,
        "items": list(items),
        "untried": 0,
    }
    server.routes[f"POST jobs/{JOB_ID}/alternatives"] = found
    return found


def test_what_to_ask_for_instead(server: Server) -> None:
    """Planted: the start of one that waits told as now; an estimate without its method; the code of
    a reason in place of its sentence."""
    waits = {"would_start_now": False, "cluster": None}
    answer(
        server,
        an_alternative("With 16 GPUs on 2 nodes", {"nodes": 2}, borrowed_mgpu=4_000),
        an_alternative(
            "With a time limit of 1 h",
            {"time_limit_s": 3_600},
            **waits,
            explanation={
                "code": "waiting_for_free_gpus",
                "sentence": "It needs 16 GPUs; 8 are free.",
                "estimated_start": {
                    "earliest": None,
                    "latest": "2026-11-21T14:00:00Z",
                    "method": "time_limits",
                },
            },
        ),
        an_alternative(
            "Not all in one rack",
            {"required_topology": None, "preferred_topology": "rack"},
            **waits,
            explanation={"code": "behind_fair_share", "sentence": "Others come first."},
        ),
        an_alternative(
            "In pool a100",
            {"pool": "a100", "pools": None, "features": None, "cluster": None},
            **waits,
            fits=False,
            explanation={"code": "never_fits", "sentence": "No node is so large."},
        ),
        sentence="1 of 4 alternatives would start now.",
    )
    ran = server.run("why", JOB_ID, "--alternatives")
    assert (server.body(), ran.exit_code) == ({}, 0)
    assert ran.out.splitlines() == [
        "1 of 4 alternatives would start now.",
        "",
        "With 16 GPUs on 2 nodes",
        "  starts  now on slurm-a, 4 of 16 GPUs borrowed",
        "  submit  --gpus-per-node 8 --nodes 2",
        "",
        "With a time limit of 1 h",
        "  starts   by 2026-11-21T14:00:00Z at the latest (by time_limits)",
        "  because  It needs 16 GPUs; 8 are free.",
        "  submit   --time 1h",
        "",
        "Not all in one rack",
        "  starts   unknown",
        "  because  Others come first.",
        "  submit   no --required-topology --preferred-topology rack",
        "",
        "In pool a100",
        "  starts   never",
        "  because  No node is so large.",
        "  submit   --pool a100 no --feature no --cluster",
    ]
    assert "Nothing is reserved" in ran.err


@pytest.mark.parametrize(
    ("changes", "job", "told"),
    [
        ({"nodes_min": 1}, {"node_count_min": 1}, "--gpus-per-node 8 --nodes 1..2"),
        (
            {"gpus_per_node": 4, "nodes": 4, "cpus_per_node": 8, "memory_mib_per_node": 500},
            {"mgpu_per_node": 4_000, "node_count": 4, "node_count_min": 4},
            "--gpus-per-node 4 --nodes 4 --cpus-per-node 8 --memory-per-node 500M",
        ),
        (
            {"cpus_per_node": 2, "nodes": 1},
            {"device": "cpu", "mgpu_per_node": 2_000, "node_count": 1, "node_count_min": 1},
            "--cpus-per-node 2 --nodes 1",
        ),
        (
            {"cpus_per_node": None, "memory_mib_per_node": None},
            {},
            "no --cpus-per-node no --memory-per-node",
        ),
        ({"priority_class": "low"}, {}, "--class low"),
        ({"time_limit_s": 7_500}, {}, "--time 2h5m"),
        # The two largest units are not all of it.
        ({"time_limit_s": 90_061}, {}, "--time 90061s"),
    ],
)
def test_the_options_of_submit_that_differ(
    server: Server, changes: dict[str, Any], job: dict[str, Any], told: str
) -> None:
    """Planted: a limit cut to its two largest units; nodes without what each has."""
    answer(server, an_alternative("Otherwise", changes, job))
    lines = server.run("why", JOB_ID, "--alternatives").out.splitlines()
    assert lines[-1] == f"  submit  {told}"


def test_where_there_is_none_it_says_why_and_no_more(server: Server) -> None:
    answer(server, sentence="It does not wait: it is running.")
    ran = server.run("why", JOB_ID, "--alternatives")
    assert (ran.out, ran.err) == ("It does not wait: it is running.\n", "")


def test_alternatives_for_programs(server: Server) -> None:
    found = answer(server, an_alternative("With 1 GPU", {"gpus_per_node": 1}))
    assert json.loads(server.run("why", JOB_ID, "--alternatives", "-o", "json").out) == found


def test_alternatives_of_an_array_name_its_tasks(server: Server) -> None:
    server.routes[f"POST jobs/{JOB_ID}/alternatives"] = a_problem(404)
    server.routes[f"GET job-arrays/{JOB_ID}"] = {"id": JOB_ID, "size": 3}
    ran = server.run("why", JOB_ID, "--alternatives")
    assert "is an array of 3 tasks. Name one of its tasks" in ran.err


def test_one_of_both_is_asked_for(server: Server) -> None:
    ran = server.run("why", JOB_ID, "--alternatives", "--history")
    assert (ran.err, len(server.requests)) == (
        "Error: Give either --history or --alternatives, not both.\n",
        0,
    )
