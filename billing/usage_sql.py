"""The SQL that cuts usage to a period and prices it. Each query is one statement.

One statement reads one snapshot, so the parts of an answer agree even while the meter writes. All
statements take `teams` and `pools` (ids), `since_at` and `until_at` (the period, which ends now at
the latest). With `priced_at`, all usage is priced as of that moment.

A moved team is in `teams` once for each path. Its use counts for its place at the time of use.
`place_numbers`, `place_since` and `place_until` are the times of the period during which the team
with this number (from 1) was there. Most teams have one, the whole period.

Inner times are epoch seconds. An `account` is a team and a pool by their numbers in those lists, so
that the big sorts and sums have short keys. A `tariff` is the prices of an organization for a pool,
numbered alike. So there are as many prices for a thousand teams as for one. LEAST and GREATEST skip
nulls, which here mean "no end yet" and "no rate line".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from billing.models import ExtraCharge, PriceMode, UsageClass
from billing.price_sql import COMMITMENTS, PRICES, TOP_UPS, is_committed_sql
from billing.rating import cost_of_shifted_sql, shifted_sql
from primitives.units import PPM

#: account = team number * this + pool number, both from 1.
POOLS_MAX = 10_000
#: The usage classes and the charges beside use, by the numbers that the statements use for them.
CLASSES = {number: charged.value for number, charged in enumerate([*UsageClass, *ExtraCharge], 1)}

_EXTRAS = ", ".join(str(number) for number, name in CLASSES.items() if name in ExtraCharge.values)
_NO_JOB = UUID(int=0)


def used_in_sql(since: str, until: str) -> str:
    """Return SQL for: the segment `s` has use in `[since, until)`, which may be empty or backwards.

    The planner knows how many segments that are, and the index `segment_by_time` finds them. It
    would take conditions on the start and on the end for independent, and expect far too many.
    """
    return f"""(
    tstzrange(s.start, s."end")
    && tstzrange(LEAST({since}::timestamptz, {until}::timestamptz), {until}::timestamptz)
)"""


_USED_IN_PERIOD = used_in_sql("%(since_at)s", "%(until_at)s")

#: A segment's milli-GPU in each class.
MGPU_BY_CLASS = {
    UsageClass.GUARANTEED: "CASE WHEN s.fault = '' THEN s.guaranteed_mgpu ELSE 0 END",
    UsageClass.BORROWED: "CASE WHEN s.fault = '' THEN s.borrowed_mgpu - s.unpaid_mgpu ELSE 0 END",
    UsageClass.UNPAID: "s.unpaid_mgpu",
    UsageClass.FAULT: "CASE WHEN s.fault = '' THEN 0 ELSE s.guaranteed_mgpu + s.borrowed_mgpu END",
}
_MGPU_BY_CLASS = ", ".join(f"{mgpu} AS {name}_mgpu" for name, mgpu in MGPU_BY_CLASS.items())

_ASKED = "a.team_id = ANY(%(teams)s) AND a.pool_id = ANY(%(pools)s)"

ACCOUNTS = f"""
accounts AS MATERIALIZED (
    SELECT t.id AS team_id, p.id AS pool_id, t.organization_id,
           (t.number * {POOLS_MAX} + p.number)::integer AS account,
           (t.organization_number * {POOLS_MAX} + p.number)::integer AS tariff
    FROM (
        SELECT t.id, t.number, n.organization_id,
               dense_rank() OVER (ORDER BY n.organization_id) AS organization_number
        FROM unnest(%(teams)s::uuid[]) WITH ORDINALITY AS t (id, number)
        JOIN tenants_node n ON n.id = t.id
    ) AS t
    CROSS JOIN unnest(%(pools)s::uuid[]) WITH ORDINALITY AS p (id, number)
),
tariffs AS MATERIALIZED (
    SELECT DISTINCT tariff, organization_id, pool_id FROM accounts
),
places AS MATERIALIZED (
    SELECT (%(teams)s::uuid[])[number] AS team_id, number, since_at, until_at
    FROM unnest(%(place_numbers)s::integer[], %(place_since)s::timestamptz[],
                %(place_until)s::timestamptz[]) AS p (number, since_at, until_at)
),
placed AS MATERIALIZED (
    SELECT a.team_id, a.pool_id, a.account, a.tariff, l.since_at, l.until_at,
           date_part('epoch', l.since_at)::bigint AS since_s
    FROM accounts a JOIN places l ON l.number = a.account / {POOLS_MAX}
)
"""  # noqa: S608 - made of constants only

_AT_PLACE = """
    s.start < {place}.until_at AND (s."end" > {place}.since_at OR s."end" IS NULL)
