"""The times of a local job's log, from the looks of its supervisor."""

import os
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from connectors.local import log_times as module
from connectors.local.log_times import LogTimes, log_times
from connectors.protocol import LogTime


def written(path: Path, data: bytes, at_ms: int) -> None:
    """Append `data` with a last write at `at_ms`."""
    with path.open("ab") as file:
        file.write(data)
    os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log that two looks of its supervisor saw grow, and one that saw nothing new."""
    path, watched = tmp_path / "0.stdout", LogTimes()
    watched.begin(str(path))
    watched.look(str(path))
    for data, at_ms in ((b"one\n", 1_000), (b"", 5_000), (b"two\n", 9_000)):
        written(path, data, at_ms)
        watched.look(str(path))
    return path


@pytest.mark.parametrize(
    ("start", "end", "times"),
    [
        (0, 8, (LogTime(4, 1_000), LogTime(8, 9_000))),
        (0, 4, (LogTime(4, 1_000),)),
        (3, 5, (LogTime(4, 1_000), LogTime(8, 9_000))),
        (4, 8, (LogTime(8, 9_000),)),
        (8, 8, ()),
        (8, 9, ()),
    ],
)
def test_each_part_has_the_time_of_the_write_that_ended_it(
    log: Path, start: int, end: int, times: tuple[LogTime, ...]
) -> None:
    """Planted: a mark at each look. Planted: a part that begins at a mark gets its time."""
    assert log_times(str(log), start, end, is_watched=False) == times


def test_what_no_supervisor_looked_at_has_no_time(log: Path) -> None:
    """Planted: the first look of another supervisor gives old lines the time of the last write."""
    written(log, b"three\n", 70_000)
    later = LogTimes()
    later.look(str(log))
    written(log, b"four\n", 71_000)
    later.look(str(log))
    assert log_times(str(log), 8, 19, is_watched=False) == (LogTime(14, None), LogTime(19, 71_000))


@pytest.mark.parametrize("at_ms", [-1_000, 300_000_000_000_000])
def test_a_time_that_the_job_set_is_no_time(log: Path, at_ms: int) -> None:
    """Planted: it is kept, and no date can show it."""
    watched = LogTimes()
    watched.look(str(log))
    with log.open("ab") as file:
        file.write(b"x\n")
    found = os.stat(log)
    set_by_the_job = SimpleNamespace(st_size=found.st_size, st_mtime_ns=at_ms * 1_000_000)
    with patch.object(module.os, "stat", return_value=set_by_the_job):
        watched.look(str(log))
    assert log_times(str(log), 8, 10, is_watched=False) == (LogTime(10, None),)


def test_a_time_that_the_job_set_is_no_time_while_it_is_watched(log: Path) -> None:
    """Planted: bytes after the last mark have it."""
    with log.open("ab") as file:
        file.write(b"x\n")
    set_by_the_job = SimpleNamespace(st_mtime_ns=300_000_000_000 * 10**9)
    with patch.object(module.os, "stat", return_value=set_by_the_job):
        assert log_times(str(log), 8, 10, is_watched=True) == (LogTime(10, None),)


def test_another_supervisor_without_news_adds_nothing(log: Path) -> None:
    """Planted: each new supervisor appends a mark."""
    LogTimes().look(str(log))
    assert log_times(str(log), 0, 9, is_watched=False)[-1] == LogTime(8, 9_000)


def test_the_newest_bytes_have_the_time_of_the_last_write_while_a_supervisor_lives(
    log: Path,
) -> None:
    """Planted: the same without a supervisor, when the bytes may be old."""
    written(log, b"three\n", 9_500)
    newest = (LogTime(14, 9_500),)
    assert log_times(str(log), 8, 14, is_watched=True) == newest
    assert log_times(str(log), 8, 14, is_watched=False) == ()


def test_a_log_of_an_earlier_version_has_no_times(tmp_path: Path) -> None:
    """Planted: the time of the last write for all of it."""
    path = tmp_path / "0.stdout"
    written(path, b"one\n", 1_000)
    assert log_times(str(path), 0, 4, is_watched=True) == ()


def test_marks_are_bounded(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: no bound. Planted: the last write dates all that came after the last mark."""
    monkeypatch.setattr(module, "TIMES_BYTES_MAX", 48)
    watched = LogTimes()
    watched.look(str(log))
    for number in range(4):
        written(log, b"more\n", 10_000 + number)
        watched.look(str(log))
    assert log_times(str(log), 8, 28, is_watched=True) == (LogTime(13, 10_000),)
    assert Path(f"{log}.times").stat().st_size == 48


def test_no_log_yet(tmp_path: Path) -> None:
    """Planted: a look at a missing log ends the supervisor."""
    path = str(tmp_path / "0.stdout")
    LogTimes().look(path)
    assert log_times(path, 0, 1, is_watched=True) == ()
