"""The SQL that cuts usage to a period and prices it; each question is one statement.

One statement reads one snapshot, so the parts of an answer agree even while the meter writes.
All take `teams` and `pools` (ids), `since_at` and `until_at` (the period; it ends now at the
latest). Times inside are epoch seconds. LEAST and GREATEST skip nulls, which here mean "no end
yet" and "no rate line".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import connection, transaction

from billing.rating import cost_nano_sql

# Beyond every time that a segment can have, for rate lines and gaps without an end.
_EVER = 1 << 60

# `rated`: one row per attempt, usage class and rate line, with the usage and cost of the period.
# Cost is on cumulative usage, so `pieces` reach back to each attempt's start. Segments of an
# attempt leave no gap (billing.folding), so there are earlier ones only where one of those in
# the period began at or before it. Time between rate lines becomes lines without a price, so
# that nothing falls out.
_RATED = f"""
overlapping AS MATERIALIZED (
    SELECT s.attempt_id, s.guaranteed_mgpu, s.borrowed_mgpu,
           a.job_id, a.team_id, a.organization_id, a.pool_id, a.multiplier_ppm,
           s.start <= %(since_at)s AS may_have_earlier,
           EXTRACT(EPOCH FROM s.start)::bigint AS start_s,
           EXTRACT(EPOCH FROM LEAST(s."end", %(until_at)s))::bigint AS end_s
    FROM billing_usagesegment s
    JOIN billing_meteredattempt a ON a.id = s.attempt_id
    WHERE s.start < %(until_at)s
      AND (s."end" > %(since_at)s OR s."end" IS NULL)
      AND %(since_at)s < %(until_at)s
      AND a.team_id = ANY(%(teams)s)
      AND a.pool_id = ANY(%(pools)s)
),
pieces AS (
    SELECT attempt_id, job_id, team_id, organization_id, pool_id, multiplier_ppm,
           guaranteed_mgpu, borrowed_mgpu, start_s, end_s
    FROM overlapping
    UNION ALL
    SELECT o.attempt_id, o.job_id, o.team_id, o.organization_id, o.pool_id, o.multiplier_ppm,
           s.guaranteed_mgpu, s.borrowed_mgpu,
           EXTRACT(EPOCH FROM s.start)::bigint, EXTRACT(EPOCH FROM s."end")::bigint
    FROM overlapping o
    JOIN billing_usagesegment s ON s.attempt_id = o.attempt_id AND s."end" <= %(since_at)s
    WHERE o.may_have_earlier
),
lines AS MATERIALIZED (
    SELECT c.organization_id, l.pool_id, l.usage_class, l.price_nano,
           EXTRACT(EPOCH FROM l.start)::bigint AS start_s,
           COALESCE(EXTRACT(EPOCH FROM l."end")::bigint, {_EVER}) AS end_s
    FROM billing_rateline l
    JOIN billing_ratecard c ON c.id = l.card_id
),
prices AS MATERIALIZED (
    SELECT * FROM lines
    UNION ALL
    SELECT organization_id, pool_id, usage_class, NULL,
           LAG(end_s, 1, -{_EVER}) OVER (
               PARTITION BY organization_id, pool_id, usage_class ORDER BY start_s
           ),
           start_s
    FROM lines
    UNION ALL
    SELECT organization_id, pool_id, usage_class, NULL, MAX(end_s), {_EVER}
    FROM lines GROUP BY organization_id, pool_id, usage_class
),
cumulative AS (
    SELECT p.attempt_id, p.job_id, p.team_id, p.pool_id, p.multiplier_ppm,
           c.usage_class, r.price_nano,
           SUM(c.mgpu * GREATEST(
               0, LEAST(p.end_s, r.end_s, %(since_s)s) - GREATEST(p.start_s, r.start_s)
           )) AS before_mgpu_s,
           SUM(c.mgpu * (LEAST(p.end_s, r.end_s) - GREATEST(p.start_s, r.start_s)))
               AS until_mgpu_s
    FROM pieces p
    CROSS JOIN LATERAL (
        VALUES ('guaranteed', p.guaranteed_mgpu), ('borrowed', p.borrowed_mgpu)
    ) AS c (usage_class, mgpu)
    LEFT JOIN prices r
      ON r.organization_id = p.organization_id AND r.pool_id = p.pool_id
     AND r.usage_class = c.usage_class AND r.start_s < p.end_s AND r.end_s > p.start_s
    WHERE c.mgpu > 0
    GROUP BY p.attempt_id, p.job_id, p.team_id, p.pool_id, p.multiplier_ppm,
             c.usage_class, r.price_nano, r.start_s
),
rated AS (
    SELECT attempt_id, job_id, team_id, pool_id, usage_class, price_nano IS NULL AS is_unpriced,
           until_mgpu_s - before_mgpu_s AS mgpu_s,
           CASE WHEN price_nano IS NULL THEN 0
                WHEN before_mgpu_s = 0
                THEN {cost_nano_sql("until_mgpu_s", "price_nano", "multiplier_ppm")}
                ELSE {cost_nano_sql("until_mgpu_s", "price_nano", "multiplier_ppm")}
                   - {cost_nano_sql("before_mgpu_s", "price_nano", "multiplier_ppm")}
           END AS cost_nano
    FROM cumulative
    WHERE until_mgpu_s > before_mgpu_s
)
"""  # noqa: S608 - made of constants only

# Of the report, by `part`:
#   row: usage and cost per team and pool (from `rated`);
#   day: usage per UTC day and pool, and check: all of it, both straight from the segments;
#   capacity: of `capacity_pools`: healthy, held by anybody, held by others than `organizations`.
REPORT = f"""
WITH {_RATED},
by_job AS (
    SELECT team_id, pool_id, job_id,
           SUM(mgpu_s) FILTER (WHERE usage_class = 'guaranteed') AS guaranteed_mgpu_s,
           SUM(mgpu_s) FILTER (WHERE usage_class = 'borrowed') AS borrowed_mgpu_s,
           SUM(cost_nano) FILTER (WHERE usage_class = 'guaranteed') AS guaranteed_cost_nano,
           SUM(cost_nano) FILTER (WHERE usage_class = 'borrowed') AS borrowed_cost_nano,
           SUM(mgpu_s) FILTER (WHERE is_unpriced) AS unpriced_mgpu_s
    FROM rated GROUP BY team_id, pool_id, job_id
),
held AS MATERIALIZED (
    SELECT pool_id, guaranteed_mgpu, borrowed_mgpu,
           GREATEST(start_s, %(since_s)s) AS start_s, end_s
    FROM overlapping
),
days AS (
    SELECT pool_id, day,
           SUM(guaranteed_mgpu
               * (LEAST(end_s, (day + 1) * 86400) - GREATEST(start_s, day * 86400)))
               AS guaranteed_mgpu_s,
           SUM(borrowed_mgpu
               * (LEAST(end_s, (day + 1) * 86400) - GREATEST(start_s, day * 86400)))
               AS borrowed_mgpu_s
    FROM (
        SELECT held.*, start_s / 86400 AS day FROM held WHERE start_s / 86400 = (end_s - 1) / 86400
        UNION ALL
        SELECT held.*, day
        FROM held, generate_series(start_s / 86400, (end_s - 1) / 86400) AS day
        WHERE start_s / 86400 < (end_s - 1) / 86400
    ) AS split
    GROUP BY pool_id, day
),
used AS (
    SELECT a.pool_id, a.organization_id, a.team_id = ANY(%(teams)s) AS is_asked,
           SUM((s.guaranteed_mgpu + s.borrowed_mgpu) * EXTRACT(EPOCH FROM
               LEAST(s."end", %(until_at)s) - GREATEST(s.start, %(since_at)s))::bigint) AS mgpu_s
    FROM billing_usagesegment s
    JOIN billing_meteredattempt a ON a.id = s.attempt_id
    WHERE s.start < %(until_at)s AND (s."end" > %(since_at)s OR s."end" IS NULL)
      AND %(since_at)s < %(until_at)s
      AND a.pool_id = ANY(%(pools)s)
      AND (a.team_id = ANY(%(teams)s) OR a.pool_id = ANY(%(capacity_pools)s))
    GROUP BY a.pool_id, a.organization_id, a.team_id = ANY(%(teams)s)
),
capacity AS (
    SELECT pool_id,
           SUM(capacity_mgpu * EXTRACT(EPOCH FROM
               LEAST("end", %(until_at)s) - GREATEST(start, %(since_at)s))::bigint) AS mgpu_s
    FROM clusters_capacitysegment
    WHERE start < %(until_at)s AND ("end" > %(since_at)s OR "end" IS NULL)
      AND %(since_at)s < %(until_at)s
      AND pool_id = ANY(%(capacity_pools)s)
    GROUP BY pool_id
)
SELECT 'row' AS part, pool_id, team_id, NULL::bigint AS day,
       COALESCE(SUM(guaranteed_mgpu_s), 0), COALESCE(SUM(borrowed_mgpu_s), 0),
       COALESCE(SUM(guaranteed_cost_nano), 0), COALESCE(SUM(borrowed_cost_nano), 0),
       COALESCE(SUM(unpriced_mgpu_s), 0),
       COUNT(*), COUNT(guaranteed_mgpu_s), COUNT(borrowed_mgpu_s)