"""

# Exact, and three times as fast as EXTRACT, which uses numeric. A double holds whole seconds up to
# 2 to the 53.
_SECONDS_AT_PLACE = """
    date_part('epoch', LEAST(s."end", {place}.until_at) - GREATEST(s.start, {place}.since_at))
    ::bigint
"""


def metered(mgpu: str = "s.guaranteed_mgpu + s.borrowed_mgpu", condition: str = "") -> str:
    """Return a SELECT of each organization and its use, straight from the tables, as a check.

    `mgpu` is what counts of a segment.
    """
    return f"""
SELECT a.organization_id, SUM(({mgpu}) * {_SECONDS_AT_PLACE.format(place="l")}) AS mgpu_s
FROM billing_usagesegment s
JOIN billing_meteredattempt a ON a.id = s.attempt_id
JOIN places l ON l.team_id = a.team_id AND {_AT_PLACE.format(place="l")}
WHERE {_USED_IN_PERIOD} AND {_ASKED} {condition}
GROUP BY a.organization_id
"""  # noqa: S608 - made of constants only


# The parts of a segment in each bucket of time. `buckets` are the starts of the buckets, in epoch
# seconds; the first one is the start of the period. `bucket_numbers` count them from 1: the planner
# expects ten rows of a slice of an array, and a thousand of a series.
_BUCKETS = """
CROSS JOIN LATERAL unnest((%(bucket_numbers)s::integer[])[
    width_bucket(GREATEST(date_part('epoch', s.start)::bigint, c.since_s), %(buckets)s::bigint[])
    :width_bucket(
        date_part('epoch', LEAST(s."end", c.until_at))::bigint - 1, %(buckets)s::bigint[]
    )
]) AS bucket
"""

_SPAN_BUCKETS = """
CROSS JOIN LATERAL unnest((%(bucket_numbers)s::integer[])[
    width_bucket(c.since_s, %(buckets)s::bigint[])
    :width_bucket(c.until_s - 1, %(buckets)s::bigint[])
]) AS bucket
"""


def rated(condition: str = "", *, has_buckets: bool = False) -> str:
    """Return CTEs up to `rated`: the period's usage and cost per attempt, class and rate line.

    With `has_buckets`, also per bucket of time, which begins at or before `since_s`.

    They are grouped by the team's place at the time of use. Cost depends on cumulative usage, so
    `pieces` reach back to each attempt's start. An attempt's segments have no gaps
    (billing.folding). So earlier ones exist only where a segment of the period began at or before
    its start.

    Gaps between rate lines become lines without a price, so that no use is lost. Classes: 1
    guaranteed, 2 borrowed, 3 unpaid, 4 fault. Class 3 has the price of class 2 where it has no line
    of its own. Class 4 costs nothing, so it is never unpriced. Classes 5 (commitment) and 6
    (top-up) are no use: their `mgpu_s` is 0, and a commitment has no attempt.

    `list_nano` is `price_nano` x `multiplier_ppm` x `quantity_mgpu_s`, where `price_nano` includes
    the multiplier `class_ppm` of the class. `cost_nano` is the billed part: nothing for showback,
    and nothing for use that a commitment pays.

    The outer join to `placed` nearly always finds a row; an inner join would make the planner
    expect few rows. Use without a row happened while its team was elsewhere.
    """
    since_s, until_s = "c.since_s", "c.until_s"
    end_s = """date_part('epoch', LEAST(s."end", c.until_at))::bigint"""
    if has_buckets:
        since_s = f"GREATEST({since_s}, (%(buckets)s::bigint[])[bucket])"
        until_s, end_s = (
            f"LEAST({end}, (%(buckets)s::bigint[])[bucket + 1])" for end in (until_s, end_s)
        )
    return f"""
