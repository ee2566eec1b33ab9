"""What a process shows to its supervisor."""

from __future__ import annotations

from pathlib import Path

import pytest

from live import pulse as module
from live.pulse import Pulse, pulse_here


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])

    class NoThread:
        def __init__(self, **_: object) -> None:
            pass

        def start(self) -> None:
            pass

    monkeypatch.setattr(module, "Thread", NoThread)
    return now


def test_a_pulse_beats_while_its_last_promise_holds(tmp_path: Path, clock: list[float]) -> None:
    """Against: a thread touched the file whatever became of the loop, and one that hung was
    never noticed."""
    file = tmp_path / "beat"
    pulse = Pulse(file)
    pulse.beat()
    assert not file.exists()
    pulse.promise(5)
    clock[0] += 5
    pulse.beat()
    assert file.exists()
    file.unlink()
    clock[0] += 0.1
    pulse.beat()
    assert not file.exists()
    pulse.promise()
    clock[0] += 1e9
    pulse.beat()
    assert file.exists()


def test_without_a_supervisor_nothing_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_HEARTBEAT_FILE", raising=False)
    pulse = pulse_here()
    pulse.promise()
    pulse.beat()


def test_the_file_is_the_supervisors(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_HEARTBEAT_FILE", str(tmp_path / "arbiter.heartbeat"))
    pulse = pulse_here()
    pulse.promise(1)
    pulse.beat()
    assert [path.name for path in tmp_path.iterdir()] == ["arbiter.heartbeat"]
