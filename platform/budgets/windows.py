"""The periods of budgets: calendar months, quarters and years, and rolling days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from budgets.models import WindowKind
from primitives.days import midnight

_MONTHS = {WindowKind.MONTH: 1, WindowKind.QUARTER: 3, WindowKind.YEAR: 12}


@dataclass(frozen=True)
class Window:
    """The days `first` to `last` (inclusive) in a time zone, as the instants `[start, end)`.

    The last day of a rolling window is today.
    """

    first: date
    last: date
    zone: ZoneInfo

    @cached_property
    def start(self) -> datetime:
        """The midnight before the first day."""
        return midnight(self.first, self.zone)

    @cached_property
    def end(self) -> datetime:
        """The midnight after the last day."""
        return midnight(self.last + timedelta(days=1), self.zone)

    @cached_property
    def days(self) -> Sequence[date]:
        """All days, the first one first."""
        return days_from(self.first, self.last)


def window_at(kind: str, rolling_days: int | None, zone: ZoneInfo, now: datetime) -> Window:
    """Return the window of this kind that contains `now`.

    In UTC, the quarter of 29 November 2026 is 1 October to 31 December. Of seven rolling days, the
    first is 23 November.
    """
    today = now.astimezone(zone).date()
    if kind == WindowKind.ROLLING:
        assert rolling_days is not None
        return Window(today - timedelta(days=rolling_days - 1), today, zone)
    months = _MONTHS[WindowKind(kind)]
    month = (today.month - 1) // months * months
    after = month + months
    end = date(today.year + after // 12, after % 12 + 1, 1)
    return Window(date(today.year, month + 1, 1), end - timedelta(days=1), zone)


def days_from(first: date, last: date) -> Sequence[date]:
    """Return the days from `first` to `last`, both included."""
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]
