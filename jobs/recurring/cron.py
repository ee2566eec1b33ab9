"""The moments of a cron expression in a time zone, with daylight saving time as in Debian's cron.

A run inside of the hour that a change of clocks leaves out is moved to its end, and a run inside
of the hour that comes twice happens once. Expressions with `*` in minutes or hours follow the real
time instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from jobs.schedule_models import CRON_MAX

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = 5
_NAMES = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT"
#: The characters of crontab. cronsim knows more (`L`, `#`), which no cron of Kubernetes reads.
_PLAIN = re.compile(rf"(?:{_NAMES}|[0-9*,/ -])+", re.IGNORECASE)
#: A moment for which an expression is tried.
_TRIED_AT = datetime(2026, 1, 1, tzinfo=UTC)


class BadCron(ValueError):
    """The text is no cron expression; the error says what is wrong with it."""


def check_cron(text: str) -> str:
    """Return the expression with single spaces. Raises BadCron."""
    plain = " ".join(text.split())
    if len(plain) > CRON_MAX:
        raise BadCron(f"must have at most {CRON_MAX} characters")
    if len(_fields(plain).split()) != _FIELDS:
        raise BadCron(
            "must have five fields: minute, hour, day of month, month, day of week, such as "
            f"0 3 * * *, or be one of {', '.join(_MACROS)}"
        )
    if not _PLAIN.fullmatch(_fields(plain)):
        raise BadCron(
            "may have numbers, names of months and days, and the signs * , - / only, "
            "such as 0 3 * * MON-FRI"
        )
    try:
        next(CronSim(_fields(plain), _TRIED_AT))
    except (CronSimError, AssertionError, StopIteration, ValueError) as problem:
        what = str(problem).removeprefix("Bad ") or "expression"
        raise BadCron(f"has a wrong {what}; write it as in crontab, such as 0 3 * * *") from None
    return plain


def next_moments(cron: str, time_zone: str, *, after: datetime, count: int) -> list[datetime]:
    """Return the first `count` moments after `after`, in UTC."""
    return list(islice(_moments(cron, time_zone, after), count))


def next_moment(cron: str, time_zone: str, *, after: datetime) -> datetime:
    """Return the first moment after `after`, in UTC."""
    return next(_moments(cron, time_zone, after))


def latest_moment(cron: str, time_zone: str, *, first: datetime, until: datetime) -> datetime:
    """Return the last moment up to `until`, in UTC, or `first` if that is later.

    It takes the same time however many moments lie between the two.
    """
    start = until.replace(microsecond=0) + timedelta(seconds=1)
    back = CronSim(_fields(cron), start.astimezone(ZoneInfo(time_zone)), reverse=True)
    found = next(back, first).astimezone(UTC)
    # In the second of two equal hours the search backward misses the moments of the first one.
    while (following := next_moment(cron, time_zone, after=found)) <= until:
        found = following
    return max(first, found)


def _moments(cron: str, time_zone: str, after: datetime) -> Iterator[datetime]:
    for found in CronSim(_fields(cron), after.astimezone(ZoneInfo(time_zone))):
        moment = found.astimezone(UTC)
        # In the second of two equal hours the search begins in the first one.
        if moment > after:
            yield moment


def _fields(cron: str) -> str:
    return _MACROS.get(cron.lower(), cron)
