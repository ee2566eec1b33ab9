"""The SQL of prices: the price list, the terms of pools, commitments and top-ups.

Times are epoch seconds, and a `tariff` is a pool of an organization, as in `billing.usage_sql`.
"""

from __future__ import annotations

from billing.models import PriceMode
from billing.rating import class_price_sql
from primitives.units import PPM
from quotas.guarantees import TEAMS_ONLY, guarantee_spans_sql

#: Later than all times of segments, for rates, terms and gaps without an end.
EVER_S = 1 << 60


def is_committed_sql(mode: str, usage_class: str) -> str:
    """Return SQL for: the commitment pays use of this class."""
    return f"({mode} = '{PriceMode.COMMITMENT}' AND {usage_class} = 1)"


#: Terms of a pool without terms of its own.
_DEFAULT = f"'{PriceMode.PAY_PER_USE}', {PPM}, {PPM}, {PPM}, 0, 1"
_VALUES = "mode, guaranteed_ppm, borrowed_ppm, unpaid_ppm, minimum_s, increment_s"

#: CTEs up to `prices` of classes 1 to 3: the price list, with gaps, cut where terms change. Class 3
#: has the price of class 2 where it has no line of its own.
PRICES = f"""
lines AS MATERIALIZED (
    SELECT m.tariff,
           array_position(ARRAY['guaranteed', 'borrowed', 'unpaid'], l.usage_class) AS class,
           l.id AS line_id, l.price_nano,
           CASE WHEN %(priced_at)s::timestamptz IS NULL
                THEN date_part('epoch', l.start)::bigint ELSE -{EVER_S} END AS start_s,
           CASE WHEN %(priced_at)s::timestamptz IS NULL
                THEN COALESCE(date_part('epoch', l."end")::bigint, {EVER_S})
                ELSE {EVER_S} END AS end_s
    FROM tariffs m
    JOIN billing_ratecard c ON c.organization_id = m.organization_id
    JOIN billing_rateline l ON l.card_id = c.id AND l.pool_id = m.pool_id
    WHERE %(priced_at)s::timestamptz IS NULL
       OR l.start <= %(priced_at)s AND (l."end" > %(priced_at)s OR l."end" IS NULL)
),
own_prices AS MATERIALIZED (
    SELECT * FROM lines
    UNION ALL
    SELECT tariff, class, NULL, NULL,
           LAG(end_s, 1, -{EVER_S}) OVER (PARTITION BY tariff, class ORDER BY start_s), start_s
    FROM lines
    UNION ALL
    SELECT tariff, class, NULL, NULL, MAX(end_s), {EVER_S} FROM lines GROUP BY tariff, class
    UNION ALL
    SELECT tariff, 3, NULL, NULL, -{EVER_S}, {EVER_S} FROM lines
    GROUP BY tariff HAVING NOT bool_or(class = 3)
),
class_prices AS MATERIALIZED (
    SELECT * FROM own_prices WHERE class < 3 OR price_nano IS NOT NULL
    UNION ALL
    SELECT o.tariff, 3, b.line_id, b.price_nano,
           GREATEST(o.start_s, b.start_s), LEAST(o.end_s, b.end_s)
    FROM own_prices o JOIN own_prices b USING (tariff)
    WHERE o.class = 3 AND o.price_nano IS NULL AND b.class = 2
      AND o.start_s < b.end_s AND o.end_s > b.start_s
    UNION ALL
    SELECT * FROM own_prices o
    WHERE o.class = 3 AND o.price_nano IS NULL
      AND NOT EXISTS (SELECT FROM own_prices b WHERE b.tariff = o.tariff AND b.class = 2)
),
own_terms AS MATERIALIZED (
    SELECT m.tariff, {_VALUES},
           CASE WHEN %(priced_at)s::timestamptz IS NULL
                THEN date_part('epoch', t.start)::bigint ELSE -{EVER_S} END AS start_s,
           CASE WHEN %(priced_at)s::timestamptz IS NULL
                THEN COALESCE(date_part('epoch', t."end")::bigint, {EVER_S})
                ELSE {EVER_S} END AS end_s
    FROM tariffs m
    JOIN billing_ratecard c ON c.organization_id = m.organization_id
    JOIN billing_poolterms t ON t.card_id = c.id AND t.pool_id = m.pool_id
    WHERE %(priced_at)s::timestamptz IS NULL
       OR t.start <= %(priced_at)s AND (t."end" > %(priced_at)s OR t."end" IS NULL)
),
terms AS MATERIALIZED (
    SELECT * FROM own_terms
    UNION ALL
    SELECT tariff, {_DEFAULT}, since_s, until_s
    FROM (
        SELECT tariff, start_s AS until_s,
               LAG(end_s, 1, -{EVER_S}) OVER (PARTITION BY tariff ORDER BY start_s) AS since_s
        FROM own_terms
        UNION ALL
        SELECT tariff, {EVER_S}, MAX(end_s) FROM own_terms GROUP BY tariff
    ) AS gaps
    WHERE since_s < until_s
    UNION ALL
    SELECT tariff, {_DEFAULT}, -{EVER_S}, {EVER_S}
    FROM tariffs WHERE tariff NOT IN (SELECT tariff FROM own_terms)
),
prices AS MATERIALIZED (
    SELECT p.tariff, p.class, p.line_id, t.mode, t.class_ppm,
           {class_price_sql("p.price_nano", "t.class_ppm")} AS price_nano,
           GREATEST(p.start_s, t.start_s) AS start_s, LEAST(p.end_s, t.end_s) AS end_s
    FROM class_prices p
    JOIN (
        SELECT tariff, class, mode, class_ppm, start_s, end_s
        FROM terms CROSS JOIN LATERAL (
            VALUES (1, guaranteed_ppm), (2, borrowed_ppm), (3, unpaid_ppm)
        ) AS c (class, class_ppm)
    ) AS t ON t.tariff = p.tariff AND t.class = p.class
        AND t.start_s < p.end_s AND t.end_s > p.start_s
)
"""  # noqa: S608 - made of constants only

