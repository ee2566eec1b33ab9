"""Reads the files of a job from the folder that the cluster made for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from connectors.errors import ClusterUnavailable
from connectors.job_folders import (
    NO_FILE,
    FileChunk,
    FileReader,
    FilesUnavailable,
    JobFolder,
    list_folder,
    none_left,
    opened_folder,
    read_in_folder,
)
from connectors.local.attempt_files import AttemptFiles, CorruptRecord
from connectors.local.attempt_spec import read_spec
from connectors.local.identity import check_root
from connectors.local.options import parse_options
from connectors.workload_checks import check_key

Value = TypeVar("Value")


def open_local_files(options: Mapping[str, Any], cluster_id: str) -> FileReader:
    """Return the reader of the files of such a cluster. Raises ValueError for bad options."""
    return LocalFiles(Path(parse_options(options).root), cluster_id)


class LocalFiles:
    """Implements `connectors.job_folders.FileReader`."""

    def __init__(self, root: Path, cluster_id: str) -> None:
        self._root = root
        self._cluster_id = cluster_id

    def list_files(
        self, key: str, *, folder: str | None, cluster_user: str | None = None
    ) -> JobFolder:
        """See the protocol."""
        found = self._in_folder(key, list_folder)
        if folder is not None and folder.startswith("/") and found.is_empty:
            raise none_left(folder)
        return found

    def read_file(
        self,
        key: str,
        name: str,
        *,
        offset: int,
        limit: int,
        cluster_user: str | None = None,
    ) -> FileChunk:
        """See the protocol."""

        def read(opened: int, uid: int) -> FileChunk:
            return read_in_folder(opened, name, uid, offset=offset, limit=limit)

        return self._in_folder(key, read)

    def _in_folder(self, key: str, read: Callable[[int, int], Value]) -> Value:
        """Return what `read` returns for the opened folder and the user number of the job."""
        check_key(key)
        try:
            check_root(self._root, self._cluster_id)
            files = AttemptFiles(str(self._root / "attempts" / key))
            credentials = read_spec(files.spec).credentials
            uid = os.getuid() if credentials is None else credentials.uid
            with opened_folder(files.work) as opened:
                return read(opened, uid)
        except (OSError, CorruptRecord) as error:
            if isinstance(error, OSError) and error.errno in NO_FILE:
                raise FilesUnavailable("it does not exist, or is a link or below one") from None
            raise ClusterUnavailable(f"cannot read the files of {key}: {error}") from error
