"""The months in which adjustments count. Months close above this package; the database knows."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection

from bank.settling import zone_of
from primitives.days import midnight
from primitives.errors import Conflict, FieldError, InvalidRequest

_MONTH = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])", re.ASCII)
#: Adjustments reach this many months back.
PAST_MONTHS_MAX = 12
_SECOND = timedelta(seconds=1)


def first_day_of(moment: datetime, zone: ZoneInfo) -> date:
    """Return the first day of the month in `zone` that contains the moment."""
    return moment.astimezone(zone).date().replace(day=1)


def next_month(first: date) -> date:
    """Return the first day of the month after that of `first`."""
    return (first.replace(day=1) + timedelta(days=31)).replace(day=1)


def is_closed(organization_id: UUID, first: date) -> bool:
    """Return whether the month that begins on `first` is closed, or a later one is."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT month_is_closed(%s, %s)", [organization_id, first])
        (closed,) = cursor.fetchone()
    return bool(closed)


def open_month(organization_id: UUID, first: date, now: datetime) -> date:
    """Return `first`, or the next month that is not closed. The present one is never closed."""
    present = first_day_of(now, zone_of(organization_id))
    while first < present and is_closed(organization_id, first):
        first = next_month(first)
    return first


def wanted_month(organization_id: UUID, name: str | None, now: datetime) -> date:
    """Return the first day of a month such as "2026-11", or of the present one.

    Raises InvalidRequest for another text, for a later month and for one that is too long ago, and
    Conflict if it is closed.
    """
    present = first_day_of(now, zone_of(organization_id))
    if name is None:
        return present
    first = _named(name)
    if first is None or first > present:
        raise InvalidRequest(
            "Give the present month or one before it, such as 2026-11.",
            errors=[FieldError("/month", "is no month that has begun")],
        )
    if (present.year - first.year) * 12 + present.month - first.month > PAST_MONTHS_MAX:
        raise InvalidRequest(
            f"The month {name} is more than {PAST_MONTHS_MAX} months ago. Adjust a later month.",
            errors=[FieldError("/month", "is too long ago")],
        )
    if is_closed(organization_id, first):
        raise Conflict(
            f"The month {name} is closed and never changes. Choose a month that is open, such as "
            f"{present:%Y-%m}."
        )
    return first


def past_month(organization_id: UUID, name: str, now: datetime) -> date:
    """Return the first day of a month that is over, such as "2026-10". Raises InvalidRequest."""
    first = _named(name)
    if first is None or first >= first_day_of(now, zone_of(organization_id)):
        raise InvalidRequest(
            "Give a month that is over, such as 2026-10.",
            errors=[FieldError("/month", "is no month that is over")],
        )
    return first


def _named(name: str) -> date | None:
    found = _MONTH.fullmatch(name)
    return None if found is None else date(int(found[1]), int(found[2]), 1)


def moment_in(organization_id: UUID, first: date, now: datetime) -> datetime:
    """Return `now`, or the last second of the month that begins on `first` if it is over."""
    end = midnight(next_month(first), zone_of(organization_id))
    return min(now.replace(microsecond=0), end - _SECOND)
