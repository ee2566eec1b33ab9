"""A clock that a test sets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass
class ClockAt:
    """Always says `time`."""

    time: datetime

    def now(self) -> datetime:
        return self.time
