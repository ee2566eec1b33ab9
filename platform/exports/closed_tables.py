"""Charges of closed months as rows of a file. They never change, so the file never does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from exports.models import Export
from exports.tables import MICRO, Column, decimal, micro_hours, text, whole
from periods.charges import BATCH_ROWS, frozen_charges
from periods.models import ChargeRow


class ClosedCharge(NamedTuple):
    """A charge of a closed month with the currency of its month, and its cost by all measures."""

    row: ChargeRow
    device: str
    currency: str
    mgpu_s: int
    list_cost_nano: int
    contracted_cost_nano: int
    billed_cost_nano: int
    effective_cost_nano: int


#: New columns are added at the end. `month` is the one that is billed, and `day` is of
#: `charged_month`; both differ in corrections only.
CLOSED_COLUMNS: Sequence[Column] = (
    text("month", lambda one: f"{one.row.period.month:%Y-%m}"),
    whole("number", lambda one: one.row.number),
    text("kind", lambda one: "correction" if one.row.is_correction else "charge"),
    text("charged_month", lambda one: f"{one.row.month:%Y-%m}"),
    text("day", lambda one: one.row.day.isoformat()),
    text("team", lambda one: one.row.team_path),
    text("user", lambda one: one.row.username or None),
    text("cluster", lambda one: one.row.cluster or None),
    text("pool", lambda one: one.row.pool),
    text("device", lambda one: one.device),
    text("usage_class", lambda one: one.row.usage_class),
    text("non_billable_reason", lambda one: one.row.fault or None),
    text("priority_class", lambda one: one.row.priority_class or None),
    decimal("priority_multiplier", lambda one: one.row.multiplier_ppm, MICRO),
    text("job_type", lambda one: one.row.job_type or None),
    decimal("gpu_hours", micro_hours, MICRO),
    whole("mgpu_seconds", lambda one: one.mgpu_s),
    text("rate_line", lambda one: str(one.row.rate_line_id) if one.row.rate_line_id else None),
    decimal("price_per_hour", lambda one: one.row.price_nano),
    decimal("cost", lambda one: one.billed_cost_nano),
    text("currency", lambda one: one.currency or None),
    whole("extra_mgpu_seconds", lambda one: one.row.extra_mgpu_s),
    text("price_mode", lambda one: one.row.mode),
    text("cost_centre", lambda one: one.row.cost_centre or None),
    text("project_code", lambda one: one.row.project_code or None),
)


def closed_batches(export: Export) -> Iterator[Sequence[ClosedCharge]]:
    """Yield the frozen charges of an export's node, pool and period, at most 5,000 at once."""
    rows = _closed_charges(export)
    while batch := list(islice(rows, BATCH_ROWS)):
        yield batch


def _closed_charges(export: Export) -> Iterator[ClosedCharge]:
    for row in frozen_charges(export.organization_id, export.start, export.end):
        is_below = f"{row.team_path}/".startswith(export.node_path)
        if is_below and export.pool in ("", row.pool):
            costs = (row.cost_nano,) * 4
            yield ClosedCharge(row, row.device, row.period.currency, row.mgpu_s, *costs)
