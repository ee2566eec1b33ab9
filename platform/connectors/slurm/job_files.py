"""Reads the files of a job from the folder that its batch script made beside its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from connectors.slurm.batch import files_folder
from connectors.slurm.logs import FILES_S, output_directory, uid_of, within
from connectors.slurm.options import USER_FIELD, SlurmOptions, parse_options
from connectors.workload_checks import check_key

Value = TypeVar("Value")


def open_slurm_files(options: Mapping[str, Any], cluster_id: str) -> FileReader:
    """Return the reader of the files of such a cluster. Raises ValueError for bad options."""
    return SlurmFiles(parse_options(options, reads_secret=False))


class SlurmFiles:
    """Implements `connectors.job_folders.FileReader`. It knows no secret and contacts nobody."""

    def __init__(self, options: SlurmOptions) -> None:
        self._options = options

    def list_files(
        self, key: str, *, folder: str | None, cluster_user: str | None = None
    ) -> JobFolder:
        """See the protocol."""
        found = self._in_folder(key, cluster_user, list_folder)
        if found.is_empty:
            home = self._options.working_directory.replace(USER_FIELD, cluster_user or "")
            raise none_left(home if folder is None else folder)
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

        return self._in_folder(key, cluster_user, read)

    def _in_folder(self, key: str, user: str | None, read: Callable[[int, int], Value]) -> Value:
        """Return what `read` returns for the opened folder and the user number of the job."""
        check_key(key)
        root = self._options.output_root
        if root is None:
            raise FilesUnavailable(
                "the files of this cluster are not available here; the job's user finds them in "
                f"{self._options.working_directory}"
            )
        uid = None if user is None else uid_of(user)
        if user is None or uid is None:
            raise FilesUnavailable("the job's UNIX user is unknown where the portal runs")

        def read_there() -> Value:
            try:
                with (
                    output_directory(root, user) as directory,
                    opened_folder(files_folder(key), dir_fd=directory) as opened,
                ):
                    return read(opened, uid)
            except OSError as error:
                if error.errno in NO_FILE:
                    raise FilesUnavailable(
                        "it does not exist, or is a link or below one, or the portal may not read "
                        "it"
                    ) from None
                raise ClusterUnavailable(f"cannot read the files of {key}: {error}") from error

        return within(FILES_S, read_there)
