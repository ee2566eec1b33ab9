"""Guarantees over time, exact to the second, from quotas and the history of changes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection

#: Before and after all times, in epoch seconds.
_EVER_S = 1 << 60
#: The condition on tree nodes that leaves out departments and organizations.
TEAMS_ONLY = "n.kind = 'team'"


def guarantee_spans_sql(quotas: str, since: str) -> str:
    """Return CTEs up to `guarantee_spans`: guarantees after the time `since` (SQL).

    `quotas` is a condition on quotas `q` of tree nodes `n`, such as `TEAMS_ONLY`. A span has
    `team_id` (the node's), `pool_id`, `guaranteed_mgpu`, `lendable_mgpu`, `start_s` and `end_s`.
    The first span of a quota begins before all times. A quota that was created later begins with 0.
    The last span ends after all times. An archived node has no guarantee until it is restored.
    """
    before_s, after_s = f"-{_EVER_S}::bigint", f"{_EVER_S}::bigint"
    return f"""
guaranteed_quotas AS MATERIALIZED (
    SELECT q.id, q.node_id, q.pool_id, q.guaranteed_mgpu, q.lend_limit_mgpu,
           COALESCE(archived.spans, '{{}}'::int8multirange) AS archived
    FROM quotas_quota q JOIN tenants_node n ON n.id = q.node_id
    CROSS JOIN LATERAL (
        SELECT range_agg(int8range(floor(date_part('epoch', a.start))::bigint,
                                   floor(date_part('epoch', a."end"))::bigint)) AS spans
        FROM (
            SELECT f.start, f."end" FROM tenants_formerarchiving f WHERE f.node_id = n.id
            UNION ALL
            SELECT n.archived_at, NULL WHERE n.archived_at IS NOT NULL
        ) AS a
    ) AS archived
    WHERE {quotas}
),
guarantee_changes AS MATERIALIZED (
    SELECT c.quota_id, c.before, c.after, floor(date_part('epoch', c.at))::bigint AS at_s,
           floor(date_part('epoch', LEAD(c.at) OVER quota))::bigint AS next_s,
           row_number() OVER quota AS number
    FROM quotas_quotachange c JOIN guaranteed_quotas q ON q.id = c.quota_id
    WHERE c.at > {since}
    WINDOW quota AS (PARTITION BY c.quota_id ORDER BY c.at, c.id)
),
guarantee_steps AS (
    SELECT quota_id, (after ->> 'guaranteed_mgpu')::bigint AS guaranteed_mgpu,
           (after ->> 'lend_limit_mgpu')::bigint AS lend_limit_mgpu,
           at_s AS start_s, COALESCE(next_s, {after_s}) AS end_s
    FROM guarantee_changes
    UNION ALL
    SELECT quota_id, COALESCE((before ->> 'guaranteed_mgpu')::bigint, 0),
           (before ->> 'lend_limit_mgpu')::bigint, {before_s}, at_s
    FROM guarantee_changes WHERE number = 1
    UNION ALL
    SELECT id, guaranteed_mgpu, lend_limit_mgpu, {before_s}, {after_s}
    FROM guaranteed_quotas WHERE id NOT IN (SELECT quota_id FROM guarantee_changes)
),
guarantee_spans AS NOT MATERIALIZED (
    SELECT q.node_id AS team_id, q.pool_id, s.guaranteed_mgpu,
           LEAST(s.guaranteed_mgpu, s.lend_limit_mgpu) AS lendable_mgpu,
           lower(f.span) AS start_s, upper(f.span) AS end_s
    FROM guarantee_steps s JOIN guaranteed_quotas q ON q.id = s.quota_id
    CROSS JOIN LATERAL unnest(
        int8multirange(int8range(s.start_s, s.end_s)) - q.archived
    ) AS f (span)
)
"""  # noqa: S608 - made of constants only


class Guarantee(NamedTuple):
    """A team's guarantee of a pool over an interval.

    `guaranteed_mgpu` is the last one. The integrals are in milli-GPU-seconds: of the guarantee, and
    of the part that others may use.
    """

    guaranteed_mgpu: int = 0
    guaranteed_mgpu_s: int = 0
    lendable_mgpu_s: int = 0


def guarantees_in(
    organization: UUID, pool: UUID, start: datetime, end: datetime
) -> Mapping[UUID, Guarantee]:
    """Return by team the guarantees of a pool in `[start, end)`. One query."""
    with connection.cursor() as cursor:
        cursor.execute(
            _GUARANTEES,
            {
                "organization": organization,
                "pool": pool,
                "start": start,
                "start_s": int(start.timestamp()),
                "end_s": int(end.timestamp()),
            },
        )
        return {team: Guarantee(*(int(value) for value in row)) for team, *row in cursor.fetchall()}


_OF_ORGANIZATION = f"{TEAMS_ONLY} AND n.organization_id = %(organization)s AND q.pool_id = %(pool)s"
_GUARANTEES = f"""
WITH {guarantee_spans_sql(_OF_ORGANIZATION, "%(start)s")},
inside AS (
    SELECT team_id, guaranteed_mgpu, lendable_mgpu, start_s,
           LEAST(end_s, %(end_s)s) - GREATEST(start_s, %(start_s)s) AS seconds
    FROM guarantee_spans WHERE start_s < %(end_s)s AND end_s > %(start_s)s
)
SELECT team_id, (array_agg(guaranteed_mgpu ORDER BY start_s DESC))[1],
       SUM(guaranteed_mgpu * seconds), SUM(lendable_mgpu * seconds)
FROM inside GROUP BY team_id
"""  # noqa: S608 - made of constants only
