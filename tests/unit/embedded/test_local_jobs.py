import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.launcher import wait_for
from embedded import local_jobs
from embedded.layout import Layout
from embedded.records import is_alive, record_of

_WATCHER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"],
                         start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


@pytest.fixture
def watcher_program(tmp_path: Path) -> Path:
    """A program named as the supervisor of attempts; like that, it ends when its job has."""
    program = tmp_path / "connectors" / "local" / "supervise.py"
    program.parent.mkdir(parents=True)
    program.write_text(_WATCHER)
    return program


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Processes to end after the test, whatever became of it."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def start(program: Path, attempt: Path, started: list["subprocess.Popen[bytes]"]) -> int:
    """Start a watcher; the process id of its job."""
    process = subprocess.Popen(
        [sys.executable, str(program), str(attempt)], stdout=subprocess.PIPE, start_new_session=True
    )
    started.append(process)
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_running_jobs_are_counted_by_attempt_and_ended_on_request(
    tmp_path: Path, watcher_program: Path, started: list["subprocess.Popen[bytes]"]
) -> None:
    layout = Layout(tmp_path / "state")
    attempts = layout.state / "clusters" / "local" / "attempts"
    jobs = [start(watcher_program, attempts / name, started) for name in ("a", "b")]
    jobs.append(start(watcher_program, attempts / "b", started))  # a keeper of the same attempt
    of_another = start(watcher_program, tmp_path / "state-2" / "a", started)
    records = [record_of("job", pid) for pid in jobs]
    assert local_jobs.count_running(layout) == 2
    assert local_jobs.stop_all(layout) == 2
    wait_for(lambda: not any(map(is_alive, records)), "the jobs to end")
    assert [process.wait(timeout=30) for process in started[:3]] == [0, 0, 0]
    assert local_jobs.count_running(layout) == 0
    assert local_jobs.stop_all(layout) == 0
    assert is_alive(record_of("job", of_another))
    os.kill(of_another, 9)
