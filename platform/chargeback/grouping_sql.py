"""The statement of a grouped report. It reads one snapshot, so its parts agree.

Rows have numbers instead of names: a team and a pool are those of `billing.usage_sql`, and arrays
say which organization, currency, device or node each of them belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence

from billing.models import PRICED_CLASSES, ExtraCharge, PriceMode, UsageClass
from billing.usage_sql import ACCOUNTS, CLASSES, MGPU_BY_CLASS, POOLS_MAX, metered, rated
from chargeback.dimensions import TIMES, UNKNOWN, Dimension

#: Columns of `billing.meteredattempt`, which need a join. A commitment has none of them.
_OF_ATTEMPTS = {
    Dimension.USER: "COALESCE(a.user_id::text, '')",
    Dimension.CLUSTER: "COALESCE(a.cluster_id::text, '')",
    Dimension.PRIORITY_CLASS: "COALESCE(a.priority_class, '')",
    Dimension.JOB_TYPE: (
        f"CASE a.job_type WHEN '' THEN '{UNKNOWN}' ELSE COALESCE(a.job_type, '') END"
    ),
}


def nodes_parameter(dimension: Dimension) -> str:
    """Return the name of the parameter with the number of each team's row."""
    return f"{dimension}_of_teams"


def _key(dimension: Dimension | None) -> str:
    if dimension is None:
        return "''"
    if dimension in _OF_ATTEMPTS:
        return _OF_ATTEMPTS[dimension]
    if dimension in TIMES:
        return "width_bucket(r.since_s, %(buckets)s::bigint[])::text"
    if dimension is Dimension.POOL:
        return f"(r.account %% {POOLS_MAX})::text"
    if dimension is Dimension.USAGE_CLASS:
        return "r.class::text"
    return f"(%({nodes_parameter(dimension)})s::integer[])[r.account / {POOLS_MAX}]::text"


def _sum(value: str, condition: str) -> str:
    return f"COALESCE(SUM({value}) FILTER (WHERE {condition}), 0)"


_CLASSES = {number: usage_class.value for number, usage_class in enumerate(UsageClass, 1)}
_PRICED = {number: name for number, name in _CLASSES.items() if name in PRICED_CLASSES}
_AMOUNTS = {
    **{f"{name}_mgpu_s": _sum("mgpu_s", f"class = {n}") for n, name in _CLASSES.items()},
    **{f"{name}_cost_nano": _sum("cost_nano", f"class = {n}") for n, name in _PRICED.items()},
    **{
        f"unpriced_{name}_mgpu_s": _sum("mgpu_s", f"is_unpriced AND class = {n}")
        for n, name in _PRICED.items()
    },
}
_NUMBERS = {name: number for number, name in CLASSES.items()}
_SHOWN = f"mode = '{PriceMode.SHOWBACK}' AND class"
# The charges beside use, and what showback shows. They follow the numbers of jobs in `Amounts`.
_EXTRAS = {
    **{
        f"{name}_{amount}": _sum(column, f"class = {_NUMBERS[name]}")
        for name in ExtraCharge.values
        for amount, column in (("mgpu_s", "quantity_mgpu_s"), ("cost_nano", "cost_nano"))
    },
    **{
        f"showback_{name}_nano": _sum("list_nano", f"{_SHOWN} = {_NUMBERS[name]}")
        for name in (*PRICED_CLASSES, ExtraCharge.TOP_UP.value)
    },
}
# A bit for each usage class of the row.
_BITS = f"CASE WHEN class <= {len(_CLASSES)} THEN 1 << class - 1 ELSE 0 END"
#: The number of the columns of each part.
_COLUMNS = 5 + len(_AMOUNTS) + 1 + len(_CLASSES) + len(_EXTRAS)


def _jobs_of(number: int) -> str:
    return f"COUNT(*) FILTER (WHERE bits & {1 << number - 1} > 0)"


def statement(
    by: Sequence[Dimension], usage_class: UsageClass | ExtraCharge | None, condition: str
) -> str:
    """Return the statement for at most two dimensions.

    `condition` narrows the attempts (`a`). Its parts, by the first column:

    - row: both keys, the number of the currency and of the device, and the `Amounts`.
    - jobs: the number of an organization, a set of bits of `billing.amounts.total_of`, and how many
      jobs it counts.
    - check: the number of an organization, and its use straight from the segments.
    """
    first, second = (*by, None, None)[:2]
    needs_attempts = any(dimension in _OF_ATTEMPTS for dimension in by)
    counted = metered(condition=condition)
    if usage_class is not None:
        # Charges beside use are of no segment.
        mgpu = "0" if isinstance(usage_class, ExtraCharge) else MGPU_BY_CLASS[usage_class]
        counted = metered(mgpu, condition)
    nothing = ", 0" * (_COLUMNS - 6)
    return f"""
WITH {ACCOUNTS}, {rated(condition, has_buckets=any(dimension in TIMES for dimension in by))},
charged AS MATERIALIZED (
    SELECT {_key(first)} COLLATE "C" AS first, {_key(second)} COLLATE "C" AS second,
           (%(organization_numbers)s::integer[])[r.account / {POOLS_MAX}] AS organization,
           (%(device_numbers)s::integer[])[r.account %% {POOLS_MAX}] AS device, r.job_id, r.class,
           r.mode, r.is_unpriced, r.mgpu_s, r.quantity_mgpu_s, r.list_nano, r.cost_nano
    FROM rated r
    {"LEFT JOIN billing_meteredattempt a ON a.id = r.attempt_id" if needs_attempts else ""}
    WHERE r.class = ANY(%(classes)s) AND r.quantity_mgpu_s > 0
),
used AS MATERIALIZED (
    SELECT first, second, organization, device, job_id, bit_or({_BITS}) AS bits
    FROM charged GROUP BY first, second, organization, device, job_id
),
amounts AS (
    SELECT first, second, (%(currency_numbers)s::integer[])[organization] AS currency, device,
           {", ".join(f"{value} AS {name}" for name, value in {**_AMOUNTS, **_EXTRAS}.items())}
    FROM charged GROUP BY 1, 2, 3, 4
),
jobs AS (
    SELECT first, second, (%(currency_numbers)s::integer[])[organization] AS currency, device,
           COUNT(job_id) AS jobs,
           {", ".join(f"{_jobs_of(n)} AS {name}_jobs" for n, name in _CLASSES.items())}
    FROM used GROUP BY 1, 2, 3, 4
)
(
    SELECT 'row' AS part, first, second, currency, device, {", ".join(_AMOUNTS)}, jobs,
           {", ".join(f"{name}_jobs" for name in _CLASSES.values())}, {", ".join(_EXTRAS)}
    FROM amounts JOIN jobs USING (first, second, currency, device)
    LIMIT %(rows_max)s
)
UNION ALL
SELECT 'jobs', NULL, NULL, organization, bits, COUNT(*){nothing}
FROM (
    SELECT organization, job_id, bit_or(bits << (%(shifts)s::integer[])[device]) AS bits
    FROM used GROUP BY organization, job_id
) AS job
GROUP BY organization, bits
UNION ALL
SELECT 'check', NULL, NULL, array_position(%(charged)s::uuid[], organization_id), NULL,
       mgpu_s{nothing}
FROM ({counted}) AS metered
"""  # noqa: S608 - made of constants only
