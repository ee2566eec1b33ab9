"""Usage and cost of many teams in many spans of time, rated as in the chargeback report."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from billing.models import MeteredAttempt
from billing.usage_sql import ACCOUNTS, POOLS_MAX, rated, rows_of

#: The most spans of one call, so that its statement ends long before its time-out. Account numbers
#: fit into an integer.
SPANS_MAX = 2_000

BEFORE_ALL = datetime(2000, 1, 1, tzinfo=UTC)


class Span(NamedTuple):
    """A team during `[start, end)`."""

    team: UUID
    start: datetime
    end: datetime


class Spent(NamedTuple):
    """Use of a pool in a span, in milli-GPU-seconds, and its cost in nano-currency.

    `user` is None unless users were asked for.
    """

    span: int
    pool: UUID
    user: UUID | None
    mgpu_s: int
    cost_nano: int


def spent_in(
    spans: Sequence[Span], pools: Sequence[UUID], users: Collection[UUID] | None = None
) -> list[Spent]:
    """Return the use of each span (by its place in `spans`) and pool that has some.

    With `users`, only theirs, and apart for each. Adjacent spans sum exactly to the longer one. One
    statement. Raises ValueError for more than `SPANS_MAX` spans.
    """
    if not spans or not pools:
        return []
    if len(spans) > SPANS_MAX:
        raise ValueError(f"{len(spans)} spans are too many for one statement")
    found = rows_of(
        _SPENT if users is None else _SPENT_BY_USER,
        {
            "teams": [span.team for span in spans],
            "pools": list(pools),
            "since_at": min(span.start for span in spans),
            "until_at": max(span.end for span in spans),
            "place_numbers": list(range(1, len(spans) + 1)),
            "place_since": [span.start for span in spans],
            "place_until": [span.end for span in spans],
            "users": list(users or ()),
            "priced_at": None,
        },
    )
    return [
        Spent(account // POOLS_MAX - 1, pools[account % POOLS_MAX - 1], user, int(used), int(cost))
        for account, user, used, cost in found
    ]


def whole_time(where: Collection[tuple[UUID, UUID]], until: datetime) -> dict[str, Any]:
    """Return the parameters of rated use of these teams and pools, from the begin up to `until`."""
    teams = sorted({team for team, _ in where})
    return {
        "teams": teams,
        "pools": sorted({pool for _, pool in where}),
        "since_at": BEFORE_ALL,
        "until_at": until,
        "place_numbers": list(range(1, len(teams) + 1)),
        "place_since": [BEFORE_ALL] * len(teams),
        "place_until": [until] * len(teams),
    }


def cost_of_jobs(jobs: Collection[UUID], until: datetime) -> dict[UUID, int]:
    """Return the cost of these jobs up to `until`, in nano-currency; absent: nothing metered.

    All their attempts count, rated as in the chargeback report. Two statements.
    """
    metered = MeteredAttempt.objects.filter(job_id__in=jobs)
    where = set(metered.values_list("team_id", "pool_id"))
    if not where:
        return {}
    found = rows_of(
        _SPENT_BY_JOB,
        {
            **whole_time(where, until),
            "jobs": list(jobs),
            "priced_at": None,
        },
    )
    return {job: int(cost) for job, cost in found}


_SPENT = f"""
WITH {ACCOUNTS}, {rated()}
SELECT account, NULL::uuid, SUM(mgpu_s), SUM(cost_nano) FROM rated
WHERE account IS NOT NULL GROUP BY account
"""  # noqa: S608 - made of constants only

# A job has one user.
_SPENT_BY_USER = f"""
WITH {ACCOUNTS}, {rated("AND a.user_id = ANY(%(users)s)")}
SELECT r.account, m.user_id, SUM(r.mgpu_s), SUM(r.cost_nano)
FROM rated r
CROSS JOIN LATERAL (
    SELECT a.user_id FROM billing_meteredattempt a WHERE a.job_id = r.job_id LIMIT 1
) AS m
WHERE r.account IS NOT NULL GROUP BY r.account, m.user_id
"""  # noqa: S608 - made of constants only

# Commitments are their team's, and no job's.
_SPENT_BY_JOB = f"""
WITH {ACCOUNTS}, {rated("AND a.job_id = ANY(%(jobs)s)")}
SELECT job_id, SUM(cost_nano) FROM rated WHERE job_id IS NOT NULL GROUP BY job_id
"""  # noqa: S608 - made of constants only
