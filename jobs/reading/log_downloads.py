"""Whole logs in parts: of one stream as text, and of all streams of an attempt as a ZIP archive."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from jobs.models import Attempt
from jobs.reading.logs import LIMIT_MAX, STREAMS, LogText, read_log
from jobs.reading.reading_rights import ReadingRight
from primitives.errors import NotFound

#: Bytes of a stream after which a download ends: a job could write faster than it is read.
STREAM_BYTES_MAX = 16 << 30
#: Compression that costs little time.
_COMPRESS_LEVEL = 1


@dataclass(frozen=True, slots=True)
class LogParts:
    """A log as parts that are read when they are wanted."""

    file_name: str
    content_type: str
    parts: Iterator[bytes]


def download_log(
    job_id: UUID, *, attempt: int | None, rank: int | None, stream: str | None, right: ReadingRight
) -> LogParts:
    """Return the log of one stream of a rank, or without both that of all streams of all ranks.

    The caller must have checked that the actor may read the log. `right` is checked between parts.
    Raises NotFound and ClusterAway before the first part.
    """
    if rank is not None or stream is not None:
        first = _piece(job_id, attempt, rank or 0, stream or STREAMS[0], 0)
        name = f"{job_id}-attempt{first.attempt}-rank{first.rank}.{first.stream}.txt"
        return LogParts(name, "text/plain; charset=utf-8", _text(job_id, first, right))
    number = _piece_of_any(job_id, attempt).attempt
    name = f"{job_id}-attempt{number}-logs.zip"
    return LogParts(name, "application/zip", _archive(job_id, number, right))


def _piece(job_id: UUID, attempt: int | None, rank: int, stream: str, offset: int) -> LogText:
    return read_log(
        job_id, attempt=attempt, rank=rank, stream=stream, offset=offset, limit=LIMIT_MAX
    )


def _piece_of_any(job_id: UUID, attempt: int | None) -> LogText:
    """Return the begin of the first stream of rank 0 that the cluster has."""
    try:
        return _piece(job_id, attempt, 0, STREAMS[0], 0)
    except NotFound:
        return _piece(job_id, attempt, 0, STREAMS[1], 0)


def _text(job_id: UUID, first: LogText, right: ReadingRight) -> Iterator[bytes]:
    """Yield the text from its first piece on, and check the right to read meanwhile."""
    piece = first
    while True:
        yield piece.text.encode()
        has_grown = piece.next_offset > piece.offset
        if piece.is_final or not has_grown or piece.next_offset >= STREAM_BYTES_MAX:
            return
        right.check()
        piece = _piece(job_id, piece.attempt, piece.rank, piece.stream, piece.next_offset)


def _archive(job_id: UUID, attempt: int, right: ReadingRight) -> Iterator[bytes]:
    """Yield a ZIP archive with a file for each stream that the cluster has."""
    sink = _Sink()
    ranks = Attempt.objects.select_related("job").get(job_id=job_id, number=attempt).ranks
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESS_LEVEL) as archive:
        for rank in range(ranks):
            for stream in STREAMS:
                try:
                    first = _piece(job_id, attempt, rank, stream, 0)
                except NotFound:
                    right.check()
                    yield sink.take()
                    continue
                with archive.open(f"rank{rank}.{stream}.txt", "w", force_zip64=True) as file:
                    for text in _text(job_id, first, right):
                        file.write(text)
                        yield sink.take()
                right.check()
    yield sink.take()


class _Sink(io.RawIOBase):
    """The written part of an archive that nobody can seek in."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: object, /) -> int:
        """Keep a copy of `data` until `take`."""
        self._parts.append(bytes(data))  # type: ignore[call-overload]
        return len(self._parts[-1])

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken
