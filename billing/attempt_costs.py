"""The charges of attempts: over all of their time, by spans, and of parts of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from billing.models import MeteredAttempt, PriceMode
from billing.spending import SPANS_MAX, Span, whole_time
from billing.usage_sql import ACCOUNTS, POOLS_MAX, rated, rows_of


class AttemptCost(NamedTuple):
    """Use in milli-GPU-seconds, and its cost in nano-currency."""

    mgpu_s: int
    cost_nano: int


class PartCost(NamedTuple):
    """The cost of a part of an attempt in nano-currency, as in the chargeback report.

    A part up to the attempt's end has its top-up to the minimum time, too.

    `unbilled_nano` is the cost that is not billed: of showback, or of use that a commitment pays.
    `showback_nano` is that of showback alone.
    """

    billed_nano: int
    unbilled_nano: int
    showback_nano: int


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


def costs_of_parts(parts: Mapping[UUID, tuple[datetime, datetime]]) -> dict[UUID, PartCost]:
    """Return the cost of each attempt from one moment to another.

    Absent: no use then, or a part of it without a price. Two statements for each `SPANS_MAX` parts.
    """
    found: dict[UUID, PartCost] = {}
    ids = list(parts)
    for first in range(0, len(ids), SPANS_MAX):
        some = MeteredAttempt.objects.filter(pk__in=ids[first : first + SPANS_MAX])
        metered = list(some.order_by("pk").values_list("pk", "team_id", "pool_id"))
        if not metered:
            continue
        spans = [parts[attempt] for attempt, _, _ in metered]
        rows = rows_of(
            _COSTS_OF_PARTS,
            {
                "teams": [team for _, team, _ in metered],
                "pools": sorted({pool for _, _, pool in metered}),
                "since_at": min(since for since, _ in spans),
                "until_at": max(until for _, until in spans),
                "place_numbers": list(range(1, len(spans) + 1)),
                "place_since": [since for since, _ in spans],
                "place_until": [until for _, until in spans],
                "attempts": [attempt for attempt, _, _ in metered],
                "priced_at": None,
            },
        )
        for attempt, account, *nanos, is_unpriced in rows:
            # A top-up is in the parts of all attempts of its team.
            if metered[account // POOLS_MAX - 1][0] == attempt and not is_unpriced:
                found[attempt] = PartCost(*(int(nano) for nano in nanos))
    return found


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

_COSTS_OF_PARTS = f"""
WITH {ACCOUNTS}, {rated(f"AND a.id = (%(attempts)s::uuid[])[c.account / {POOLS_MAX}]")}
SELECT attempt_id, account, SUM(cost_nano), SUM(list_nano) - SUM(cost_nano),
       COALESCE(SUM(list_nano) FILTER (WHERE mode = '{PriceMode.SHOWBACK}'), 0),
       BOOL_OR(is_unpriced)
FROM rated
WHERE attempt_id = ANY(%(attempts)s) AND account IS NOT NULL AND (class = 6 OR mgpu_s > 0)
GROUP BY attempt_id, account
"""  # noqa: S608 - made of constants only
