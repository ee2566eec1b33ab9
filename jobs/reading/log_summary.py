"""Which streams of a log have output, and the last lines of the one that says why it failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from connectors.protocol import Outcome
from jobs.models import Attempt, AttemptState
from jobs.reading.logs import STREAMS, read_log
from primitives.errors import NotFound

ERROR_LINES_MAX = 12
ERROR_LINE_CHARS_MAX = 500
#: What is read from the end of each stream.
_TAIL_BYTES = 8_192
#: An attempt with one of these outcomes did not fail by what it ran.
_NO_FAILURES = frozenset(
    {None, Outcome.SUCCEEDED, Outcome.STOPPED, Outcome.PREEMPTED, "not_started", "unknown"}
)


@dataclass(frozen=True, slots=True)
class LogSummary:
    """The log of one rank. `error_stream` is None unless the attempt failed and wrote something;
    `error_lines` are its last ones."""

    attempt: int
    rank: int
    node: str | None
    ranks: int
    has_output: Mapping[str, bool]
    error_stream: str | None
    error_lines: tuple[str, ...]


def summarize_log(job_id: UUID, *, attempt: int | None, rank: int | None) -> LogSummary:
    """The streams of a rank (of the first that failed if None) of an attempt (the latest if None).

    The caller has checked that the log may be read. Raises NotFound for a job without such an
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
    return LogSummary(
        attempt=found.number,
        rank=rank or 0,
        node=slots[rank or 0]["node"] if (rank or 0) < len(slots) else None,
        ranks=ranks,
        has_output={stream: tails.get(stream, "") != "" for stream in STREAMS},
        error_stream=error_stream,
        error_lines=() if error_stream is None else last_lines(tails[error_stream]),
    )


def first_failed_rank(exit_codes: Mapping[str, int]) -> int:
    """The lowest rank with an exit code other than 0, whose code the job shows; else 0."""
    return min((int(rank) for rank, code in exit_codes.items() if code != 0), default=0)


def last_lines(text: str) -> tuple[str, ...]:
    """The last lines of a text without the blank ones at its end, each cut to a bound."""
    lines = text.rstrip().splitlines()[-ERROR_LINES_MAX:]
    return tuple(
        line if len(line) <= ERROR_LINE_CHARS_MAX else f"{line[: ERROR_LINE_CHARS_MAX - 1]}…"
        for line in lines
    )


def _has_failed(attempt: Attempt) -> bool:
    """Return whether the attempt failed by itself, not by a stop that it was told of."""
    if attempt.state != AttemptState.ENDED or attempt.outcome in _NO_FAILURES:
        return False
    if attempt.notice_at is None or attempt.ended_at is None:
        return True
    return attempt.ended_at < attempt.notice_at
