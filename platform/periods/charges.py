"""The charges of a month: fresh from the meter, and as corrections of closed months."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Max

from adjustments.adjusting import adjustments_in
from adjustments.disputed_charges import used_month_of
from adjustments.models import Adjustment
from billing.daily_charges import Charged, ChargedUse, charges_in
from periods.code_book import CodeBook
from periods.models import BillingPeriod, ChargeRow
from periods.months import Month, month_of

#: The closed months before a month that are always rated anew. Older ones are where a fact is late.
CORRECTED_MONTHS_MAX = 12
#: Rows that are in memory at once, beside those of a day.
BATCH_ROWS = 5_000


class DayCharge(NamedTuple):
    """A charge of a day in a month, whose first day is `month`. Corrections may be negative."""

    is_correction: bool
    month: date
    day: date
    use: ChargedUse
    charged: Charged


def charges_of(month: Month, organization_id: UUID) -> Iterator[DayCharge]:
    """Yield the charges of the month by the meter and the prices now, day by day."""
    days = {(start, end): day for day, start, end in month.days()}
    for span, found in charges_in(days, organization_id):
        yield from _sorted(False, month, days[span], found)


def corrections_of(months: Iterable[Month], organization_id: UUID) -> Iterator[DayCharge]:
    """Yield what the charges of past months lack by now, with the sign of the change.

    Corrections in later months count as charged. The charges of a day are in memory at once.
    """
    for month in months:
        frozen = _frozen(organization_id, month)
        known = next(frozen, None)
        days = {(start, end): day for day, start, end in month.days()}
        for span, fresh in charges_in(days, organization_id):
            day, charged = days[span], dict[ChargedUse, Charged]()
            if known is not None and known[0] == day:
                charged, known = known[1], next(frozen, None)
            changes: dict[ChargedUse, Charged] = {}
            for use in fresh.keys() | charged.keys():
                now, was = fresh.get(use, _NOTHING), charged.get(use, _NOTHING)
                change = Charged(*(after - before for after, before in zip(now, was, strict=True)))
                if any(change):
                    changes[use] = change
            yield from _sorted(True, month, day, changes)


_NOTHING = Charged(0, 0, 0)


def _sorted(
    is_correction: bool, month: Month, day: date, found: Mapping[ChargedUse, Charged]
) -> Iterator[DayCharge]:
    for use in sorted(found, key=lambda use: (use.team_path, *map(str, use))):
        yield DayCharge(is_correction, month.first, day, use, found[use])


def _frozen(
    organization_id: UUID, month: Month
) -> Iterator[tuple[date, dict[ChargedUse, Charged]]]:
    """Yield each day of a month with what closed months charge for its use. One query."""
    rows = ChargeRow.objects.filter(period__organization=organization_id, month=month.first)
    values = rows.order_by("day").values_list("day", *ChargedUse._fields, *Charged._fields)
    for day, found in groupby(values.iterator(chunk_size=BATCH_ROWS), key=itemgetter(0)):
        sums: dict[ChargedUse, Charged] = defaultdict(lambda: _NOTHING)
        for _, *fields in found:
            use = ChargedUse(*fields[: len(ChargedUse._fields)])
            amounts = fields[len(ChargedUse._fields) :]
            sums[use] = Charged(*(one + more for one, more in zip(sums[use], amounts, strict=True)))
        yield day, sums


def rows_of(
    period: BillingPeriod, charges: Iterable[DayCharge], book: CodeBook
) -> Iterator[ChargeRow]:
    """Yield the charges as rows of a month, numbered from 1, with the codes of their months."""
    for number, charge in enumerate(charges, 1):
        yield ChargeRow(
            period=period,
            number=number,
            is_correction=charge.is_correction,
            month=charge.month,
            day=charge.day,
            **charge.use._asdict(),
            **charge.charged._asdict(),
            **book.codes(charge.use.team_path, charge.month)._asdict(),
        )


def closed_until(organization_id: UUID) -> datetime | None:
    """Return the end of the last closed month of an organization, or None.

    Months close in their order, so all use before then is frozen, and none after it.
    """
    closed = BillingPeriod.objects.filter(organization=organization_id)
    end: datetime | None = closed.aggregate(end=Max("end"))["end"]
    return end


def frozen_charges(organization_id: UUID, start: datetime, end: datetime) -> Iterator[ChargeRow]:
    """Yield the charges of closed months in `[start, end)`, by month and number.

    They never change, so the same span of closed months always has the same charges. Charges count
    on their day, in the time zone of their month; days that are partly outside are left out.
    Corrections count in the month in which they are booked, if all of it is inside. Open months
    have no frozen charges: see `closed_until`.
    """
    for period, days in _closed_in(organization_id, start, end):
        rows = period.rows.order_by("number")
        if period.start < start or period.end > end:
            rows = rows.filter(is_correction=False, day__in=days)
        yield from rows.iterator(chunk_size=BATCH_ROWS)


class FrozenAdjustment(NamedTuple):
    """An adjustment of a closed month. `month` and `day` are those of the use that it is about."""

    period: BillingPeriod
    month: date
    day: date
    adjustment: Adjustment


def frozen_adjustments(
    organization_id: UUID, start: datetime, end: datetime
) -> Iterator[FrozenAdjustment]:
    """Yield the adjustments of closed months in `[start, end)`, by month, moment and id.

    They count as charges of `frozen_charges` do.
    """
    for period, days in _closed_in(organization_id, start, end):
        is_whole = start <= period.start and period.end <= end
        for adjustment in adjustments_in(organization_id, period.month):
            day = adjusted_day(adjustment, ZoneInfo(period.time_zone))
            if is_whole or (not adjustment.is_correction and day in days):
                month = day.replace(day=1) if adjustment.is_correction else period.month
                yield FrozenAdjustment(period, month, day, adjustment)


def adjusted_day(adjustment: Adjustment, zone: ZoneInfo) -> date:
    """Return the day of an adjustment's effect. A correction has the first of its month of use."""
    month = None
    if adjustment.is_correction and adjustment.dispute is not None:
        month = used_month_of(adjustment.dispute, zone)
    return month or adjustment.effective_at.astimezone(zone).date()


def _closed_in(
    organization_id: UUID, start: datetime, end: datetime
) -> Iterator[tuple[BillingPeriod, list[date]]]:
    """Yield the closed months that overlap `[start, end)`, with their days that are inside."""
    periods = BillingPeriod.objects.filter(
        organization=organization_id, start__lt=end, end__gt=start
    )
    for period in periods.order_by("start"):
        days = [
            day for day, since, until in month_of(period).days() if start <= since and until <= end
        ]
        yield period, days
