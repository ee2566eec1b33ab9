"""The months of an organization, exact in its time zone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from periods.models import BillingPeriod
from primitives.errors import InvalidRequest

_MONTH = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Month:
    """A month of a time zone, `[start, end)` in UTC. `first` is its first day."""

    first: date
    start: datetime
    end: datetime
    zone: ZoneInfo

    @property
    def name(self) -> str:
        """Return its name, such as "2026-11"."""
        return f"{self.first:%Y-%m}"

    def days(self) -> Iterator[tuple[date, datetime, datetime]]:
        """Yield each day of the zone that overlaps the month, with the part inside of it."""
        day = self.start.astimezone(self.zone).date()
        while (begin := _midnight(day, self.zone)) < self.end:
            following = day + timedelta(days=1)
            yield day, max(begin, self.start), min(_midnight(following, self.zone), self.end)
            day = following


def month_in(first: date, zone: ZoneInfo) -> Month:
    """Return the month that begins on `first` in the zone."""
    return Month(first, _midnight(first, zone), _midnight(after(first), zone), zone)


def month_of(period: BillingPeriod) -> Month:
    """Return the month of a closed one, as it was at its closing."""
    return Month(period.month, period.start, period.end, ZoneInfo(period.time_zone))


def after(first: date) -> date:
    """Return the first day of the month after that of `first`."""
    return (first.replace(day=1) + timedelta(days=31)).replace(day=1)


def first_day(text: str) -> date:
    """Return the first day of a month such as "2026-11". Raises InvalidRequest."""
    found = _MONTH.fullmatch(text)
    if found is None:
        raise InvalidRequest("Write the month as 2026-11.")
    return date(int(found[1]), int(found[2]), 1)


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    """Return the beginning of the day in the zone, in UTC."""
    return datetime.combine(day, time(), zone).astimezone(UTC)
