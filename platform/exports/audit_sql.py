"""The SQL of DuckDB that computes use and cost of a month again. Times are epoch seconds."""

# Use before the period and until its end, per attempt, class and price; both are priced, and the
# difference is the cost. A remainder of more than a half is rounded up, and a half to the even one.
# Where no price of unpaid use applies, that of borrowed use does. The terms of a pool cut its
# prices: a pool without terms is pay-per-use. Commitments are priced like use, and top-ups once.
AUDIT = """
WITH classes AS (
    SELECT *, 'guaranteed' AS usage_class, guaranteed_mgpu AS mgpu FROM segments WHERE fault = ''
    UNION ALL
    SELECT *, 'borrowed', borrowed_mgpu - unpaid_mgpu FROM segments WHERE fault = ''
    UNION ALL
    SELECT *, 'unpaid', unpaid_mgpu FROM segments
    UNION ALL
    SELECT *, 'fault', guaranteed_mgpu + borrowed_mgpu FROM segments WHERE fault <> ''
),
use AS (
    SELECT attempt, pool, multiplier_ppm, start_s,
           LEAST(COALESCE(end_s, $until_s), $until_s) AS end_s, usage_class, mgpu
    FROM classes
    WHERE mgpu > 0 AND start_s < $until_s
),
lines AS (
    SELECT pool, usage_class, line, price_nano, start_s, COALESCE(end_s, $until_s) AS end_s
    FROM rates WHERE start_s < $until_s
),
gaps AS (
    SELECT pool, end_s AS start_s,
           LEAD(start_s, 1, $until_s) OVER (PARTITION BY pool ORDER BY start_s) AS end_s
    FROM (
        SELECT pool, start_s, end_s FROM lines WHERE usage_class = 'unpaid'
        UNION ALL
        SELECT DISTINCT pool, $begin_s, $begin_s FROM lines
    )
),
listed AS (
    SELECT pool, usage_class, line, price_nano, start_s, end_s FROM lines
    UNION ALL
    SELECT pool, 'unpaid', line, price_nano, GREATEST(lines.start_s, gaps.start_s),
           LEAST(lines.end_s, gaps.end_s)
    FROM lines JOIN gaps USING (pool)
    WHERE usage_class = 'borrowed'
      AND lines.start_s < gaps.end_s AND lines.end_s > gaps.start_s
),
stated AS (
    SELECT * REPLACE (COALESCE(end_s, $until_s) AS end_s) FROM terms WHERE start_s < $until_s
),
all_terms AS (
    SELECT * FROM stated
    UNION ALL
    SELECT pool, 'pay_per_use', 1000000, 1000000, 1000000, 0, 1, end_s,
           LEAD(start_s, 1, $until_s) OVER (PARTITION BY pool ORDER BY start_s)
    FROM (
        SELECT pool, start_s, end_s FROM stated
        UNION ALL
        SELECT DISTINCT pool, $begin_s, $begin_s FROM lines
    )
),
multiplied AS (
    SELECT listed.pool, usage_class, mode,
           listed.price_nano::HUGEINT * CASE usage_class WHEN 'guaranteed' THEN guaranteed_ppm
               WHEN 'borrowed' THEN borrowed_ppm ELSE unpaid_ppm END AS product,
           GREATEST(listed.start_s, all_terms.start_s) AS start_s,
           LEAST(listed.end_s, all_terms.end_s) AS end_s
    FROM listed JOIN all_terms
      ON all_terms.pool = listed.pool
     AND all_terms.start_s < listed.end_s AND all_terms.end_s > listed.start_s
),
prices AS (
    SELECT pool, usage_class, mode, start_s, end_s,
           product // 1000000 + CASE
               WHEN 2 * (product % 1000000) > 1000000 THEN 1
               WHEN 2 * (product % 1000000) = 1000000 THEN (product // 1000000) % 2
               ELSE 0 END AS price_nano,
           mode = 'pay_per_use' OR mode = 'commitment' AND usage_class <> 'guaranteed' AS is_billed
    FROM multiplied WHERE start_s < end_s
),
audited_use AS (
    SELECT pool, usage_class,
           SUM(mgpu * GREATEST(0, end_s - GREATEST(start_s, $since_s)))::HUGEINT AS mgpu_s
    FROM use GROUP BY pool, usage_class
),
numbered AS (
    SELECT *, row_number() OVER (PARTITION BY quota ORDER BY number) AS place,
           LEAD(at_s) OVER (PARTITION BY quota ORDER BY number) AS next_s
    FROM quota_changes
),
steps AS (
    SELECT quota, after_mgpu AS mgpu, at_s AS start_s, COALESCE(next_s, $until_s) AS end_s
    FROM numbered
    UNION ALL
    SELECT quota, before_mgpu, $begin_s, at_s FROM numbered
    WHERE place = 1 AND before_mgpu IS NOT NULL
    UNION ALL
    SELECT quota, guaranteed_mgpu, $begin_s, $until_s FROM quotas
    WHERE quota NOT IN (SELECT quota FROM quota_changes)
),
in_force AS (
    SELECT quota, end_s AS start_s,
           LEAD(start_s, 1, $until_s) OVER (PARTITION BY quota ORDER BY start_s) AS end_s
    FROM (
        SELECT quota, start_s, COALESCE(end_s, $until_s) AS end_s FROM archivings
        WHERE start_s < $until_s
        UNION ALL
        SELECT quota, $begin_s, $begin_s FROM quotas
    )
),
guarantees AS (
    SELECT quota, pool, mgpu, GREATEST(steps.start_s, in_force.start_s) AS start_s,
           LEAST(steps.end_s, in_force.end_s) AS end_s
    FROM steps JOIN quotas USING (quota) JOIN in_force USING (quota)
    WHERE steps.start_s < in_force.end_s AND steps.end_s > in_force.start_s
),
priced AS (
    SELECT attempt, use.pool, use.usage_class, multiplier_ppm, price_nano,
           prices.start_s AS priced_from_s,
           SUM(mgpu * (LEAST(use.end_s, prices.end_s)
                       - GREATEST(use.start_s, prices.start_s)))::HUGEINT AS until_mgpu_s,
           SUM(mgpu * GREATEST(0, LEAST(use.end_s, $since_s, prices.end_s)
                       - GREATEST(use.start_s, prices.start_s)))::HUGEINT AS before_mgpu_s
    FROM use JOIN prices
      ON prices.pool = use.pool AND prices.usage_class = use.usage_class
     AND prices.start_s < use.end_s AND prices.end_s > use.start_s
    WHERE is_billed
    GROUP BY ALL
    UNION ALL
    SELECT quota, guarantees.pool, 'commitment', 1000000, price_nano, prices.start_s,
           SUM(mgpu * GREATEST(0, LEAST(guarantees.end_s, prices.end_s)
                       - GREATEST(guarantees.start_s, prices.start_s)))::HUGEINT,
           SUM(mgpu * GREATEST(0, LEAST(guarantees.end_s, $since_s, prices.end_s)
                       - GREATEST(guarantees.start_s, prices.start_s)))::HUGEINT
    FROM guarantees JOIN prices
      ON prices.pool = guarantees.pool AND prices.usage_class = 'guaranteed'
     AND prices.mode = 'commitment'
    GROUP BY ALL
),
ended AS (
    SELECT attempt, pool, MAX(end_s) AS end_s, MAX(end_s) - MIN(start_s) AS seconds
    FROM segments GROUP BY attempt, pool
    HAVING bool_and(fault = '') AND bool_and(end_s IS NOT NULL)
       AND MAX(end_s) > $since_s AND MAX(end_s) <= $until_s
),
topped_up AS (
    SELECT ended.*, GREATEST(minimum_s, CEIL(seconds / increment_s)::BIGINT * increment_s)
                    - seconds AS missing_s
    FROM ended JOIN all_terms
      ON all_terms.pool = ended.pool
     AND all_terms.start_s <= ended.end_s - 1 AND ended.end_s - 1 < all_terms.end_s
),
products AS (
    SELECT pool, usage_class, side, amount::HUGEINT * price_nano * multiplier_ppm AS product
    FROM priced CROSS JOIN LATERAL (
        VALUES (1, until_mgpu_s), (-1, before_mgpu_s)
    ) AS sides (side, amount)
    UNION ALL
    SELECT topped_up.pool, 'top_up', 1,
           use.mgpu::HUGEINT * missing_s * price_nano * multiplier_ppm
    FROM topped_up
    JOIN use ON use.attempt = topped_up.attempt AND use.end_s = topped_up.end_s
    JOIN prices
      ON prices.pool = use.pool AND prices.usage_class = use.usage_class AND is_billed
     AND prices.start_s <= topped_up.end_s - 1 AND topped_up.end_s - 1 < prices.end_s
),
audited_cost AS (
    SELECT pool, usage_class,
           SUM(side * (product // 3600000000000 + CASE
               WHEN 2 * (product % 3600000000000) > 3600000000000 THEN 1
               WHEN 2 * (product % 3600000000000) = 3600000000000
                   THEN (product // 3600000000000) % 2
               ELSE 0 END))::HUGEINT AS nano
    FROM products GROUP BY pool, usage_class
),
charged AS (
    SELECT pool, usage_class, SUM(mgpu_seconds)::HUGEINT AS mgpu_s,
           (SUM(billed_cost) * 1000000000)::HUGEINT AS nano
    FROM charges GROUP BY pool, usage_class
)
SELECT pool, usage_class, COALESCE(charged.mgpu_s, 0), COALESCE(audited_use.mgpu_s, 0),
       COALESCE(charged.nano, 0), COALESCE(audited_cost.nano, 0)
FROM audited_use
FULL JOIN audited_cost USING (pool, usage_class)
FULL JOIN charged USING (pool, usage_class)
WHERE COALESCE(charged.mgpu_s, 0) <> 0 OR COALESCE(audited_use.mgpu_s, 0) <> 0
   OR COALESCE(charged.nano, 0) <> 0 OR COALESCE(audited_cost.nano, 0) <> 0
ORDER BY pool, usage_class
"""
