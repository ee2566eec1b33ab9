"""A queue of names on which some work is to be done: each is worked on by one thread at a time."""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque


class WorkQueue:
    """A name that is added while it is worked on comes once more afterwards."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ready: deque[str] = deque()
        self._wanted: set[str] = set()
        self._busy: set[str] = set()
        self._later: list[tuple[float, str]] = []

    def add(self, name: str) -> None:
        """Work on it as soon as somebody can."""
        with self._changed:
            self._add(name)

    def add_after(self, name: str, seconds: float) -> None:
        """Work on it then, too."""
        with self._changed:
            heapq.heappush(self._later, (time.monotonic() + seconds, name))
            self._changed.notify()

    def take(self) -> str:
        """The next name; `done` must follow."""
        with self._changed:
            while True:
                wait_s = self._move_due()
                if self._ready:
                    name = self._ready.popleft()
                    self._wanted.discard(name)
                    self._busy.add(name)
                    return name
                self._changed.wait(wait_s)

    def done(self, name: str) -> None:
        """The work on it is over."""
        with self._changed:
            self._busy.discard(name)
            if name in self._wanted:
                self._ready.append(name)
                self._changed.notify()

    def _add(self, name: str) -> None:
        if name in self._wanted:
            return
        self._wanted.add(name)
        if name not in self._busy:
            self._ready.append(name)
            self._changed.notify()

    def _move_due(self) -> float | None:
        """Add what is due; how long until the next is."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            self._add(heapq.heappop(self._later)[1])
        return self._later[0][0] - now if self._later else None
