"""The times of `--begin`, read as `sbatch` reads them (`parse_time` in Slurm's parse_time.c)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from jobs.submission.sbatch_notes import NotUnderstood

_CLOCKS = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}
_UNITS_S = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_BETWEEN = re.compile(r"[ \t\-T]+")
_WORD = re.compile(r"today|tomorrow|midnight|noon|fika|teatime", re.IGNORECASE)
_NOW = re.compile(
    r"now[ \t]*(?:([+-])[ \t]*([0-9]{1,9})[ \t]*(?:(second|minute|hour|day|week)s?)?)?[ \t]*\Z",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"uts([0-9]{7,10})", re.IGNORECASE)
_CLOCK = re.compile(
    r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?(?:[ \t]*([AP])M)?(?![0-9:])", re.IGNORECASE
)
_DAY = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"|([0-9]{1,2})[/.]([0-9]{1,2})(?:[/.]([0-9]{2}))?(?![0-9/.])"
    r"|([0-9]{2})([0-9]{2})([0-9]{2})(?![0-9])"
)


def begin_of(text: str, now: datetime) -> datetime:
    """Return the time that `text` means at `now`, in the zone of `now`.

    A clock time without a day is its next occurrence, and a day without a year, too. When clocks
    are set back, a clock time that comes twice is the first one after `now`. Raises NotUnderstood,
    also for what no calendar has.
    """
    try:
        # By way of UTC, a time that clocks skip becomes the one that they show then.
        return _read(text, now).astimezone(UTC).astimezone(now.tzinfo)
    except (OverflowError, ValueError):
        raise _no_time(text) from None


def _read(text: str, now: datetime) -> datetime:
    if epoch := _EPOCH.fullmatch(text):
        return datetime.fromtimestamp(int(epoch[1]), now.tzinfo)
    day: tuple[int | None, int, int] | None = None
    clock: tuple[int, int, int] | None = None
    at = 0
    while at < len(text):
        if found := _BETWEEN.match(text, at):
            pass
        elif found := _NOW.match(text, at):
            count = int(found[2] or 0) * _UNITS_S[(found[3] or "second").lower()]
            # Hours of a clock that is never set, whatever the zone's does.
            moved = timedelta(seconds=-count if found[1] == "-" else count)
            return (now.astimezone(UTC) + moved).astimezone(now.tzinfo)
        elif found := _WORD.match(text, at):
            word = found[0].lower()
            if word in _CLOCKS:
                clock = _CLOCKS[word], 0, 0
            else:
                meant = now.date() + timedelta(days=word == "tomorrow")
                day = meant.year, meant.month, meant.day
        elif found := _CLOCK.match(text, at):
            clock = _clock(found, text)
        elif found := _DAY.match(text, at):
            parts = [int(part) for part in found.groups() if part is not None]
            if found[1]:
                day = parts[0], parts[1], parts[2]
            else:
                day = (2_000 + parts[2] if len(parts) > 2 else None), parts[0], parts[1]
        else:
            raise _no_time(text)
        at = found.end()
    if day is None and clock is None:
        raise _no_time(text)
    return _joined(day, clock, now, text)


def _clock(found: re.Match[str], text: str) -> tuple[int, int, int]:
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if found[4]:
        if hour > 12:
            raise _no_time(text)
        hour = hour % 12 + (12 if found[4] in "Pp" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise _no_time(text)
    return hour, minute, second


def _joined(
    day: tuple[int | None, int, int] | None,
    clock: tuple[int, int, int] | None,
    now: datetime,
    text: str,
) -> datetime:
    hour, minute, second = clock or (0, 0, 0)
    if day is None:
        return _next(now, hour, minute, second)
    year, month, number = day
    if not 1 <= month <= 12 or not 1 <= number <= 31:
        raise _no_time(text)
    if year is None:
        passed = (month, number, hour, minute) < (now.month, now.day, now.hour, now.minute)
        year = now.year + passed
    # As for Slurm, February 30 is the second of March.
    meant = date(year, month, 1) + timedelta(days=number - 1)
    return datetime(meant.year, meant.month, meant.day, hour, minute, second, tzinfo=now.tzinfo)


def _next(now: datetime, hour: int, minute: int, second: int) -> datetime:
    """Return the next time that clocks show this, but not one of the present minute."""
    today = now.replace(hour=hour, minute=minute, second=second, microsecond=0, fold=0)
    begun = now.replace(second=59, microsecond=0).astimezone(UTC)
    for found in (today, today.replace(fold=1)):
        if found.astimezone(UTC) > begun:
            return found
    return today + timedelta(days=1)


def _no_time(text: str) -> NotUnderstood:
    return NotUnderstood(
        f"{text[:40]!r} is no time to begin; write now+2hours, 16:00, tomorrow or "
        "2027-01-20T08:00:00."
    )
