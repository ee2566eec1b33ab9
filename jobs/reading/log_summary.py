"""A summary of a log: the streams with output, and the last lines of the error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from connectors.protocol import Outcome
from jobs.models import Attempt, AttemptState, Launch
from jobs.reading.logs import STREAMS, read_log
from primitives.errors import NotFound

ERROR_LINES_MAX = 12
ERROR_LINE_CHARS_MAX = 500
#: Bytes that are read from the end of each stream.
_TAIL_BYTES = 8_192
#: Outcomes of attempts that did not fail by themselves.
_NO_FAILURES = frozenset(
    {None, Outcome.SUCCEEDED, Outcome.STOPPED, Outcome.PREEMPTED, "not_started", "unknown"}
)


@dataclass(frozen=True, slots=True)
class LogSummary:
    """The summary of the log of one rank.

    `error_stream` is None unless the attempt failed and wrote something. `error_lines` are the last
    lines of that stream.
    """

    attempt: int
    rank: int
    node: str | None
    ranks: int
    has_output: Mapping[str, bool]
    error_stream: str | None
    error_lines: tuple[str, ...]


def summarize_log(job_id: UUID, *, attempt: int | None, rank: int | None) -> LogSummary:
    """Return the summary of one rank of an attempt.

    The default for `rank` is the first rank that failed, and for `attempt` the latest. The caller
    must have checked that the actor may read the log. Raises NotFound for a job without such an
    attempt or rank, and ClusterAway.
    """
    attempts = Attempt.objects.filter(job_id=job_id).order_by("-number")
    found = attempts.filter(**({} if attempt is None else {"number": attempt})).first()
    if found is not None and rank is None:
        rank = first_failed_rank(found.exit_codes)
    tails: dict[str, str] = {}
    ranks = 1
    missing: NotFound | None = None
    for stream in STREAMS:
        try:
            piece = read_log(
                job_id,
                attempt=attempt if found is None else found.number,
                rank=rank or 0,
                stream=stream,
                offset=-_TAIL_BYTES,
                limit=_TAIL_BYTES,
            )
        except NotFound as problem:
            missing = problem
            continue
        tails[stream], ranks = piece.text, piece.ranks
    if found is None or not tails:
        assert missing is not None
        raise missing
    error_stream = None
    if _has_failed(found):
        with_text = [stream for stream in reversed(STREAMS) if tails.get(stream, "").strip()]
        error_stream = with_text[0] if with_text else None
    slots = found.slots
    # The ranks of a manifest are all its Pods, and its slots only those with GPUs.
    has_places = found.job.launch != Launch.MANIFEST
    return LogSummary(
        attempt=found.number,
        rank=rank or 0,
        node=slots[rank or 0]["node"] if has_places and (rank or 0) < len(slots) else None,
        ranks=ranks,
        has_output={stream: tails.get(stream, "") != "" for stream in STREAMS},
        error_stream=error_stream,
        error_lines=() if error_stream is None else last_lines(tails[error_stream]),
    )


def first_failed_rank(exit_codes: Mapping[str, int]) -> int:
    """Return the lowest rank with an exit code other than 0, else 0."""
    return min((int(rank) for rank, code in exit_codes.items() if code != 0), default=0)


def last_lines(text: str) -> tuple[str, ...]:
    """Return the last lines of a text without blank lines at its end, each cut to a bound."""
    lines = text.rstrip().splitlines()[-ERROR_LINES_MAX:]
    return tuple(
        line if len(line) <= ERROR_LINE_CHARS_MAX else f"{line[: ERROR_LINE_CHARS_MAX - 1]}…"
        for line in lines
    )


def _has_failed(attempt: Attempt) -> bool:
    """Return whether the attempt failed by itself, not because of its notice."""
    if attempt.state != AttemptState.ENDED or attempt.outcome in _NO_FAILURES:
        return False
    if attempt.notice_at is None or attempt.ended_at is None:
        return True
    return attempt.ended_at < attempt.notice_at
