"""The directory of one attempt: its files, and how they are written, locked and read.

    spec.json           what to run; written once, before the directory gets its name
    script              the job's script
    hosts               of a batch job: the machine's `/etc/hosts`, and the names of its nodes
    supervisor.lock     locked by the attempt's supervisor as long as it lives
    control             FIFO; a byte in it wakes the supervisor
    notify.request      exists once `notify` was called
    limit.request       the last time limit that `set_time_limit` was called with
    stop.request        exists once `stop` was called
    state.json          the attempt's current state, written by its supervisor
    end.json            how it ended; written once, when nothing of it is left
    signals.lock        held while process groups are signalled or their leaders reaped
    ranks/N.lock        locked by the keeper of rank N as long as it lives
    ranks/N.started     written before rank N is started; it is never started again
    ranks/N.pid         the rank's process and group
    ranks/N.exit        how its first process ended
    ranks/N.gone        written when no descendant of it is left
    logs/N.stdout, logs/N.stderr, and N.stdout.cut once the size cap cut it
    logs/N.stdout.times times of its parts, see `log_times`
    work/               working directory of every rank
    tmp/                directory that isolated ranks see as /tmp
    view/               mount point of an isolated rank's view, for that rank alone

Every record is written to a temporary name and renamed, so it is complete or absent whatever is
killed. Only `spec.json` and `end.json` are also synced to disk, because they must survive a crash
of the machine. All other records matter only while their processes live, and a reboot ends those.

This module and the other modules of the supervisor use small parts of the standard library only:
there is one supervisor per running attempt.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
from collections.abc import Mapping

FORMAT = 1
STREAMS = ("stdout", "stderr")

#: struct flock of Linux: l_type, l_whence, l_start, l_len, l_pid.
_FLOCK = "hhqqi4x"
_WHOLE_FILE = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


class CorruptRecord(ValueError):
    """A record of an attempt cannot be read. The text names the file."""


class AttemptFiles:
    """Paths inside the attempt directory `path`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.spec = f"{path}/spec.json"
        self.script = f"{path}/script"
        self.hosts = f"{path}/hosts"
        self.supervisor_lock = f"{path}/supervisor.lock"
        self.control = f"{path}/control"
        self.notify_request = f"{path}/notify.request"
        self.limit_request = f"{path}/limit.request"
        self.stop_request = f"{path}/stop.request"
        self.state = f"{path}/state.json"
        self.end = f"{path}/end.json"
        self.signals_lock = f"{path}/signals.lock"
        self.ranks = f"{path}/ranks"
        self.logs = f"{path}/logs"
        self.work = f"{path}/work"
        self.tmp = f"{path}/tmp"  # noqa: S108 - its own
        self.view = f"{path}/view"

    def rank(self, rank: int, record: str) -> str:
        """Return the path of a record of one rank: "lock", "started", "pid", "exit" or "gone"."""
        return f"{self.ranks}/{rank}.{record}"

    def log(self, rank: int, stream: str) -> str:
        """Return the path of the log of one stream, "stdout" or "stderr", of one rank."""
        return f"{self.logs}/{rank}.{stream}"


def write_json(path: str, value: Mapping[str, object], *, is_durable: bool = False) -> None:
    """Replace the record at `path` atomically. Raises OSError, such as on a full disk."""
    temporary = f"{path}.{os.getpid()}.tmp"
    write_bytes(temporary, json.dumps(value, separators=(",", ":")).encode(), is_durable=is_durable)
    os.replace(temporary, path)
    if is_durable:
        sync_directory(os.path.dirname(path))


def write_bytes(path: str, data: bytes, *, mode: int = 0o600, is_durable: bool = False) -> None:
    """Write a new file, or overwrite an old one. This is not atomic."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if is_durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Sync a directory, so that the names in it survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: str) -> dict[str, object]:
    """Return the record at `path`. Raises FileNotFoundError, other OSErrors or CorruptRecord."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        value = json.loads(data)
    except ValueError:
        raise CorruptRecord(f"{os.path.basename(path)} is not valid JSON") from None
    if not isinstance(value, dict):
        raise CorruptRecord(f"{os.path.basename(path)} is not a JSON object")
    return value


def has_ended(files: AttemptFiles) -> bool:
    """Return whether the attempt has a complete end record. Raises OSError."""
    try:
        end = read_json(files.end)
    except (FileNotFoundError, CorruptRecord):
        return False
    return end.get("phase") == "ended" and type(end.get("released_at")) is int


def integer(record: Mapping[str, object], name: str) -> int:
    """Return field `name` of a record. Raises CorruptRecord unless it is an integer."""
    value = record.get(name)
    if type(value) is not int:
        raise CorruptRecord(f"{name} is {value!r}, not an integer")
    return value


def integer_or_none(record: Mapping[str, object], name: str) -> int | None:
    """Return field `name` of a record, or None where it is null or absent."""
    return None if record.get(name) is None else integer(record, name)


def text(record: Mapping[str, object], name: str) -> str:
    """Return field `name` of a record. Raises CorruptRecord unless it is a string."""
    value = record.get(name)
    if not isinstance(value, str):
        raise CorruptRecord(f"{name} is {value!r}, not a string")
    return value


def text_or_none(record: Mapping[str, object], name: str) -> str | None:
    """Return field `name` of a record, or None where it is null or absent."""
    return None if record.get(name) is None else text(record, name)


def mapping(record: Mapping[str, object], name: str) -> dict[str, object]:
    """Return field `name` of a record. Raises CorruptRecord unless it is an object."""
    value = record.get(name)
    if not isinstance(value, dict):
        raise CorruptRecord(f"{name} is {value!r}, not an object")
    return value


def try_lock(path: str, *, is_waiting: bool = False) -> int | None:
    """Return a descriptor that holds the lock file `path`; None when another process holds it.

    It is a lock on an open file description (fcntl(2), F_OFD_SETLK). It ends when the last copy of
    the descriptor is closed, so also when its process is killed. A later process with the same
    number never inherits it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.fcntl(
            descriptor, fcntl.F_OFD_SETLKW if is_waiting else fcntl.F_OFD_SETLK, _WHOLE_FILE
        )
    except (BlockingIOError, PermissionError):
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_locked(path: str) -> bool:
    """Return whether some process holds the lock file `path`, without locking it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _WHOLE_FILE)
    finally:
        os.close(descriptor)
    return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)


def wake(control: str) -> None:
    """Wake the supervisor that reads the FIFO `control`.

    A missing reader or a full pipe is fine: requests are files, and the supervisor checks them once
    a second anyway.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(control, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"!")
        finally:
            os.close(descriptor)


def boot_id() -> str:
    """Return the id of the machine's current boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
