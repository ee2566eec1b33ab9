"""The stored and shown form of a reason for waiting, for jobs that the arbiter is not offered.

The arbiter's reasons have the same form (`jobs.arbitration.reasons`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from arbiter.api.plan import NUMBERS
from jobs.lifecycle import NOT_STARTED, NOT_STARTED_MAX

HELD_BY_USER = "held_by_user"

_PLACES = {name: place for place, name in enumerate(NUMBERS)}

#: How orjson writes times: in UTC with whole seconds and Z.
ISO = orjson.OPT_UTC_Z | orjson.OPT_OMIT_MICROSECONDS


def iso(moment: datetime) -> str:
    """Return ISO 8601 in UTC with whole seconds and Z.

    A page of jobs has hundreds of times; orjson takes a quarter of the time of `isoformat`.
    """
    return orjson.dumps(moment, option=ISO)[1:-1].decode()


def stored_reason(
    code: str, sentence: str, now: datetime, numbers: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return a reason that names neither nodes nor other jobs."""
    return {
        "code": code,
        "sentence": sentence,
        "numbers": dict(numbers or {}),
        "node": None,
        "jobs_ahead": 0,
        "estimated_start": None,
        "pool": None,
        "elsewhere": [],
        "as_of": iso(now),
    }


def arranged(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored reason with its numbers in the order of `NUMBERS`, then all others.

    So related numbers are side by side. The database keeps no order.
    """
    return {
        **document,
        "numbers": _in_order(document.get("numbers", {})),
        # Reasons of an earlier version have no such member.
        "elsewhere": [
            {**one, "numbers": _in_order(one["numbers"])} for one in document.get("elsewhere", ())
        ],
    }


def _in_order(numbers: Mapping[str, int]) -> dict[str, int]:
    names = sorted(numbers, key=lambda name: (_PLACES.get(name, len(_PLACES)), name))
    return {name: numbers[name] for name in names}


def held_sentence(
    *, outcome: str | None = None, cluster: str = "", number: int = 0, message: str = ""
) -> str:
    """Return why a job is held: by a person, or because of its last attempt's `outcome`."""
    if outcome == NOT_STARTED:
        return (
            f"The job was not started {NOT_STARTED_MAX + 1} times, most recently by "
            f"{cluster}: {message} Release it to try again, or cancel it."
        )
    if outcome == "unknown":
        return (
            f"{cluster} has lost track of attempt {number}. It is unknown whether it ran. "
            "Check what it left behind; then release the job to run it again, or cancel it."
        )
    return "The job is held until a person releases it."