overlapping AS MATERIALIZED (
    SELECT s.attempt_id, a.job_id, c.account, c.tariff, {since_s} AS since_s, a.multiplier_ppm,
           s.fault, {_MGPU_BY_CLASS},
           date_part('epoch', s.start)::bigint AS start_s, {end_s} AS end_s,
           s."end" AS ended_at
    FROM billing_usagesegment s
    JOIN billing_meteredattempt a ON a.id = s.attempt_id
    LEFT JOIN placed c ON c.team_id = a.team_id AND c.pool_id = a.pool_id
        AND {_AT_PLACE.format(place="c")}
    {_BUCKETS if has_buckets else ""}
    WHERE {_USED_IN_PERIOD} AND {_ASKED} {condition}
),
pieces AS NOT MATERIALIZED (
    SELECT attempt_id, job_id, account, tariff, since_s, multiplier_ppm,
           guaranteed_mgpu, borrowed_mgpu, unpaid_mgpu, fault_mgpu, start_s, end_s
    FROM overlapping
    WHERE account IS NOT NULL
    UNION ALL
    SELECT o.attempt_id, o.job_id, o.account, o.tariff, o.since_s, o.multiplier_ppm,
           {_MGPU_BY_CLASS},
           date_part('epoch', s.start)::bigint, date_part('epoch', s."end")::bigint
    FROM overlapping o
    CROSS JOIN LATERAL (
        SELECT s.* FROM billing_usagesegment s
        WHERE s.attempt_id = o.attempt_id AND s."end" <= to_timestamp(o.since_s)
        OFFSET 0
    ) AS s
    WHERE o.start_s <= o.since_s
),
{PRICES},
account_spans AS (
    SELECT c.team_id, c.pool_id, c.account, c.tariff, {since_s} AS since_s, {until_s} AS until_s
    FROM (SELECT *, date_part('epoch', until_at)::bigint AS until_s FROM placed) AS c
    {_SPAN_BUCKETS if has_buckets else ""}
),
by_class AS (
    SELECT attempt_id, job_id, account, tariff, since_s, multiplier_ppm, start_s, end_s,
           c.class, c.mgpu
    FROM pieces
    CROSS JOIN LATERAL (
        VALUES (1, guaranteed_mgpu), (2, borrowed_mgpu), (3, unpaid_mgpu), (4, fault_mgpu)
    ) AS c (class, mgpu)
    WHERE c.mgpu > 0
),
cumulative AS (
    SELECT p.attempt_id, p.job_id, p.account, p.since_s, p.class, r.line_id,
           COALESCE(r.price_nano, CASE p.class WHEN 4 THEN 0 END) AS price_nano,
           COALESCE(r.mode, '{PriceMode.PAY_PER_USE}') AS mode, r.class_ppm,
           CASE WHEN {is_committed_sql("r.mode", "p.class")} THEN {PPM}
                ELSE p.multiplier_ppm END AS multiplier_ppm,
           r.price_nano IS NULL AND p.class < 4 AS is_unpriced,
           SUM(p.mgpu * GREATEST(
               0, LEAST(p.end_s, r.end_s, p.since_s) - GREATEST(p.start_s, r.start_s)
           )) FILTER (WHERE p.start_s < p.since_s) AS before_mgpu_s,
           SUM(p.mgpu * (LEAST(p.end_s, r.end_s) - GREATEST(p.start_s, r.start_s)))
               AS until_mgpu_s
    FROM by_class p
    LEFT JOIN prices r
      ON r.tariff = p.tariff AND r.class = p.class
     AND r.start_s < p.end_s AND r.end_s > p.start_s
    GROUP BY p.attempt_id, p.job_id, p.account, p.since_s, p.multiplier_ppm, p.class,
             r.line_id, r.price_nano, r.mode, r.class_ppm, r.start_s
),
{COMMITMENTS},
{TOP_UPS},
priced AS (
    SELECT attempt_id, job_id, account, since_s, class, line_id, price_nano, mode, class_ppm,
           multiplier_ppm, is_unpriced, before_mgpu_s, until_mgpu_s
    FROM cumulative
    UNION ALL
    SELECT NULL, NULL, account, since_s, 5, line_id, price_nano, '{PriceMode.COMMITMENT}',
           class_ppm, {PPM}, false, before_mgpu_s, until_mgpu_s
    FROM commitments
    UNION ALL
    SELECT attempt_id, job_id, account, since_s, 6, line_id, price_nano, mode, class_ppm,
           multiplier_ppm, false, NULL, mgpu_s
    FROM top_ups
),
shifted AS (
    SELECT *, {shifted_sql("until_mgpu_s", "price_nano * multiplier_ppm")} AS until_shifted,
           {shifted_sql("before_mgpu_s", "price_nano * multiplier_ppm")} AS before_shifted
    FROM priced
),
listed AS (
    SELECT *, until_mgpu_s - COALESCE(before_mgpu_s, 0) AS quantity_mgpu_s,
           COALESCE({cost_of_shifted_sql("until_shifted")}, 0)
           - COALESCE({cost_of_shifted_sql("before_shifted")}, 0) AS list_nano
    FROM shifted
),
rated AS (
    SELECT attempt_id, job_id, account, since_s, class, line_id, price_nano, mode, class_ppm,
           multiplier_ppm, is_unpriced, quantity_mgpu_s,
           CASE WHEN class > 4 THEN 0 ELSE quantity_mgpu_s END AS mgpu_s, list_nano,
           CASE WHEN mode = '{PriceMode.SHOWBACK}' OR {is_committed_sql("mode", "class")} THEN 0
                ELSE list_nano END AS cost_nano
    FROM listed
)
"""  # noqa: S608 - made of constants only


def jobs(condition: str = "") -> str:
    """Return the statement of the jobs behind a number, largest first.

    `condition` narrows the attempts (`a`). It returns those after (`after_mgpu_s`, `after_job`,
    `after_class`, `after_account`) of `classes` (as in `rated`), at most `limit`. Only these are
    priced. A job that ran in several accounts is listed once for each. Charges beside use are
    those of `extras`.
    """
    return f"""
