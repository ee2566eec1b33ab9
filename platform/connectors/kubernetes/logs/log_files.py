"""The files that store outputs.

Below `log_root` each attempt has a directory, named as its object, and each rank three files in it.
`0.log` is the rank's output, `0.json` how complete it is, and `0.times` the times of its lines
(`connectors.log_marks`). Readers of a log need only these
files and no right in the cluster.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from functools import partial

from connectors.kubernetes.logs.log_positions import LineReader, Position
from connectors.kubernetes.objects.naming import workload_name
from connectors.log_marks import (
    MARK_BYTES,
    TIMES_BYTES_MAX,
    first_after,
    mark_at,
    marks_between,
    packed,
)
from connectors.protocol import LogTime

#: Seconds between two records of a log's position.
NOTED_EVERY_S = 1.0
#: The most ranks of any workload; only a limit for file names.
RANKS_MAX = 1_000_000
_STATE_BYTES_MAX = 4_096
#: Each rank may record its position once more, which defeats one removal.
_REMOVALS_MAX = 1_000
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@contextlib.contextmanager
def opened_directory(root: str, key: str, *, makes: bool = False) -> Iterator[int]:
    """Open the directory of `key`. No symbolic link below `root` is followed. Raises OSError."""
    top = os.open(root, DIRECTORY)
    try:
        name = workload_name(key)
        if makes:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=top)
        opened = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    finally:
        os.close(top)
    try:
        yield opened
    finally:
        os.close(opened)


@contextlib.contextmanager
def opened_file(directory: int, name: str, flags: int) -> Iterator[int]:
    """Open a plain file of a directory. Raises OSError, and FileNotFoundError for other files."""
    # Non-blocking: opening a pipe that somebody put there would never return.
    opened = os.open(name, flags, 0o600, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise FileNotFoundError(name)
        yield opened
    finally:
        os.close(opened)


def read_state(directory: int, rank: int) -> Position:
    """Return the recorded position; an empty one if it is missing or damaged. Raises OSError."""
    fresh = Position()
    try:
        with opened_file(directory, f"{rank}.json", READ) as file:
            said = json.loads(os.pread(file, _STATE_BYTES_MAX, 0))
    except (FileNotFoundError, ValueError):
        return fresh
    # With a damaged record the log is fetched again, which overwrites it with the same content.
    names = Position.__slots__
    if not isinstance(said, dict) or any(
        type(said.get(name)) is not type(getattr(fresh, name)) for name in names
    ):
        return fresh
    return Position(**{name: said[name] for name in names})


def write_state(directory: int, rank: int, position: Position) -> None:
    """Record the position. Raises OSError."""
    name, new = f"{rank}.json", f"{rank}.json.new"
    said = {one: getattr(position, one) for one in Position.__slots__}
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new, dir_fd=directory)
    with opened_file(directory, new, WRITE | os.O_EXCL) as file:
        os.pwrite(file, json.dumps(said).encode(), 0)
    os.rename(new, name, src_dir_fd=directory, dst_dir_fd=directory)


def read_times(directory: int, rank: int, start: int, end: int) -> tuple[LogTime, ...]:
    """Return the marks of the bytes `[start, end)` of a rank's output. Raises OSError."""
    try:
        with opened_file(directory, f"{rank}.times", READ) as file:
            count = os.fstat(file).st_size // MARK_BYTES
            return tuple(marks_between(count, partial(mark_at, file), start, end))
    except FileNotFoundError:
        return ()


class TimesWriter:
    """Appends marks to a file of times, whose last mark grows within its second."""

    def __init__(self, file: int, size: int) -> None:
        """Go on after the first `size` bytes of the log. Raises OSError."""
        self._file = file
        self._last: LogTime | None = None
        count = os.fstat(file).st_size // MARK_BYTES
        self._count = first_after(count, partial(mark_at, file), size)
        # Bytes after `size` are fetched again, and bytes of an earlier version have no mark.
        cut = mark_at(file, self._count) if self._count < count else LogTime(size, None)
        os.ftruncate(file, self._count * MARK_BYTES)
        if self._count:
            self._last = mark_at(file, self._count - 1)
        if size > (0 if self._last is None else self._last.until):
            self._put(cut._replace(until=size))

    def append(self, marks: Sequence[LogTime]) -> None:
        """Append `marks` of what is written next. Raises OSError."""
        for mark in marks:
            if self._last is not None and _second(self._last) == _second(mark):
                self._count -= 1
            self._put(mark)

    def _put(self, mark: LogTime) -> None:
        self._last = mark
        if self._count < TIMES_BYTES_MAX // MARK_BYTES:
            os.pwrite(self._file, packed(mark), self._count * MARK_BYTES)
            self._count += 1
        else:
            self._last = None


def _second(mark: LogTime) -> int | None:
    return None if mark.at_ms is None else mark.at_ms // 1_000


class LogWriter:
    """Appends to the files of one rank, and removes nothing but marks that are written again.

    Output that is fetched again, because its position was not recorded, overwrites itself.
    """

    def __init__(
        self, directory: int, file: int, times: int, *, rank: int, pod: str, cap_bytes: int
    ) -> None:
        self._directory = directory
        self._file = file
        self._rank = rank
        position = read_state(directory, rank)
        if position.pod != pod:
            # Another Pod for the same rank: its output is appended.
            is_truncated = bool(position.pod) and position.is_truncated
            size = os.fstat(file).st_size if position.pod else 0
            position = Position(pod=pod, size=size, is_truncated=is_truncated)
        self.position = position
        self._reader = LineReader(position, cap_bytes)
        self._times = TimesWriter(times, position.size)
        self._noted_s = time.monotonic()

    @property
    def is_full(self) -> bool:
        """Return whether the log has reached its cap."""
        return self.position.is_truncated

    @property
    def is_over(self) -> bool:
        """Return whether nothing more needs to be fetched."""
        return self.position.is_complete or self.position.is_truncated

    def take(self, chunk: bytes) -> None:
        """Store what is new in `chunk`. Raises OSError."""
        self._append(self._reader.take(chunk))
        if time.monotonic() - self._noted_s >= NOTED_EVERY_S:
            self.note()

    def finish(self) -> None:
        """Process the end of an answer that nothing follows. Raises OSError."""
        self._append(self._reader.finish())

    def complete(self) -> bool:
        """Record that the log is complete. Returns True. Raises OSError."""
        self.position.is_complete = True
        self.note()
        return True

    def note(self) -> None:
        """Record the position. Raises OSError."""
        self._noted_s = time.monotonic()
        write_state(self._directory, self._rank, self.position)

    def _append(self, new: bytes) -> None:
        at = self.position.size - len(new)
        # Before the text: a reader has no line without its time.
        self._times.append(self._reader.times)
        while new:
            written = os.pwrite(self._file, new, at)
            new, at = new[written:], at + written


def remove_logs(root: str, key: str) -> None:
    """Remove the directory of `key`; a missing one is fine. Raises OSError."""
    name = workload_name(key)
    top = os.open(root, DIRECTORY)
    try:
        for _ in range(_REMOVALS_MAX):
            try:
                shutil.rmtree(name, dir_fd=top)
            except OSError as error:
                # A writer may still create or rename a file meanwhile. It cannot go on once the
                # directory is gone.
                if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                    raise
            if not _is_there(name, top):
                return
        raise OSError(errno.ENOTEMPTY, "it is written to without end", name)
    finally:
        os.close(top)


def _is_there(name: str, top: int) -> bool:
    try:
        os.stat(name, dir_fd=top, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
