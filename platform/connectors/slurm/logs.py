"""Reads the ranks' outputs from the file system that the portal shares with the nodes.

The directory may belong to a user, so everything in it is hostile. Symbolic links are not followed
below the part of the path that the administrator wrote. Only regular files of the job's UNIX user
are read. A file is opened before it is checked, so that nobody can replace it in between.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import queue
import re
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, cast

from connectors.errors import ClusterUnavailable, LogUnavailable
from connectors.job_folders import written_ms
from connectors.log_marks import marks_between
from connectors.protocol import LogChunk, LogTime
from connectors.slurm.options import USER_FIELD, SlurmOptions, is_name
from connectors.workload_checks import check_key

Value = TypeVar("Value")

STREAMS = ("stdout", "stderr")
LOG_CHUNK_BYTES_MAX = 1 << 20
#: Time-out of reads in seconds: the shared file system may hang because of other machines.
FILES_S = 20
_EXIT_BYTES_MAX = 1_000
_READERS_MAX = 16
_readers = threading.BoundedSemaphore(_READERS_MAX)
_EXIT_CODE = re.compile(r"-?[0-9]{1,3}", re.ASCII)
#: The errors of opening a symbolic link without following it.
_LINKED = frozenset({errno.ELOOP, errno.ENOTDIR})
#: A line that the shell of a rank writes once a second while the log grows: bytes and seconds.
_MARK = re.compile(rb"([0-9]{15}) ([0-9]{10})\n")
MARK_CHARS = 27
#: The shell writes fewer. The file may have any content.
MARKS_MAX = 250_000
_NOT_STARTED = "not started: "


@dataclass(frozen=True, slots=True)
class RankExits:
    """Exit codes by rank, as far as known, and why a rank did not start."""

    codes: Mapping[int, int] = field(default_factory=dict)
    refusal: str = ""


class SlurmLogs:
    """Reads job outputs from the shared file system. It knows no secret and contacts nobody."""

    def __init__(self, options: SlurmOptions) -> None:
        self._options = options

    def read_log(
        self,
        key: str,
        *,
        rank: int,
        stream: str,
        offset: int,
        limit: int,
        cluster_user: str | None = None,
    ) -> LogChunk:
        """See the protocol. At most 1 MiB at once; from an offset past the end, no bytes."""
        check_key(key)
        root = self._options.output_root
        if root is None:
            raise LogUnavailable(
                "the outputs of this cluster are not available here; the job's user finds them in "
                f"{self._options.working_directory}"
            )
        if cluster_user is None:
            raise LogUnavailable(f"{key} has no UNIX user, so it has no output")

        def read() -> LogChunk:
            return read_log(
                root,
                key=key,
                user=cluster_user,
                rank=rank,
                stream=stream,
                offset=offset,
                limit=limit,
                cap_bytes=self._options.log_cap_bytes,
            )

        return within(FILES_S, read)


def read_log(
    output_root: str,
    *,
    key: str,
    user: str,
    rank: int,
    stream: str,
    offset: int,
    limit: int,
    cap_bytes: int,
) -> LogChunk:
    """Return at most `limit` bytes, and 1 MiB, of a stream of a rank of `user` from `offset`.

    Nothing past `cap_bytes` is shown. Raises LogUnavailable when there is no such file, and
    ClusterUnavailable when it cannot be read.
    """
    if stream not in STREAMS:
        raise LogUnavailable(f"there is no stream {stream[:40]!r}; use stdout or stderr")
    if rank < 0:
        raise LogUnavailable(f"there is no rank {rank}")
    uid = uid_of(user)
    if uid is None:
        raise LogUnavailable(f"the UNIX user {user[:80]!r} is unknown where the portal runs")
    name = f"{key}.{rank}"
    try:
        with output_directory(output_root, user) as directory:
            # Checked before the size is read: an output that is complete now cannot grow until
            # then.
            is_over = _is_there(directory, f"{name}.exit")
            with _owned_file(directory, f"{name}.{stream}", uid) as file:
                size = min(os.fstat(file).st_size, cap_bytes)
                is_truncated = os.fstat(file).st_size > cap_bytes
                start = max(0, size + offset) if offset < 0 else min(offset, size)
                length = max(0, min(limit, LOG_CHUNK_BYTES_MAX, size - start))
                data = os.pread(file, length, start)
                times = _times(directory, f"{name}.{stream}.times", uid, start, start + len(data))
                if not is_over:
                    times = _with_newest(times, start + len(data), written_ms(os.fstat(file)))
    except FileNotFoundError:
        raise LogUnavailable(f"{key} has no {stream} of rank {rank}, or not yet") from None
    except PermissionError as error:
        raise LogUnavailable(f"the portal may not read the output of {key}: {error}") from None
    except OSError as error:
        if error.errno in _LINKED:
            raise LogUnavailable(f"{name}.{stream} is a link, or below one") from None
        raise ClusterUnavailable(f"cannot read the log of {key}: {error}") from error
    end = start + len(data)
    return LogChunk(data, start, end, is_over and end == size, is_truncated, tuple(times))


def _times(directory: int, name: str, uid: int, start: int, end: int) -> list[LogTime]:
    """Return the marks of the bytes `[start, end)`, as far as the job's shell wrote them.

    Without a file of marks of the job's user there are none. Raises OSError.
    """
    with (
        contextlib.suppress(FileNotFoundError, LogUnavailable),
        _owned_file(directory, name, uid) as file,
    ):
        count = min(os.fstat(file).st_size // MARK_CHARS, MARKS_MAX)
        return marks_between(count, partial(_mark_at, file), start, end)
    return []


def _mark_at(file: int, number: int) -> LogTime | None:
    """Return a mark of a file that may have any content; None for what is no mark."""
    line = os.pread(file, MARK_CHARS, number * MARK_CHARS)
    found = _MARK.fullmatch(line)
    if found is None:
        return None
    return LogTime(int(found[1]), int(found[2]) * 1_000)


def _with_newest(times: list[LogTime], end: int, at_ms: int | None) -> list[LogTime]:
    """Return marks whose last bytes, which the shell did not look at yet, are of `at_ms`."""
    if not times or times[-1].until >= end:
        return times
    return [*times, LogTime(end, at_ms)]


def read_exits(output_root: str, *, key: str, user: str, ranks: int) -> RankExits:
    """Return the exit codes and refusals that the ranks of `key` left, as far as readable."""
    uid = uid_of(user)
    codes: dict[int, int] = {}
    refusal = ""
    if uid is None:
        return RankExits()
    with contextlib.suppress(OSError), output_directory(output_root, user) as directory:
        for rank in range(ranks):
            with (
                contextlib.suppress(OSError, LogUnavailable),
                _owned_file(directory, f"{key}.{rank}.exit", uid) as file,
            ):
                word = os.pread(file, _EXIT_BYTES_MAX, 0).decode(errors="replace").strip()
                if _EXIT_CODE.fullmatch(word):
                    codes[rank] = int(word)
                elif word.startswith(_NOT_STARTED):
                    refusal = refusal or f"rank {rank}: {word.removeprefix(_NOT_STARTED)}"
    return RankExits(codes, "".join(c if c.isprintable() else "?" for c in refusal))


def within(seconds: int, read: Callable[[], Value]) -> Value:
    """Return or raise the result of `read`. Raises ClusterUnavailable after `seconds`.

    A read from a dead file server never returns and leaves its thread behind. The number of such
    threads is bounded.
    """
    if not _readers.acquire(blocking=False):
        raise ClusterUnavailable("the file system with the outputs does not answer")
    results: queue.SimpleQueue[tuple[Value | None, Exception | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            results.put((read(), None))
        except Exception as error:
            results.put((None, error))
        finally:
            _readers.release()

    threading.Thread(target=work, daemon=True).start()
    try:
        value, error = results.get(timeout=seconds)
    except queue.Empty:
        raise ClusterUnavailable(
            f"the file system with the outputs did not answer in {seconds} s"
        ) from None
    if error is not None:
        raise error
    return cast("Value", value)


def uid_of(user: str) -> int | None:
    """Return the number of a UNIX user; None for an unknown one."""
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        return None


@contextlib.contextmanager
def output_directory(output_root: str, user: str) -> Iterator[int]:
    """Open the output directory of `user`. Raises OSError, and NotADirectoryError for a link."""
    if not is_name(user):
        raise FileNotFoundError(user)
    parts = output_root.split("/")
    fixed = next((n for n, part in enumerate(parts) if USER_FIELD in part), len(parts))
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    opened = os.open("/".join(parts[:fixed]) or "/", flags)
    try:
        for part in parts[fixed:]:
            below = os.open(part.replace(USER_FIELD, user), flags | os.O_NOFOLLOW, dir_fd=opened)
            os.close(opened)
            opened = below
        yield opened
    finally:
        os.close(opened)


@contextlib.contextmanager
def _owned_file(directory: int, name: str, uid: int) -> Iterator[int]:
    # Non-blocking: a user may have put a pipe there, and opening it would never return.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    opened = os.open(name, flags, dir_fd=directory)
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != uid:
            raise LogUnavailable(f"{name} is no file of the job's user")
        yield opened
    finally:
        os.close(opened)


def _is_there(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
