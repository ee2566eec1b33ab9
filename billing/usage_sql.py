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

from django.db import connection, transaction

from billing.models import ExtraCharge, PriceMode, UsageClass
from billing.price_sql import COMMITMENTS, PRICES, TOP_UPS, is_committed_sql
from billing.rating import cost_of_shifted_sql, shifted_sql
from primitives.units import PPM

#: account = team number * this + pool number, both from 1.
POOLS_MAX = 10_000
#: The usage classes and the charges beside use, by the numbers that the statements use for them.
CLASSES = {number: charged.value for number, charged in enumerate([*UsageClass, *ExtraCharge], 1)}

_IN_PERIOD = """
    s.start < %(until_at)s AND (s."end" > %(since_at)s OR s."end" IS NULL)
    AND %(since_at)s < %(until_at)s
"""


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

# Exact, and three times as fast as EXTRACT, which uses numeric. A double holds whole seconds up to
# 2 to the 53.
_SECONDS_IN_PERIOD = """
    date_part('epoch', LEAST(s."end", %(until_at)s) - GREATEST(s.start, %(since_at)s))::bigint
"""

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


# Parts of the report, by `part`:
# - row: usage and cost per account (from `rated`).
# - day: usage per UTC day and pool.
# - jobs: how many jobs of an organization (`day` is its place in `charged`, from 1) used the same
#   classes on the same kinds of devices. There is a bit for each: that of the class, shifted by the
#   pool's entry in `shifts`.
# - check: all usage of an organization (`day` as above), straight from the tables, without the
#   CTEs.
# - capacity of `capacity_pools`: healthy; used by other nodes than the report's, or by its teams
#   while they were elsewhere (`other_teams`, from `other_since` until `other_until`); the part of
#   that used by other organizations than `organizations`.
REPORT = f"""
WITH {ACCOUNTS}, {rated()},
amounts AS (
    SELECT account,
           SUM(mgpu_s) FILTER (WHERE class = 1) AS guaranteed_mgpu_s,
           SUM(mgpu_s) FILTER (WHERE class = 2) AS borrowed_mgpu_s,
           SUM(mgpu_s) FILTER (WHERE class = 3) AS unpaid_mgpu_s,
           SUM(mgpu_s) FILTER (WHERE class = 4) AS fault_mgpu_s,
           SUM(cost_nano) FILTER (WHERE class = 1) AS guaranteed_cost_nano,
           SUM(cost_nano) FILTER (WHERE class = 2) AS borrowed_cost_nano,
           SUM(cost_nano) FILTER (WHERE class = 3) AS unpaid_cost_nano,
           SUM(mgpu_s) FILTER (WHERE is_unpriced AND class = 1) AS unpriced_guaranteed_mgpu_s,
           SUM(mgpu_s) FILTER (WHERE is_unpriced AND class = 2) AS unpriced_borrowed_mgpu_s,
           SUM(mgpu_s) FILTER (WHERE is_unpriced AND class = 3) AS unpriced_unpaid_mgpu_s,
           SUM(quantity_mgpu_s) FILTER (WHERE class = 5) AS commitment_mgpu_s,
           SUM(cost_nano) FILTER (WHERE class = 5) AS commitment_cost_nano,
           SUM(quantity_mgpu_s) FILTER (WHERE class = 6) AS top_up_mgpu_s,
           SUM(cost_nano) FILTER (WHERE class = 6) AS top_up_cost_nano,
           SUM(list_nano) FILTER (WHERE is_shown AND class = 1) AS showback_guaranteed_nano,
           SUM(list_nano) FILTER (WHERE is_shown AND class = 2) AS showback_borrowed_nano,
           SUM(list_nano) FILTER (WHERE is_shown AND class = 3) AS showback_unpaid_nano,
           SUM(list_nano) FILTER (WHERE is_shown AND class = 6) AS showback_top_up_nano
    FROM (SELECT *, mode = '{PriceMode.SHOWBACK}' AS is_shown FROM rated) AS rated
    WHERE quantity_mgpu_s > 0 GROUP BY account
),
job AS (
    SELECT account, job_id,
           bit_or((guaranteed_mgpu > 0)::integer + 2 * (borrowed_mgpu > 0)::integer
                  + 4 * (unpaid_mgpu > 0)::integer + 8 * (fault_mgpu > 0)::integer) AS classes
    FROM overlapping WHERE account IS NOT NULL GROUP BY account, job_id
),
jobs AS (
    SELECT account, COUNT(*) AS jobs, COUNT(*) FILTER (WHERE classes & 1 > 0) AS guaranteed_jobs,
           COUNT(*) FILTER (WHERE classes & 2 > 0) AS borrowed_jobs,
           COUNT(*) FILTER (WHERE classes & 4 > 0) AS unpaid_jobs,
           COUNT(*) FILTER (WHERE classes & 8 > 0) AS fault_jobs
    FROM job GROUP BY account
),
jobs_anywhere AS (
    SELECT organization_id, used, COUNT(*) AS jobs
    FROM (
        SELECT c.organization_id,
               bit_or(classes << (%(shifts)s::integer[])[account %% {POOLS_MAX}]) AS used
        FROM job JOIN accounts c USING (account) GROUP BY c.organization_id, job_id
    ) AS anywhere
    GROUP BY organization_id, used
),
held AS NOT MATERIALIZED (
    SELECT account, guaranteed_mgpu, borrowed_mgpu, unpaid_mgpu, fault_mgpu,
           GREATEST(start_s, since_s) AS start_s, end_s,
           GREATEST(start_s, since_s) / 86400 AS first_day
    FROM overlapping
    WHERE account IS NOT NULL
),
held_days AS (
    SELECT account, guaranteed_mgpu, borrowed_mgpu, unpaid_mgpu, fault_mgpu, first_day AS day,
           LEAST(end_s, (first_day + 1) * 86400) - start_s AS seconds
    FROM held
    UNION ALL
    SELECT account, guaranteed_mgpu, borrowed_mgpu, unpaid_mgpu, fault_mgpu, day,
           LEAST(end_s, (day + 1) * 86400) - day * 86400
    FROM held, generate_series(first_day + 1, (end_s - 1) / 86400) AS day
    WHERE end_s > (first_day + 1) * 86400
),
days AS (
    SELECT account, day, SUM(guaranteed_mgpu * seconds) AS guaranteed_mgpu_s,
           SUM(borrowed_mgpu * seconds) AS borrowed_mgpu_s,
           SUM(unpaid_mgpu * seconds) AS unpaid_mgpu_s,
           SUM(fault_mgpu * seconds) AS fault_mgpu_s
    FROM held_days GROUP BY account, day
),
elsewhere AS (
    SELECT a.pool_id, a.organization_id = ANY(%(organizations)s) AS is_own,
           SUM((s.guaranteed_mgpu + s.borrowed_mgpu) * {_SECONDS_IN_PERIOD}) AS mgpu_s
    FROM billing_usagesegment s
    JOIN billing_meteredattempt a ON a.id = s.attempt_id
    WHERE {_USED_IN_PERIOD}
      AND a.pool_id = ANY(%(capacity_pools)s) AND NOT a.team_id = ANY(%(teams)s)
    GROUP BY a.pool_id, a.organization_id = ANY(%(organizations)s)
    UNION ALL
    SELECT a.pool_id, a.organization_id = ANY(%(organizations)s),
           SUM((s.guaranteed_mgpu + s.borrowed_mgpu) * {_SECONDS_AT_PLACE.format(place="l")})
    FROM unnest(%(other_teams)s::uuid[], %(other_since)s::timestamptz[],
                %(other_until)s::timestamptz[]) AS l (team_id, since_at, until_at)
    JOIN billing_meteredattempt a ON a.team_id = l.team_id
    JOIN billing_usagesegment s ON s.attempt_id = a.id AND {_AT_PLACE.format(place="l")}
    WHERE a.pool_id = ANY(%(capacity_pools)s)
    GROUP BY a.pool_id, a.organization_id = ANY(%(organizations)s)
),
capacity AS (
    SELECT s.pool_id,
           SUM(s.capacity_mgpu * {_SECONDS_IN_PERIOD}) AS mgpu_s,
           SUM(s.outside_mgpu * {_SECONDS_IN_PERIOD}) AS outside_mgpu_s
    FROM clusters_capacitysegment s
    WHERE {_IN_PERIOD} AND s.pool_id = ANY(%(capacity_pools)s)
    GROUP BY s.pool_id
)
SELECT 'row' AS part, account AS key, NULL::bigint AS day,
       COALESCE(guaranteed_mgpu_s, 0), COALESCE(borrowed_mgpu_s, 0),
       COALESCE(unpaid_mgpu_s, 0), COALESCE(fault_mgpu_s, 0),
       COALESCE(guaranteed_cost_nano, 0), COALESCE(borrowed_cost_nano, 0),
       COALESCE(unpaid_cost_nano, 0),
       COALESCE(unpriced_guaranteed_mgpu_s, 0), COALESCE(unpriced_borrowed_mgpu_s, 0),
       COALESCE(unpriced_unpaid_mgpu_s, 0),
       COALESCE(jobs, 0), COALESCE(guaranteed_jobs, 0), COALESCE(borrowed_jobs, 0),
       COALESCE(unpaid_jobs, 0), COALESCE(fault_jobs, 0),
       COALESCE(commitment_mgpu_s, 0), COALESCE(commitment_cost_nano, 0),
       COALESCE(top_up_mgpu_s, 0), COALESCE(top_up_cost_nano, 0),
       COALESCE(showback_guaranteed_nano, 0), COALESCE(showback_borrowed_nano, 0),
       COALESCE(showback_unpaid_nano, 0), COALESCE(showback_top_up_nano, 0)
FROM amounts LEFT JOIN jobs USING (account)
UNION ALL
SELECT 'jobs', used, array_position(%(charged)s::uuid[], organization_id),
       jobs, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM jobs_anywhere
UNION ALL
SELECT 'day', account %% {POOLS_MAX}, day, SUM(guaranteed_mgpu_s), SUM(borrowed_mgpu_s),
       SUM(unpaid_mgpu_s), SUM(fault_mgpu_s), 0, 0, 0, 0, 0, 0,
       0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM days GROUP BY account %% {POOLS_MAX}, day
UNION ALL
SELECT 'check', NULL, array_position(%(charged)s::uuid[], organization_id), mgpu_s,
       0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM ({metered()}) AS metered
UNION ALL
SELECT 'capacity', p.number, NULL,
       COALESCE((SELECT c.mgpu_s FROM capacity c WHERE c.pool_id = p.id), 0),
       COALESCE((SELECT SUM(e.mgpu_s) FROM elsewhere e WHERE e.pool_id = p.id), 0),
       COALESCE((SELECT SUM(e.mgpu_s) FROM elsewhere e WHERE e.pool_id = p.id AND NOT e.is_own), 0),
       COALESCE((SELECT c.outside_mgpu_s FROM capacity c WHERE c.pool_id = p.id), 0),
       0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM unnest(%(pools)s::uuid[]) WITH ORDINALITY AS p (id, number)
WHERE p.id = ANY(%(capacity_pools)s)
"""  # noqa: S608 - made of constants only


def jobs(condition: str = "") -> str:
    """Return the statement of the jobs behind a number, largest first.

    `condition` narrows the attempts (`a`). It returns those after (`after_mgpu_s`, `after_job`,
    `after_class`, `after_account`) of `classes` (as in `rated`), at most `limit`. Only these are
    priced. A job that ran in several accounts is listed once for each.
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
