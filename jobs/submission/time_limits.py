"""The time limit that a request gets, or is refused for, by its pools, team and class (R-114)."""

from __future__ import annotations

from collections.abc import Sequence

from arbiter.explain.phrases import duration_text
from jobs.submission.requests import JobRequest
from jobs.submission.sbatch_notes import Note, Verdict
from primitives.errors import FieldError, InvalidRequest
from quotas.time_limits import Bound, default_of, longest_of


def limited(
    request: JobRequest, bounds: Sequence[Bound], notes: Sequence[Note]
) -> tuple[JobRequest, tuple[Note, ...]]:
    """Return the request with a time limit that its pools, team and class allow (R-114).

    A note says where the limit of a request without one comes from. Raises InvalidRequest for a
    limit above the longest.
    """
    asked_s, longest = request.time_limit_s, longest_of(bounds)
    if asked_s is not None:
        if longest is not None and asked_s > longest.limit_s:
            detail = (
                f"{duration_text(asked_s)} is longer than {duration_text(longest.limit_s)}, the "
                f"longest time limit of {longest.owner}; ask for at most that"
            )
            raise InvalidRequest(
                f"time_limit_s: {detail}",
                errors=[FieldError("/time_limit_s", detail, "out_of_range")],
                notes=[note.as_json() for note in notes],
            )
        return request, ()
    default = default_of(bounds)
    if default is None:
        return request, ()
    told = f"No time limit given: {default.source} applies ({duration_text(default.limit_s)})."
    limited = request.model_copy(update={"time_limit_s": default.limit_s})
    return limited, (Note(0, "", Verdict.UNDERSTOOD, told),)
