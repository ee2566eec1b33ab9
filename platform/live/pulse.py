"""What a process shows to its supervisor: that it is alive and gets on with its work.

The supervisor gives each process a file of its own in TIDEGATE_HEARTBEAT_FILE. A process that does
not touch it for 15 s is killed and started again (`embedded.supervisor`). Without a file nothing
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
    """Touches `file` once a second for as long as the last promise holds.

    A process that is frozen touches nothing, and neither does one whose loop hangs: it does not
    come to its next promise. A step that may take long promises so.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._until_s = -inf
        self._ended = Event()
        if file is not None:
            Thread(target=self._beat, daemon=True, name="pulse").start()

    def promise(self, within_s: float = inf) -> None:
        """Say that the next promise comes within so many seconds."""
        self._until_s = monotonic() + within_s

    def beat(self) -> None:
        """Touch the file, if the last promise still holds."""
        if self._file is not None and monotonic() <= self._until_s:
            self._file.touch()

    def end(self) -> None:
        """Touch nothing any more."""
        self._ended.set()

    def _beat(self) -> None:
        while True:
            self.beat()
            if self._ended.wait(BEAT_S):
                return


def pulse_here() -> Pulse:
    """The pulse for the supervisor of this process; it does nothing without one."""
    named = os.environ.get("TIDEGATE_HEARTBEAT_FILE")
    return Pulse(Path(named) if named else None)
