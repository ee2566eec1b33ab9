"""The steps of a history: five minutes, hours or days of the organization's time zone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import takewhile
from zoneinfo import ZoneInfo

from billing.periods import Period
from chargeback.buckets import hours_from
from primitives.days import midnight

_FIVE_MINUTES_S = 300


class Step(StrEnum):
    """The length of a step. Hours and days are those of the organization's time zone."""

    FIVE_MINUTES = "5m"
    HOUR = "hour"
    DAY = "day"


#: The longest period with each step by default.
_DEFAULTS = {Step.FIVE_MINUTES: timedelta(hours=49), Step.HOUR: timedelta(days=45)}


def default_step(period: Period) -> Step:
    """Return the finest step that keeps a chart of the period readable."""
    length = period.until - period.start
    return next((step for step, most in _DEFAULTS.items() if length <= most), Step.DAY)


def edges_of(period: Period, step: Step, zone: ZoneInfo) -> list[datetime]:
    """Return the edges of all steps; the first and the last step may be partial."""
    start, until = period.start, period.until
    if step is Step.FIVE_MINUTES:
        first = -(-int(start.timestamp()) // _FIVE_MINUTES_S) * _FIVE_MINUTES_S
        inner: Iterable[datetime] = (
            datetime.fromtimestamp(at_s, UTC)
            for at_s in range(first, int(until.timestamp()), _FIVE_MINUTES_S)
        )
    elif step is Step.HOUR:
        inner = takewhile(lambda edge: edge < until, hours_from(start, zone))
    else:
        first_day = start.astimezone(zone).date()
        days = (until.astimezone(zone).date() - first_day).days + 1
        inner = (midnight(first_day + timedelta(days=number), zone) for number in range(days))
    return [start, *(edge for edge in inner if start < edge < until), until]
