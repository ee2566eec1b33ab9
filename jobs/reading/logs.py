"""The log of a job, read from its cluster and cleaned."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from uuid import UUID

from clusters.models import Cluster
from connectors.errors import ClusterUnavailable, LogUnavailable
from connectors.protocol import LogChunk, LogReader
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

_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
#: Controls but line feed and tab, and what reorders text on the screen.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class LogText:
    """The text of the bytes `[offset, next_offset)`. The next piece begins at `next_offset`.

    - `is_final`: the stream has ended, and this is its end.
    - `is_truncated`: the log was cut at its maximum size.
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


def read_log(
    job_id: UUID, *, attempt: int | None, rank: int, stream: str, offset: int, limit: int
) -> LogText:
    """Return at most `limit` bytes of one stream of a rank.

    The default attempt is the latest. A negative offset counts from the end. The caller must have
    checked that the actor may read the content of the job. Raises NotFound if there is no such log,
    with the reason in its sentence, and ClusterAway.
    """
    attempts = Attempt.objects.filter(job_id=job_id).select_related("cluster", "job")
    found = (
        attempts.order_by("-number").first()
        if attempt is None
        else attempts.filter(number=attempt).first()
    )
    if found is None:
        raise NotFound(
            "The job has not started yet, so there is no log."
            if attempt is None
            else f"The job has no attempt {attempt}."
        )
    if found.job.origin == JobOrigin.NATIVE:
        raise NotFound(
            "The log is not available here: the job was submitted directly to its cluster. "
            "Its user finds it where they had it written."
        )
    ranks = found.ranks
    if rank >= ranks:
        raise NotFound(
            "The script runs once, so its only rank is 0."
            if ranks == 1
            else f"The attempt has {ranks} ranks, the last of them is rank {ranks - 1}."
        )
    try:
        chunk = _reader_of(found.cluster).read_log(
            found.key,
            rank=rank,
            stream=stream,
            offset=offset,
            limit=limit,
            cluster_user=found.cluster_user,
        )
    except LogUnavailable as problem:
        raise NotFound(
            f"There is no {stream} of rank {rank} of attempt {found.number}: {problem}"
        ) from problem
    except ClusterUnavailable as problem:
        raise ClusterAway(
            f"The cluster {found.cluster.name} does not answer, so its logs cannot be read now; "
            "try again in a moment."
        ) from problem
    start, end, text = decoded(chunk, from_end=offset < 0)
    return LogText(
        attempt=found.number,
        rank=rank,
        stream=stream,
        offset=start,
        next_offset=end,
        text=text,
        is_final=chunk.is_final and end == chunk.next_offset,
        is_truncated=chunk.is_truncated,
        ranks=ranks,
    )


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
    the next piece, unless the stream ends there. So is a carriage return, because a line feed may
    follow. A character that the start of the chunk cuts is skipped if `from_end`.
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
    return start, chunk.next_offset - pending, clean(text)


def clean(text: str) -> str:
    """Return `text` without escape sequences and control characters.

    Line feed and tab stay. A carriage return, as of a progress bar, becomes a line feed.
    """
    text = _ESCAPE_SEQUENCE.sub("", text)
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
