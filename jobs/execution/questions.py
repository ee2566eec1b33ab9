"""What a cluster's accounting is asked after each listing, so that its silence stops nothing else.

Accounting is asked about what is about to be called lost. One that hangs would hold up the look at
its cluster for a time-out each, so the first question that gets no answer is the last for a
while; the next round goes on behind it, so that no single one keeps the others from being asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from connectors.errors import AccountUndecided, ConnectorError
from jobs.models import Attempt

Answered = TypeVar("Answered")

#: Questions after one listing at most; accounting may take half a second for each.
ACCOUNTING_MAX = 20
#: No more is asked after so many seconds: meanwhile nobody looks at what runs there.
ASKING_S_MAX = 5
#: An accounting that did not answer is not asked again for so long.
PAUSE_S = 30


class NotAsked(Exception):
    """It is not this one's turn, or accounting does not answer now: ask after a later listing."""


class Questions:
    """The questions for one cluster; one object for as long as somebody looks at it."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._asked = 0
        self._begun_s = 0.0
        self._quiet_until_s: float | None = None
        self._last: dict[str, UUID] = {}

    def begin_round(self) -> None:
        """A new listing is there."""
        self._asked = 0
        self._begun_s = self._monotonic_s()

    def in_turn(self, kind: str, attempts: Sequence[Attempt]) -> list[Attempt]:
        """`attempts`, ordered by their jobs, from the one behind the last of this `kind` that was
        asked about."""
        last = self._last.get(kind)
        if last is None:
            return list(attempts)
        behind = [attempt for attempt in attempts if attempt.job_id > last]
        return behind + [attempt for attempt in attempts if attempt.job_id <= last]

    def ask(self, kind: str, attempt: Attempt, question: Callable[[], Answered]) -> Answered:
        """The answer to `question`, which is about `attempt`.

        Raises NotAsked, and the ConnectorError of the question that was not answered.
        """
        now_s = self._monotonic_s()
        if (
            self._asked >= ACCOUNTING_MAX
            or now_s - self._begun_s > ASKING_S_MAX
            or (self._quiet_until_s is not None and now_s < self._quiet_until_s)
        ):
            raise NotAsked
        self._asked += 1
        self._last[kind] = attempt.job_id
        try:
            answer = question()
        except AccountUndecided:
            raise
        except ConnectorError:
            self._quiet_until_s = self._monotonic_s() + PAUSE_S
            raise
        self._quiet_until_s = None
        return answer
