"""Recent ends of a reader's jobs: ended attempts, lost work, and changes of quotas.

Work is lost if an attempt fails, exceeds its time limit, is preempted, is withdrawn from its
cluster or loses its node. The loss is the metered use since the last known checkpoint, or since the
start, and its cost is that of this use. An attempt that failed at once is listed with no use.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from jobs.reading.part_costs import Part, Work, costs_of_work
from primitives.errors import FieldError, InvalidRequest
from quotas.models import QuotaChange
from tenants.access import Actor, under, visible, visible_node
from tenants.models import Node, NodeKind
from tenants.roles import Permission

#: The longest time back to `since`.
REACH_MAX = timedelta(days=7)
WASTE_MAX = 10
ENDS_MAX = 20
CHANGES_MAX = 20


@dataclass(frozen=True, slots=True)
class RecentEnds:
    """Lost work, ended attempts and changes of quotas in [since, until).

    `team` is a path; None means all that the reader may see. `waste` has the largest losses; `ends`
    and `quota_changes` have the latest entries; `totals` count all ended attempts.

    An attempt counts once it has released its GPUs, because its result is not known before.
    """

    team: str | None
    since: datetime
    until: datetime
    totals: Sequence[dict[str, Any]]
    waste: Sequence[dict[str, Any]]
    ends: Sequence[dict[str, Any]]
    quota_changes: Sequence[QuotaChange]


def recent_ends(*, actor: Actor, team: str | None, since: datetime, now: datetime) -> RecentEnds:
    """Return lost work, ended attempts and changes of quotas in [since, now).

    The attempts are those of jobs that the actor may see. The quotas are those of nodes whose jobs
    the actor may see. `team` is a path and means its subtree.

    Raises NotFound for a team that the actor may not see, and InvalidRequest for a `since` in the
    future or more than `REACH_MAX` ago.
    """
    if not now - REACH_MAX <= since <= now:
        raise InvalidRequest(
            f"since must be within the last {REACH_MAX.days} days.",
            errors=[FieldError("/since", "is too long ago, or in the future")],
        )
    top = None if team is None else visible_node(actor, team)
    totals, waste, ends = _ends(_asked(actor, top, since=since, until=now))
    _add_costs(waste, actor)
    _add_costs(ends, actor)
    return RecentEnds(
        team=None if top is None else top.path.rstrip("/"),
        since=since,
        until=now,
        totals=totals,
        waste=waste,
        ends=ends,
        quota_changes=_quota_changes(actor, top, since=since, until=now),
    )


def _asked(actor: Actor, top: Node | None, *, since: datetime, until: datetime) -> dict[str, Any]:
    """Return the parameters of the statement."""
    teams = Node.objects.filter(kind=NodeKind.TEAM)
    below = None if top is None else teams.filter(under([top.path], "path"))
    seen = (teams if below is None else below).filter(
        under(actor.prefixes(Permission.VIEW_JOBS), "path")
    )
    has_own = actor.user.is_active and actor.permits(Permission.VIEW_JOBS)
    return {
        "teams": _ids(seen),
        "below": None if below is None else _ids(below),
        "own": actor.user.pk if has_own else None,
        "since": since,
        "until": until,
        "waste_max": WASTE_MAX,
        "ends_max": ENDS_MAX,
    }


def _ids(nodes: Any) -> list[UUID]:
    return list(nodes.values_list("pk", flat=True))


def _ends(asked: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Return totals, waste and ends. One statement, so that they are of one moment."""
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT, asked)
        row = cursor.fetchone()
    totals, waste, ends = (json.loads(part) for part in row)
    for each in (*waste, *ends):
        each["id"] = UUID(each["id"])
    for each in ends:
        each["ended_at"] = datetime.fromisoformat(each["ended_at"])
    return [totals, waste, ends]


def _add_costs(rows: Sequence[dict[str, Any]], actor: Actor) -> None:
    """Add the cost of the use of each row, which `parts` names."""
    work = [
        Work(
            user_id=UUID(row.pop("user_id")),
            team_path=f"{row['team']}/",
            organization_id=UUID(row.pop("organization_id")),
            parts=[
                Part(UUID(attempt), datetime.fromisoformat(since), datetime.fromisoformat(until))
                for attempt, since, until in row.pop("parts")
                if since is not None
            ],
        )
        for row in rows
    ]
    for row, cost in zip(rows, costs_of_work(work, actor), strict=True):
        row["cost"] = None if cost is None else cost._asdict()


def _quota_changes(
    actor: Actor, top: Node | None, *, since: datetime, until: datetime
) -> list[QuotaChange]:
    """Return the latest changes, with one query.

    Users who may see the tree but not its jobs get none.
    """
    changes = visible(
        actor,
        QuotaChange.objects.filter(at__gte=since, at__lt=until),
        Permission.VIEW_TREE,
        path_field="quota__node__path",
    ).filter(under(actor.prefixes(Permission.VIEW_JOBS), "quota__node__path"))
    if top is not None:
        changes = changes.filter(under([top.path], "quota__node__path"))
    return list(
        changes.select_related("actor", "quota__node", "quota__pool").order_by("-at", "-pk")[
            :CHANGES_MAX
        ]
    )


_IS_LOST = "how IN ('failed', 'timed_out', 'preempted', 'withdrawn', 'node_lost')"

