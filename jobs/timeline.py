"""A job's timeline: its events, for its page and the API, and the notices of them."""

from __future__ import annotations

from collections.abc import Iterable

from bulk.inserting import insert_rows
from jobs.happenings import Happening as Happening
from jobs.job_notices import give_job_notices
from jobs.models import JobEvent


def record_events(happenings: Iterable[Happening]) -> None:
    """Append events to the timelines, in the given order, and give the notices of them.

    Must run in the transaction of the events.
    """
    happenings = list(happenings)
    insert_rows(
        JobEvent,
        [
            {"job_id": item.job_id, "at": item.at, "event": item.event, "detail": dict(item.detail)}
            for item in happenings
        ],
        returns_keys=False,
    )
    give_job_notices(happenings)
