"""Months and days of time zones, exact to the second."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from periods.months import first_day, month_in
from primitives.days import next_month
from primitives.errors import InvalidRequest

NEW_YORK = ZoneInfo("America/New_York")


@pytest.mark.parametrize(
    ("month", "hours"), [("2026-03", 743), ("2026-11", 721), ("2026-02", 672), ("2028-02", 696)]
)
def test_a_month_has_the_hours_of_its_zone(month: str, hours: int) -> None:
    """Against: local differences of aware times, which leave out the changed hour."""
    found = month_in(first_day(month), NEW_YORK)
    assert found.end - found.start == timedelta(hours=hours)
    assert found.name == month
    days = list(found.days())
    assert (days[0][1], days[-1][2]) == (found.start, found.end)
    assert all(one[2] == other[1] for one, other in pairwise(days))
    assert len(days) == (next_month(found.first) - found.first).days


def test_months_follow_each_other_without_a_gap() -> None:
    months = [month_in(first_day(f"2026-{number:02}"), NEW_YORK) for number in range(1, 13)]
    assert all(one.end == other.start for one, other in pairwise(months))
    assert next_month(date(2026, 12, 1)) == date(2027, 1, 1)


@pytest.mark.parametrize("text", ["2026-13", "2026-1", "1999-01", "2026-11-01", "", "٢٠٢٦-11"])
def test_a_name_that_is_no_month_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="2026-11"):
        first_day(text)
