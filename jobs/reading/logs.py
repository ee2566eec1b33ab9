"""The log of a job, read from its cluster and cleaned."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from clusters.models import Cluster
from connectors.errors import ClusterUnavailable, LogUnavailable
from connectors.protocol import LogChunk, LogReader, LogTime
from connectors.registry import kind_named
from jobs.errors import ClusterAway
from jobs.execution.connecting import connector_of
from jobs.models import Attempt, JobOrigin
from primitives.errors import NotFound

LIMIT_MIN = 16
LIMIT_MAX = 262_144
LIMIT_DEFAULT = 65_536
OFFSET_MAX = 1 << 53
STREAMS = ("stdout", "stderr")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Colours, cursor moves and titles of terminals.
_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])"
)
#: An escape sequence that the end of a text cuts.
_OPEN_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|\][^\x07\x1b\r\n]{0,256}\x1b?|[ -/]{0,8})\Z"
)
LINE_END = re.compile(rb"\r\n|\r|\n")
#: Controls but line feed and tab, and what reorders text on the screen.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class LogText:
    """The text of the bytes `[offset, next_offset)`. The next piece begins at `next_offset`.

    - `is_final`: the stream has ended, and this is its end.
    - `is_truncated`: the log was cut at its maximum size.
    - `times`: a line of the text, counted from 0, and when it was written. A time is true up to the
      next line that has one. None means unknown, and so does a text without times.
    """

    attempt: int
    rank: int
    stream: str
    offset: int
    next_offset: int
    text: str
    is_final: bool
    is_truncated: bool
    ranks: int
    times: tuple[tuple[int, datetime | None], ...] = ()


def read_log(
    job_id: UUID, *, attempt: int | None, rank: int, stream: str, offset: int, limit: int
) -> LogText:
    """Return at most `limit` bytes of one stream of a rank.

    The default attempt is the latest. A negative offset counts from the end. The caller must have
    checked that the actor may read the content of the job. Raises NotFound if there is no such log,
    with the reason in its sentence, and ClusterAway.
    """
    log = AttemptLog(job_id, attempt)
    chunk = log.read(rank, stream, offset, limit)
    start, end, text = decoded(chunk, from_end=offset < 0)
    return LogText(
        attempt=log.attempt,
        rank=rank,
        stream=stream,
        offset=start,
        next_offset=end,
        text=text,
        is_final=chunk.is_final and end == chunk.next_offset,
        is_truncated=chunk.is_truncated,
        ranks=log.ranks,
        times=line_times(chunk, start, end),
    )


class AttemptLog:
    """The log of one attempt of a job, by default the latest, whose chunks are read when wanted.

    Raises NotFound for a job without such an attempt, and for a native job.
    """

    def __init__(self, job_id: UUID, attempt: int | None) -> None:
        found = started_attempt(job_id, attempt, missing="there is no log")
        if found.job.origin == JobOrigin.NATIVE:
            raise NotFound(
                "The log is not available here: the job was submitted directly to its cluster. "
                "Its user finds it where they had it written."
            )
        self._attempt = found
        self._reader: LogReader | None = None
        self.attempt = found.number
        self.ranks = found.ranks

    def check_rank(self, rank: int) -> None:
        """Raise NotFound for a rank that the attempt does not have."""
        if rank >= self.ranks:
            raise NotFound(
                "The script runs once, so its only rank is 0."
                if self.ranks == 1
                else f"The attempt has {self.ranks} ranks, the last of them is rank "
                f"{self.ranks - 1}."
            )

    def read(self, rank: int, stream: str, offset: int, limit: int) -> LogChunk:
        """Return at most `limit` bytes of one stream of a rank, see `LogReader.read_log`.

        Raises NotFound if there is no such log, with the reason in its sentence, and ClusterAway.
        """
        self.check_rank(rank)
        cluster = self._attempt.cluster
        try:
            if self._reader is None:
                self._reader = _reader_of(cluster)
            return self._reader.read_log(
                self._attempt.key,
                rank=rank,
                stream=stream,
                offset=offset,
                limit=limit,
                cluster_user=self._attempt.cluster_user,
            )
        except LogUnavailable as problem:
            raise NotFound(
                f"There is no {stream} of rank {rank} of attempt {self.attempt}: {problem}"
            ) from problem
        except ClusterUnavailable as problem:
            raise ClusterAway(
                f"The cluster {cluster.name} does not answer, so its logs cannot be read now; "
                "try again in a moment."
            ) from problem


def started_attempt(job_id: UUID, attempt: int | None, *, missing: str) -> Attempt:
    """Return an attempt of a job, by default the latest.

    Raises NotFound where there is none. `missing` says what a job lacks before its first attempt.
    """
    attempts = Attempt.objects.filter(job_id=job_id).select_related("cluster", "job")
    found = (
        attempts.order_by("-number").first()
        if attempt is None
        else attempts.filter(number=attempt).first()
    )
    if found is None:
        raise NotFound(
            f"The job has not started yet, so {missing}."
            if attempt is None
            else f"The job has no attempt {attempt}."
        )
    return found


def _reader_of(cluster: Cluster) -> LogReader:
    """Return the reader of logs. Raises ClusterUnavailable for options that cannot be used."""
    opener = kind_named(cluster.kind).open_logs
    if opener is None:
        return connector_of(cluster)
    try:
        return opener(cluster.options)
    except ValueError as error:
        raise ClusterUnavailable(f"The options of {cluster.name} are wrong: {error}.") from error


def decoded(chunk: LogChunk, *, from_end: bool) -> tuple[int, int, str]:
    """Return (offset, next offset, clean text) of a chunk, cut at whole characters.

    Bytes that are not UTF-8 become U+FFFD. A character that the end of the chunk cuts is left for
    the next piece, unless the stream ends there. So is an escape sequence that is cut, and a
    carriage return, because a line feed may follow. A character that the start of the chunk cuts
    is skipped if `from_end`.
    """
    data, start = chunk.data, chunk.offset
    if from_end and start > 0:
        skipped = 0
        while skipped < min(3, len(data)) and data[skipped] & 0xC0 == 0x80:
            skipped += 1
        data, start = data[skipped:], start + skipped
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, final=chunk.is_final)
    pending = len(decoder.getstate()[0])
    if text.endswith("\r") and not chunk.is_final and not pending:
        text = text[:-1]
        pending = 1
    cut = _OPEN_SEQUENCE.search(text)
    if cut is not None and cut.start() > 0 and not chunk.is_final and not pending:
        text = text[: cut.start()]
        pending = len(cut.group().encode())
    return start, chunk.next_offset - pending, clean(text)


def line_times(chunk: LogChunk, start: int, end: int) -> tuple[tuple[int, datetime | None], ...]:
    """Return the times of the lines of the bytes `[start, end)` of a chunk, see `LogText.times`.

    A line has the time of its first byte here.
    """
    if not chunk.times:
        return ()
    data = chunk.data[start - chunk.offset : end - chunk.offset]
    begins = [0, *(found.end() for found in LINE_END.finditer(data))]
    marks = iter(chunk.times)
    mark = next(marks, None)
    found: list[tuple[int, datetime | None]] = []
    for line, begin in enumerate(begins):
        if begin == len(data):
            break
        while mark is not None and mark.until <= start + begin:
            mark = next(marks, None)
        at = time_of(mark)
        if not found or found[-1][1] != at:
            found.append((line, at))
    return tuple(found)


def time_of(mark: LogTime | None) -> datetime | None:
    """Return the time of a mark; None where it is unknown."""
    if mark is None or mark.at_ms is None:
        return None
    return _EPOCH + timedelta(milliseconds=mark.at_ms)


def clean(text: str) -> str:
    """Return `text` without escape sequences and control characters.

    Line feed and tab stay. A carriage return, as of a progress bar, becomes a line feed.
    """
    text = _ESCAPE_SEQUENCE.sub("", text)
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