# Separate queries: an index serves a comparison or IS NULL, but not OR of both.
_JOBS = "SELECT id FROM jobs_job WHERE attempt_number > 0"
_OF_TEAMS = "team_id = ANY(%(teams)s::uuid[])"
_OWN = """user_id = %(own)s::uuid
      AND (%(below)s::uuid[] IS NULL OR team_id = ANY(%(below)s::uuid[]))"""

# An attempt ends no later than its job. So the attempts of the window belong to jobs that are open
# or ended after `since`; the indexes `job_ended_by_team` and `job_ended_by_user` find the reader's.
# A job ends with its last attempt, or later, while it waits. The meaning of an attempt's end is
# that of `jobs.lifecycle.verdict`. An attempt that ended within its first second has no segment.
# An attempt that never started counts only if its job ended with it: otherwise it was requeued.
_STATEMENT = f"""
WITH theirs AS (
    {_JOBS} AND ended_at >= %(since)s AND {_OF_TEAMS} UNION
    {_JOBS} AND ended_at >= %(since)s AND {_OWN} UNION
    {_JOBS} AND ended_at IS NULL AND {_OF_TEAMS} UNION
    {_JOBS} AND ended_at IS NULL AND {_OWN}
), ended AS MATERIALIZED (
    SELECT j.id, j.name, j.end_reason, j.exit_code, u.username AS "user", n.path, p.device,
           j.user_id, j.organization_id, t.id AS attempt_id, used.since, used.until,
           t.number, t.mgpu, t.ended_at, t.checkpoint_at,
           CASE WHEN t.number = j.attempt_number AND t.ended_at = j.ended_at THEN j.state
                WHEN t.stop_reason IN ('preempted', 'withdrawn', 'requeued') THEN t.stop_reason
                WHEN t.outcome IN ('timed_out', 'failed') THEN t.outcome
                WHEN t.outcome = 'preempted' THEN 'preempted'
                WHEN t.outcome IN ('node_failed', 'lost') THEN 'node_lost'
                ELSE 'unknown' END AS how,
           COALESCE(used.mgpu_s, 0) AS used_mgpu_s,
           COALESCE(used.unsaved_mgpu_s, 0) AS unsaved_mgpu_s
    FROM theirs
    JOIN jobs_job j ON j.id = theirs.id
    JOIN jobs_attempt t ON t.job_id = j.id
    JOIN tenants_user u ON u.id = j.user_id
    JOIN tenants_node n ON n.id = j.team_id
    JOIN clusters_pool p ON p.id = j.pool_id
    CROSS JOIN LATERAL (
        SELECT MIN(held.start) AS since, MAX(held."end") AS until,
               SUM(held.mgpu * held.seconds)::bigint AS mgpu_s,
               SUM(held.mgpu * LEAST(held.seconds, held.unsaved_s))::bigint AS unsaved_mgpu_s
        FROM (
            SELECT s.start, s."end", s.guaranteed_mgpu + s.borrowed_mgpu AS mgpu,
                   EXTRACT(EPOCH FROM s."end" - s.start)::bigint AS seconds,
                   GREATEST(
                       0, EXTRACT(EPOCH FROM s."end" - COALESCE(t.checkpoint_at, s.start))
                   )::bigint AS unsaved_s
            FROM billing_usagesegment s WHERE s.attempt_id = t.id AND s."end" IS NOT NULL
        ) AS held
    ) AS used
    WHERE t.ended_at >= %(since)s AND t.ended_at < %(until)s AND t.released_at IS NOT NULL
      AND (used.mgpu_s IS NOT NULL OR t.started_at IS NOT NULL OR t.ended_at = j.ended_at)
)
SELECT
    (SELECT COALESCE(json_agg(x ORDER BY x.device DESC), '[]')::text FROM (
        SELECT device, COUNT(*) AS attempts, SUM(used_mgpu_s)::bigint AS used_mgpu_s,
               COALESCE(SUM(unsaved_mgpu_s) FILTER (WHERE {_IS_LOST}), 0)::bigint AS lost_mgpu_s
        FROM ended GROUP BY device
    ) AS x),
    (SELECT COALESCE(json_agg(x ORDER BY x.lost_mgpu_s DESC, x.id, x.how), '[]')::text FROM (
        SELECT id, name, "user", RTRIM(path, '/') AS team, device, how, COUNT(*) AS attempts,
               BOOL_OR(checkpoint_at IS NOT NULL) AS has_checkpoint,
               SUM(unsaved_mgpu_s)::bigint AS lost_mgpu_s, user_id, organization_id,
               json_agg(
                   json_build_array(attempt_id, GREATEST(checkpoint_at, since), until)
                   ORDER BY number
               ) AS parts
        FROM ended WHERE {_IS_LOST} AND unsaved_mgpu_s > 0
        GROUP BY id, name, "user", path, device, how, user_id, organization_id
        ORDER BY lost_mgpu_s DESC, id, how LIMIT %(waste_max)s
    ) AS x),
    (SELECT COALESCE(json_agg(x ORDER BY x.ended_at DESC, x.id, x.attempt), '[]')::text FROM (
        SELECT id, name, "user", RTRIM(path, '/') AS team, device, how, number AS attempt, mgpu,
               ended_at, used_mgpu_s, end_reason, exit_code, user_id, organization_id,
               json_build_array(json_build_array(attempt_id, since, until)) AS parts
        FROM ended ORDER BY ended_at DESC, id, number LIMIT %(ends_max)s
    ) AS x)
"""  # noqa: S608 - made of constants only
