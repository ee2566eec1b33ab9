"""Forecasts of what days add up to: run rates and seasonal naive, without a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

#: Days that a forecast looks back: eight weeks.
HISTORY_DAYS = 56
#: Lengths of run rates, in days.
_RATES = (7, 28)
#: How many weeks ago the same weekdays are taken from.
_SEASONS = (1, 2)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The expected use of the whole window, and the range of all methods."""

    low: int
    middle: int
    high: int


def forecast_of(
    used: int,
    by_day: Mapping[date, int],
    *,
    today: date,
    left_of_today_permille: int,
    last: date,
) -> Forecast | None:
    """Return the use at the end of `last`, given `used` until now; None without a complete day.

    `by_day` has the use of complete days before `today`. Each method gives an amount for today and
    each day until `last`: the mean of the last 7 or 28 days (run rate), or the amount of the same
    weekday one or two weeks before (seasonal naive). `middle` is the mean of the 7-day run rate and
    the naive of one week. With less than a week of history, only the run rate counts.
    """
    known = [day for day in by_day if today - timedelta(days=HISTORY_DAYS) <= day < today]
    if not known:
        return None
    first = min(known)
    before = [by_day.get(today - timedelta(days=ago), 0) for ago in range(1, HISTORY_DAYS + 1)]
    length = (today - first).days
    weighted_days = left_of_today_permille + 1000 * max(0, (last - today).days)
    rates = [
        used + sum(before[:days]) * weighted_days // (1000 * days)
        for days in (min(days, length) for days in _RATES)
    ]
    naives = [
        used + _seasonal(before, weeks, left_of_today_permille, (last - today).days)
        for weeks in _SEASONS
        if length >= 7 * weeks
    ]
    middle = (rates[0] + naives[0]) // 2 if naives else rates[0]
    return Forecast(min(*rates, *naives, middle), middle, max(*rates, *naives, middle))


def _seasonal(
    before: Sequence[int], weeks: int, left_of_today_permille: int, days_after_today: int
) -> int:
    """Return the use of the rest of today and the days after it, as `weeks` weeks ago.

    `before` has the use of yesterday first.
    """
    week = [before[7 * weeks - 1 - day] for day in range(7)]
    return week[0] * left_of_today_permille // 1000 + sum(
        week[day % 7] for day in range(1, days_after_today + 1)
    )
