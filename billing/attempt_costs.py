"""The charge of one attempt, over all of its time."""

from __future__ import annotations

from typing import NamedTuple

from billing.models import MeteredAttempt
from billing.usage_sql import ACCOUNTS, rated, rows_of


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


# The commitment of its team is no charge of the attempt.
_COST = f"""
WITH {ACCOUNTS}, {rated("AND a.id = %(attempt)s")}
SELECT COALESCE(SUM(r.mgpu_s), 0), COALESCE(SUM(r.cost_nano), 0) FROM rated r
WHERE r.attempt_id = %(attempt)s
"""  # noqa: S608 - made of constants only
