"""A service that shows no heartbeat is killed and started again."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded import __main__ as command
from embedded import supervisor as module
from embedded.layout import Layout
from embedded.records import read_record, record_of, write_record
from embedded.services import Service
from embedded.stopping import stop_services
from embedded.supervisor import Supervisor


class Clock:
    """Seconds of the supervisor's clock, which only a test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    layout = Layout(tmp_path / "state")
    layout.prepare()
    yield layout
    stop_services(layout)


@pytest.fixture
def supervisor(layout: Layout, clock: Clock) -> Iterator[Supervisor]:
    supervisor = Supervisor(layout)
    words = (sys.executable, "-c", "import time; time.sleep(600)")
    supervisor.start(Service("arbiter", words, dict(os.environ), beats=True))
    yield supervisor
    process = supervisor._watched["arbiter"].process
    process.kill()
    process.wait(timeout=30)


def beat(layout: Layout, at_s: int) -> None:
    file = layout.heartbeat_of("arbiter")
    file.touch()
    os.utime(file, (at_s, at_s))


def pass_by(supervisor: Supervisor, clock: Clock, seconds: int) -> None:
    """Look once a second for so long."""
    for _ in range(seconds):
        clock.now += 1
        supervisor.look()


def pid(layout: Layout) -> int:
    record = read_record(layout.run, "arbiter")
    assert record is not None
    return record.pid


def killed_and_replaced(supervisor: Supervisor, clock: Clock, layout: Layout, old: int) -> bool:
    process = supervisor._watched["arbiter"].process
    if process.pid == old:
        process.wait(timeout=30)
    pass_by(supervisor, clock, 3)
    return pid(layout) != old and supervisor.is_running("arbiter")


def test_a_silent_service_is_replaced_after_fifteen_seconds(
    supervisor: Supervisor, clock: Clock, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against: only what ended was started again, and a frozen arbiter stayed for ever."""
    old = pid(layout)
    beat(layout, 1)
    pass_by(supervisor, clock, 1)
    pass_by(supervisor, clock, 14)
    beat(layout, 2)
    pass_by(supervisor, clock, 15)
    assert supervisor.is_running("arbiter")
    pass_by(supervisor, clock, 1)
    assert killed_and_replaced(supervisor, clock, layout, old)
    assert "arbiter sent no heartbeat for 15 s and is killed" in capsys.readouterr().out
    assert not layout.heartbeat_of("arbiter").exists()


def test_a_service_that_starts_may_take_longer(
    supervisor: Supervisor, clock: Clock, layout: Layout
) -> None:
    old = pid(layout)
    pass_by(supervisor, clock, 89)
    assert supervisor.is_running("arbiter")
    pass_by(supervisor, clock, 1)
    assert killed_and_replaced(supervisor, clock, layout, old)


def test_a_supervisor_that_was_frozen_itself_kills_nobody(
    supervisor: Supervisor, clock: Clock, layout: Layout
) -> None:
    """Against: a machine that had slept for a minute woke up to all services killed."""
    beat(layout, 1)
    pass_by(supervisor, clock, 1)
    clock.now += 60
    supervisor.look()
    pass_by(supervisor, clock, 14)
    assert supervisor.is_running("arbiter")


def test_status_names_who_is_silent(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("arbiter", "supervisor"):
        write_record(layout.run, record_of(name, os.getpid()))
    layout.phase_file.write_text(f"ready {os.getpid()} 8000\n")
    beat(layout, 1_000)
    monkeypatch.setattr(command.time, "time", lambda: 1_004.9)
    assert command.status(layout) == 0
    assert f"arbiter      {os.getpid():>8}  running\n" in capsys.readouterr().out
    monkeypatch.setattr(command.time, "time", lambda: 1_265.0)
    assert command.status(layout) == 3
    shown = capsys.readouterr().out
    assert f"arbiter      {os.getpid():>8}  no heartbeat for 265 s\n" in shown
    assert shown.endswith(
        "Not working: arbiter. The supervisor replaces a process without a heartbeat after 15 s.\n"
    )
    for name in ("arbiter", "supervisor"):
        (layout.run / f"{name}.json").unlink()
