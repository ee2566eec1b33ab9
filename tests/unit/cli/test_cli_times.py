"""Lengths of time on the command line: with their unit, wherever they are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.cli_server import JOB_ID, a_server
from cli.errors import CliError
from cli.submitting import seconds, time_limit


@pytest.mark.parametrize(
    ("text", "length_s"),
    [("90s", 90), ("30m", 1_800), ("2h", 7_200), ("1d12h", 129_600), ("0", 0), ("0s", 0)],
)
def test_a_length_has_its_unit(text: str, length_s: int) -> None:
    assert (seconds(text, "--horizon"), time_limit(text)) == (length_s, length_s)


@pytest.mark.parametrize("text", ["10", "1800", "007"])
def test_a_number_alone_is_no_length_of_time(text: str) -> None:
    """Planted: minutes, as Slurm takes it, while settings of policies took seconds."""
    for read in (lambda: seconds(text, "--revert-after"), lambda: time_limit(text)):
        with pytest.raises(CliError) as refusal:
            read()
        assert f"'{text}' has no unit. Write {text}s, {text}m or {text}h." in str(refusal.value)


@pytest.mark.parametrize(
    "text", ["", "soon", "-1m", "1.5h", "5 m", "10:00", "1-0", "m", "٣m", "1000000000s"]
)
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(CliError) as refusal:
        seconds(text, "min_run_s=")
    assert str(refusal.value) == (
        f"min_run_s: {text!r} is not a duration. Write 90s, 30m, 2h or 1d12h."
    )


@pytest.mark.parametrize(
    ("text", "limit_s"),
    [("10:30", 630), ("2:00:00", 7_200), ("1-0", 86_400), ("1-2:3", 93_780), ("1-2:3:4", 93_784)],
)
def test_a_time_limit_may_be_as_sbatch_has_it(text: str, limit_s: int) -> None:
    assert time_limit(text) == limit_s


@pytest.mark.parametrize(
    "arguments",
    [
        ["submit", "--team", "a/b", "--time", "10", "--", "true"],
        ["estimate", JOB_ID, "--horizon", "10"],
        ["wait", JOB_ID, "--timeout", "10"],
        ["quota-changes", "preview", JOB_ID, "--horizon", "10"],
        ["quota", "push", "local", "--timeout", "10"],
        ["policy", "set", "min_run_s=10"],
    ],
)
def test_every_command_asks_for_the_unit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str]
) -> None:
    server = a_server(monkeypatch, str(tmp_path))
    ran = server.run(*arguments)
    assert (ran.exit_code, server.requests) == (2, [])
    assert ran.err.endswith("'10' has no unit. Write 10s, 10m or 10h.\n")
