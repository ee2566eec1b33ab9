"""The times of the lines of Pods, kept beside the log through breaks and crashes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.kube_log_cluster import (
    NANOS,
    START,
    FakeCluster,
    chunk_of,
    cluster,
    eventually,
    is_there,
    keeper_of,
    tend,
)
from connectors.kubernetes.logs import log_files
from connectors.kubernetes.logs.log_files import LogWriter, read_times
from connectors.kubernetes.logs.log_keeping import LogKeeper
from connectors.protocol import LogTime

__all__ = ["cluster", "keeper_of"]


def stamped(lines: list[tuple[int, bytes]], since: str | None) -> bytes:
    """The answer of a node: all lines since a second."""
    first = 0 if since is None else int(datetime.fromisoformat(since).timestamp()) * NANOS
    return b"".join(
        f"{datetime.fromtimestamp(nano // NANOS, UTC):%Y-%m-%dT%H:%M:%S}.{nano % NANOS:09d}Z "
        .encode() + text
        for nano, text in lines
        if nano >= first
    )  # fmt: skip


@contextmanager
def writer(folder: Path, *, cap_bytes: int = 1 << 20) -> Iterator[LogWriter]:
    """The writer of rank 0; it notes its position only where a test says so."""
    flags = os.O_RDWR | os.O_CREAT
    opened = [os.open(folder, os.O_RDONLY)]
    opened += [os.open(folder / name, flags) for name in ("0.log", "0.times")]
    yield LogWriter(*opened, rank=0, pod="pod", cap_bytes=cap_bytes)
    for each in opened:
        os.close(each)


def times_of(folder: Path, start: int, end: int) -> tuple[LogTime, ...]:
    opened = os.open(folder, os.O_RDONLY)
    try:
        return read_times(opened, 0, start, end)
    finally:
        os.close(opened)


def test_lines_of_a_second_share_a_mark(tmp_path: Path) -> None:
    """Against: a mark for each line."""
    lines = [
        (START * NANOS, b"one\n"),
        (START * NANOS + 700_000_000, b"two\n"),
        (START * NANOS + 2 * NANOS, b"three\n"),
    ]
    with writer(tmp_path) as opened:
        opened.take(stamped(lines, None))
    marks = (LogTime(8, START * 1_000 + 700), LogTime(14, START * 1_000 + 2_000))
    assert times_of(tmp_path, 0, 14) == marks
    assert times_of(tmp_path, 8, 9) == marks[1:]
    assert times_of(tmp_path, 14, 14) == ()


def test_a_log_of_an_earlier_version_has_no_times_before(tmp_path: Path) -> None:
    """Against: the first new mark dates all that came before it."""
    with writer(tmp_path) as opened:
        opened.take(stamped([(START * NANOS, b"old\n")], None))
        opened.note()
    (tmp_path / "0.times").unlink()
    with writer(tmp_path) as opened:
        opened.take(stamped([(START * NANOS, b"old\n"), ((START + 9) * NANOS, b"new\n")], None))
    assert times_of(tmp_path, 0, 8) == (LogTime(4, None), LogTime(8, (START + 9) * 1_000))


def test_a_mark_of_lines_that_are_fetched_again_is_cut(tmp_path: Path) -> None:
    """Against: the mark that is cut loses its time, or stays as it is."""
    lines = [(START * NANOS, b"one\n"), (START * NANOS + 1, b"two\n")]
    with writer(tmp_path) as opened:
        opened.take(stamped(lines[:1], None))
        opened.note()
    with writer(tmp_path) as dying:
        dying.take(stamped(lines, None))
    assert times_of(tmp_path, 0, 8) == (LogTime(8, START * 1_000),)
    with writer(tmp_path):
        pass
    assert times_of(tmp_path, 0, 8) == (LogTime(4, START * 1_000),)


def test_marks_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: no bound."""
    monkeypatch.setattr(log_files, "TIMES_BYTES_MAX", 32)
    lines = [((START + second) * NANOS, b"x\n") for second in range(5)]
    with writer(tmp_path) as opened:
        opened.take(stamped(lines, None))
    assert (tmp_path / "0.times").stat().st_size == 32
    assert [mark.until for mark in times_of(tmp_path, 0, 10)] == [2, 4]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, NANOS // 2, NANOS, 3 * NANOS]),
            st.sampled_from([b"\n", b"a\n", b"long line\n"]),
        ),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.tuples(st.integers(0, 300), st.booleans(), st.integers(1, 60)), max_size=6),
    st.sampled_from([1 << 20, 10]),
)
def test_every_line_has_its_second(
    steps: list[tuple[int, bytes]], looks: list[tuple[int, bool, int]], cap_bytes: int
) -> None:
    """However often a process dies, with or without a note of its position.

    Planted: lines of all seconds share a mark.
    """
    lines, nano = [], START * NANOS
    for step, text in steps:
        nano += step
        lines.append((nano, text))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for cut, notes, piece in [*looks, (1 << 20, True, 1 << 20)]:
            with writer(folder, cap_bytes=cap_bytes) as opened:
                data = stamped(lines, opened.position.since())[:cut]
                for start in range(0, len(data), piece):
                    if not opened.is_over:
                        opened.take(data[start : start + piece])
                if notes:
                    opened.note()
        size = (folder / "0.log").stat().st_size
        begin = 0
        for nano, text in lines:
            if begin >= size:
                break
            (mark, *_) = times_of(folder, begin, begin + 1)
            assert mark.at_ms is not None
            assert mark.at_ms // 1_000 == nano // NANOS
            begin += len(text)


def test_a_log_that_is_kept_has_times(
    cluster: FakeCluster, keeper_of: Callable[..., LogKeeper], tmp_path: Path
) -> None:
    """Planted: the file of times is not read."""
    pod = cluster.pod("a-0")
    pod.writes("one\n", "two\n", second=START)
    pod.writes("three\n", second=START + 5)
    tend(keeper_of(), pod)
    eventually(lambda: is_there(tmp_path, b"one\ntwo\nthree\n"))
    times = (LogTime(8, START * 1_000), LogTime(14, (START + 5) * 1_000))
    assert chunk_of(tmp_path).times == times
    assert chunk_of(tmp_path, offset=8).times == times[1:]
