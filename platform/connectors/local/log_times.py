"""The times of a log: how large it was at which of its writes.

The supervisor looks at each log once a second. When the log has grown, it appends a mark to
`logs/N.STREAM.times`: the size, and the time of the last write. Lines up to that size were written
after the look before and no later than that time. After a time without a supervisor the mark has
no time, because nobody looked.

A mark has 16 bytes. At `TIMES_BYTES_MAX` no more are kept, and later lines have no time.
"""

from __future__ import annotations

import contextlib
import os
import struct

from connectors.job_folders import LATEST_S
from connectors.protocol import LogTime

TIMES_BYTES_MAX = 4 << 20
_MARK = struct.Struct("<qq")
_UNKNOWN = -1


class LogTimes:
    """The marks that one supervisor appends."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def begin(self, path: str) -> None:
        """Begin with the log at `path`, which is still empty. Raises OSError."""
        os.close(_opened(path))
        self._sizes[path] = 0

    def look(self, path: str) -> None:
        """Append a mark if the log at `path` has grown since the last look. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(path)
            before = self._sizes.get(path)
            if before is not None and found.st_size <= before:
                return
            self._sizes[path] = found.st_size
            at_ms = _UNKNOWN if before is None else _written_ms(found)
            if before is not None or found.st_size > _last_size(path):
                _append(path, found.st_size, at_ms)


def _append(path: str, size: int, at_ms: int) -> None:
    file = _opened(path)
    try:
        if os.fstat(file).st_size < TIMES_BYTES_MAX:
            os.write(file, _MARK.pack(size, at_ms))
    finally:
        os.close(file)


def _opened(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.open(f"{path}.times", flags, 0o600)


def _last_size(path: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        file = os.open(f"{path}.times", os.O_RDONLY | os.O_CLOEXEC)
        try:
            count = os.fstat(file).st_size // _MARK.size
            return 0 if count == 0 else _mark(file, count - 1)[0]
        finally:
            os.close(file)
    return 0


def log_times(path: str, start: int, end: int, *, is_watched: bool) -> tuple[LogTime, ...]:
    """Return the marks of the bytes `[start, end)` of the log at `path`. Raises OSError.

    While a supervisor watches the log, bytes after the last mark have the time of the last write.
    """
    if start >= end:
        return ()
    try:
        file = os.open(f"{path}.times", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return ()
    try:
        count = os.fstat(file).st_size // _MARK.size
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if _mark(file, middle)[0] <= start else (low, middle)
        found: list[LogTime] = []
        for number in range(low, count):
            size, at_ms = _mark(file, number)
            found.append(LogTime(size, _known(at_ms)))
            if size >= end:
                return tuple(found)
        if is_watched and os.fstat(file).st_size < TIMES_BYTES_MAX:
            found.append(LogTime(end, _known(_written_ms(os.stat(path)))))
        return tuple(found)
    finally:
        os.close(file)


def _written_ms(found: os.stat_result) -> int:
    """Return the time of the last write; `_UNKNOWN` for one that no date can be, set by the job."""
    at_ms = found.st_mtime_ns // 1_000_000
    return at_ms if 0 <= at_ms <= LATEST_S * 1_000 else _UNKNOWN


def _known(at_ms: int) -> int | None:
    return None if at_ms == _UNKNOWN else at_ms


def _mark(file: int, number: int) -> tuple[int, int]:
    size, at_ms = _MARK.unpack(os.pread(file, _MARK.size, number * _MARK.size))
    return size, at_ms
