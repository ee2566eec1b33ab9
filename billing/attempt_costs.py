"""The charges of attempts: of one over all of its time, of a job's, and of several by spans."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from billing.models import MeteredAttempt
from billing.spending import SPANS_MAX, Span, whole_time
from billing.usage_sql import ACCOUNTS, POOLS_MAX, rated, rows_of


class AttemptCost(NamedTuple):
    """Use in milli-GPU-seconds, and its cost in nano-currency."""

    mgpu_s: int
    cost_nano: int


def cost_of_attempt(attempt: MeteredAttempt) -> AttemptCost | None:
    """Return what an attempt is charged for all of its use; None without use, or while it runs."""
    segments = list(attempt.segments.order_by("start"))
    if not segments:
        return None
    end = segments[-1].end
    if end is None:
        return None
    since = segments[0].start
    rows = rows_of(
        _COST,
        {
            "teams": [attempt.team_id],
            "pools": [attempt.pool_id],
            "since_at": since,
            "until_at": end,
            "place_numbers": [1],
            "place_since": [since],
            "place_until": [end],
            "attempt": attempt.pk,
            "priced_at": None,
        },
    )
    ((mgpu_s, cost_nano),) = rows
    return AttemptCost(int(mgpu_s), int(cost_nano))


def costs_by_attempt(job: UUID, until: datetime) -> dict[UUID, AttemptCost]:
    """Return what each attempt of a job used and cost up to `until`; absent: nothing metered.

    The sum is that of `billing.spending.cost_of_jobs`. Two statements.
    """
    where = set(MeteredAttempt.objects.filter(job_id=job).values_list("team_id", "pool_id"))
    if not where:
        return {}
    found = rows_of(
        _COSTS_OF_JOB,
        {
            **whole_time(where, until),
            "job": job,
            "priced_at": None,
        },
    )
    return {
        attempt: AttemptCost(int(mgpu_s), int(cost_nano)) for attempt, mgpu_s, cost_nano in found
    }


def costs_of_attempts(
    attempts: Collection[UUID], pool: UUID, spans: Sequence[Span]
) -> dict[tuple[UUID, int], int]:
    """Return the cost of each attempt in each span (by its place), in nano-currency.

    Absent: no use. The attempts are of the pool and of the teams of the spans. One statement.
    Raises ValueError for more than `SPANS_MAX` spans.
    """
    if not attempts or not spans:
        return {}
    if len(spans) > SPANS_MAX:
        raise ValueError(f"{len(spans)} spans are too many for one statement")
    found = rows_of(
        _COSTS,
        {
            "teams": [span.team for span in spans],
            "pools": [pool],
            "since_at": min(span.start for span in spans),
            "until_at": max(span.end for span in spans),
            "place_numbers": list(range(1, len(spans) + 1)),
            "place_since": [span.start for span in spans],
            "place_until": [span.end for span in spans],
            "attempts": list(attempts),
            "priced_at": None,
        },
    )
    return {
        (attempt, account // POOLS_MAX - 1): int(cost_nano) for attempt, account, cost_nano in found
    }


# The commitment of its team is no charge of the attempt.
_COST = f"""
WITH {ACCOUNTS}, {rated("AND a.id = %(attempt)s")}
SELECT COALESCE(SUM(r.mgpu_s), 0), COALESCE(SUM(r.cost_nano), 0) FROM rated r
WHERE r.attempt_id = %(attempt)s
"""  # noqa: S608 - made of constants only

_COSTS_OF_JOB = f"""
WITH {ACCOUNTS}, {rated("AND a.job_id = %(job)s")}
SELECT attempt_id, SUM(mgpu_s), SUM(cost_nano) FROM rated
WHERE job_id = %(job)s GROUP BY attempt_id
"""  # noqa: S608 - made of constants only

_COSTS = f"""
WITH {ACCOUNTS}, {rated("AND a.id = ANY(%(attempts)s)")}
SELECT attempt_id, account, SUM(cost_nano) FROM rated
WHERE attempt_id = ANY(%(attempts)s) AND account IS NOT NULL GROUP BY attempt_id, account
"""  # noqa: S608 - made of constants only
