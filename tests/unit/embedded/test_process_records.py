import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from embedded import processes
from embedded.layout import Layout
from embedded.records import (
    birth_mark,
    forget_record,
    is_alive,
    read_record,
    read_records,
    record_of,
    send_signal,
    wait_until_gone,
    write_record,
)
from embedded.services import Service

# The launcher forks from a single thread; a worker of the test run has several.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that would run for a minute."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    record = record_of("web", os.getpid(), stop_signal=signal.SIGINT)
    write_record(tmp_path / "run", record)
    assert read_record(tmp_path / "run", "web") == record
    assert read_records(tmp_path / "run") == [record]
    assert (record.pid, record.stop_signal) == (os.getpid(), signal.SIGINT)
    forget_record(tmp_path / "run", "web")
    forget_record(tmp_path / "run", "web")
    assert read_records(tmp_path / "run") == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"name": "web", "pid": "x"}', "null"])
def test_a_damaged_record_is_no_record(tmp_path: Path, text: str) -> None:
    (tmp_path / "web.json").write_text(text)
    assert read_record(tmp_path, "web") is None
    assert read_records(tmp_path) == []


def test_a_running_process_has_the_same_birth_mark_each_time() -> None:
    assert birth_mark(os.getpid()) == birth_mark(os.getpid())
    assert is_alive(record_of("this", os.getpid()))


def test_a_process_that_is_gone_has_no_birth_mark(sleeper: "subprocess.Popen[bytes]") -> None:
    record = record_of("sleeper", sleeper.pid)
    sleeper.kill()
    assert wait_until_gone(record, within_s=10)  # a zombie already counts as gone
    sleeper.wait()
    assert birth_mark(sleeper.pid) is None
    assert not is_alive(record)
    assert record_of("late", sleeper.pid).birth == ""
    assert not is_alive(record_of("late", sleeper.pid))


def test_a_reused_process_id_is_never_signalled(
    tmp_path: Path, sleeper: "subprocess.Popen[bytes]"
) -> None:
    """The record names the same id, but was written for an earlier process."""
    of_another = replace(record_of("web", sleeper.pid), birth="boot:1")
    write_record(tmp_path / "run", of_another)
    assert not send_signal(of_another, signal.SIGKILL)
    layout = Layout(tmp_path)
    assert processes.left_in_session(of_another, layout) == []
    assert processes.stop([of_another], layout, within_s=0) == []
    assert sleeper.poll() is None
    assert read_record(tmp_path / "run", "web") is None


def test_a_process_that_will_not_stop_is_killed(tmp_path: Path) -> None:
    program = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('deaf', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as deaf:
        assert deaf.stdout is not None
        assert deaf.stdout.readline() == b"deaf\n"
        record = record_of("deaf", deaf.pid)
        assert processes.stop([record], Layout(tmp_path), within_s=0.2) == ["deaf"]
        assert deaf.wait() == -signal.SIGKILL


def a_layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    layout.prepare()
    return layout


def test_a_service_has_its_record_before_it_runs(tmp_path: Path) -> None:
    """The service itself finds its record: no moment exists in which nobody could find it."""
    layout = a_layout(tmp_path)
    program = "import sys; print(open(sys.argv[1]).read())"
    command = (sys.executable, "-c", program, str(layout.run / "probe.json"))
    process = processes.start(Service("probe", command, {}), layout)
    assert process.wait(timeout=30) == 0
    record = read_record(layout.run, "probe")
    assert record is not None
    assert record.pid == process.pid
    assert f'"pid": {process.pid}' in layout.log_of("probe").read_text()


def test_what_a_killed_service_leaves_in_its_session_is_killed_too(tmp_path: Path) -> None:
    layout = a_layout(tmp_path)
    child = "import time; print('child', flush=True); time.sleep(60)"
    program = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]);"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True).wait()"
    )
    environment = {"TIDEGATE_STATE_DIR": str(layout.state)}
    service = Service("parent", (sys.executable, "-c", program), environment)
    process = processes.start(service, layout)
    record = read_record(layout.run, "parent")
    assert record is not None
    while layout.log_of("parent").read_text().count("child") < 2:
        assert process.poll() is None
    outside = [p for p in processes.psutil.Process(process.pid).children() if _leads_session(p)]
    process.kill()
    process.wait()
    left = processes.left_in_session(record, layout)
    processes.kill_leftovers(record, layout)
    assert len(left) == 1
    assert not is_alive(left[0])
    assert len(outside) == 1  # a session of its own, as jobs have: not ours to end
    assert outside[0].is_running()
    outside[0].kill()


def _leads_session(process: "processes.psutil.Process") -> bool:
    return os.getsid(process.pid) == process.pid
