"""The log file of a container, written and read as a kubelet does."""

import io
from pathlib import Path

import pytest

from kubebed.runner.logs import BadOption, LogOptions, LogReader, moment_ns, read_options
from kubebed.runner.output import LINE_BYTES, OutputFile, rfc3339_nano

LINES = (
    b"2026-11-21T08:00:00.000000000Z stdout F one\n"
    b"2026-11-21T08:00:01.000000000Z stdout P two-\n"
    b"2026-11-21T08:00:02.000000000Z stdout F three\n"
    b"2026-11-21T08:00:03.500000000Z stdout P last"
    b"\n"
)


def read(options: LogOptions, content: bytes = LINES) -> bytes:
    """All that a reader with these options gets."""
    return b"".join(LogReader(io.BytesIO(content), options).pieces())


def test_parts_of_a_line_are_one_line() -> None:
    """Given partial entries, only full ones end a line."""
    assert read(LogOptions()) == b"one\ntwo-three\nlast"


def test_times_stand_at_the_beginning_of_lines() -> None:
    """Given timestamps, a part that goes on with a line has none."""
    assert read(LogOptions(has_times=True)) == (
        b"2026-11-21T08:00:00.000000000Z one\n"
        b"2026-11-21T08:00:01.000000000Z two-three\n"
        b"2026-11-21T08:00:03.500000000Z last"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (LogOptions(tail_lines=1), b"last"),
        (LogOptions(tail_lines=9), b"one\ntwo-three\nlast"),
        (LogOptions(tail_lines=0), b""),
        (LogOptions(limit_bytes=5), b"one\nt"),
        (LogOptions(limit_bytes=0), b""),
        (LogOptions(since_ns=moment_ns("2026-11-21T08:00:03.5Z")), b"last"),
        (LogOptions(since_ns=moment_ns("2026-11-21T10:00:02.1+02:00")), b"last"),
    ],
)
def test_a_reader_gets_the_part_that_it_asked_for(options: LogOptions, text: bytes) -> None:
    """Given an option, the log is cut as it says."""
    assert read(options) == text


def test_a_line_that_is_being_written_is_read_when_it_is_whole() -> None:
    """Given half an entry at the end, it comes once its end is there."""
    file = io.BytesIO(LINES[:20])
    reader = LogReader(file, LogOptions())
    assert list(reader.pieces()) == []
    file.seek(0, io.SEEK_END)
    file.write(LINES[20:])
    file.seek(0)
    assert b"".join(reader.pieces()) == b"one\ntwo-three\nlast"
    assert reader.position == len(LINES)


def test_options_are_read_from_the_query() -> None:
    """Given a query, each option has its value; since is counted from now."""
    query = {"follow": "true", "timestamps": "true", "tailLines": "3", "sinceSeconds": "5"}
    assert read_options(query, now_ns=7 * 10**9) == LogOptions(
        is_followed=True, has_times=True, tail_lines=3, since_ns=2 * 10**9
    )


@pytest.mark.parametrize("query", [{"tailLines": "-1"}, {"sinceTime": "yesterday"}])
def test_an_option_that_cannot_be_is_refused(query: dict[str, str]) -> None:
    """Given nonsense, the reader is told."""
    with pytest.raises(BadOption):
        read_options(query, now_ns=0)


def test_what_is_printed_is_written_line_by_line(tmp_path: Path) -> None:
    """Given pieces, lines are whole, long ones cut, and the last one without an end is a part."""
    output = OutputFile(tmp_path / "log")
    output.take(b"a\nb")
    output.take(b"c\n" + b"x" * (LINE_BYTES + 1) + b"\n")
    output.take(b"end")
    output.close()

    entries = [line.split(b" ", 3) for line in (tmp_path / "log").read_bytes().splitlines()]
    assert [(tag, text) for _, _, tag, text in entries] == [
        (b"F", b"a"),
        (b"F", b"bc"),
        (b"P", b"x" * LINE_BYTES),
        (b"F", b"x"),
        (b"P", b"end"),
    ]
    assert {stream for _, stream, _, _ in entries} == {b"stdout"}


def test_a_moment_has_nine_digits() -> None:
    """Given nanoseconds, the text reads back to them."""
    assert rfc3339_nano(1_795_000_000_000_000_001) == "2026-11-18T11:06:40.000000001Z"
    assert moment_ns("2026-11-18T11:06:40.000000001Z") == 1_795_000_000_000_000_001
