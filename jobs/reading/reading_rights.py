"""The right to read a job's output, checked again while an answer takes minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID

from jobs.reading.queries import get_job, require_log
from primitives.clock import Clock
from tenants.access import Actor

#: Seconds after which the right is checked again.
RECHECK_S = 60


class ReadingRight:
    """The right to read the output of a job. `actor_now` returns the actor with current rights."""

    def __init__(self, job_id: UUID, actor_now: Callable[[], Actor], clock: Clock) -> None:
        self._job_id = job_id
        self._actor_now = actor_now
        self._clock = clock
        self._checked_s = time.monotonic()

    def check(self) -> None:
        """Check the right if the last check is `RECHECK_S` ago.

        Raises Unauthenticated, Forbidden or NotFound once the right is gone.
        """
        now_s = time.monotonic()
        if now_s - self._checked_s < RECHECK_S:
            return
        self._checked_s = now_s
        actor = self._actor_now()
        require_log(get_job(self._job_id, actor=actor, now=self._clock.now()), actor)
