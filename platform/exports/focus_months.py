"""Rows of Cost and Usage of a month: the frozen charges of a closed one, and adjustments of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import islice
from uuid import UUID
from zoneinfo import ZoneInfo

from adjustments.adjusting import adjustments_in
from adjustments.disputed_charges import adjusted_path
from adjustments.models import Adjustment
from bank.settling import zone_of
from billing.charges import Charge
from billing.models import PriceMode, RateCard
from exports.closed_tables import ClosedCharge, closed_charges, is_asked
from exports.commitments import Commitments
from exports.focus_rows import FocusRow, FocusRows, category_of, row_of
from exports.models import Export
from periods.charges import BATCH_ROWS, adjusted_day
from periods.code_book import CodeBook, Codes, code_book
from periods.models import BillingPeriod
from periods.statement_models import StatementKind, StatementLine
from periods.statements import LineKey
from primitives.days import midnight, next_month
from primitives.units import PPM, DeviceKind

#: The numbers of a statement and its line, by the key of the line or the id of its adjustment.
Invoices = Mapping[LineKey | UUID, tuple[str, str]]


def closed_focus_batches(export: Export, period: BillingPeriod) -> Iterator[Sequence[FocusRow]]:
    """Yield the frozen charges and adjustments of a closed month, at most 5,000 at once.

    They have the numbers of the statements that bill them at `as_of`.
    """
    rows = _closed_rows(export, period)
    while batch := list(islice(rows, BATCH_ROWS)):
        yield batch


def _closed_rows(export: Export, period: BillingPeriod) -> Iterator[FocusRow]:
    invoices = _invoices(export, period)
    focus = FocusRows(Commitments(export.organization_id, period.closed_at))
    yield from focus.of(_frozen_rows(export, period, invoices))
    yield from focus.rest()
    book = _codes(export)
    for adjustment in adjustments_in(export.organization_id, period.month):
        row = _adjusted(adjustment, export, ZoneInfo(period.time_zone), period.currency, book)
        if row is not None:
            yield row._replace(invoice=invoices.get(adjustment.pk))


def adjustment_rows(export: Export) -> Iterator[FocusRow]:
    """Yield the adjustments of an open month until `as_of`."""
    zone = zone_of(export.organization_id)
    card = RateCard.objects.filter(organization=export.organization_id).first()
    currency = None if card is None else card.currency
    month = export.start.astimezone(zone).date()
    book = _codes(export)
    for adjustment in adjustments_in(export.organization_id, month):
        if adjustment.effective_at < export.as_of:
            row = _adjusted(adjustment, export, zone, currency, book)
            if row is not None:
                yield row


def _codes(export: Export) -> CodeBook:
    """Return the accounting codes of all months: adjustments may be about any earlier one."""
    return code_book([export.organization_id], date.min, date.max)


def _invoices(export: Export, period: BillingPeriod) -> Invoices:
    """Return the statement and the line that bill each use and adjustment of a month."""
    billed = StatementLine.objects.filter(
        statement__period=period,
        statement__kind=StatementKind.STATEMENT,
        statement__issued_at__lte=export.as_of,
    ).exclude(statement__credit_note__issued_at__lte=export.as_of)
    return {
        line.adjustment_id or LineKey(*(getattr(line, name) for name in LineKey._fields)): (
            line.statement.number,
            str(line.number),
        )
        for line in billed.select_related("statement")
    }


def _frozen_rows(export: Export, period: BillingPeriod, invoices: Invoices) -> Iterator[FocusRow]:
    zone = ZoneInfo(period.time_zone)
    for one in closed_charges(export):
        row = row_of(_charge(one, export, zone))
        key = LineKey(*(getattr(one.row, name) for name in LineKey._fields[:-1]))
        yield row._replace(
            is_correction=one.row.is_correction,
            codes=Codes(one.row.cost_centre, one.row.project_code),
            # Showback is on no statement, and a line may have the same key.
            invoice=None if one.row.mode == PriceMode.SHOWBACK else invoices.get(key),
        )


def _charge(one: ClosedCharge, export: Export, zone: ZoneInfo) -> Charge:
    row = one.row
    start, end = _day(row.day, zone)
    organization, department = _places(row.team_path)
    return Charge(
        start=start,
        end=end,
        organization=organization,
        department=department,
        team=row.team_path,
        user_id="" if row.user_id is None else str(row.user_id),
        user=row.username,
        cluster=row.cluster,
        pool=row.pool,
        device=row.device,
        usage_class=row.usage_class,
        priority_class=row.priority_class,
        multiplier_ppm=row.multiplier_ppm,
        job_id="",
        job_name="",
        attempt_id="",
        attempt=0,
        mgpu_s=row.mgpu_s,
        rate_line=None if row.rate_line_id is None else str(row.rate_line_id),
        price_nano=row.price_nano,
        list_cost_nano=one.list_cost_nano,
        contracted_cost_nano=one.contracted_cost_nano,
        billed_cost_nano=one.billed_cost_nano,
        effective_cost_nano=one.effective_cost_nano,
        currency=one.currency or None,
        mode=row.mode,
        class_multiplier_ppm=None,
        priced_mgpu_s=row.mgpu_s + row.extra_mgpu_s,
        fault=row.fault,
    )


def _adjusted(
    adjustment: Adjustment,
    export: Export,
    zone: ZoneInfo,
    currency: str | None,
    book: CodeBook,
) -> FocusRow | None:
    """Return the row of an adjustment. None if the export does not ask for its team and pool."""
    path = adjusted_path(adjustment, zone)
    pool = adjustment.pool
    if not is_asked(export, path, "" if pool is None else pool.name):
        return None
    day = adjusted_day(adjustment, zone)
    start, end = _day(day, zone)
    if adjustment.is_correction:
        end = midnight(next_month(day), zone)
    organization, department = _places(path)
    amount_nano, user = adjustment.amount_nano, adjustment.user
    charge = Charge(
        start=start,
        end=end,
        organization=organization,
        department=department,
        team=path,
        user_id="" if user is None else str(user.pk),
        user="" if user is None else user.username,
        cluster="",
        pool="" if pool is None else pool.name,
        device=DeviceKind.GPU.value if pool is None else pool.kind.value,
        usage_class="adjustment" if adjustment.dispute_id is None else "refund",
        priority_class="",
        multiplier_ppm=PPM,
        job_id="",
        job_name="",
        attempt_id="",
        attempt=0,
        mgpu_s=0,
        rate_line=None,
        price_nano=None,
        list_cost_nano=amount_nano,
        contracted_cost_nano=amount_nano,
        billed_cost_nano=amount_nano,
        effective_cost_nano=amount_nano,
        currency=currency,
        mode="",
        class_multiplier_ppm=None,
        priced_mgpu_s=0,
        fault="",
    )
    return row_of(charge)._replace(
        category=category_of(adjustment),
        quantity_mgpu_s=None,
        is_correction=adjustment.is_correction,
        adjustment=adjustment,
        codes=book.codes(path, day),
    )


def _day(day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    return midnight(day, zone), midnight(day + timedelta(days=1), zone)


def _places(team_path: str) -> tuple[str, str]:
    """Return the organization and the department of a team, as in `Charge`."""
    organization, _, below = team_path.partition("/")
    return organization, below.rpartition("/")[0]
