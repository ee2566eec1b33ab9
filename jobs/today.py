"""What happened to the jobs of a reader's teams lately, and which of their work was lost.

Work is lost where an attempt failed, ran into its time limit, was preempted or lost its node: all
that it used since its last known checkpoint, or its start. Only what the meter counted is told, so
a job that never ran is not in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from primitives.errors import FieldError, InvalidRequest
from quotas.models import QuotaChange
from tenants.access import Actor, under, visible, visible_node
from tenants.models import Node, NodeKind
from tenants.roles import Permission

#: How far back it may reach.
REACH_MAX = timedelta(days=7)
WASTE_MAX = 10
ENDS_MAX = 20
CHANGES_MAX = 20


@dataclass(frozen=True, slots=True)
class Today:
    """`team` is a path, None for all that the reader may see. Of waste the largest, of ends and
    changes the latest; `totals` are of all attempts that ended in [since, until)."""

    team: str | None
    since: datetime
    until: datetime
    totals: Sequence[dict[str, Any]]
    waste: Sequence[dict[str, Any]]
    ends: Sequence[dict[str, Any]]
    quota_changes: Sequence[QuotaChange]


def today(*, actor: Actor, team: str | None, since: datetime, now: datetime) -> Today:
    """Return what happened in [since, now) to the jobs that the actor may see, and to the quotas
    of the nodes whose jobs the actor may see. `team` is a path and means its subtree.

    Raises NotFound for a team that the actor may not see, InvalidRequest for a `since` in the
    future or more than `REACH_MAX` ago.
    """
    if not now - REACH_MAX <= since <= now:
        raise InvalidRequest(
            f"since must be within the last {REACH_MAX.days} days.",
            errors=[FieldError("/since", "is too long ago, or in the future")],
        )
    top = None if team is None else visible_node(actor, team)
    asked = _asked(actor, top, since=since, until=now)
    return Today(
        team=None if top is None else top.path.rstrip("/"),
        since=since,
        until=now,
        totals=_rows(_TOTALS, asked),
        waste=_rows(_WASTE, asked),
        ends=_rows(_ENDS, asked),
        quota_changes=_quota_changes(actor, top, since=since, until=now),
    )


def _asked(actor: Actor, top: Node | None, *, since: datetime, until: datetime) -> dict[str, Any]:
    """Parameters of the statements: whose jobs, and of when."""
    teams = Node.objects.filter(kind=NodeKind.TEAM)
    seen = teams.filter(under(actor.prefixes(Permission.VIEW_JOBS), "path"))
    below = None if top is None else teams.filter(under([top.path], "path"))
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


def _rows(query: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(query, asked)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _quota_changes(
    actor: Actor, top: Node | None, *, since: datetime, until: datetime
) -> list[QuotaChange]:
    """The latest changes; one query. Whoever sees the tree alone is concerned by none."""
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


# A segment ends with its attempt, and whenever the class of its GPUs changes. The last attempt of a
# job ended as the job did; an earlier one was preempted, or lost with its node. One that was taken
# back before it ran has no segment.
_ENDED = """
WITH ended AS MATERIALIZED (
    SELECT j.id, j.name, j.end_reason, j.exit_code, u.username AS "user", n.path, p.device,
           t.number, t.mgpu, t.ended_at, t.checkpoint_at,
           CASE WHEN t.number = j.attempt_number AND j.ended_at IS NOT NULL THEN j.state
                WHEN t.stop_reason = 'preempted' OR t.outcome = 'preempted' THEN 'preempted'
                ELSE 'node_lost' END AS how,
           used.mgpu_s AS used_mgpu_s, used.unsaved_mgpu_s
    FROM (
        SELECT DISTINCT s.attempt_id FROM billing_usagesegment s
        WHERE s."end" >= %(since)s AND s."end" < %(until)s
    ) AS lately
    JOIN jobs_attempt t ON t.id = lately.attempt_id
    JOIN jobs_job j ON j.id = t.job_id
    JOIN tenants_user u ON u.id = j.user_id
    JOIN tenants_node n ON n.id = j.team_id
    JOIN clusters_pool p ON p.id = j.pool_id
    CROSS JOIN LATERAL (
        SELECT SUM(held.mgpu * held.seconds)::bigint AS mgpu_s,
               SUM(held.mgpu * LEAST(held.seconds, held.unsaved_s))::bigint AS unsaved_mgpu_s
        FROM (
            SELECT s.guaranteed_mgpu + s.borrowed_mgpu AS mgpu,
                   EXTRACT(EPOCH FROM s."end" - s.start)::bigint AS seconds,
                   GREATEST(
                       0, EXTRACT(EPOCH FROM s."end" - COALESCE(t.checkpoint_at, s.start))
                   )::bigint AS unsaved_s
            FROM billing_usagesegment s WHERE s.attempt_id = t.id AND s."end" IS NOT NULL
        ) AS held
    ) AS used
    WHERE t.ended_at >= %(since)s AND t.ended_at < %(until)s
      AND (j.team_id = ANY(%(teams)s::uuid[]) OR j.user_id = %(own)s::uuid)
      AND (%(below)s::uuid[] IS NULL OR j.team_id = ANY(%(below)s::uuid[]))
)
"""

_IS_LOST = "how IN ('failed', 'timed_out', 'preempted', 'node_lost')"

_TOTALS = f"""{_ENDED}
SELECT device, COUNT(*) AS attempts, SUM(used_mgpu_s)::bigint AS used_mgpu_s,
       COALESCE(SUM(unsaved_mgpu_s) FILTER (WHERE {_IS_LOST}), 0)::bigint AS lost_mgpu_s
FROM ended GROUP BY device ORDER BY device DESC
"""  # noqa: S608 - made of constants only

_WASTE = f"""{_ENDED}
SELECT id, name, "user", RTRIM(path, '/') AS team, device, how, COUNT(*) AS attempts,
       BOOL_OR(checkpoint_at IS NOT NULL) AS has_checkpoint,
       SUM(unsaved_mgpu_s)::bigint AS lost_mgpu_s
FROM ended WHERE {_IS_LOST} AND unsaved_mgpu_s > 0
GROUP BY id, name, "user", path, device, how
ORDER BY lost_mgpu_s DESC, id, how LIMIT %(waste_max)s
"""  # noqa: S608 - made of constants only

_ENDS = f"""{_ENDED}
SELECT id, name, "user", RTRIM(path, '/') AS team, device, how, number AS attempt, mgpu, ended_at,
       used_mgpu_s, end_reason, exit_code
FROM ended ORDER BY ended_at DESC, id, number LIMIT %(ends_max)s
"""  # noqa: S608 - made of constants only
