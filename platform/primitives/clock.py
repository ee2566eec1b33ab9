"""The one place that reads the clock; everything below takes `now` as an argument."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the edges get the time from."""

    def now(self) -> datetime:
        """The current time, UTC, whole seconds."""
        ...


class SystemClock:
    """The machine's clock, cut to whole seconds as all of our times are."""

    def now(self) -> datetime:
        """The current time, UTC, whole seconds."""
        return datetime.fromtimestamp(int(time.time()), UTC)


def from_epoch(epoch_s: int) -> datetime:
    """UTC datetime of `epoch_s` whole seconds since 1970."""
    return datetime.fromtimestamp(epoch_s, UTC)
