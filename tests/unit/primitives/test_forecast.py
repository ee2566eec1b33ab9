"""Forecasts of what days add up to, in exact numbers, and parts of days."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from primitives.days import left_of_day_permille
from primitives.forecast import Forecast, forecast_of

TODAY = date(2026, 11, 20)


def days(*amounts: int) -> dict[date, int]:
    """The amounts of the days before today, the last one last."""
    return {TODAY - timedelta(days=len(amounts) - n): amount for n, amount in enumerate(amounts)}


def test_without_a_complete_day_there_is_no_forecast() -> None:
    assert (
        forecast_of(5, {}, today=TODAY, left_of_today_permille=500, last=date(2026, 11, 30)) is None
    )


def test_a_steady_use_goes_on() -> None:
    """Half of today and ten days are left, at 100 a day, by each method."""
    found = forecast_of(
        1_950, days(*[100] * 28), today=TODAY, left_of_today_permille=500, last=date(2026, 11, 30)
    )
    assert found == Forecast(3_000, 3_000, 3_000)


def test_weekends_without_use_are_foreseen() -> None:
    """20 November is a Friday: half of it, and six of ten days, are working days.

    The run rates say 10.5 times 71 (of a week) and 71 (of four). Planted: the week shifted by a
    day.
    """
    week = [100, 0, 0, 100, 100, 100, 100]
    found = forecast_of(
        0, days(*week * 4), today=TODAY, left_of_today_permille=500, last=date(2026, 11, 30)
    )
    assert found is not None
    rate = 500 * 10_500 // 7_000
    assert found == Forecast(min(rate, 650), (rate + 650) // 2, max(rate, 650))
    assert rate == 750


def test_a_growing_use_has_a_range() -> None:
    """Two weeks at 10 a day, then one at 80. The window ends today, at midnight.

    Planted: the 28-day rate over 28 days although only 21 are known.
    """
    found = forecast_of(
        100,
        days(*[10] * 14, *[80] * 7),
        today=TODAY,
        left_of_today_permille=1_000,
        last=TODAY,
    )
    # Run rates 80 and (140 + 560) / 21 = 33; seasonal naive 80 and 10.
    assert found == Forecast(110, 180, 180)


def test_what_is_left_of_a_day_counts_its_real_hours() -> None:
    """In Berlin the last Sunday of October has 25 hours: 20 are left after the first five.

    Planted: days of 24 hours.
    """
    berlin = ZoneInfo("Europe/Berlin")
    at_five = datetime(2026, 10, 25, 3, tzinfo=UTC)
    assert left_of_day_permille(at_five, berlin) == 800
    assert left_of_day_permille(datetime(2026, 11, 20, 18, tzinfo=UTC), ZoneInfo("UTC")) == 250
