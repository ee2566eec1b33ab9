"""The files that a job left in its folder, read without leaving that folder.

The folder belongs to a user, so everything in it is hostile. No symbolic link is followed, and
only regular files of the job's user are read. A file is opened before it is checked, so that nobody
can replace it in between.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from connectors.errors import ConnectorError

#: Files of one listing, and entries that a listing looks at.
FILES_MAX = 10_000
ENTRIES_MAX = 50_000
DEPTH_MAX = 16
NAME_BYTES_MAX = 500
CHUNK_BYTES_MAX = 1 << 20
#: The last second that a time of Python can have: a job sets the times of its files as it likes.
LATEST_S = 253_402_300_799
#: The errors of opening a symbolic link without following it, a socket, or what has no such name.
NO_FILE = frozenset(
    {errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.ENAMETOOLONG, errno.EACCES, errno.ENOENT}
)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking: a user may have put a pipe there, and opening it would never return.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


#: The variable in which a job finds its folder.
OUTPUT_VARIABLE = "TIDEGATE_OUTPUT_DIR"


class FilesUnavailable(ConnectorError):
    """The job has no such file or no folder that the portal reads. The text says which."""


class JobFile(NamedTuple):
    """A regular file of a job's user. `name` is relative to the folder, `modified_s` of UNIX."""

    name: str
    size_bytes: int
    modified_s: int


class JobFolder(NamedTuple):
    """The files of a folder and of those below it, by name.

    `is_cut` says that there are more than the limits above allow. `left_out` is the number of
    links, special files, files of others, and files with names that cannot be shown.
    """

    files: tuple[JobFile, ...]
    is_cut: bool
    left_out: int

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing in it."""
        return not self.files and not self.is_cut and not self.left_out


class FileChunk(NamedTuple):
    """Bytes of a file of `size_bytes`. Chunks with the same `version` are of the same content."""

    data: bytes
    size_bytes: int
    modified_s: int
    version: str


class FileReader(Protocol):
    """Reads the files of a cluster's jobs. Raises FilesUnavailable and ClusterUnavailable.

    They are in a folder that the cluster makes for one workload; see `OUTPUT_VARIABLE`.
    `cluster_user` is the workload's.
    """

    def list_files(
        self, key: str, *, folder: str | None, cluster_user: str | None = None
    ) -> JobFolder:
        """Return the files of a workload. `folder` is where its author had it start."""
        ...

    def read_file(
        self,
        key: str,
        name: str,
        *,
        offset: int,
        limit: int,
        cluster_user: str | None = None,
    ) -> FileChunk:
        """Return at most `limit` bytes, and 1 MiB, of the file `name` from `offset`."""
        ...


def none_left(folder: str) -> FilesUnavailable:
    """Return the refusal for a job that left no file, and that ran in another `folder`."""
    return FilesUnavailable(
        f"the job ran in {folder}, and its files are there; what it writes to ${OUTPUT_VARIABLE} "
        "is listed here"
    )


def list_folder(folder: int, uid: int) -> JobFolder:
    """Return the files of the user `uid` in the opened `folder`. Raises OSError."""
    listing = _Listing(uid)
    listing.walk(folder, "", DEPTH_MAX)
    # By the whole name, as pages continue: "run.log" comes before "run/0.log".
    files = sorted(listing.files, key=lambda file: file.name)
    return JobFolder(tuple(files), listing.is_cut, listing.left_out)


class _Listing:
    def __init__(self, uid: int) -> None:
        self.files: list[JobFile] = []
        self.is_cut = False
        self.left_out = 0
        self._uid = uid
        self._entries = 0

    def walk(self, folder: int, prefix: str, depth: int) -> None:
        for entry in self._sorted(folder):
            if len(self.files) == FILES_MAX:
                self.is_cut = True
                return
            name = f"{prefix}{entry.name}"
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not name.isprintable() or len(name.encode()) > NAME_BYTES_MAX:
                self.left_out += 1
            elif stat.S_ISREG(found.st_mode) and found.st_uid == self._uid:
                self.files.append(JobFile(name, found.st_size, _modified_s(found)))
            elif not stat.S_ISDIR(found.st_mode):
                self.left_out += 1
            elif depth == 1:
                self.is_cut = True
            else:
                self._descend(folder, entry.name, f"{name}/", depth - 1)

    def _descend(self, folder: int, name: str, prefix: str, depth: int) -> None:
        try:
            below = os.open(name, _FOLDER, dir_fd=folder)
        except OSError:
            self.left_out += 1
            return
        try:
            self.walk(below, prefix, depth)
        finally:
            os.close(below)

    def _sorted(self, folder: int) -> list[os.DirEntry[str]]:
        """Return the entries of a folder by name; of a folder with too many, some of them."""
        found = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries > ENTRIES_MAX:
                    self.is_cut = True
                    break
                found.append(entry)
        return sorted(found, key=lambda entry: entry.name)


def read_in_folder(folder: int, name: str, uid: int, *, offset: int, limit: int) -> FileChunk:
    """Return a chunk of the file `name` of the user `uid` in `folder`. Raises OSError."""
    with _opened(folder, name, uid) as file:
        found = os.fstat(file)
        data = os.pread(file, min(limit, CHUNK_BYTES_MAX), offset)
    version = f"{found.st_ino:x}-{found.st_size:x}-{found.st_mtime_ns:x}"
    return FileChunk(data, found.st_size, _modified_s(found), version)


def _modified_s(found: os.stat_result) -> int:
    """Return the time of the last change in epoch seconds, within the times of Python."""
    return min(max(int(found.st_mtime), 0), LATEST_S)


def written_ms(found: os.stat_result) -> int | None:
    """Return the time of the last write in epoch milliseconds; None for one that is no date."""
    at_ms = found.st_mtime_ns // 1_000_000
    return at_ms if 0 <= at_ms <= LATEST_S * 1_000 else None


@contextlib.contextmanager
def opened_folder(path: str, *, dir_fd: int | None = None) -> Iterator[int]:
    """Open a folder that is no link, where `dir_fd` leads. Raises OSError."""
    opened = os.open(path, _FOLDER, dir_fd=dir_fd)
    try:
        yield opened
    finally:
        os.close(opened)


@contextlib.contextmanager
def opened_below(folder: int, path: str) -> Iterator[int]:
    """Open the folder at the relative `path` below an opened one. Raises OSError for a link."""
    opened = os.dup(folder)
    try:
        for part in path.split("/") if path else ():
            below = os.open(part, _FOLDER, dir_fd=opened)
            os.close(opened)
            opened = below
        yield opened
    finally:
        os.close(opened)


@contextlib.contextmanager
def _opened(folder: int, name: str, uid: int) -> Iterator[int]:
    parts = name.split("/")
    if len(parts) > DEPTH_MAX or "\0" in name or not {"", ".", ".."}.isdisjoint(parts):
        raise FilesUnavailable("a name has folders and a file, without links, `.` and `..`")
    with opened_below(folder, "/".join(parts[:-1])) as last:
        opened = os.open(parts[-1], _FILE, dir_fd=last)
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != uid:
            raise FilesUnavailable("it is no file of the job's user")
        yield opened
    finally:
        os.close(opened)
