"""Who hears a notice, and who is killed when, on every cluster.

The programs are those that researchers submit. Each process notes what it hears in a file.
"""

from __future__ import annotations

import pytest

from builders.connector_builders import (
    a_workload,
    eventually,
    lines,
    until_released,
)
from conformance.rigs import Rig
from connectors.protocol import BatchLaunch, Observation, Outcome

#: The words of a worker: its name, what it does at TERM, how many seconds that takes, and the
#: command line of a worker below it.
WORKER = """
import os, pathlib, signal, subprocess, sys, time
scratch, name, how, seconds, *below = sys.argv[1:]
def note(what):
    with open(f"{scratch}/{name}", "a") as notes:
        notes.write(what + "\\n")
def heard(number, frame):
    note(signal.Signals(number).name[3:])
    if how == "saves":
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            time.sleep(0.02)
        # Python calls a handler once for signals that come together.
        times = len(os.read(signals, 9))
        note("saved" if times == 1 else f"saved, after {times} signals")
        sys.exit(0)
signals, counter = os.pipe()
os.set_blocking(counter, False)
signal.set_wakeup_fd(counter)
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, heard)
child = subprocess.Popen(below) if below else None
pathlib.Path(scratch, name + ".ready").touch()
while True:
    time.sleep(0.02)
    part = pathlib.Path(scratch, name + ".part")
    part.write_text(str(time.monotonic()))
    part.rename(pathlib.Path(scratch, name + ".beat"))
"""


