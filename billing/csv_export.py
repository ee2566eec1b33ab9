"""The chargeback report as CSV: stable columns, exact decimals, safe in a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal

from billing.chargeback import Report
from billing.models import UsageClass
from primitives.units import MGPU_S_PER_GPU_HOUR, NANO_PER_UNIT, div_half_even
from webapi.csv_text import csv_line, plain_text

#: New columns are added at the end. A column never changes its meaning.
COLUMNS = (
    "period_start",
    "period_end",
    "organization",
    "department",
    "team",
    "pool",
    "usage_class",
    "gpu_hours",
    "mgpu_seconds",
    "cost",
    "currency",
    "jobs",
    "unpriced_mgpu_seconds",
    "as_of",
    "device",
    "priced_at",
    "priced_after_the_fact",
)

#: The classes that prices of a class charge, where these are several.
_CHARGED_BY: Mapping[str, tuple[str, ...]] = {
    UsageClass.BORROWED: (UsageClass.BORROWED, UsageClass.UNPAID)
}


def file_name(report: Report) -> str:
    """Return the name of the report's file. Hypothetical costs have the moment of their prices."""
    dates = f"{report.period.start:%Y%m%d}-{report.period.end:%Y%m%d}"
    if report.priced_at is None:
        return f"chargeback-{dates}.csv"
    return f"chargeback-{dates}-at-prices-of-{report.priced_at.astimezone(UTC):%Y%m%dT%H%M%SZ}.csv"


def csv_lines(report: Report) -> Iterator[str]:
    """Yield the header, then one line per team, pool and usage class with usage, ended by CR LF.

    `gpu_hours` are rounded half to even at six decimals, and `mgpu_seconds` are exact. If `device`
    is cpu, both count cores. Costs are exact. The rows of one device sum to the report's totals of
    that device, except for `jobs`: a job in several rows counts once in the report. `priced_at` is
    empty if costs are as charged. `priced_after_the_fact` is "true" if a price of the row's
    organization, pool and class is one of the report's corrections. For unpaid use, prices of
    borrowed use count, too.
    """
    priced_at = "" if report.priced_at is None else _time(report.priced_at)
    corrected = {
        (line.card.organization_id, line.pool.name, usage_class)
        for line in report.corrections
        for usage_class in _CHARGED_BY.get(line.usage_class, (line.usage_class,))
    }
    yield csv_line(COLUMNS)
    for row in report.team_rows:
        amounts = row.amounts
        steps = row.node.display_path.split("/")
        for usage_class in UsageClass:
            mgpu_s, cost_nano, unpriced_mgpu_s, jobs = amounts.of_class(usage_class)
            if mgpu_s == 0:
                continue
            yield csv_line(
                (
                    _time(report.period.start),
                    _time(report.period.end),
                    plain_text(steps[0]),
                    plain_text("/".join(steps[1:-1])),
                    plain_text(steps[-1]),
                    plain_text(row.pool),
                    usage_class.value,
                    gpu_hours_text(mgpu_s),
                    str(mgpu_s),
                    cost_text(cost_nano),
                    row.currency or "",
                    str(jobs),
                    str(unpriced_mgpu_s),
                    _time(report.period.as_of),
                    row.device.value,
                    priced_at,
                    "true"
                    if (row.node.organization_id, row.pool, usage_class) in corrected
                    else "false",
                )
            )


def gpu_hours_text(mgpu_s: int) -> str:
    """Return GPU-hours with six decimals: 3,600,000 mGPU-seconds are "1.000000"."""
    return f"{Decimal(div_half_even(mgpu_s * 1_000_000, MGPU_S_PER_GPU_HOUR)).scaleb(-6):f}"


def cost_text(cost_nano: int) -> str:
    """Return currency units with all nine decimals."""
    whole, rest = divmod(cost_nano, NANO_PER_UNIT)
    return f"{whole}.{rest:09d}"


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
