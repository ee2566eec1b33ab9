"""Waits before the start of jobs: the median and the 95th percentile, by team and usage class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from billing.models import UsageClass
from billing.usage_sql import rows_of
from chargeback.reports import Asked
from clusters.models import Pool
from history.scope import PLACES, Scope, scope_of
from history.steps import Step, default_step, edges_of
from tenants.access import Actor


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits in seconds of the jobs that started first in a group.

    `p50_s` and `p95_s` are waits of jobs: the lowest that half of them, or 95 %, did not exceed.
    """

    jobs: int
    p50_s: int
    p95_s: int


@dataclass(frozen=True, slots=True)
class WaitGroup:
    """The waits of a class: of a team, of all starts in a step (by its number), or of all."""

    usage_class: UsageClass
    team: str | None
    step: int | None
    waits: Waits


@dataclass(frozen=True, slots=True)
class WaitHistory:
    """The waits of a node's jobs in a pool. Only groups with starts are listed."""

    scope: Scope
    step: Step
    edges: Sequence[datetime]
    groups: Sequence[WaitGroup]


def waits_of(path: str, pool: Pool, *, actor: Actor, asked: Asked, now: datetime) -> WaitHistory:
    """Return the waits of the jobs that started first in the period.

    Each job counts once, by its first start, in the class of that start: guaranteed, or borrowed if
    any of its GPUs was. It waits from its submission, or from its `begin_at` if that is later. Jobs
    that were deleted are not counted. Raises as `scope_of`.
    """
    scope = scope_of(path, pool, actor=actor, asked=asked, now=now)
    step = Step.HOUR if default_step(scope.period) is Step.FIVE_MINUTES else Step.DAY
    edges = edges_of(scope.period, step, scope.zone)
    rows = rows_of(
        _WAITS, {**scope.parameters(), "edges_s": [int(edge.timestamp()) for edge in edges]}
    )
    groups = [
        WaitGroup(
            UsageClass.BORROWED if is_borrowed else UsageClass.GUARANTEED,
            None if place is None else scope.tree.name_of(place),
            None if number is None else number - 1,
            Waits(jobs, p50_s, p95_s),
        )
        for is_borrowed, place, number, jobs, p50_s, p95_s in rows
    ]
    return WaitHistory(scope, step, edges, groups)


_WAITS = f"""
WITH {PLACES},
started AS MATERIALIZED (
    SELECT p.place, s.borrowed_mgpu > 0 AS is_borrowed,
           width_bucket(date_part('epoch', s.start)::bigint, %(edges_s)s::bigint[]) AS step,
           GREATEST(0, floor(date_part(
               'epoch', s.start - GREATEST(j.submitted_at, j.begin_at)
           ))::bigint) AS wait_s
    FROM billing_usagesegment s
    JOIN billing_meteredattempt a ON a.id = s.attempt_id
    JOIN places p ON p.node_id = a.team_id
        AND date_part('epoch', s.start)::bigint >= p.since_s
        AND date_part('epoch', s.start)::bigint < p.until_s
    JOIN jobs_job j ON j.id = a.job_id
    WHERE s.start >= %(start)s AND s.start < %(until)s AND a.pool_id = %(pool)s
      AND p.place = ANY(%(below)s)
      AND NOT EXISTS (
          SELECT FROM billing_meteredattempt b JOIN billing_usagesegment r ON r.attempt_id = b.id
          WHERE b.job_id = a.job_id AND r.start < s.start
      )
)
SELECT is_borrowed, place, step, COUNT(*),
       percentile_disc(0.5) WITHIN GROUP (ORDER BY wait_s),
       percentile_disc(0.95) WITHIN GROUP (ORDER BY wait_s)
FROM started
GROUP BY GROUPING SETS ((is_borrowed), (is_borrowed, place), (is_borrowed, step))
ORDER BY is_borrowed, place NULLS FIRST, step NULLS FIRST
"""  # noqa: S608 - made of constants only
