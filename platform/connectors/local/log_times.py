"""The times of a log: how large it was at which of its writes.

The supervisor looks at each log once a second. When the log has grown, it appends a mark
(`connectors.log_marks`) to `logs/N.STREAM.times`: the size, and the time of the last write. Lines
up to that size were written after the look before and no later than that time. After a time
without a supervisor the mark has no time, because nobody looked.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial

from connectors.job_folders import written_ms
from connectors.log_marks import MARK_BYTES, TIMES_BYTES_MAX, mark_at, marks_between, packed
from connectors.protocol import LogTime


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
            at_ms = None if before is None else written_ms(found)
            if before is not None or found.st_size > _last_size(path):
                _append(path, LogTime(found.st_size, at_ms))


def _append(path: str, mark: LogTime) -> None:
    file = _opened(path)
    try:
        if os.fstat(file).st_size < TIMES_BYTES_MAX:
            os.write(file, packed(mark))
    finally:
        os.close(file)


def _opened(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return os.open(f"{path}.times", flags, 0o600)


def _last_size(path: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        file = os.open(f"{path}.times", os.O_RDONLY | os.O_CLOEXEC)
        try:
            count = os.fstat(file).st_size // MARK_BYTES
            return 0 if count == 0 else mark_at(file, count - 1).until
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
        size = os.fstat(file).st_size
        found = marks_between(size // MARK_BYTES, partial(mark_at, file), start, end)
        is_dated = bool(found) and found[-1].until >= end
        if is_watched and not is_dated and size < TIMES_BYTES_MAX:
            found.append(LogTime(end, written_ms(os.stat(path))))
        return tuple(found)
    finally:
        os.close(file)
