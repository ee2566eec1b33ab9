"""The form in which a job's reason for waiting is stored and shown, for those that need no arbiter.

What the arbiter says of a job has the same form (`jobs.arbitration.reasons`).
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
    """ISO 8601 in UTC with whole seconds and Z.

    A page of jobs has hundreds of times; orjson writes them in a quarter of `isoformat`'s time.
    """
    return orjson.dumps(moment, option=ISO)[1:-1].decode()


def stored_reason(
    code: str, sentence: str, now: datetime, numbers: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """A reason that names neither nodes nor other jobs."""
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
    """A stored reason with its numbers as `NUMBERS` has them, then all others: what belongs
    together side by side. The database keeps no order."""
    return {
        **document,
        "numbers": _in_order(document.get("numbers", {})),
        # What an earlier version stored has none of these.
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
    """Why a job is held: by somebody, or as its last attempt had this `outcome`."""
    if outcome == NOT_STARTED:
        return (
            f"Its cluster did not start it {NOT_STARTED_MAX + 1} times, at last "
            f"{cluster}: {message} Release it to try again, or cancel it."
        )
    if outcome == "unknown":
        return (
            f"{cluster} has lost track of attempt {number}, and nobody knows "
            "whether it ran. Look at what it left behind; then release the job to run it again, "
            "or cancel it."
        )
    return "It is held until somebody releases it."
