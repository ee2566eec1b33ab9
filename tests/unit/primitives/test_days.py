"""Names of months, and the month after one."""

from __future__ import annotations

from datetime import date

import pytest

from primitives.days import month_named, next_month


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("2026-11", date(2026, 11, 1)),
        ("2026-13", None),
        ("2026-1", None),
        ("1999-12", None),
        ("2026-11-01", None),
        ("\u0662026-11", None),
        ("", None),
    ],
)
def test_a_month_has_four_digits_and_two(text: str, first: date | None) -> None:
    """Against: digits of other scripts; the month 13."""
    assert month_named(text) == first


@pytest.mark.parametrize(
    ("day", "first"),
    [
        (date(2026, 1, 31), date(2026, 2, 1)),
        (date(2026, 2, 1), date(2026, 3, 1)),
        (date(2026, 12, 15), date(2027, 1, 1)),
    ],
)
def test_the_next_month_begins_on_its_first_day(day: date, first: date) -> None:
    """Against: 30 days later."""
    assert next_month(day) == first
