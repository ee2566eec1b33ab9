"""A report by groups as CSV: exact decimals, safe in a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from zoneinfo import ZoneInfo

from billing.models import ExtraCharge, RateLine, UsageClass
from chargeback.dimensions import NODES, PART, Dimension, node_label
from chargeback.reports import GroupedReport, GroupRow
from primitives.csv_text import csv_line, plain_text
from primitives.units import MGPU_S_PER_GPU_HOUR, NANO_PER_UNIT, div_half_even

#: The columns after those of the dimensions. New ones are added at the end.
COLUMNS = (
    "device",
    "currency",
    "guaranteed_gpu_hours",
    "borrowed_gpu_hours",
    "unpaid_gpu_hours",
    "fault_gpu_hours",
    "gpu_hours",
    "mgpu_seconds",
    "guaranteed_cost",
    "borrowed_cost",
    "unpaid_cost",
    "cost",
    "unpriced_mgpu_seconds",
    "jobs",
    "period_start",
    "period_end",
    "as_of",
    "time_zone",
    "priced_at",
    "commitment_cost",
    "top_up_cost",
    "showback_cost",
    "priced_after_the_fact",
)


def file_name(report: GroupedReport) -> str:
    """Return the name of the file. Hypothetical costs have the moment of their prices."""
    zone = ZoneInfo(report.time_zone)
    start, end = (
        f"{each.astimezone(zone):%Y%m%d}" for each in (report.period.start, report.period.end)
    )
    name = "-".join(["chargeback", *(["by", *report.by] if report.by else []), start, end])
    if report.priced_at is not None:
        name += f"-at-prices-of-{report.priced_at:%Y%m%dT%H%M%SZ}"
    return f"{name}.csv"


def csv_lines(report: GroupedReport) -> Iterator[str]:
    """Yield the header, then one line per row of the report, ended by CR LF.

    GPU-hours are rounded half to even at six decimals; `mgpu_seconds` and costs are exact. If
    `device` is cpu, both count cores. `cost` includes commitments and top-ups, not showback.
    `priced_after_the_fact` is "true" if a price of the row is one of the report's corrections.
    """
    zone = ZoneInfo(report.time_zone)
    period = report.period
    times = [each.astimezone(zone).isoformat() for each in (period.start, period.end, period.as_of)]
    priced_at = "" if report.priced_at is None else report.priced_at.isoformat()
    yield csv_line([*report.by, *COLUMNS])
    for row in report.rows:
        amounts = row.amounts
        is_late = any(_prices(line, report, row) for line in report.corrections)
        yield csv_line(
            [
                *map(plain_text, row.keys),
                row.device.value,
                row.currency or "",
                gpu_hours_text(amounts.guaranteed_mgpu_s),
                gpu_hours_text(amounts.borrowed_mgpu_s),
                gpu_hours_text(amounts.unpaid_mgpu_s),
                gpu_hours_text(amounts.fault_mgpu_s),
                gpu_hours_text(amounts.mgpu_s),
                str(amounts.mgpu_s),
                cost_text(amounts.guaranteed_cost_nano),
                cost_text(amounts.borrowed_cost_nano),
                cost_text(amounts.unpaid_cost_nano),
                cost_text(amounts.cost_nano),
                str(amounts.unpriced_mgpu_s),
                str(amounts.jobs),
                *times,
                report.time_zone,
                priced_at,
                cost_text(amounts.commitment_cost_nano),
                cost_text(amounts.top_up_cost_nano),
                cost_text(amounts.showback_nano),
                "true" if is_late else "false",
            ]
        )


def _prices(line: RateLine, report: GroupedReport, row: GroupRow) -> bool:
    """Return whether the price may apply to use of the row, as far as its names tell."""
    keys = dict(zip(report.by, row.keys, strict=True))
    slug = line.card.organization.slug
    paths = [keys[each].removesuffix(PART) for each in NODES if keys.get(each)]
    return (
        row.currency == line.card.currency
        and all(node_label(path, Dimension.ORGANIZATION) == slug for path in paths)
        and keys.get(Dimension.POOL, line.pool.name) == line.pool.name
        and keys.get(Dimension.USAGE_CLASS, line.usage_class) in _PRICED_BY[line.usage_class]
    )


# Unpaid use has the prices of borrowed use where it has none of its own.
_PRICED_BY = {
    UsageClass.GUARANTEED.value: (UsageClass.GUARANTEED, ExtraCharge.COMMITMENT),
    UsageClass.BORROWED.value: (UsageClass.BORROWED, UsageClass.UNPAID),
    UsageClass.UNPAID.value: (UsageClass.UNPAID,),
}


def gpu_hours_text(mgpu_s: int) -> str:
    """Return GPU-hours with six decimals: 3,600,000 mGPU-seconds are "1.000000"."""
    return f"{Decimal(div_half_even(mgpu_s * 1_000_000, MGPU_S_PER_GPU_HOUR)).scaleb(-6):f}"


def cost_text(cost_nano: int) -> str:
    """Return currency units with all nine decimals."""
    whole, rest = divmod(cost_nano, NANO_PER_UNIT)
    return f"{whole}.{rest:09d}"
