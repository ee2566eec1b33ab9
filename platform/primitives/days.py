"""Days and months of a time zone. A day with a change of clocks has 23 or 25 hours."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

_MONTH = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])", re.ASCII)


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """Return the instant at which `day` begins in `zone`, in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def month_named(text: str) -> date | None:
    """Return the first day of a month such as "2026-11"; None for another text."""
    found = _MONTH.fullmatch(text)
    return None if found is None else date(int(found[1]), int(found[2]), 1)


def next_month(day: date) -> date:
    """Return the first day of the month after that of `day`."""
    return (day.replace(day=1) + timedelta(days=31)).replace(day=1)


def left_of_day_permille(now: datetime, zone: ZoneInfo) -> int:
    """Return the part of the present day of `zone` that is still to come, in permille."""
    day = now.astimezone(zone).date()
    begin, end = midnight(day, zone), midnight(day + timedelta(days=1), zone)
    length_s = (end - begin).total_seconds()
    return int((end - now).total_seconds() * 1000 // length_s)
