"""Hours, days, weeks and months of a time zone, exact where its clocks change (R-113)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from billing.periods import Period
from chargeback.dimensions import Dimension
from primitives.days import midnight
from primitives.errors import FieldError, InvalidRequest

#: Hours of two months, with the ends of partial ones.
BUCKETS_MAX = 1_500
_HOUR = timedelta(hours=1)


class Bucket(NamedTuple):
    """A part of a period, `[start, end)` in UTC.

    Labels are such as "2026-11-01T01:00-04:00", "2026-11-01", "2026-W44" and "2026-11".
    """

    label: str
    start: datetime
    end: datetime


def buckets_of(period: Period, dimension: Dimension, zone: ZoneInfo) -> list[Bucket]:
    """Return the parts of the period in each hour, day, week or month of the zone.

    The first and the last one may be partial. Raises InvalidRequest for more than `BUCKETS_MAX`.
    """
    found: list[Bucket] = []
    edges = hours_from(period.start, zone) if dimension is Dimension.HOUR else _days(period, zone)
    label, start = "", period.start
    for edge in edges:
        if edge >= period.end:
            found.append(Bucket(label, start, period.end))
            break
        following = _label(edge, dimension, zone)
        if following != label:
            if label:
                found.append(Bucket(label, start, edge))
            label, start = following, max(edge, period.start)
        if len(found) == BUCKETS_MAX:
            raise InvalidRequest(
                f"The period has more than {BUCKETS_MAX} hours. Ask for at most two months, or "
                "for days.",
                errors=[FieldError("/by", "has too many hours")],
            )
    return found


def _label(moment: datetime, dimension: Dimension, zone: ZoneInfo) -> str:
    local = moment.astimezone(zone)
    if dimension is Dimension.HOUR:
        return local.isoformat(timespec="minutes")
    if dimension is Dimension.DAY:
        return f"{local:%Y-%m-%d}"
    if dimension is Dimension.WEEK:
        year, week, _ = local.isocalendar()
        return f"{year}-W{week:02}"
    return f"{local:%Y-%m}"


def _days(period: Period, zone: ZoneInfo) -> Iterator[datetime]:
    """Yield the midnights of the zone from the one at or before the period's start on."""
    day = period.start.astimezone(zone).date()
    while True:
        yield midnight(day, zone)
        day += timedelta(days=1)


def hours_from(start: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    """Yield the beginnings of hours from the one at or before `start` on.

    A change of the clock begins an hour, too. So where clocks change by half an hour, an hour of
    30 minutes precedes or follows the change.
    """
    local = start.astimezone(zone)
    moment = start - timedelta(minutes=local.minute, seconds=local.second)
    while True:
        yield moment
        local = moment.astimezone(zone)
        following = moment + _HOUR - timedelta(minutes=local.minute, seconds=local.second)
        if _offset(following, zone) != _offset(moment, zone):
            following = _change(moment, following, zone)
        moment = following


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta | None:
    return moment.astimezone(zone).utcoffset()


def _change(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment in `(before, after]` from which the zone has the later offset."""
    low, high = 0, int((after - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        same = _offset(before + timedelta(seconds=middle), zone) == _offset(before, zone)
        low, high = (middle, high) if same else (low, middle)
    return before + timedelta(seconds=high)