WITH {ACCOUNTS},
used AS (
    SELECT a.job_id, p.account, SUM(held.guaranteed_mgpu * seconds) AS guaranteed_mgpu_s,
           SUM(held.borrowed_mgpu * seconds) AS borrowed_mgpu_s,
           SUM(held.unpaid_mgpu * seconds) AS unpaid_mgpu_s,
           SUM(held.fault_mgpu * seconds) AS fault_mgpu_s
    FROM billing_usagesegment s
    JOIN billing_meteredattempt a ON a.id = s.attempt_id
    JOIN placed p ON p.team_id = a.team_id AND p.pool_id = a.pool_id
        AND {_AT_PLACE.format(place="p")}
    CROSS JOIN LATERAL (
        SELECT {_SECONDS_AT_PLACE.format(place="p")} AS seconds
    ) AS length
    CROSS JOIN LATERAL (SELECT {_MGPU_BY_CLASS}) AS held
    WHERE {_USED_IN_PERIOD} AND {_ASKED} {condition}
    GROUP BY a.job_id, p.account
),
page AS MATERIALIZED (
    SELECT u.job_id, u.account, c.class, c.mgpu_s
    FROM used u
    CROSS JOIN LATERAL (
        VALUES (1, u.guaranteed_mgpu_s), (2, u.borrowed_mgpu_s), (3, u.unpaid_mgpu_s),
               (4, u.fault_mgpu_s)
    ) AS c (class, mgpu_s)
    WHERE c.mgpu_s > 0 AND c.class = ANY(%(classes)s)
      AND (%(after_mgpu_s)s::numeric IS NULL
           OR (-c.mgpu_s, u.job_id, c.class, u.account)
              > (-%(after_mgpu_s)s::numeric, %(after_job)s::uuid, %(after_class)s::integer,
                 %(after_account)s::integer))
    ORDER BY c.mgpu_s DESC, u.job_id, c.class, u.account
    LIMIT %(limit)s
),
{rated(f"AND a.job_id IN (SELECT job_id FROM page) {condition}")}
SELECT p.job_id, m.job_name, m.username, p.account, p.class, SUM(r.mgpu_s), SUM(r.cost_nano),
       (SELECT COUNT(DISTINCT o.attempt_id) FROM overlapping o
        WHERE o.job_id = p.job_id AND o.account = p.account
          AND CASE p.class WHEN 1 THEN o.guaranteed_mgpu WHEN 2 THEN o.borrowed_mgpu
                           WHEN 3 THEN o.unpaid_mgpu ELSE o.fault_mgpu END > 0),
       (SELECT ARRAY_AGG(DISTINCT o.fault) FROM overlapping o
        WHERE o.job_id = p.job_id AND o.account = p.account AND p.class = 4 AND o.fault <> '')
