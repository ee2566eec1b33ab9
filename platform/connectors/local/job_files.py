"""Reads the files of a job from the folder that the cluster made for it."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from connectors.errors import ClusterUnavailable
from connectors.job_folders import (
    FileChunk,
    FileReader,
    FilesUnavailable,
    JobFolder,
    list_folder,
    read_in_folder,
)
from connectors.local.attempt_files import AttemptFiles, CorruptRecord
from connectors.local.attempt_spec import read_spec
from connectors.local.identity import check_root
from connectors.local.options import parse_options
from connectors.workload_checks import check_key

Value = TypeVar("Value")

#: The errors of opening a symbolic link without following it, a socket, or what has no such name.
_NO_FILE = frozenset(
    {errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.ENAMETOOLONG, errno.EACCES, errno.ENOENT}
)


def open_local_files(options: Mapping[str, Any], cluster_id: str) -> FileReader:
    """Return the reader of the files of such a cluster. Raises ValueError for bad options."""
    return LocalFiles(Path(parse_options(options).root), cluster_id)


class LocalFiles:
    """Implements `connectors.job_folders.FileReader`."""

    def __init__(self, root: Path, cluster_id: str) -> None:
        self._root = root
        self._cluster_id = cluster_id

    def list_files(self, key: str, *, folder: str | None) -> JobFolder:
        """See the protocol."""
        return self._in_folder(key, folder, list_folder)

    def read_file(
        self,
        key: str,
        name: str,
        *,
        offset: int,
        limit: int,
        folder: str | None,
    ) -> FileChunk:
        """See the protocol."""

        def read(opened: int, uid: int) -> FileChunk:
            return read_in_folder(opened, name, uid, offset=offset, limit=limit)

        return self._in_folder(key, folder, read)

    def _in_folder(self, key: str, folder: str | None, read: Callable[[int, int], Value]) -> Value:
        """Return what `read` returns for the opened folder and the user number of the job."""
        check_key(key)
        if folder is not None and folder.startswith("/"):
            raise FilesUnavailable(f"the job ran in {folder}, and its files are there")
        try:
            check_root(self._root, self._cluster_id)
            files = AttemptFiles(str(self._root / "attempts" / key))
            credentials = read_spec(files.spec).credentials
            uid = os.getuid() if credentials is None else credentials.uid
            with _opened_folder(files.work) as opened:
                return read(opened, uid)
        except (OSError, CorruptRecord) as error:
            if isinstance(error, OSError) and error.errno in _NO_FILE:
                raise FilesUnavailable("it does not exist, or is a link or below one") from None
            raise ClusterUnavailable(f"cannot read the files of {key}: {error}") from error


@contextlib.contextmanager
def _opened_folder(path: str) -> Iterator[int]:
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield opened
    finally:
        os.close(opened)
