"""Logs of Pods that are taken up again where they stopped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.kubernetes.logs.log_positions import LineReader, Position

NANOS = 1_000_000_000
START = 1_795_294_377
CAP_BYTES = 1 << 20


@dataclass(frozen=True)
class Line:
    """A line as it stands in the node's file; the last one may have no end yet."""

    nano: int
    text: bytes


def stamp(nano: int) -> bytes:
    second = datetime.fromtimestamp(nano // NANOS, UTC)
    return f"{second:%Y-%m-%dT%H:%M:%S}.{nano % NANOS:09d}Z".encode()


def answer(lines: list[Line], since: str | None) -> bytes:
    """What the node tells: all lines since that second, in the order of its file."""
    first = 0 if since is None else int(datetime.fromisoformat(since).timestamp()) * NANOS
    return b"".join(stamp(one.nano) + b" " + one.text for one in lines if one.nano >= first)


def taken(position: Position, data: bytes, *, cap_bytes: int = CAP_BYTES, piece: int = 7) -> bytes:
    reader = LineReader(position, cap_bytes)
    return b"".join(
        reader.take(data[start : start + piece]) for start in range(0, len(data), piece)
    )


def some_lines(*texts: str, at: int = START * NANOS, step: int = 1) -> list[Line]:
    return [Line(at + n * step, text.encode()) for n, text in enumerate(texts)]


def test_times_are_taken_off() -> None:
    position = Position()
    lines = some_lines("one\n", "two words\n", "\n", " x\n")
    assert taken(position, answer(lines, None)) == b"one\ntwo words\n\n x\n"
    assert position == Position(
        size=18, last_nano=START * NANOS + 3, lines=4, digest=position.digest
    )
    assert position.since() == "2026-11-21T20:52:57Z"


def test_what_is_kept_is_not_taken_again() -> None:
    """Mutant: lines since the newest second were taken again."""
    lines = some_lines("one\n", "two\n", "three\n")
    position = Position()
    assert taken(position, answer(lines[:2], None)) == b"one\ntwo\n"
    assert taken(position, answer(lines, position.since())) == b"three\n"
    assert taken(position, answer(lines, position.since())) == b""


def test_equal_lines_of_one_moment_are_all_taken() -> None:
    """Mutant: lines were told apart by their time and text; the second "same" was lost."""
    lines = some_lines("same\n", "same\n", "same\n", step=0)
    position = Position()
    assert taken(position, answer(lines[:1], None)) == b"same\n"
    assert taken(position, answer(lines, position.since())) == b"same\nsame\n"


def test_a_line_without_an_end_goes_on_where_it_stopped() -> None:
    position = Position()
    assert taken(position, answer(some_lines("one\n", "half"), None)) == b"one\nhalf"
    assert position.within == 4
    assert taken(position, answer(some_lines("one\n", "half and"), position.since())) == b" and"
    assert taken(position, answer(some_lines("one\n", "half and\n"), position.since())) == b"\n"
    assert (position.within, position.size) == (0, 13)


def test_lines_out_of_order_are_taken_once() -> None:
    second = NANOS
    lines = [
        Line(START * NANOS, b"a\n"),
        Line(START * NANOS + second, b"b\n"),
        Line(START * NANOS + 5, b"late\n"),
        Line(START * NANOS + second, b"c\n"),
    ]
    position = Position()
    assert taken(position, answer(lines[:3], None)) == b"a\nb\nlate\n"
    assert taken(position, answer(lines, position.since())) == b"c\n"


def test_a_rotated_log_goes_on_with_what_is_newer() -> None:
    """Mutant: whatever came first was taken for what was kept; "d" was lost."""
    lines = some_lines("a\n", "b\n", "c\n", "d\n", "e\n")
    position = Position()
    assert taken(position, answer(lines[:3], None)) == b"a\nb\nc\n"
    # The node has only the last three now: c is known by its time.
    assert taken(position, answer(lines[2:], position.since())) == b"d\ne\n"
    assert taken(position, answer(lines[2:], position.since())) == b""
    more = [*lines[2:], Line(lines[-1].nano + 1, b"f\n")]
    assert taken(position, answer(more, position.since())) == b"f\n"


def test_what_a_rotated_log_has_left_is_taken_when_it_has_ended() -> None:
    lines = some_lines("a\n", "b\n", "c\n", "ha", "d\n")
    position = Position()
    assert taken(position, answer(lines[:4], None)) == b"a\nb\nc\nha"
    reader = LineReader(position, CAP_BYTES)
    assert reader.take(answer(lines[4:], position.since())) == b""
    assert reader.finish() == b"\nd\n"
    assert (position.size, position.within) == (11, 0)


def test_what_the_node_says_itself_is_left_out() -> None:
    data = b"failed to watch\n" + answer(some_lines("one\n"), None) + b"unable to read x: no\n"
    position = Position()
    assert taken(position, data) == b"one\n"
    assert (position.lines, position.size) == (1, 4)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-21T20:52:57.5Z", 500_000_000),
        ("2026-11-21T20:52:57Z", 0),
        ("2026-11-21T22:52:57.000000007+02:00", 7),
        ("2026-11-21T18:52:57.25-02:00", 250_000_000),
    ],
)
def test_times_in_all_their_forms(text: str, seconds: int) -> None:
    position = Position()
    assert taken(position, f"{text} x\n".encode()) == b"x\n"
    assert position.last_nano == START * NANOS + seconds


