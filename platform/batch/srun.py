"""`srun` inside of a batch job, on a cluster without Slurm: starts the tasks of one step.

All nodes of the job are virtual parts of this machine, so each task is a child of this process, in
a session of its own. Signals that srun gets go on to every task. Its exit code is the highest of
the tasks, as Slurm's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from batch.command_line import Refused
from batch.places import PLACES_VARIABLE, Place, read_places
from batch.step_environment import exported, step_variables, task_variables
from batch.step_options import read_options
from batch.step_state import StepState
from batch.steps import Step, Task, plan_step
from batch.task_streams import Streams
from primitives.hostlist import contract

#: They go on to the tasks.
_FORWARDED = (
    *(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT),
    *(signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2),
)
#: Seconds between TERM and KILL where srun itself ends tasks (Slurm's KillWait).
_KILL_WAIT_S = 30
_TICK_S = 0.5
_NOT_FOUND = 2


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the step that `arguments` describe, and return srun's exit code.

    Raises Refused for what cannot run here.
    """
    options, command = read_options(arguments)
    if not command:
        raise Refused("there is no command to start.")
    job = environment.get("SLURM_JOB_ID")
    if options.get("jobid", job) != job:
        raise Refused(f"job {options['jobid']} is not the job in which this runs.")
    step = plan_step(options, environment, _places(environment))
    state = StepState(_state_folder(environment))
    held: list[Sequence[int]] = [place.devices for place in step.places]
    if step.reserves:
        held = [*state.claim(step.places, step.needs())]
    _take_name()
    run = _Run(step, held, state.next_number(), options, environment)
    return run.until_all_end(command)


def _take_name() -> None:
    """Call this process srun, so that a cluster that notifies each task itself leaves it out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text("srun")


def _places(environment: Mapping[str, str]) -> list[Place]:
    text = environment.get(PLACES_VARIABLE, "")
    if not text:
        raise Refused("this is no batch job: a file with #SBATCH lines is one.")
    return read_places(text)


def _state_folder(environment: Mapping[str, str]) -> str:
    base = environment.get("TMPDIR") or "/tmp"  # noqa: S108 - the job's own
    trace = environment.get("TIDEGATE_TRACE") or environment.get("SLURM_JOB_ID", "0")
    return os.path.join(base, f"tidegate-steps-{trace}")


class _Running:
    """A task that was started. `code` is None until it has ended."""

    def __init__(self, task: Task, process: subprocess.Popen[bytes] | None) -> None:
        self.task = task
        self.process = process
        self.code: int | None = _NOT_FOUND if process is None else None


class _Run:
    """A run of a step. `held` has the step's devices on each of its nodes."""

    def __init__(
        self,
        step: Step,
        held: Sequence[Sequence[int]],
        number: int,
        options: Mapping[str, str],
        environment: Mapping[str, str],
    ) -> None:
        self.tasks = step.tasks(held)
        self.folder = options.get("chdir")
        self.environment = exported(environment, options.get("export"))
        self.environment.update(step_variables(step, number, environment))
        self.streams = Streams(options, environment, number, len(self.tasks))
        self.running: list[_Running] = []
        self.waiting_signals: list[int] = []
        self.is_starting = True
        bad_exit = options.get("kill-on-bad-exit", environment.get("SLURM_KILL_BAD_EXIT", "0"))
        self.ends_on_bad_exit = bad_exit != "0"
        self.wait_s = int(options["wait"]) if options.get("wait", "").isdecimal() else 0
        self.term_at: float | None = None
        self.kill_at: float | None = None
        self.bad_ends: dict[str, list[Task]] = {}

    def until_all_end(self, command: Sequence[str]) -> int:
        """Start the tasks, wait for them, and return the exit code."""
        self._listen()
        try:
            for task in self.tasks:
                try:
                    process = self._started(task, command)
                except OSError as error:
                    what = f"{error.filename or command[0]}: {error.strerror}"
                    self.bad_ends.setdefault(what, []).append(task)
                    process = None
                self.running.append(_Running(task, process))
            self.is_starting = False
            for number in self.waiting_signals:
                self._signal(number)
            self.streams.close_starting()
            while self.streams.are_open or any(one.code is None for one in self.running):
                self.streams.copy(_TICK_S)
                if not self._reap():
                    self._tell()
                self._end_in_time()
        finally:
            self._tell()
            self._signal(signal.SIGKILL)
        return max(one.code or 0 for one in self.running)

    def _listen(self) -> None:
        """Wake up when a task ends, and pass signals on."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.streams.watch(reader)
        for number in _FORWARDED:
            signal.signal(number, lambda which, _: self._forward(which))

    def _forward(self, number: int) -> None:
        if self.is_starting:
            # Tasks that are not there yet must get it too.
            self.waiting_signals.append(number)
        else:
            self._signal(number)

    def _started(self, task: Task, command: Sequence[str]) -> subprocess.Popen[bytes]:
        environment = {**self.environment, **task_variables(task)}
        with self.streams.of_task(task) as (stdin, stdout, stderr):
            return subprocess.Popen(  # noqa: S603 - the user's own command
                list(command),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )

    def _reap(self) -> bool:
        """Note which tasks have ended. Return whether there were any."""
        is_any = False
        for one in self.running:
            if one.code is not None or one.process is None or one.process.poll() is None:
                continue
            code = one.process.returncode
            if code < 0:
                what = signal.strsignal(-code) or f"signal {-code}"
                code = 128 - code
            else:
                what = f"Exited with exit code {code}"
            is_any = True
            one.code = code
            now = time.monotonic()
            if code:
                self.bad_ends.setdefault(what, []).append(one.task)
            if code and self.ends_on_bad_exit:
                self.term_at = now
            elif self.wait_s and self.term_at is None:
                self.term_at = now + self.wait_s
        return is_any

    def _tell(self) -> None:
        """Print the bad ends that were noted: one line for all that came together."""
        for what, tasks in self.bad_ends.items():
            _complain(tasks, what)
        self.bad_ends.clear()

    def _end_in_time(self) -> None:
        """End the rest of the tasks where --kill-on-bad-exit or --wait says so."""
        now = time.monotonic()
        if self.term_at is not None and now >= self.term_at and self.kill_at is None:
            self.kill_at = now + _KILL_WAIT_S
            self._tell()
            if any(one.code is None for one in self.running):
                print("srun: error: Terminating job step", file=sys.stderr)
            self._signal(signal.SIGTERM)
        if self.kill_at is not None and now >= self.kill_at:
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        """Signal the process group of each task that has not ended."""
        for one in self.running:
            # A task that was not reaped keeps its number.
            if one.code is None and one.process is not None:
                try:
                    os.killpg(one.process.pid, number)
                except ProcessLookupError:
                    continue


def _complain(tasks: Sequence[Task], what: str) -> None:
    """Print one line for all of `tasks`, as Slurm does: `n[1-2]: tasks 0-3: Killed`."""
    nodes = contract(list(dict.fromkeys(task.place.node for task in tasks)))
    ranks = contract([str(task.rank) for task in tasks]).strip("[]")
    noun = "task" if len(tasks) == 1 else "tasks"
    print(f"srun: error: {nodes}: {noun} {ranks}: {what}", file=sys.stderr)
