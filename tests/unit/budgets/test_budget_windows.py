"""Windows of calendars, in exact numbers."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from budgets.windows import window_at


def test_a_window_has_the_days_of_its_zone() -> None:
    """A month with a change of clocks is an hour longer. Planted: midnights of UTC."""
    zone = ZoneInfo("Europe/Berlin")
    window = window_at("month", None, zone, datetime(2026, 9, 30, 22, 30, tzinfo=UTC))
    assert (window.first, window.last) == (date(2026, 10, 1), date(2026, 10, 31))
    assert window.end - window.start == timedelta(days=31, hours=1)
    assert window.start == datetime(2026, 9, 30, 22, tzinfo=UTC)


def test_the_last_quarter_ends_with_the_year() -> None:
    window = window_at("quarter", None, ZoneInfo("UTC"), datetime(2026, 12, 31, tzinfo=UTC))
    assert (window.first, window.last) == (date(2026, 10, 1), date(2026, 12, 31))
