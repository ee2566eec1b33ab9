"""`tidegate` on jobs of a range of GPUs and on jobs that begin later, against a server that is a
function."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import JOB_ID, TEAM, Server, a_server, a_shown_job, created
from cli.errors import CliError
from cli.submitting import begin_time, body_of

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ELASTIC = {
    "mgpu_per_node": 4_000,
    "node_count": 4,
    "node_count_min": 1,
    "mgpu": 16_000,
    "mgpu_min": 4_000,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    return a_server(monkeypatch, str(tmp_path))


@pytest.mark.parametrize(
    ("words", "size"),
    [
        (["--gpus", "4..16"], {"gpus_min": 4, "gpus": 16}),
        (
            ["--gpus-per-node", "8", "--nodes", "2..4"],
            {"gpus_per_node": 8, "nodes_min": 2, "nodes": 4},
        ),
        (["--gpus", "8"], {"gpus": 8}),
    ],
)
def test_a_range_is_least_and_most(server: Server, words: list[str], size: dict[str, int]) -> None:
    server.routes["POST jobs"] = created()
    ran = server.run("submit", "--team", TEAM, *words, "--", "true")
    assert ran.exit_code == 0, ran.err
    body = server.body()
    names = ("gpus", "gpus_min", "gpus_per_node", "nodes", "nodes_min")
    assert {name: body[name] for name in names if name in body} == size


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--gpus", "4.."], "--gpus '4..': write both ends, such as 2..8."),
        (["--gpus", "..4"], "--gpus '..4': write both ends, such as 2..8."),
        (["--gpus", "4-16"], "--gpus '4-16': write a number such as 8 or 0.5."),
        (
            ["--memory-per-node", "64 GB"],
            "--memory-per-node '64 GB': write an amount of memory, such as 512M or 64G.",
        ),
        (["--begin", "+2"], "--begin '+2': write +90s, +30m, +2h, +1d12h or a time."),
        (["--begin", "+999999999d"], "--begin +999999999d: that is too far ahead."),
    ],
)
def test_what_is_no_range_or_time_is_told(server: Server, words: list[str], sentence: str) -> None:
    ran = server.run("submit", "--team", TEAM, *words, "--", "true")
    assert ran.exit_code != 0
    assert sentence in ran.err
    assert server.sent == []


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"gpus": 8}, {"gpus": 8, "nodes": 4}),
        ({"gpus_per_node": 4}, {"gpus_per_node": 4, "nodes": 4, "nodes_min": 2}),
        ({"nodes": 3}, {"gpus_per_node": 8, "nodes": 3}),
    ],
)
def test_an_option_overrules_the_range_of_the_file(
    tmp_path: Path, options: dict[str, Any], left: dict[str, Any]
) -> None:
    """Mutant: the least of the file stays beside the option's size."""
    file = tmp_path / "job.yaml"
    file.write_text("script: 'true'\ngpus_per_node: 8\nnodes: 4\nnodes_min: 2\n")
    body = body_of(str(file), None, options)
    assert {name: body[name] for name in body if name != "script"} == left


def test_a_begin_is_a_time_or_so_long_from_now() -> None:
    assert begin_time(None, now=NOW) is None
    assert begin_time("2027-01-20T08:00:00Z", now=NOW) == "2027-01-20T08:00:00Z"
    assert begin_time("+1d2h30m", now=NOW) == "2026-11-22T14:30:00Z"
    with pytest.raises(CliError):
        begin_time("+1 day", now=NOW + timedelta(1))


def test_a_job_of_cores_asks_for_no_gpus_and_is_shown_in_cores(server: Server) -> None:
    """Mutant: what it holds is called GPUs."""
    server.routes["POST jobs"] = created()
    words = ("--pool", "cpu", "--nodes", "1..2", "--cpus-per-node", "4", "--", "true")
    ran = server.run("submit", "--team", TEAM, *words)
    assert ran.exit_code == 0, ran.err
    asked = {"pool": "cpu", "nodes": 2, "nodes_min": 1, "cpus_per_node": 4}
    assert asked.items() <= server.body().items()
    assert not {"gpus", "gpus_per_node"} & server.body().keys()
    size = {"mgpu_per_node": 4_000, "node_count": 2, "mgpu": 8_000, "cpus_per_node": 4}
    job = a_shown_job(**size, node_count_min=2, pool="cpu", pools=["cpu"], device="cpu")
    server.routes[f"GET jobs/{JOB_ID}"] = job
    shown = server.run("get", JOB_ID).out
    fields = [line.split(None, 1) for line in shown.splitlines()]
    assert ["cores", "8 (4 on each of 2 nodes)"] in fields
    assert ["used", "0.000 guaranteed and 0.000 borrowed core-hours"] in fields
    assert "GPU" not in shown
    assert "with each node" not in shown


def test_a_job_is_shown_with_what_it_was_granted(server: Server) -> None:
    for attempt, size, listed in (
        (None, "4 to 16 (4 on each node)", "4..16"),
        ({"mgpu": 12_000, "borrowed_mgpu": 0}, "12 of 4 to 16 (4 on each node)", "12"),
    ):
        job = a_shown_job(**ELASTIC, current_attempt=attempt, begin_at="2027-01-20T08:00:00Z")
        server.routes[f"GET jobs/{JOB_ID}"] = job
        server.routes["GET jobs"] = {"items": [job], "next": None}
        fields = [line.split(None, 1) for line in server.run("get", JOB_ID).out.splitlines()]
        assert ["GPUs", size] in fields
        assert ["begins", "2027-01-20T08:00:00Z"] in fields
        row = server.run("ls").out.splitlines()[1].split()
        assert listed in row
