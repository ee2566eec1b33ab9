"""Questions to a cluster's accounting after each listing, bounded in number and time.

Accounting is asked about attempts that are about to be called lost. If it hangs, each question
would delay the observation of its cluster by a time-out. So after the first unanswered question no
more are asked for a while. The next round continues behind that question, so that no single attempt
blocks the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from connectors.errors import AccountUndecided, ConnectorError
from jobs.models import Attempt

Answered = TypeVar("Answered")

#: The most questions after one listing; accounting may take half a second for each.
ACCOUNTING_MAX = 20
#: No question begins after so many seconds, because the cluster is not observed meanwhile.
ASKING_S_MAX = 5
#: An accounting that did not answer is not asked again for so long.
PAUSE_S = 30


class NotAsked(Exception):
    """It is not this attempt's turn, or accounting does not answer now.

    The caller may ask after a later listing.
    """


class Questions:
    """The questions for one cluster; one object for as long as the cluster is observed."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._asked = 0
        self._begun_s = 0.0
        self._quiet_until_s: float | None = None
        self._last: dict[str, UUID] = {}

    def begin_round(self) -> None:
        """Begin the questions after a new listing."""
        self._asked = 0
        self._begun_s = self._monotonic_s()

    def in_turn(self, kind: str, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Return `attempts`, ordered by job, rotated to begin behind the last asked one.

        Each `kind` of question has its own place.
        """
        last = self._last.get(kind)
        if last is None:
            return list(attempts)
        behind = [attempt for attempt in attempts if attempt.job_id > last]
        return behind + [attempt for attempt in attempts if attempt.job_id <= last]

    def ask(self, kind: str, attempt: Attempt, question: Callable[[], Answered]) -> Answered:
        """Return the answer to `question`, which is about `attempt`.

        Raises NotAsked, and the ConnectorError of a question that was not answered.
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
