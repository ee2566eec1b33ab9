"""The chargeback report as CSV: stable columns, exact decimals, safe in a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

from billing.amounts import Amounts
from billing.chargeback import Report, Row
from billing.models import ExtraCharge, UsageClass
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
    "billed_mgpu_seconds",
    "showback_cost",
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

    Commitments and top-ups have lines of their own without usage. `billed_mgpu_seconds` are what
    the price multiplies, and `showback_cost` is not billed.

    `gpu_hours` are rounded half to even at six decimals, and `mgpu_seconds` are exact. If `device`
    is cpu, both count cores. Costs are exact. The rows of one device sum to the report's totals of
    that device, except for `jobs`: a job in several rows counts once in the report. `priced_at` is
    empty if costs are as charged. `priced_after_the_fact` is "true" if a price of the row's
    organization, pool and class is one of the report's corrections. For unpaid use, prices of
    borrowed use count, too.
    """
    corrected = {
        (line.card.organization_id, line.pool.name, usage_class)
        for line in report.corrections
        for usage_class in _CHARGED_BY.get(line.usage_class, (line.usage_class,))
    }
    yield csv_line(COLUMNS)
    for row in report.team_rows:
        for line in _lines_of(row.amounts):
            is_corrected = (row.node.organization_id, row.pool, line.priced_as) in corrected
            yield csv_line(_cells(report, row, line, is_corrected=is_corrected))


class _Line(NamedTuple):
    """A line of a row: a usage class, or a charge beside use, priced as a usage class."""

    charged: str
    priced_as: UsageClass | None
    mgpu_s: int = 0
    cost_nano: int = 0
    jobs: int = 0
    unpriced_mgpu_s: int = 0
    billed_mgpu_s: int = 0
    showback_nano: int = 0


def _lines_of(amounts: Amounts) -> Iterator[_Line]:
    """Yield the lines of a row that are not empty."""
    for usage_class in UsageClass:
        mgpu_s, cost_nano, unpriced_mgpu_s, jobs, showback_nano = amounts.of_class(usage_class)
        if mgpu_s:
            yield _Line(
                usage_class.value,
                usage_class,
                mgpu_s,
                cost_nano,
                jobs,
                unpriced_mgpu_s,
                billed_mgpu_s=mgpu_s,
                showback_nano=showback_nano,
            )
    if amounts.commitment_mgpu_s:
        yield _Line(
            ExtraCharge.COMMITMENT.value,
            UsageClass.GUARANTEED,
            cost_nano=amounts.commitment_cost_nano,
            billed_mgpu_s=amounts.commitment_mgpu_s,
        )
    if amounts.top_up_mgpu_s:
        yield _Line(
            ExtraCharge.TOP_UP.value,
            None,
            cost_nano=amounts.top_up_cost_nano,
            billed_mgpu_s=amounts.top_up_mgpu_s,
            showback_nano=amounts.showback_top_up_nano,
        )


def _cells(report: Report, row: Row, line: _Line, *, is_corrected: bool) -> tuple[str, ...]:
    steps = row.node.display_path.split("/")
    return (
        _time(report.period.start),
        _time(report.period.end),
        plain_text(steps[0]),
        plain_text("/".join(steps[1:-1])),
        plain_text(steps[-1]),
        plain_text(row.pool),
        line.charged,
        gpu_hours_text(line.mgpu_s),
        str(line.mgpu_s),
        cost_text(line.cost_nano),
        row.currency or "",
        str(line.jobs),
        str(line.unpriced_mgpu_s),
        _time(report.period.as_of),
        row.device.value,
        "" if report.priced_at is None else _time(report.priced_at),
        "true" if is_corrected else "false",
        str(line.billed_mgpu_s),
        cost_text(line.showback_nano),
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
