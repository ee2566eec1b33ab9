"""The audit of a month: DuckDB computes use and cost again, from raw use and prices.

It shares no SQL and no arithmetic with the billing: another database, and another way to round half
to even. It compares with the file of charges that finance gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from django.db import connection, transaction

from bank.settling import zone_of
from bank.statements import month_of
from billing.charges import charges_of
from billing.periods import Period
from exports.raw_use import write_raw_use
from exports.tables import CHARGE_COLUMNS
from exports.writers import ParquetWriter
from tenants.access import PLATFORM, Actor
from tenants.models import Node, NodeKind, User
from tenants.roles import Role

_MEMORY_LIMIT = "512MB"
#: Before every price, in epoch seconds.
_BEGIN_S = -(1 << 40)


@dataclass(frozen=True, slots=True)
class AuditedLine:
    """Use in milli-GPU-seconds and cost in nano-currency of a pool and usage class.

    `charged` is of the file of charges, and `audited` is of DuckDB.
    """

    organization: str
    pool: str
    usage_class: str
    charged_mgpu_s: int
    audited_mgpu_s: int
    charged_nano: int
    audited_nano: int

    @property
    def is_equal(self) -> bool:
        """Return whether use and cost agree to the unit."""
        return (self.charged_mgpu_s, self.charged_nano) == (
            self.audited_mgpu_s,
            self.audited_nano,
        )


def audit_month(year: int, month: int, *, now: datetime) -> list[AuditedLine]:
    """Audit a month of each organization, in its time zone. Running jobs count until `now`.

    Returns a line for each organization, pool and usage class with use. All files are temporary.
    Each organization is read in one snapshot.
    """
    return [
        line
        for organization in Node.objects.filter(kind=NodeKind.ORGANIZATION).order_by("path")
        for line in audit_organization(organization, year, month, now=now)
    ]


def audit_organization(
    organization: Node, year: int, month: int, *, now: datetime
) -> Sequence[AuditedLine]:
    """Audit a month of one organization. A month that has not begun has no lines."""
    start, end = month_of(year, month, zone_of(organization.pk))
    period = Period(start, end, now)
    if period.until <= start:
        return ()
    with TemporaryDirectory(prefix="tidegate-audit-") as folder:
        _write(Path(folder), organization, period)
        return _compared(Path(folder), organization.slug, period)


def _write(folder: Path, organization: Node, period: Period) -> None:
    # The audit reads everything, on behalf of nobody.
    actor = Actor(user=User(), grants=((Role.PLATFORM_ADMIN, PLATFORM),))
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        write_raw_use(folder, organization=organization.pk, since=period.start, until=period.until)
        with ParquetWriter(folder / "charges.parquet", CHARGE_COLUMNS) as writer:
            for batch in charges_of(actor=actor, period=period, node_path=organization.slug):
                writer.write(batch.rows)


def _compared(folder: Path, organization: str, period: Period) -> Sequence[AuditedLine]:
    since_s, until_s = (int(one.timestamp()) for one in (period.start, period.until))
    with duckdb.connect(config={"memory_limit": _MEMORY_LIMIT, "threads": 2}) as database:
        for name in ("segments", "rates", "charges"):
            database.read_parquet(str(folder / f"{name}.parquet")).create_view(name)
        found = database.execute(
            _AUDIT, {"begin_s": _BEGIN_S, "since_s": since_s, "until_s": until_s}
        ).fetchall()
    return [AuditedLine(organization, *row) for row in found]


# Use before the period and until its end, per attempt, class and price; both are priced, and the
# difference is the cost. A remainder of more than a half is rounded up, and a half to the even one.
# Where no price of unpaid use applies, that of borrowed use does.
_AUDIT = """
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
prices AS (
    SELECT pool, usage_class, line, price_nano, start_s, end_s FROM lines
    UNION ALL
    SELECT pool, 'unpaid', line, price_nano, GREATEST(lines.start_s, gaps.start_s),
           LEAST(lines.end_s, gaps.end_s)
    FROM lines JOIN gaps USING (pool)
    WHERE usage_class = 'borrowed'
      AND lines.start_s < gaps.end_s AND lines.end_s > gaps.start_s
),
audited_use AS (
    SELECT pool, usage_class,
           SUM(mgpu * GREATEST(0, end_s - GREATEST(start_s, $since_s)))::HUGEINT AS mgpu_s
    FROM use GROUP BY pool, usage_class
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
    GROUP BY ALL
),
products AS (
    SELECT pool, usage_class, side, amount::HUGEINT * price_nano * multiplier_ppm AS product
    FROM priced CROSS JOIN LATERAL (
        VALUES (1, until_mgpu_s), (-1, before_mgpu_s)
    ) AS sides (side, amount)
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
ORDER BY pool, usage_class
"""
