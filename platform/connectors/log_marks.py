"""Marks in a file beside a log: how large the log was, and when that was written.

A mark has 16 bytes. Marks are in the order of their sizes. At `TIMES_BYTES_MAX` no more are stored,
and later lines have no time.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

from connectors.protocol import LogTime

TIMES_BYTES_MAX = 4 << 20
_MARK = struct.Struct("<qq")
MARK_BYTES = _MARK.size
_UNKNOWN = -1


def packed(mark: LogTime) -> bytes:
    """Return a mark as it is stored."""
    return _MARK.pack(mark.until, _UNKNOWN if mark.at_ms is None else mark.at_ms)


def mark_at(file: int, number: int) -> LogTime:
    """Return the mark `number` of a file, counted from 0. Raises OSError."""
    until, at_ms = _MARK.unpack(os.pread(file, MARK_BYTES, number * MARK_BYTES))
    return LogTime(until, None if at_ms == _UNKNOWN else at_ms)


def first_after(count: int, mark: Callable[[int], LogTime | None], offset: int) -> int:
    """Return the number of the first of `count` marks whose bytes end after `offset`.

    None instead of a mark ends the marks.
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        found = mark(middle)
        is_before = found is not None and found.until <= offset
        low, high = (middle + 1, high) if is_before else (low, middle)
    return low


def marks_between(
    count: int, mark: Callable[[int], LogTime | None], start: int, end: int
) -> list[LogTime]:
    """Return those of `count` marks that the bytes `[start, end)` need, as far as there are.

    None instead of a mark ends the marks, as does a mark of no more bytes than the one before.
    """
    found: list[LogTime] = []
    if start < end:
        for number in range(first_after(count, mark, start), count):
            each = mark(number)
            if each is None or (found and each.until <= found[-1].until):
                break
            found.append(each)
            if each.until >= end:
                break
    return found
