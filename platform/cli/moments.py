"""Days and times as a person types them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cli.errors import CliError
from cli.output import now_utc

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def zone_named(name: str) -> ZoneInfo:
    """Return a time zone. Raises CliError where this machine does not know it."""
    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError as error:
        raise CliError(
            f"This machine does not know the zone {name}: install tzdata with pip."
        ) from error


def is_day(text: str) -> bool:
    """Return whether the text has the form of a day, such as 2026-11-01."""
    return _DAY.fullmatch(text) is not None


def moment(text: str, option: str, zone: tzinfo = UTC) -> str:
    """Return a typed day, at midnight in the zone, or time in the API's form. Raises CliError."""
    if not is_day(text):
        if "T" not in text:
            raise CliError(f"{option} {text[:40]!r}: write 2026-11-01 or 2026-11-01T00:00:00Z.")
        return text
    try:
        midnight = datetime.fromisoformat(text).replace(tzinfo=zone)
    except ValueError as error:
        raise CliError(f"{option} {text!r} is not a day of the calendar.") from error
    return f"{midnight.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def end_of_day(text: str, option: str) -> str:
    """Return a typed day as the midnight in UTC that ends it, and a time as it is.

    Raises CliError.
    """
    start = moment(text, option)
    if not is_day(text):
        return start
    try:
        end = datetime.fromisoformat(start) + timedelta(days=1)
    except OverflowError as error:
        raise CliError(f"{option} {text}: give an earlier day.") from error
    return f"{end:%Y-%m-%dT%H:%M:%SZ}"


def last_day(end: str) -> str:
    """Return the last day, in UTC, of what ends at this time, such as 2026-12-31."""
    return (datetime.fromisoformat(end) - timedelta(seconds=1)).date().isoformat()


def day_or_time(text: str, option: str) -> str:
    """Return a typed day or time as it is, for the API to read. Raises CliError for others."""
    moment(text, option)
    return text


def this_month(zone: tzinfo) -> tuple[str, str]:
    """Return the first day of the present month of the zone, and that of the next."""
    first = now_utc().astimezone(zone).date().replace(day=1)
    following = (first + timedelta(days=31)).replace(day=1)
    return first.isoformat(), following.isoformat()