class Bench:
    """A rig with the worker's program on it."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.scratch = rig.scratch
        (self.scratch / "worker.py").write_text(WORKER)
        (self.scratch / "worker.py").chmod(0o644)

    def worker(self, name: str, how: str = "saves", seconds: float = 0.3, below: str = "") -> str:
        """The command line of a worker."""
        program = f"{self.rig.python} {self.scratch}/worker.py {self.scratch}"
        return f"{program} {name} {how} {seconds} {below}".strip()

    def start(self, script: str, *names: str, grace_s: int = 30, **more: object) -> str:
        """Start a job, wait until the processes called `names` are ready, and return its key."""
        workload = a_workload(f"#!/bin/bash\n{script}", grace_s=grace_s, **more)  # type: ignore[arg-type]
        self.rig.start(workload)
        for name in names:
            eventually((self.scratch / f"{name}.ready").exists)
        return workload.key

    def ready(self, name: str) -> str:
        """What a shell says once its traps are set."""
        return f"touch {self.scratch}/{name}.ready"

    def note(self, name: str, what: str) -> str:
        """How a shell notes something."""
        return f"echo {what} >> {self.scratch}/{name}"

    def notes(self, *names: str) -> dict[str, list[str]]:
        """What the processes called `names` noted."""
        return {name: lines(self.scratch / name) for name in names}

    def ended(self, key: str) -> Observation:
        """The end, once nothing of it is left."""
        return until_released(self.rig.connector, key)

    def noticed(self, key: str) -> Observation:
        """The end that follows a notice."""
        self.rig.connector.notify(key)
        return self.ended(key)


@pytest.fixture
def bench(rig: Rig) -> Bench:
    return Bench(rig)


def test_a_shell_without_a_handler_outlives_the_notice(bench: Bench) -> None:
    """The script goes on after its program has saved.

    Planted: the notice as a signal to the process group, as the launchers sent it before.
    """
    key = bench.start(f"{bench.worker('train')}\n{bench.note('shell', 'after')}", "train")
    ended = bench.noticed(key)
    assert bench.notes("train", "shell") == {"train": ["TERM", "saved"], "shell": ["after"]}
    assert (ended.outcome, ended.exit_codes) == (Outcome.SUCCEEDED, {0: 0})


def test_a_program_in_place_of_the_shell_is_no_shell(bench: Bench) -> None:
    ended = bench.noticed(bench.start(f"exec {bench.worker('train')}", "train"))
    assert bench.notes("train") == {"train": ["TERM", "saved"]}
    assert (ended.outcome, ended.exit_codes) == (Outcome.SUCCEEDED, {0: 0})


def test_a_program_that_is_no_shell_and_has_no_handler_ends(bench: Bench) -> None:
    # The program itself says that it has taken the place of the shell, which ignores a notice.
    program = f'import pathlib, time; pathlib.Path("{bench.scratch}/train.ready").touch()'
    key = bench.start(f"exec {bench.rig.python} -c '{program}; time.sleep(60)'", "train")
    ended = bench.noticed(key)
    assert ended.exit_codes in ({0: -15}, {0: 143})


def test_a_shell_with_a_handler_hears_it_with_its_child(bench: Bench) -> None:
    """Planted: no shell gets the signal."""
    script = f"""
    trap '{bench.note("shell", "TERM")}; wait $child; {bench.note("shell", "done")}; exit 0' TERM
    {bench.worker("train", seconds=0.5)} &
    child=$!
    {bench.ready("shell")}
    wait $child
    {bench.note("shell", "never")}
    """
    ended = bench.noticed(bench.start(script, "train", "shell"))
    assert bench.notes("train", "shell") == {"train": ["TERM", "saved"], "shell": ["TERM", "done"]}
    assert (ended.outcome, ended.exit_codes) == (Outcome.SUCCEEDED, {0: 0})


def test_a_task_of_srun_hears_it_once(bench: Bench) -> None:
    """Planted: our own srun signalled, too, which passes the signal on a second time. The real one
    kills its step at TERM, as it did before.
    """
    script = f"srun -n 1 {bench.worker('task')}\n{bench.note('shell', 'after')}"
    key = bench.start(script, "task", batch=BatchLaunch(77))
    ended = bench.noticed(key)
    assert bench.notes("task", "shell") == {"task": ["TERM", "saved"], "shell": ["after"]}
    assert (ended.outcome, ended.exit_codes) == (Outcome.SUCCEEDED, {0: 0})


def test_processes_below_others_hear_it_once_and_outlive_their_shells(bench: Bench) -> None:
    """A shell inside the script is a process like any other: it dies, and they save their work.

    Planted: the notice as a signal to the process group, as the launchers sent it before.
    """
    outer = bench.worker("outer", seconds=1.0, below=bench.worker("inner", seconds=1.0))
    key = bench.start(f"bash -c '{outer}; true'\nexit 7", "outer", "inner")
    ended = bench.noticed(key)
    assert bench.notes("outer", "inner") == {"outer": ["TERM", "saved"], "inner": ["TERM", "saved"]}
    assert ended.exit_codes == {0: 7}


def test_the_grace_of_a_child_is_longer_than_its_shell(bench: Bench) -> None:
    """What the shell started keeps the rest of the grace.

    Planted: the notice as a signal to the process group, as the launchers sent it before.
    """
    script = f"""
    trap 'exit 0' TERM
    {bench.worker("train", seconds=4.0)} &
    {bench.ready("shell")}
    wait
    """
    ended = bench.noticed(bench.start(script, "train", "shell", grace_s=8))
    assert bench.notes("train") == {"train": ["TERM", "saved"]}
    assert (ended.outcome, ended.exit_codes) == (Outcome.SUCCEEDED, {0: 0})


def test_what_a_shell_leaves_behind_is_killed_after_the_grace(bench: Bench) -> None:
    """A job ends, although it ignores the notice, and not before the grace is over.

    Planted: the notice as a signal to the process group, as the launchers sent it before.
    """
    script = f"""
    trap 'cut -d" " -f1 /proc/uptime > {bench.scratch}/heard; exit 0' TERM
    {bench.worker("train", "ignores")} &
    {bench.ready("shell")}
    wait
    """
    bench.noticed(bench.start(script, "train", "shell", grace_s=6))
    assert bench.notes("train") == {"train": ["TERM"]}
    heard = float((bench.scratch / "heard").read_text())
    lived_s = float((bench.scratch / "train.beat").read_text()) - heard
    assert lived_s >= 5.5


def test_a_program_that_ignores_the_notice_runs_until_its_limit(bench: Bench) -> None:
    key = bench.start(bench.worker("train", "ignores"), "train", grace_s=3, time_limit_s=6)
    ended = bench.ended(key)
    assert bench.notes("train") == {"train": ["TERM"]}
    assert ended.outcome is Outcome.TIMED_OUT


def test_a_rank_that_exits_in_its_handler_leaves_the_grace_to_the_others(bench: Bench) -> None:
    script = f"""
    [ "$RANK" = 0 ] && exec {bench.worker("first", seconds=0)}
    exec {bench.worker("second", seconds=3.0)}
    """
    ended = bench.noticed(bench.start(script, "first", "second", ranks=2))
    assert bench.notes("first", "second") == {
        "first": ["TERM", "saved"],
        "second": ["TERM", "saved"],
    }
    assert (ended.outcome, ended.exit_codes) == (Outcome.SUCCEEDED, {0: 0, 1: 0})


def test_the_shell_alone_hears_the_notice_if_the_job_asked_for_that(bench: Bench) -> None:
    """Slurm's `--signal=B:USR1`: the script decides what its programs hear.

    Planted: every process signalled; the program died of USR1 or saved too early.
    """
    script = f"""
    trap '{bench.note("shell", "USR1")}; kill -TERM $child; wait $child; exit 0' USR1
    {bench.worker("train")} &
    child=$!
    {bench.ready("shell")}
    wait $child
    """
    key = bench.start(script, "train", "shell", notice_signal="USR1", signals_shell_only=True)
    bench.noticed(key)
    assert bench.notes("train", "shell") == {"train": ["TERM", "saved"], "shell": ["USR1"]}


def test_the_notice_comes_as_long_before_the_limit_as_the_job_asked(bench: Bench) -> None:
    """With the grace alone, the work would be cut off. Planted: `signal_ahead_s` not looked at."""
    script = f"exec {bench.worker('train', seconds=2.5)}"
    key = bench.start(script, "train", grace_s=1, signal_ahead_s=4, time_limit_s=8)
    ended = bench.ended(key)
    assert bench.notes("train") == {"train": ["TERM", "saved"]}
    assert (ended.outcome, ended.exit_codes) == (Outcome.TIMED_OUT, {0: 0})