FROM by_job GROUP BY pool_id, team_id
UNION ALL
SELECT 'day', pool_id, NULL, day, guaranteed_mgpu_s, borrowed_mgpu_s, 0, 0, 0, 0, 0, 0 FROM days
UNION ALL
SELECT 'check', NULL, NULL, NULL, COALESCE(SUM(mgpu_s), 0), 0, 0, 0, 0, 0, 0, 0
FROM used WHERE is_asked
UNION ALL
SELECT 'capacity', p.pool_id, NULL, NULL,
       COALESCE((SELECT c.mgpu_s FROM capacity c WHERE c.pool_id = p.pool_id), 0),
       COALESCE(SUM(u.mgpu_s), 0),
       COALESCE(SUM(u.mgpu_s) FILTER (WHERE NOT u.organization_id = ANY(%(organizations)s)), 0),
       0, 0, 0, 0, 0
FROM unnest(%(capacity_pools)s::uuid[]) AS p (pool_id)
LEFT JOIN used u ON u.pool_id = p.pool_id
GROUP BY p.pool_id
"""  # noqa: S608 - made of constants only

#: The jobs behind a number, largest first: those after (`after_mgpu_s`, `after_job`,
#: `after_class`) of `usage_classes`, at most `limit`.
JOBS = f"""
WITH {_RATED},
by_job AS (
    SELECT job_id, usage_class, team_id, pool_id,
           SUM(mgpu_s)::numeric AS mgpu_s, SUM(cost_nano) AS cost_nano,
           COUNT(DISTINCT attempt_id) AS attempts
    FROM rated
    WHERE usage_class = ANY(%(usage_classes)s)
    GROUP BY job_id, usage_class, team_id, pool_id
),
page AS (
    SELECT * FROM by_job
    WHERE %(after_mgpu_s)s::numeric IS NULL
       OR (-mgpu_s, job_id, usage_class)
          > (-%(after_mgpu_s)s::numeric, %(after_job)s::uuid, %(after_class)s::text)
    ORDER BY mgpu_s DESC, job_id, usage_class
    LIMIT %(limit)s
)
SELECT p.job_id, m.job_name, m.username, p.team_id, p.pool_id, p.usage_class, p.mgpu_s,
       p.cost_nano, p.attempts
FROM page p
CROSS JOIN LATERAL (
    SELECT a.job_name, u.username
    FROM billing_meteredattempt a JOIN tenants_user u ON u.id = a.user_id
    WHERE a.job_id = p.job_id ORDER BY a.number DESC LIMIT 1
) AS m
ORDER BY p.mgpu_s DESC, p.job_id, p.usage_class
"""  # noqa: S608 - made of constants only


def rows_of(statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """All rows of one of the statements above, with the memory that its sums need.

    Ends after 30 s at the latest. Compiling the plan would cost more than it saves.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('work_mem', '96MB', true), set_config('jit', 'off', true),"
            " set_config('statement_timeout', '30s', true)"
        )
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())
