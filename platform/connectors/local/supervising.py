"""Starts supervisors, each as a process without a portal process as its parent."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from connectors.local.attempt_files import AttemptFiles, has_ended, is_locked

_SCRIPT = str(Path(__file__).with_name("supervise.py"))
_START_TIMEOUT_S = 30
_PROBLEM_BYTES_MAX = 2_000


def start_supervisors(attempts: Sequence[AttemptFiles]) -> dict[str, str]:
    """Ensure that each of `attempts` that has not ended has a supervisor.

    They are started in parallel. Returns by directory why a supervisor did not start; the next look
    at the attempt tries again.
    """
    problems = {}
    started = []
    for files in attempts:
        if is_locked(files.supervisor_lock) or has_ended(files):
            continue
        try:
            started.append((files, _start(files)))
        except OSError as error:
            problems[files.path] = f"no supervisor could be started: {error}"
    deadline = time.monotonic() + _START_TIMEOUT_S
    for files, process in started:
        # The process returns as soon as its child, the supervisor, holds the attempt's lock.
        try:
            code = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            problems[files.path] = f"no supervisor within {_START_TIMEOUT_S} s"
        else:
            if code != 0:
                problems[files.path] = f"its supervisor failed: {_last_words(files)}"
    return problems


def _start(files: AttemptFiles) -> subprocess.Popen[bytes]:
    with open(f"{files.path}/supervisor.log", "ab") as log:
        return subprocess.Popen(  # noqa: S603 - our own interpreter, script and directory
            [sys.executable, "-I", "-S", _SCRIPT, files.path],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={"LANG": "C.UTF-8"},
            start_new_session=True,
        )


def _last_words(files: AttemptFiles) -> str:
    log = Path(f"{files.path}/supervisor.log")
    return log.read_bytes()[-_PROBLEM_BYTES_MAX:].decode(errors="replace").strip()
