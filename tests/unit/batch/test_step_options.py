"""The command line of srun."""

from __future__ import annotations

import pytest

from batch.command_line import Refused
from batch.step_options import read_options


@pytest.mark.parametrize(
    ("line", "options", "command"),
    [
        ("hostname", {}, ["hostname"]),
        ("-N2 -n 4 hostname -f", {"nodes": "2", "ntasks": "4"}, ["hostname", "-f"]),
        ("--nodes=2 --ntasks 4 -- -x", {"nodes": "2", "ntasks": "4"}, ["-x"]),
        ("-lu -w n1 true", {"label": "", "unbuffered": "", "nodelist": "n1"}, ["true"]),
        ("-luN3 true", {"label": "", "unbuffered": "", "nodes": "3"}, ["true"]),
        ("--tasks-per-node=2 a", {"ntasks-per-node": "2"}, ["a"]),
        ("--ntasks-per-n 2 a", {"ntasks-per-node": "2"}, ["a"]),
        ("-K a", {"kill-on-bad-exit": ""}, ["a"]),
        ("-K0 a", {"kill-on-bad-exit": "0"}, ["a"]),
        ("--kill-on-bad-exit=1 a", {"kill-on-bad-exit": "1"}, ["a"]),
        ("--mpi=pmix --cpu-bind=none --mem=0 --overlap --exclusive a", {}, ["a"]),
        ("--partition=h100 -A lab -t 5 a", {"time": "5"}, ["a"]),
        ("--nodes=1 --nodes=2 a", {"nodes": "2"}, ["a"]),
        ("", {}, []),
    ],
)
def test_options_are_read_as_srun_reads_them(
    line: str, options: dict[str, str], command: list[str]
) -> None:
    assert read_options(line.split()) == (options, command)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--nod=2 a", "--nod may mean --nodelist or --nodes."),
        ("--frobnicate a", "--frobnicate is not an option of srun."),
        ("-y a", "-y is not an option of srun."),
        ("--nodes", "option --nodes needs a value."),
        ("-N", "option --nodes needs a value."),
        ("--label=3 a", "option --label takes no value, and got '3'."),
        ("--pty bash", "--pty is not offered on this cluster. A batch job has no terminal."),
        (
            "--container-image=x a",
            "--container-image is not offered on this cluster. "
            "Name the image when the job is submitted (--image).",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence(line: str, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        read_options(line.split())
    assert str(refused.value) == sentence