@pytest.mark.parametrize(
    "text", ["2026-11-21T20:52:57", "x", "2026-11-21T20:52:57.1234567891Z", "2026-13-01T00:00:00Z"]
)
def test_what_is_no_time_makes_no_line(text: str) -> None:
    assert taken(Position(), f"{text} x\n".encode()) == b""


def test_the_head_is_kept() -> None:
    position = Position()
    data = answer(some_lines("12345\n", "67890\n"), None)
    assert taken(position, data, cap_bytes=8) == b"12345\n67"
    assert (position.size, position.is_truncated) == (8, True)


def test_a_log_of_exactly_the_cap_is_whole() -> None:
    """Mutant: a log that filled its cap was told to be cut."""
    position = Position()
    data = answer(some_lines("12345\n", "67890\n"), None)
    assert taken(position, data, cap_bytes=12) == b"12345\n67890\n"
    assert position.is_truncated is False


@st.composite
def logs(draw: st.DrawFn) -> list[Line]:
    """Lines of a Pod: many of one moment, some out of order, the last perhaps without an end."""
    lines: list[Line] = []
    nano = START * NANOS
    for _ in range(draw(st.integers(0, 14))):
        nano += draw(st.sampled_from([0, 0, 1, NANOS // 2, NANOS, 3 * NANOS]))
        early = draw(st.sampled_from([0, 0, 0, 1, NANOS]))
        text = draw(st.sampled_from([b"", b"a", b"b", b"aa", b"2026-11-21T20:52:57Z z", b" "]))
        # Never into an earlier second: a line that comes that late is lost if the look is new.
        lines.append(Line(max(nano - nano % NANOS, nano - early), text + b"\n"))
    if lines and draw(st.booleans()):
        lines[-1] = replace(lines[-1], text=lines[-1].text[:-1])
    return lines


@given(
    lines=logs(),
    looks=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 50)), max_size=8),
    piece=st.integers(1, 60),
    cap_bytes=st.one_of(st.just(CAP_BYTES), st.integers(0, 20)),
)
def test_no_line_is_lost_and_none_is_there_twice(
    lines: list[Line], looks: list[tuple[int, int]], piece: int, cap_bytes: int
) -> None:
    """However often the connection breaks, wherever, and however much was written by then: what is
    kept is the head of what was written.

    Mutants: the count of lines was not begun anew with a new second (lost lines); it was with every
    newer line (lines twice); the bytes of a line that had begun were taken again.
    """
    position = Position()
    kept = b""
    whole = b"".join(one.text for one in lines)
    for cut, written in looks:
        there = lines[: written * len(lines) // 50]
        # Kubernetes tells a line of which the Pod has not written the end when it is ended.
        kept += taken(
            position, answer(there, position.since())[:cut], piece=piece, cap_bytes=cap_bytes
        )
    kept += taken(position, answer(lines, position.since()), piece=piece, cap_bytes=cap_bytes)
    assert kept == whole[:cap_bytes]
    assert (position.size, position.is_truncated) == (len(kept), len(whole) > cap_bytes)
