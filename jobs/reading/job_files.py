"""The files that a job left in its folder: a list, and their content in parts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from clusters.models import Cluster
from clusters.trusted import check_trusted, operator_options
from connectors.errors import ClusterUnavailable
from connectors.job_folders import FileChunk, FileReader, FilesUnavailable
from connectors.registry import kind_named
from jobs.errors import ClusterAway
from jobs.models import Attempt
from jobs.reading.logs import started_attempt
from jobs.reading.reading_rights import ReadingRight
from primitives.errors import NotFound
from webapi.paging import AskedPage, Page, decode_cursor, encode_cursor

#: Bytes of one part of a download.
_PART_BYTES = 1 << 20


class FileRow(NamedTuple):
    """A file of a job. `name` is relative to the job's folder."""

    name: str
    size_bytes: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class FilePage:
    """A page of the files of an attempt, by name; see `connectors.job_folders.JobFolder`."""

    attempt: int
    page: Page[FileRow]
    is_cut: bool
    left_out: int


def list_files(job_id: UUID, *, attempt: int | None, asked: AskedPage) -> FilePage:
    """Return a page of the files of an attempt, by default the latest.

    The caller must have checked that the actor may read the job's log. Raises NotFound where there
    is no folder that the portal reads, with the reason, and ClusterAway.
    """
    found = started_attempt(job_id, attempt, missing="it has no files")
    with _problems(found, "The files"):
        folder = _reader_of(found.cluster).list_files(
            found.key, folder=found.job.folder, cluster_user=found.cluster_user
        )
    files = folder.files
    if asked.cursor is not None:
        (after,) = decode_cursor(asked.cursor, parts=1)
        files = tuple(file for file in files if file.name > after)
    items = [
        FileRow(file.name, file.size_bytes, datetime.fromtimestamp(file.modified_s, UTC))
        for file in files[: asked.limit]
    ]
    following = encode_cursor([items[-1].name]) if len(files) > asked.limit else None
    return FilePage(found.number, Page(items, following), folder.is_cut, folder.left_out)


class OpenedFile:
    """A file of a job as it is now. Its parts are read when they are wanted."""

    def __init__(self, attempt: Attempt, name: str, right: ReadingRight) -> None:
        self._attempt = attempt
        self._name = name
        self._right = right
        self._first = self._read(0, 1)

    @property
    def size_bytes(self) -> int:
        """The size."""
        return self._first.size_bytes

    @property
    def version(self) -> str:
        """A text that differs once the content has changed."""
        return self._first.version

    def parts(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes `[start, end)`.

        Raises NotFound when the file changes meanwhile, and what `right` raises.
        """
        while start < end:
            chunk = self._read(start, min(_PART_BYTES, end - start))
            if chunk.version != self.version or not chunk.data:
                raise NotFound(f"{self._name} has changed since the download began.")
            yield chunk.data
            start += len(chunk.data)
            self._right.check()

    def _read(self, offset: int, limit: int) -> FileChunk:
        with _problems(self._attempt, self._name):
            return _reader_of(self._attempt.cluster).read_file(
                self._attempt.key,
                self._name,
                offset=offset,
                limit=limit,
                cluster_user=self._attempt.cluster_user,
            )


def open_file(job_id: UUID, name: str, *, attempt: int | None, right: ReadingRight) -> OpenedFile:
    """Return a file of an attempt, by default the latest.

    The caller must have checked that the actor may read the job's log. Raises NotFound, with the
    reason, and ClusterAway.
    """
    return OpenedFile(started_attempt(job_id, attempt, missing="it has no files"), name, right)


def _reader_of(cluster: Cluster) -> FileReader:
    """Return the reader of files. Raises FilesUnavailable and ClusterUnavailable."""
    kind = kind_named(cluster.kind)
    opener = kind.open_files
    if opener is None:
        raise FilesUnavailable(
            f"{kind.label} clusters such as {cluster.name} keep no files of jobs; a job can copy "
            "its results to a volume or a store"
        )
    try:
        check_trusted(cluster.kind, cluster.options)
        return opener({**cluster.options, **operator_options(cluster.kind)}, str(cluster.pk))
    except ValueError as error:
        raise ClusterUnavailable(f"The options of {cluster.name} are wrong: {error}.") from error


@contextlib.contextmanager
def _problems(attempt: Attempt, what: str) -> Iterator[None]:
    """Raise the failures of a connector as sentences about `what`."""
    try:
        yield
    except FilesUnavailable as problem:
        raise NotFound(f"{what} of attempt {attempt.number}: {problem}.") from problem
    except ClusterUnavailable as problem:
        raise ClusterAway(
            f"The cluster {attempt.cluster.name} does not answer, so its files cannot be read now; "
            "try again in a moment."
        ) from problem
