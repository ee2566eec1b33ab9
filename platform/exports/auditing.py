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
from exports.audit_sql import AUDIT
from exports.raw_use import RAW_TABLES, write_raw_use
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

    Or of a charge beside use, such as a commitment: its use is 0.

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
        for name in (*RAW_TABLES, "charges"):
            database.read_parquet(str(folder / f"{name}.parquet")).create_view(name)
        found = database.execute(
            AUDIT, {"begin_s": _BEGIN_S, "since_s": since_s, "until_s": until_s}
        ).fetchall()
    return [AuditedLine(organization, *row) for row in found]
