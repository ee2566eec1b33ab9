"""The period of a report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from primitives.errors import FieldError, InvalidRequest

SPAN_MAX = timedelta(days=400)
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
LATEST = datetime(2100, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Period:
    """`[start, end)` in UTC whole seconds, as known at `as_of`: open use counts until then."""

    start: datetime
    end: datetime
    as_of: datetime

    @property
    def until(self) -> datetime:
        """Return the end of counting: the end, or `as_of` if that is earlier."""
        return min(self.end, self.as_of)


def period_of(start: datetime, end: datetime, *, as_of: datetime | None, now: datetime) -> Period:
    """Return the period as known at `as_of` (None: `now`).

    Raises InvalidRequest if it is empty or backwards, longer than 400 days, outside the years 2000
    to 2099, or `as_of` is in the future.
    """
    if start >= end:
        raise InvalidRequest(
            "start must be before end.", errors=[FieldError("/start", "is not before end")]
        )
    if start < EARLIEST or end > LATEST:
        raise InvalidRequest(
            "start and end must be in the years 2000 to 2099.",
            errors=[FieldError("/start" if start < EARLIEST else "/end", "is out of range")],
        )
    if end - start > SPAN_MAX:
        raise InvalidRequest(
            f"A report covers at most {SPAN_MAX.days} days. Ask for a shorter period.",
            errors=[FieldError("/end", f"is more than {SPAN_MAX.days} days after start")],
        )
    if as_of is not None and as_of > now:
        raise InvalidRequest(
            "as_of must not be in the future.", errors=[FieldError("/as_of", "is in the future")]
        )
    return Period(start, end, as_of or now)


def last_month(time_zone: str, now: datetime) -> Period:
    """Return the last whole calendar month of this zone (IANA), as known at `now`."""
    zone = ZoneInfo(time_zone)
    first = now.astimezone(zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)
    before = (first - timedelta(days=1)).replace(day=1)
    return Period(before.astimezone(UTC), first.astimezone(UTC), now)
