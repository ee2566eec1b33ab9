"""`tidegate metrics` and `tidegate unused`, against a server that is a function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import JOB_ID, Server, a_server

MIB = 1 << 20
SUMMARY: dict[str, Any] = {
    "sampled_at": "2026-11-30T03:02:00Z",
    "elapsed_s": 120,
    "cpu_time_ms": 118_400,
    "cpu_milli": 4_000,
    "cpu_efficiency_permille": 246,
    "memory_peak_bytes": 207 * MIB,
    "memory_asked_bytes": 2_048 * MIB,
    "memory_efficiency_permille": 101,
    "gpu_utilisation_percent": None,
    "gpu_idle_permille": None,
    "gpu_memory_peak_bytes": None,
    "gpus_idle_since": None,
    "gpus_are_held": None,
}
FOUND: dict[str, Any] = {
    "attempt": 1,
    "cluster": "local",
    "is_supported": True,
    "is_final": False,
    "summary": SUMMARY,
    "points": [
        {
            "at": "2026-11-30T03:00:30Z",
            "cpu_time_ms": 29_500,
            "memory_bytes": 207 * MIB,
            "processes": 3,
            "gpus": None,
        },
        {
            "at": "2026-11-30T03:01:00Z",
            "cpu_time_ms": 89_500,
            "memory_bytes": None,
            "processes": None,
            "gpus": [{"utilisation_percent": 40}, {"utilisation_percent": None}],
        },
    ],
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


def test_the_figures_of_a_job_and_its_latest_points(server: Server) -> None:
    """Planted: the attempt is not sent. Planted: figures that are not reported are 0."""
    server.routes[f"GET jobs/{JOB_ID}/metrics"] = FOUND
    ran = server.run("metrics", JOB_ID, "--attempt", "1")
    assert ran.out == (
        "attempt            1\n"
        "as of              2026-11-30T03:02:00Z\n"
        "elapsed            2m\n"
        "CPU time           1m58s\n"
        "CPU efficiency     24.6% of 4 cores\n"
        "peak memory        207.0 MiB of 2.0 GiB\n"
        "memory efficiency  10.1%\n"
        "GPU utilisation    not reported\n"
        "GPU idle time      unknown\n"
        "peak GPU memory    not reported\n"
        "\n"
        "TIME                  CPU TIME  MEMORY        PROCESSES  GPU USE\n"
        "2026-11-30T03:00:30Z  29.5s     207.0 MiB             3  not reported\n"
        "2026-11-30T03:01:00Z  1m29s     not reported          -  40% -\n"
    )
    assert server.requests[-1].url.params["attempt"] == "1"
    assert json.loads(server.run("metrics", JOB_ID, "-o", "json").out) == FOUND
    lines = server.run("metrics", JOB_ID, "-o", "csv").out.splitlines()
    assert lines[1] == "2026-11-30T03:00:30Z,29500,217055232,3,"


def test_where_a_cluster_reports_a_rate_there_is_no_cpu_time(server: Server) -> None:
    """Planted: a column of CPU times, in which nothing was reported."""
    summary = {**SUMMARY, "cpu_time_ms": None, "cpu_rate_milli": 1_250}
    rates = (1_500, None)
    points = [
        {**point, "cpu_time_ms": None, "cpu_rate_milli": rate}
        for point, rate in zip(FOUND["points"], rates, strict=True)
    ]
    server.routes[f"GET jobs/{JOB_ID}/metrics"] = {**FOUND, "summary": summary, "points": points}
    lines = server.run("metrics", JOB_ID).out.splitlines()
    assert lines[3:6] == [
        "CPU time           not reported",
        "mean busy cores    1.25",
        "CPU efficiency     24.6% of 4 cores",
    ]
    assert lines[-3:] == [
        "TIME                  CORES         MEMORY        PROCESSES  GPU USE",
        "2026-11-30T03:00:30Z  1.5           207.0 MiB             3  not reported",
        "2026-11-30T03:01:00Z  not reported  not reported          -  40% -",
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"attempt": None}, "The job has not started, so it has no metrics yet."),
        ({"is_supported": False}, "The cluster local does not report metrics."),
        ({}, "The cluster local has reported no metrics of this attempt so far."),
    ],
)
def test_why_there_are_none(server: Server, changes: dict[str, Any], sentence: str) -> None:
    server.routes[f"GET jobs/{JOB_ID}/metrics"] = {**FOUND, "summary": None, **changes}
    ran = server.run("metrics", JOB_ID)
    assert (ran.exit_code, ran.out, ran.err) == (0, "", f"{sentence}\n")


def a_job(**summary: Any) -> dict[str, Any]:
    return {
        "job": JOB_ID,
        "name": "train",
        "team": "ai-company/research/nlp",
        "user": "bob",
        "state": "running",
        "mgpu": 2_000,
        "summary": {**SUMMARY, **summary},
    }


def test_jobs_that_use_little(server: Server) -> None:
    """Against: the node is not sent."""
    since = "2026-11-30T01:00:00Z"
    server.routes["GET unused-resources"] = {
        "node": "ai-company/research/nlp",
        "reports_gpus": True,
        "idle_gpus": [a_job(gpus_idle_since=since, gpus_are_held=False)],
        "memory": [a_job()],
        "cpus": [],
    }
    ran = server.run("unused", "nlp")
    assert server.requests[-1].url.params["node"] == "nlp"
    told = [line.split() for line in ran.out.splitlines()]
    head = ["JOB", "NAME", "TEAM", "USER", "STATE"]
    row = [JOB_ID, "train", "ai-company/research/nlp", "bob", "running"]
    assert told == [
        ["Running", "jobs", "whose", "GPUs", "are", "idle:", "1"],
        [*head, "GPUS", "IDLE", "SINCE", "PROCESS"],
        [*row, "2", since, "none"],
        ["Jobs", "that", "used", "less", "than", "a", "quarter", "of", "their", "memory:", "1"],
        [*head, "PEAK", "ASKED", "FOR"],
        [*row, "207.0", "MiB", "2.0", "GiB"],
        ["Jobs", "that", "used", "less", "than", "a", "quarter", "of", "their", "CPUs:", "none"],
    ]
    assert ran.err == ""


def test_clusters_that_report_no_gpus_are_named(server: Server) -> None:
    """Against: an empty list alone, which reads as if all GPUs were busy."""
    lists: dict[str, list[Any]] = {"idle_gpus": [], "memory": [], "cpus": []}
    server.routes["GET unused-resources"] = {"node": "a", "reports_gpus": False, **lists}
    assert server.run("unused", "a").err == (
        "No cluster of the running jobs there reports GPU use.\n"
    )
