"""Standard input, output and error of the tasks of a step (srun(1), "IO redirection")."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping

from batch.command_line import Refused
from batch.file_names import file_name, has_task
from batch.steps import Task
from batch.task_output import Outputs

_INPUT_BYTES_MAX = 256 << 20
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC


class Streams:
    """Opens the streams of each task, and copies what tasks write to srun's own."""

    def __init__(
        self, options: Mapping[str, str], environment: Mapping[str, str], step: int, tasks: int
    ) -> None:
        self._output = options.get("output", "")
        self._error = options.get("error", "")
        self._input = options.get("input", "all")
        self._appends = options.get("open-mode", "t").startswith("a")
        self._environment = environment
        self._step = step
        self._label_width = len(str(tasks - 1)) if "label" in options else 0
        self._outputs = Outputs(is_buffered="unbuffered" not in options)
        self._files: dict[str, int] = {}
        self._spooled = self._spool() if self._input == "all" and tasks > 1 else None

    @property
    def are_open(self) -> bool:
        """Return whether a task may still write to srun's own output or to a shared file."""
        return self._outputs.is_open

    def watch(self, descriptor: int) -> None:
        """Let `copy` return when `descriptor` can be read."""
        self._outputs.watch(descriptor)

    def copy(self, timeout_s: float) -> None:
        """Copy what the tasks have written. Waits up to `timeout_s` for something."""
        self._outputs.copy(timeout_s)

    def close_starting(self) -> None:
        """Close what was only needed to start tasks."""
        if self._spooled is not None:
            self._spooled.close()

    @contextlib.contextmanager
    def of_task(self, task: Task) -> Iterator[tuple[int, int, int]]:
        """Give descriptors for the task's input, output and error while it is started.

        Raises OSError where a file cannot be opened.
        """
        opened: list[int] = []
        try:
            stdin = self._stdin(task, opened)
            stdout = self._out(task, self._output, 1, opened)
            if self._error:
                stderr = self._out(task, self._error, 2, opened)
            else:
                # As with Slurm, errors go where the output goes.
                stderr = stdout if self._output else self._out(task, "", 2, opened)
            yield stdin, stdout, stderr
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _stdin(self, task: Task, opened: list[int]) -> int:
        if self._input == "all" and self._spooled is None:
            return 0
        path = os.devnull
        if self._input == "all":
            assert self._spooled is not None
            path = f"/proc/self/fd/{self._spooled.fileno()}"
        elif self._input.isdecimal():
            if int(self._input) == task.rank:
                return 0
        elif self._input != "none":
            path = self._name(self._input, task)
        opened.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return opened[-1]

    def _out(self, task: Task, pattern: str, standard: int, opened: list[int]) -> int:
        label = f"{task.rank:{self._label_width}}: ".encode() if self._label_width else b""
        if pattern in ("", "all"):
            return self._piped(standard, label, opened)
        if pattern == "none" or (pattern.isdecimal() and int(pattern) != task.rank):
            opened.append(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
            return opened[-1]
        if pattern.isdecimal():
            return self._piped(standard, label, opened)
        path = self._name(pattern, task)
        mode = os.O_APPEND if self._appends or path in self._files else os.O_TRUNC
        if has_task(pattern):
            opened.append(os.open(path, _WRITE | mode, 0o666))
            return opened[-1]
        if path not in self._files:
            self._files[path] = os.open(path, _WRITE | mode, 0o666)
        return self._piped(self._files[path], label, opened)

    def _piped(self, target: int, label: bytes, opened: list[int]) -> int:
        reader, writer = os.pipe()
        self._outputs.add(reader, target, label)
        opened.append(writer)
        return writer

    def _name(self, pattern: str, task: Task) -> str:
        environment = self._environment
        job = environment.get("SLURM_JOB_ID", "")
        return file_name(
            pattern,
            {
                "A": environment.get("SLURM_ARRAY_JOB_ID", job),
                "J": f"{job}.{self._step}",
                "N": task.place.node,
                "a": environment.get("SLURM_ARRAY_TASK_ID", "4294967294"),
                "j": job,
                "n": str(task.node_rank),
                "s": str(self._step),
                "t": str(task.rank),
                "u": environment.get("USER", ""),
                "x": environment.get("SLURM_JOB_NAME", ""),
            },
        )

    def _spool(self) -> tempfile._TemporaryFileWrapper[bytes] | None:
        """Keep srun's input in a file that every task reads from its beginning."""
        kind = os.fstat(0).st_mode
        if stat.S_ISCHR(kind):
            return None
        spooled = tempfile.NamedTemporaryFile()  # noqa: SIM115 - kept until all tasks have started
        left = _INPUT_BYTES_MAX
        while chunk := sys.stdin.buffer.read(min(left, 1 << 20)):
            spooled.write(chunk)
            left -= len(chunk)
            if left == 0:
                raise Refused(f"more than {_INPUT_BYTES_MAX >> 20} MiB of input for every task.")
        spooled.flush()
        return spooled
