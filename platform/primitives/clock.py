"""The only module that reads the clock. All other code takes `now` as an argument."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of the current time for the outermost layer of the code."""

    def now(self) -> datetime:
        """Return the current time in UTC, in whole seconds."""
        ...


class SystemClock:
    """The machine's clock, cut to whole seconds like all times in the portal."""

    def now(self) -> datetime:
        """Return the current time in UTC, in whole seconds."""
        return datetime.fromtimestamp(int(time.time()), UTC)


def from_epoch(epoch_s: int) -> datetime:
    """Return the UTC datetime of `epoch_s` whole seconds since 1970."""
    return datetime.fromtimestamp(epoch_s, UTC)
