"""Chargeback reports of tests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from billing.periods import Period
from chargeback.dimensions import Dimension
from chargeback.jobs import JobKey, JobUse, jobs_behind
from chargeback.reports import Asked, GroupedReport, Narrowed, grouped_report
from tenants.access import Actor


def report_of(
    actor: Actor,
    period: Period,
    *by: Dimension,
    node: str | None = None,
    pool: str | None = None,
    priced_at: datetime | None = None,
) -> GroupedReport:
    """Return the report of the period, by team and pool if no dimension is given."""
    return grouped_report(
        actor=actor,
        by=by or [Dimension.TEAM, Dimension.POOL],
        asked=Asked(period.start, period.end, period.as_of),
        narrowed=Narrowed(node_path=node, pool=pool),
        priced_at=priced_at,
        now=period.as_of,
    )


def all_jobs(actor: Actor, period: Period, narrowed: Narrowed, *, page: int = 2) -> list[JobUse]:
    """Return all jobs behind a number, read page by page."""
    found: list[JobUse] = []
    after = None
    while True:
        jobs, more = jobs_behind(
            actor=actor, period=period, narrowed=narrowed, after=after, limit=page
        )
        found += jobs
        if not more:
            return found
        last = jobs[-1]
        after = JobKey(last.mgpu_s, last.job_id, last.usage_class, last.team, last.pool)


def costs(report: GroupedReport) -> Sequence[int]:
    """Return the cost of each row, in nano-currency."""
    return [row.amounts.cost_nano for row in report.rows]
