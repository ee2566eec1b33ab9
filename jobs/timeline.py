"""A job's timeline: its events, for its page and the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from bulk.inserting import insert_rows
from jobs.models import JobEvent


@dataclass(frozen=True, slots=True)
class Happening:
    """One event of a job; `detail` is JSON."""

    job_id: UUID
    at: datetime
    event: str
    detail: Mapping[str, Any] = field(default_factory=dict)


def record_events(happenings: Iterable[Happening]) -> None:
    """Append events to the timelines, in the given order, in one statement."""
    insert_rows(
        JobEvent,
        [
            {"job_id": item.job_id, "at": item.at, "event": item.event, "detail": dict(item.detail)}
            for item in happenings
        ],
        returns_keys=False,
    )