_COMMITTED = f"""
{TEAMS_ONLY} AND (q.node_id, q.pool_id) IN (
    SELECT a.team_id, a.pool_id FROM accounts a JOIN committed_prices r ON r.tariff = a.tariff
)
"""  # noqa: S608 - made of constants only

#: CTEs up to `commitments`: the guarantee of each of `account_spans` since its price began: before
#: the span, and until its end. The guarantee counts whether it was used or not.
COMMITMENTS = f"""
committed_prices AS MATERIALIZED (
    SELECT tariff, line_id, price_nano, class_ppm, start_s, end_s FROM prices
    WHERE class = 1 AND mode = '{PriceMode.COMMITMENT}' AND price_nano IS NOT NULL
),
{guarantee_spans_sql(_COMMITTED, "'-infinity'")},
commitments AS (
    SELECT c.account, c.since_s, r.line_id, r.price_nano, r.class_ppm,
           SUM(g.guaranteed_mgpu * GREATEST(
               0, LEAST(g.end_s, r.end_s, c.since_s) - GREATEST(g.start_s, r.start_s, 0)
           )) AS before_mgpu_s,
           SUM(g.guaranteed_mgpu * GREATEST(
               0, LEAST(g.end_s, r.end_s, c.until_s) - GREATEST(g.start_s, r.start_s, 0)
           )) AS until_mgpu_s
    FROM account_spans c
    JOIN committed_prices r
      ON r.tariff = c.tariff AND r.start_s < c.until_s AND r.end_s > c.since_s
    JOIN guarantee_spans g ON g.team_id = c.team_id AND g.pool_id = c.pool_id
    GROUP BY c.account, c.since_s, r.line_id, r.price_nano, r.class_ppm, r.start_s
)
"""  # noqa: S608 - made of constants only

#: CTEs up to `top_ups`: what an attempt that ended in the period lacks of the minimum or of a whole
#: increment, in the classes and at the prices of its last second. Attempts with a fault have none.
#: `ended` stands apart: without such terms, which is usual, the planner then reads no use for it.
TOP_UPS = f"""
rounding_terms AS MATERIALIZED (
    SELECT tariff, minimum_s, increment_s, start_s, end_s FROM terms
    WHERE minimum_s > 0 OR increment_s > 1
),
ended AS MATERIALIZED (
    SELECT o.attempt_id, o.job_id, o.account, o.since_s, o.tariff, o.multiplier_ppm,
           o.guaranteed_mgpu, o.borrowed_mgpu, o.unpaid_mgpu, o.end_s,
           GREATEST(t.minimum_s, div(whole.seconds + t.increment_s - 1, t.increment_s)
                                 * t.increment_s) - whole.seconds AS missing_s
    FROM overlapping o
    JOIN rounding_terms t
      ON t.tariff = o.tariff AND t.start_s < o.end_s AND t.end_s >= o.end_s
    CROSS JOIN LATERAL (
        SELECT date_part('epoch', o.ended_at - MIN(s.start))::bigint AS seconds,
               bool_or(s.fault <> '') AS has_fault,
               bool_or(s.start >= o.ended_at) AS goes_on
        FROM billing_usagesegment s WHERE s.attempt_id = o.attempt_id
    ) AS whole
    WHERE o.account IS NOT NULL AND date_part('epoch', o.ended_at)::bigint = o.end_s
      AND NOT whole.has_fault AND NOT whole.goes_on
),
top_ups AS (
    SELECT e.attempt_id, e.job_id, e.account, e.since_s, r.line_id, r.mode, r.class_ppm,
           r.price_nano, e.multiplier_ppm, c.mgpu * e.missing_s AS mgpu_s
    FROM ended e
    CROSS JOIN LATERAL (
        VALUES (1, e.guaranteed_mgpu), (2, e.borrowed_mgpu), (3, e.unpaid_mgpu)
    ) AS c (class, mgpu)
    JOIN prices r ON r.tariff = e.tariff AND r.class = c.class AND r.price_nano IS NOT NULL
        AND r.start_s < e.end_s AND r.end_s >= e.end_s
    WHERE c.mgpu > 0 AND e.missing_s > 0 AND NOT {is_committed_sql("r.mode", "c.class")}
)
"""  # noqa: S608 - made of constants only