FROM page p
JOIN rated r ON r.job_id = p.job_id AND r.class = p.class AND r.account = p.account
CROSS JOIN LATERAL (
    SELECT a.job_name, u.username
    FROM billing_meteredattempt a JOIN tenants_user u ON u.id = a.user_id
    WHERE a.job_id = p.job_id ORDER BY a.number DESC LIMIT 1
) AS m
GROUP BY p.job_id, p.class, p.mgpu_s, m.job_name, m.username, p.account
ORDER BY p.mgpu_s DESC, p.job_id, p.class, p.account
"""  # noqa: S608 - made of constants only


def extras(condition: str = "") -> str:
    """Return the statement of the charges beside use behind a number, as rows of `jobs`.

    Commitments have no job and come first. It returns those after (`after_class`, `after_account`,
    `after_job`), at most `limit`.
    """
    return f"""
WITH {ACCOUNTS}, {rated(condition)},
page AS MATERIALIZED (
    SELECT job_id, account, class, SUM(cost_nano) AS cost_nano,
           COUNT(DISTINCT attempt_id) AS attempts
    FROM rated
    WHERE class IN ({_EXTRAS})
      AND class = ANY(%(classes)s) AND quantity_mgpu_s > 0
      AND (%(after_class)s::integer IS NULL
           OR (class, account, COALESCE(job_id, '{_NO_JOB}'::uuid))
              > (%(after_class)s::integer, %(after_account)s::integer,
                 COALESCE(%(after_job)s::uuid, '{_NO_JOB}'::uuid)))
    GROUP BY job_id, account, class
    ORDER BY class, account, job_id
    LIMIT %(limit)s
)
SELECT p.job_id, m.job_name, m.username, p.account, p.class, 0, p.cost_nano, p.attempts,
       NULL::text[]
FROM page p
LEFT JOIN LATERAL (
    SELECT a.job_name, u.username
    FROM billing_meteredattempt a JOIN tenants_user u ON u.id = a.user_id
    WHERE a.job_id = p.job_id ORDER BY a.number DESC LIMIT 1
) AS m ON true
ORDER BY p.class, p.account, p.job_id
"""  # noqa: S608 - made of constants only


#: The charges behind a report, one per attempt, account, usage class and price, sorted by account,
#: job and attempt. Use without a price has no line. The gaps of a tariff are one row. Commitments
#: have no attempt and come last in their account.
CHARGES = f"""
WITH {ACCOUNTS}, {rated()}
SELECT r.account, r.class, COALESCE(a.id::text, ''), COALESCE(a.job_id::text, ''),
       COALESCE(a.job_name, ''), COALESCE(a.number, 0), COALESCE(u.id::text, ''),
       COALESCE(u.username, ''), COALESCE(c.name, ''), COALESCE(a.priority_class, ''),
       r.multiplier_ppm, r.line_id::text, r.price_nano::bigint, SUM(r.mgpu_s)::bigint,
       SUM(r.cost_nano)::bigint, r.mode, r.class_ppm, SUM(r.quantity_mgpu_s)::bigint,
       SUM(r.list_nano)::bigint, COALESCE(f.reason, '')
FROM rated r
LEFT JOIN billing_meteredattempt a ON a.id = r.attempt_id
LEFT JOIN billing_meterevent f
       ON r.class = 4 AND f.attempt_id = r.attempt_id AND f.kind = 'fault'
LEFT JOIN tenants_user u ON u.id = a.user_id
LEFT JOIN clusters_cluster c ON c.id = a.cluster_id
WHERE r.quantity_mgpu_s > 0
GROUP BY r.account, r.class, a.id, u.id, c.id, r.line_id, r.price_nano, r.mode, r.class_ppm,
         r.multiplier_ppm, f.reason
ORDER BY r.account, a.job_id, a.number, r.class, r.line_id
"""  # noqa: S608 - made of constants only


#: Settings for the rest of a transaction. Memory for big sums, and no JIT: compiling such a plan
#: costs more than it saves. Attempts have ids in the order of their starts. So lookups by id mostly
#: find the same pages, and cost no more than a scan does per page.
PLANNED = (
    "SELECT set_config('work_mem', '96MB', true), set_config('jit', 'off', true),"
    " set_config('random_page_cost', '1.1', true)"
)


def rows_of(statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return all rows of one of the statements above, with enough memory for its sums.

    It ends after 30 s at the latest.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"{PLANNED}, set_config('statement_timeout', '30s', true)")
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())
