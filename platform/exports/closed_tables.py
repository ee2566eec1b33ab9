"""Charges of closed months as rows of a file. They never change, so the file never does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from itertools import chain, islice
from typing import Any, NamedTuple

from adjustments.models import Adjustment
from billing.models import ExtraCharge, PriceMode, UsageClass
from billing.rating import cost_nano
from exports.models import Export
from exports.tables import MICRO, Column, decimal, micro_hours, text, whole
from periods.charges import BATCH_ROWS, FrozenAdjustment, frozen_adjustments, frozen_charges
from periods.code_book import CodeBook, code_book
from periods.models import BillingPeriod, ChargeRow
from periods.statements import line_of_adjustment


class ClosedCharge(NamedTuple):
    """A charge of a closed month with the currency of its month, and its cost by all measures.

    An `adjustment` has a row that is not stored: it has a cost, and no use and no price.
    """

    row: ChargeRow
    device: str
    currency: str
    mgpu_s: int
    list_cost_nano: int
    contracted_cost_nano: int
    billed_cost_nano: int
    effective_cost_nano: int
    adjustment: Adjustment | None = None


def _used(value: Callable[[ChargeRow], Any]) -> Callable[[ClosedCharge], Any]:
    """Return the function for the cell, which is empty in rows of adjustments."""
    return lambda one: value(one.row) if one.adjustment is None else None


def _kind(one: ClosedCharge) -> str:
    if one.row.is_correction:
        return "correction"
    return "charge" if one.adjustment is None else "adjustment"


#: New columns are added at the end. `month` is the one that is billed, and `day` is of
#: `charged_month`; both differ in corrections only. Adjustments have no `number`.
CLOSED_COLUMNS: Sequence[Column] = (
    text("month", lambda one: f"{one.row.period.month:%Y-%m}"),
    whole("number", _used(lambda row: row.number)),
    text("kind", _kind),
    text("charged_month", lambda one: f"{one.row.month:%Y-%m}"),
    text("day", lambda one: one.row.day.isoformat()),
    text("team", lambda one: one.row.team_path),
    text("user", lambda one: one.row.username or None),
    text("cluster", lambda one: one.row.cluster or None),
    text("pool", lambda one: one.row.pool or None),
    text("device", lambda one: one.device),
    text("usage_class", lambda one: one.row.usage_class),
    text("non_billable_reason", lambda one: one.row.fault or None),
    text("priority_class", lambda one: one.row.priority_class or None),
    decimal("priority_multiplier", _used(lambda row: row.multiplier_ppm), MICRO),
    text("job_type", lambda one: one.row.job_type or None),
    decimal("gpu_hours", micro_hours, MICRO),
    whole("mgpu_seconds", lambda one: one.mgpu_s),
    text("rate_line", lambda one: str(one.row.rate_line_id) if one.row.rate_line_id else None),
    decimal("price_per_hour", lambda one: one.row.price_nano),
    decimal("cost", lambda one: one.billed_cost_nano),
    text("currency", lambda one: one.currency or None),
    whole("extra_mgpu_seconds", lambda one: one.row.extra_mgpu_s),
    text("price_mode", _used(lambda row: row.mode)),
    text("cost_centre", lambda one: one.row.cost_centre or None),
    text("project_code", lambda one: one.row.project_code or None),
    decimal("list_cost", lambda one: one.list_cost_nano),
    decimal("effective_cost", lambda one: one.effective_cost_nano),
    text("adjustment", lambda one: one.adjustment and str(one.adjustment.pk)),
    text("adjustment_reason", lambda one: one.adjustment and one.adjustment.reason),
)


def closed_month(export: Export) -> BillingPeriod | None:
    """Return the closed month that is the period of the export, or None."""
    return BillingPeriod.objects.filter(
        organization=export.organization_id, start=export.start, end=export.end
    ).first()


def closed_batches(export: Export) -> Iterator[Sequence[ClosedCharge]]:
    """Yield the frozen charges of an export's node, pool and period, at most 5,000 at once."""
    rows = chain(closed_charges(export), _adjustments(export))
    while batch := list(islice(rows, BATCH_ROWS)):
        yield batch


def closed_charges(export: Export) -> Iterator[ClosedCharge]:
    """Yield the frozen charges of an export's node, pool and period, without adjustments."""
    for row in frozen_charges(export.organization_id, export.start, export.end):
        if is_asked(export, row.team_path, row.pool):
            yield _charged(row)


def is_asked(export: Export, team_path: str, pool: str) -> bool:
    """Return whether the export has the charges of the team in the pool."""
    return f"{team_path}/".startswith(export.node_path) and export.pool in ("", pool)


def _adjustments(export: Export) -> Iterator[ClosedCharge]:
    book = code_book([export.organization_id], date.min, date.max)
    for one in frozen_adjustments(export.organization_id, export.start, export.end):
        found = _adjusted(one, book)
        if is_asked(export, found.row.team_path, found.row.pool):
            yield found


def _charged(row: ChargeRow) -> ClosedCharge:
    """Return a charge with its costs as in `billing.charges.Charge`.

    The cost of its quantity at its price is rounded once, and the billed cost once per attempt.
    """
    listed = 0
    if row.price_nano is not None:
        listed = cost_nano(
            row.mgpu_s + row.extra_mgpu_s,
            price_nano=row.price_nano,
            multiplier_ppm=row.multiplier_ppm,
        )
    effective = row.cost_nano
    if row.usage_class == ExtraCharge.COMMITMENT:
        effective = 0
    elif row.mode == PriceMode.COMMITMENT and row.usage_class == UsageClass.GUARANTEED:
        effective = listed
    costs = listed, listed, row.cost_nano, effective
    return ClosedCharge(row, row.device, row.period.currency, row.mgpu_s, *costs)


def _adjusted(one: FrozenAdjustment, book: CodeBook) -> ClosedCharge:
    """Return the row of an adjustment."""
    adjustment, costs = one.adjustment, (one.adjustment.amount_nano,) * 4
    line = line_of_adjustment(adjustment, one.period)
    row = ChargeRow(
        period=one.period,
        is_correction=line.is_correction,
        month=one.month,
        day=one.day,
        team_id=line.team_id,
        team_path=line.team_path,
        user_id=adjustment.user_id,
        username="" if adjustment.user is None else adjustment.user.username,
        pool=line.pool,
        device=line.device,
        usage_class=line.usage_class,
        mgpu_s=0,
        cost_nano=adjustment.amount_nano,
        **book.codes(line.team_path, one.month)._asdict(),
    )
    return ClosedCharge(row, row.device, one.period.currency, 0, *costs, adjustment)
