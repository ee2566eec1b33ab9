"""The months of an organization, exact in its time zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from periods.models import BillingPeriod
from primitives.days import midnight, month_named, next_month
from primitives.errors import InvalidRequest


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
        while (begin := midnight(day, self.zone)) < self.end:
            following = day + timedelta(days=1)
            yield day, max(begin, self.start), min(midnight(following, self.zone), self.end)
            day = following


def month_in(first: date, zone: ZoneInfo) -> Month:
    """Return the month that begins on `first` in the zone."""
    return Month(first, midnight(first, zone), midnight(next_month(first), zone), zone)


def month_of(period: BillingPeriod) -> Month:
    """Return the month of a closed one, as it was at its closing."""
    return Month(period.month, period.start, period.end, ZoneInfo(period.time_zone))


def first_day(text: str) -> date:
    """Return the first day of a month such as "2026-11". Raises InvalidRequest."""
    first = month_named(text)
    if first is None:
        raise InvalidRequest("Write the month as 2026-11.")
    return first
