"""Days of a time zone, as instants. A day with a change of clocks has 23 or 25 hours."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """Return the instant at which `day` begins in `zone`, in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def left_of_day_permille(now: datetime, zone: ZoneInfo) -> int:
    """Return the part of the present day of `zone` that is still to come, in permille."""
    day = now.astimezone(zone).date()
    begin, end = midnight(day, zone), midnight(day + timedelta(days=1), zone)
    length_s = (end - begin).total_seconds()
    return int((end - now).total_seconds() * 1000 // length_s)
