"""Heartbeat of a process: it shows the supervisor that the process is alive and makes progress.

The supervisor names one file per process in TIDEGATE_HEARTBEAT_FILE. It kills and restarts a
process that did not touch its file for 15 s (`embedded.supervisor`). Without a file nothing
happens.
"""

from __future__ import annotations

import os
from math import inf
from pathlib import Path
from threading import Event, Thread
from time import monotonic

BEAT_S = 1.0


class Pulse:
    """Touches `file` once a second until the deadline of the last promise.

    A frozen process touches nothing. A process whose loop hangs makes no new promise, so its file
    gets old as well. Before a step that may take long, call `promise` with a later deadline.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._until_s = -inf
        self._ended = Event()
        if file is not None:
            Thread(target=self._beat, daemon=True, name="pulse").start()

    def promise(self, within_s: float = inf) -> None:
        """Promise that the next call of this method comes within so many seconds."""
        self._until_s = monotonic() + within_s

    def beat(self) -> None:
        """Touch the file, if the deadline of the last promise is not over."""
        if self._file is not None and monotonic() <= self._until_s:
            self._file.touch()

    def end(self) -> None:
        """Stop touching the file."""
        self._ended.set()

    def _beat(self) -> None:
        while True:
            self.beat()
            if self._ended.wait(BEAT_S):
                return


def pulse_here() -> Pulse:
    """Return the heartbeat of this process. Without a supervisor it does nothing."""
    named = os.environ.get("TIDEGATE_HEARTBEAT_FILE")
    return Pulse(Path(named) if named else None)
