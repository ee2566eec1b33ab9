"""The months in which adjustments count. Months close above this package; the database knows."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection

from bank.settling import zone_of
from primitives.days import midnight, month_named, next_month
from primitives.errors import Conflict, FieldError, InvalidRequest

#: Adjustments reach this many months back.
PAST_MONTHS_MAX = 12
_SECOND = timedelta(seconds=1)


def first_day_of(moment: datetime, zone: ZoneInfo) -> date:
    """Return the first day of the month in `zone` that contains the moment."""
    return moment.astimezone(zone).date().replace(day=1)


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
    first = month_named(name)
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
    first = month_named(name)
    if first is None or first >= first_day_of(now, zone_of(organization_id)):
        raise InvalidRequest(
            "Give a month that is over, such as 2026-10.",
            errors=[FieldError("/month", "is no month that is over")],
        )
    return first


def moment_in(organization_id: UUID, first: date, now: datetime) -> datetime:
    """Return `now`, or the last second of the month that begins on `first` if it is over."""
    end = midnight(next_month(first), zone_of(organization_id))
    return min(now.replace(microsecond=0), end - _SECOND)
