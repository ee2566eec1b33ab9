"""Durations as people write them. The command line, REST and the forms read them alike."""

from __future__ import annotations

import re

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_COUNT = re.compile(r"([0-9]{1,9})([smhd])")
_DURATION = re.compile(r"(?:[0-9]{1,9}[smhd])+")
_CLOCK = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,9}(?::[0-9]{1,9}){0,2})")
_NUMBER = re.compile(r"[0-9]+")
_SHOWN = 40


def seconds_of_duration(text: str) -> int:
    """Return the seconds in `text`, for example "90s", "30m", "2h" or "1d12h".

    A number without a unit is refused, because some people mean minutes by it and others seconds.
    Only 0 needs no unit. Raises ValueError with a sentence for the person who wrote `text`.
    """
    words = text.strip().lower()
    if words == "0":
        return 0
    if not _DURATION.fullmatch(words):
        raise ValueError(_refusal(text, "Write 90s, 30m, 2h or 1d12h."))
    return sum(int(count) * _UNITS_S[unit] for count, unit in _COUNT.findall(words))


def seconds_of_time_limit(text: str) -> int:
    """Return the seconds in `text`, written as for `seconds_of_duration` or as Slurm writes times.

    Slurm's forms are "10:30" (minutes), "2:00:00" (hours), "1-12", "1-12:30" and "1-12:30:00"
    (days). Raises ValueError with a sentence for the person who wrote `text`.
    """
    match = _CLOCK.fullmatch(text.strip())
    if match is None or not (match[1] or ":" in match[2]):
        try:
            return seconds_of_duration(text)
        except ValueError:
            sentence = "Write 90s, 30m, 2h, 1d12h or hours:minutes:seconds."
            raise ValueError(_refusal(text, sentence)) from None
    numbers = [int(part) for part in match[2].split(":")]
    if match[1] is not None:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
        return ((int(match[1]) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(numbers) == 3:
        return (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    return numbers[0] * 60 + numbers[1]


def duration_of_seconds(seconds: int) -> str:
    """Return `seconds` exactly, in the form that `seconds_of_duration` reads.

    For example, 5400 is "1h30m" and 0 is "0s".
    """
    words = ""
    left = seconds
    for unit, size in sorted(_UNITS_S.items(), key=lambda item: -item[1]):
        count, left = divmod(left, size)
        words += f"{count}{unit}" if count else ""
    return words or "0s"


def _refusal(text: str, sentence: str) -> str:
    number = text.strip()
    if _NUMBER.fullmatch(number):
        short = number[:9]
        return f"{text[:_SHOWN]!r} has no unit. Write {short}s, {short}m or {short}h."
    return f"{text[:_SHOWN]!r} is not a duration. {sentence}"
