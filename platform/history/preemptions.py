"""Preemptions of a period: how many, for whom, and the work that they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from billing.usage_sql import rows_of
from chargeback.reports import Asked
from clusters.models import Pool
from history.scope import PLACES, Scope, scope_of
from history.use import OUTSIDE_NAME
from jobs.models import StopReason
from tenants.access import Actor
from webapi.row_access import all_rows


@dataclass(frozen=True, slots=True)
class Preempted:
    """The preemptions of one team for another one; `OUTSIDE_NAME` is another organization.

    `lost_mgpu_s` is the work since the last checkpoint, or since the start.
    """

    team: str
    for_team: str
    preemptions: int
    jobs: int
    lost_mgpu_s: int


@dataclass(frozen=True, slots=True)
class PreemptionHistory:
    """The preemptions of jobs of a node's teams, and for them; the most work lost first."""

    scope: Scope
    rows: Sequence[Preempted]
    #: The sums over teams of the node that were preempted.
    preemptions: int
    lost_mgpu_s: int


def preemptions_of(
    path: str, pool: Pool, *, actor: Actor, asked: Asked, now: datetime
) -> PreemptionHistory:
    """Return the preemptions whose notice was given in the period. Raises as `scope_of`."""
    scope = scope_of(path, pool, actor=actor, asked=asked, now=now)
    # The other side may be of another organization, which is then named "outside".
    with all_rows():
        found = rows_of(_PREEMPTED, {**scope.parameters(), "preempted": StopReason.PREEMPTED.value})
    below = set(scope.parameters()["below"])

    def name_of(place: int | None) -> str:
        return OUTSIDE_NAME if place is None else scope.tree.name_of(place)

    own = [row for row in found if row[0] in below]
    return PreemptionHistory(
        scope,
        [
            Preempted(name_of(team), name_of(for_team), count, jobs, int(lost or 0))
            for team, for_team, count, jobs, lost in found
        ],
        preemptions=sum(row[2] for row in own),
        lost_mgpu_s=sum(int(row[4] or 0) for row in own),
    )


def _at_notice(place: str, team: str) -> str:
    return f"""
    LEFT JOIN places {place} ON {place}.node_id = {team}
        AND date_part('epoch', a.notice_at) >= {place}.since_s
        AND date_part('epoch', a.notice_at) < {place}.until_s
"""


_PREEMPTED = f"""
WITH {PLACES}
SELECT v.place, b.place, COUNT(*), COUNT(DISTINCT a.job_id),
       SUM(a.mgpu * GREATEST(0, floor(date_part(
           'epoch',
           COALESCE(a.ended_at, %(until)s::timestamptz) - GREATEST(a.started_at, a.checkpoint_at)
       ))::bigint)) FILTER (WHERE a.started_at IS NOT NULL) AS lost
FROM jobs_reclaim r
JOIN jobs_attempt a ON a.reclaim_id = r.id
JOIN jobs_job victim ON victim.id = a.job_id
JOIN jobs_job beneficiary ON beneficiary.id = r.job_id
{_at_notice("v", "victim.team_id")}
{_at_notice("b", "beneficiary.team_id")}
WHERE a.stop_reason = %(preempted)s AND a.notice_at >= %(start)s AND a.notice_at < %(until)s
  AND victim.pool_id = %(pool)s
  AND (v.place = ANY(%(below)s) OR b.place = ANY(%(below)s))
GROUP BY v.place, b.place
ORDER BY lost DESC NULLS LAST, v.place, b.place
"""  # noqa: S608 - made of constants only
