"""srun and scontrol as real processes: exit codes, output, signals and shared GPUs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import batch
from primitives.hostlist import expand

BIN = Path(batch.__file__).resolve().parent / "bin"
_DEADLINE_S = 60


class Job:
    """A batch job of two nodes with four GPUs each, seen from its script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "TMPDIR": str(folder),
            "TIDEGATE_PYTHON": sys.executable,
            "TIDEGATE_PLACES": "node-[001-002]:0-3",
            "SLURM_JOB_ID": "77",
            "SLURM_JOB_NAME": "pretrain",
            "SLURM_JOB_NODELIST": "node-[001-002]",
        }

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment | more,
            cwd=self.folder,
        )

    def run(self, *words: str, **more: str) -> tuple[int, list[str], list[str]]:
        process = self.start(*words, **more)
        out, err = process.communicate(timeout=_DEADLINE_S)
        return process.returncode, out.splitlines(), err.splitlines()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def eventually(look: Callable[[], bool]) -> None:
    end = time.monotonic() + _DEADLINE_S
    while not look():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_each_task_learns_its_place(job: Job) -> None:
    code, out, err = job.run(
        *("srun", "-l", "-n4", "--gpus-per-task=2", "sh", "-c"),
        "echo $SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID $SLURM_NODEID $SLURMD_NODENAME "
        "$SLURM_STEP_ID $SLURM_STEP_NODELIST $TIDEGATE_GPU_SLOTS",
    )
    assert (code, sorted(out), err) == (
        0,
        [
            "0: 0/4 0 0 node-001 0 node-[001-002] 0,1",
            "1: 1/4 1 0 node-001 0 node-[001-002] 2,3",
            "2: 2/4 0 1 node-002 0 node-[001-002] 0,1",
            "3: 3/4 1 1 node-002 0 node-[001-002] 2,3",
        ],
        [],
    )


def test_the_highest_exit_code_is_that_of_srun(job: Job) -> None:
    code, _, err = job.run("srun", "-n4", "sh", "-c", "exit $((SLURM_PROCID / 2 * 3))")
    # Tasks that end together share a line.
    ends = [
        re.fullmatch("srun: error: node-002: tasks? ([23-]+): Exited with exit code 3", line)
        for line in err
    ]
    ranks = [rank for end in ends if end is not None for rank in expand(f"[{end[1]}]")]
    assert (code, None in ends, sorted(ranks)) == (3, False, ["2", "3"])


def test_a_task_that_a_signal_killed_has_the_code_of_a_shell(job: Job) -> None:
    code, _, err = job.run("srun", "-n1", "sh", "-c", "kill -9 $$")
    assert (code, err) == (137, ["srun: error: node-001: task 0: Killed"])


def test_a_program_that_is_not_there_is_named_once(job: Job) -> None:
    code, _, err = job.run("srun", "nosuchprogram")
    assert (code, err) == (
        2,
        ["srun: error: node-[001-002]: tasks 0-1: nosuchprogram: No such file or directory"],
    )


def test_lines_of_tasks_are_not_mixed(job: Job) -> None:
    """Planted: parts of lines were written as they came."""
    script = "for n in 1 2 3 4 5 6 7 8; do printf %s half; sleep 0.01; echo line; done"
    _, out, _ = job.run("srun", "-n8", "sh", "-c", script)
    assert out == ["halfline"] * 64


def test_output_goes_to_the_files_that_the_patterns_name(job: Job) -> None:
    job.run("srun", "-o", "%x-%j.%s-%t.out", "sh", "-c", "echo $SLURM_PROCID; echo e >&2")
    job.run("srun", "-l", "-o", "all.out", "-e", "%t.err", "sh", "-c", "echo a; echo b >&2")
    files = {path.name: path.read_text() for path in job.folder.iterdir() if path.is_file()}
    files["all.out"] = "".join(sorted(files["all.out"].splitlines(keepends=True)))
    assert files == {
        "pretrain-77.0-0.out": "0\ne\n",
        "pretrain-77.0-1.out": "1\ne\n",
        "all.out": "0: a\n1: a\n",
        "0.err": "b\n",
        "1.err": "b\n",
    }


def test_every_task_reads_the_input_of_srun(job: Job) -> None:
    code, out, _ = job.run("sh", "-c", "echo hello | srun -n2 cat")
    assert (code, out) == (0, ["hello", "hello"])


def test_export_passes_on_what_it_names(job: Job) -> None:
    show = 'echo "$A|$B|$C|$SLURM_JOB_ID"'
    given = {"A": "1", "B": "2"}
    for choice, said in (("ALL,C=3", "1|2|3|77"), ("A", "1|||77"), ("NONE", "|||77")):
        _, out, _ = job.run("srun", "-n1", f"--export={choice}", "/bin/sh", "-c", show, **given)
        assert out == [said]


def test_a_bad_exit_ends_the_others_where_it_is_asked(job: Job) -> None:
    script = "[ $SLURM_PROCID = 1 ] && exit 5; exec sleep 600"
    code, _, err = job.run("srun", "-K", "-n2", "sh", "-c", script)
    assert (code, err) == (
        143,
        [
            "srun: error: node-002: task 1: Exited with exit code 5",
            "srun: error: Terminating job step",
            "srun: error: node-001: task 0: Terminated",
        ],
    )


def test_signals_go_to_every_task(job: Job) -> None:
    """Planted: to the first task alone."""
    script = "trap 'echo saved; exit 0' USR1; echo up; sleep 600 & wait"
    process = job.start("srun", "-n4", "-o", "%t.log", "sh", "-c", script)
    logs = [job.folder / f"{task}.log" for task in range(4)]
    eventually(lambda: all(log.exists() and log.read_text() == "up\n" for log in logs))
    process.send_signal(signal.SIGUSR1)
    assert process.wait(_DEADLINE_S) == 0
    process.communicate()
    assert [log.read_text() for log in logs] == ["up\nsaved\n"] * 4


def test_steps_at_once_share_the_gpus(job: Job) -> None:
    """Two steps with two GPUs each of a node run side by side, and a third one waits.

    Planted: each step got the first two."""
    script = (
        "for n in 1 2 3; do"
        "  srun -N1 -n1 --gres=gpu:2 sh -c 'echo $TIDEGATE_GPU_SLOTS; sleep 0.3' & "
        "done; wait"
    )
    code, out, _ = job.run("sh", "-c", script)
    assert (code, sorted(set(out)), len(out)) == (0, ["0,1", "2,3"], 3)


def test_outside_of_a_batch_job_it_says_so(job: Job) -> None:
    code, _, err = job.run("srun", "true", TIDEGATE_PLACES="")
    assert (code, err) == (
        1,
        ["srun: error: this is no batch job: a file with #SBATCH lines is one."],
    )


def test_scontrol_lists_the_nodes_of_the_job(job: Job) -> None:
    assert job.run("scontrol", "show", "hostnames") == (0, ["node-001", "node-002"], [])
    assert job.run("scontrol", "show", "hostnames", "a[1-2],b") == (0, ["a1", "a2", "b"], [])
    assert job.run("scontrol", "show", "hostlist", "a1,a2,b") == (0, ["a[1-2],b"], [])
    code, _, err = job.run("scontrol", "update", "job", "77")
    assert (code, err) == (
        1,
        [
            "scontrol: error: `scontrol update job` is not offered on this cluster; "
            "`show hostnames`, `show hostlist`, `show job` and `requeue` are."
        ],
    )
