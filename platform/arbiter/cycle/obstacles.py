"""The reason why a job cannot start now."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from arbiter.api.plan import Code
from arbiter.api.policy import Budget
from arbiter.api.snapshot import QueuedJob
from arbiter.backfill.reservations import Reservations
from arbiter.backfill.team_limits import ReservedSpace
from arbiter.cache.pool import Pool
from arbiter.cycle.prospects import limit_s
from arbiter.queue.order import Age, JobClass, TeamQueue, UserQueue


class Obstacles:
    """The obstacles of the jobs of one pool, with its reservations and the `left` budget."""

    __slots__ = ("_jobs", "_left", "_pool", "_reserved")

    def __init__(
        self, pool: Pool, jobs: Mapping[str, QueuedJob], reserved: Reservations, left: Budget
    ) -> None:
        self._pool = pool
        self._jobs = jobs
        self._reserved = reserved
        self._left = left

    def of(self, queue: TeamQueue, user_queue: UserQueue, source: int) -> Code | None:
        """Return why the next job of `user_queue` cannot start now, or None if it can.

        WAITING_FOR_FREE_GPUS stands for every refusal by quota or devices.
        """
        cls = user_queue.cls
        pool, team, mgpu = self._pool, queue.team, cls.shape.total_mgpu
        cap = cls.priority.cap_mgpu
        if cap is not None and mgpu > cap - pool.class_use.get((team, cls.priority.id), 0):
            return Code.CLASS_CAP_REACHED
        if queue.blocked_mgpu and not pool.guarantees.fits(team, team, queue.blocked_mgpu + mgpu):
            return Code.BEHIND_HIGHER_PRIORITY
        at = pool.blocker(team, mgpu)
        if at is not None or not self._reserved.fits(cls.shape):
            if at != team and self._may_not_claim(queue, user_queue):
                return Code.BEHIND_HIGHER_PRIORITY
            return Code.WAITING_FOR_FREE_GPUS
        if self.space_taken_by(queue, user_queue) is not None:
            return Code.RESERVED_FOR_LARGER_JOB
        if self._reserved.reserved_jobs and self._delays(queue, cls, source)(user_queue.job):
            return Code.RESERVED_FOR_LARGER_JOB
        if self._left.starts <= 0:
            return Code.BEHIND_FAIR_SHARE
        return None

    def space_taken_by(self, queue: TeamQueue, user_queue: UserQueue) -> ReservedSpace | None:
        """Return the reserved space in its team's limits that a user's next job would take."""
        limits, cls = self._reserved.limits, user_queue.cls
        if queue.team not in limits:
            return None
        mgpu = cls.shape.total_mgpu
        longest_s, space = limits.longest_s(queue.team, mgpu, cls.priority.id)
        return space if longest_s < limit_s(self._jobs, user_queue.job) else None

    def _may_not_claim(self, queue: TeamQueue, user_queue: UserQueue) -> bool:
        """Return whether a claim of a user's next job would delay an earlier job of its team.

        It is always False for a class that preempts within the team: that depends on the victims,
        and is checked once they are known.
        """
        return (
            queue.team in self._reserved.limits
            and not user_queue.cls.priority.preempts
            and self._reserved.claim_delays(self._jobs[user_queue.job[1]], queue.team)
        )

    def _delays(self, queue: TeamQueue, cls: JobClass, source: int) -> Callable[[Age], bool]:
        """Return a predicate: whether a job of `cls`, which fits now, would delay a reservation.

        Such a job may run longer than the reservation allows, or has no time limit.
        """
        longest_s, _ = self._reserved.longest_s(queue.team, cls.shape, cls.priority.id, source)
        return self.longer_than(longest_s)

    def longer_than(self, longest_s: int) -> Callable[[Age], bool]:
        def is_too_long(job: Age) -> bool:
            return longest_s < limit_s(self._jobs, job)

        return is_too_long
