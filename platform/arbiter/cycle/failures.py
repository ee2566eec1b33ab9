"""Consequences of a job that cannot start, for the job itself and for the jobs behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from arbiter.api.plan import Code
from arbiter.api.policy import Budget
from arbiter.api.snapshot import QueuedJob
from arbiter.backfill.reservations import Reservations
from arbiter.backfill.reserved import Reserved
from arbiter.backfill.team_limits import ReservedSpace
from arbiter.cache.pool import Pool
from arbiter.cycle.obstacles import Obstacles
from arbiter.preemption.reclaim import Reclaimer
from arbiter.queue.order import TeamQueue, UserQueue


class Failures:
    """Sets jobs of one pool aside for the rest of the cycle.

    `left` is the number of starts and reclaims that the cycle may still make. The jobs `not_again`
    must not reclaim GPUs in this cycle.
    """

    __slots__ = ("_jobs", "_left", "_not_again", "_obstacles", "_pool", "_reclaimer", "_reserved")

    def __init__(
        self,
        pool: Pool,
        jobs: Mapping[str, QueuedJob],
        reserved: Reservations,
        reclaimer: Reclaimer,
        obstacles: Obstacles,
        left: Budget,
        not_again: Collection[str],
    ) -> None:
        self._pool = pool
        self._jobs = jobs
        self._reserved = reserved
        self._reclaimer = reclaimer
        self._obstacles = obstacles
        self._left = left
        self._not_again = not_again

    def fail(self, queue: TeamQueue, user_queue: UserQueue, code: Code, source: int) -> None:
        """Set aside the class of `user_queue`, or only its jobs that would delay a reservation.

        In a strict queue all jobs behind it are set aside too.

        A job that fits in its team's guarantee keeps its place there. The exception is a job that
        would not start sooner if the jobs behind it waited. It waits for an earlier job of its
        team, or for GPUs that no job could free and that have no known end.
        """
        cls, keeps_place = user_queue.cls, source == queue.team
        if code is Code.RESERVED_FOR_LARGER_JOB:
            keeps_place &= not self._refuse(queue, user_queue, source)
        else:
            cls.code = code
        if cls.may_reserve:
            self._keep_in_limits(queue, user_queue, code)
        if code is Code.CLASS_CAP_REACHED:
            return
        if code is Code.WAITING_FOR_FREE_GPUS:
            keeps_place = keeps_place and self._may_get_gpus(user_queue)
        if keeps_place and code is not Code.BEHIND_HIGHER_PRIORITY:
            queue.blocked_mgpu += cls.shape.total_mgpu
        if not self._skips_blocked(queue.team):
            for behind in queue.classes:
                if behind.code is None:
                    behind.code = Code.BEHIND_HIGHER_PRIORITY

    def _may_get_gpus(self, user_queue: UserQueue) -> bool:
        """Return whether the blocked next job of `user_queue` can expect its GPUs.

        It can in any of these cases:

        - The time is known at which the GPUs come free.
        - They would be free without all borrowed jobs.
        - The job may look for victims of a lower class in a later cycle.
        """
        job, shape, priority = user_queue.job[1], user_queue.cls.shape, user_queue.cls.priority
        if self._reclaimer.could_be_freed(shape) or self._reserved.knows_when(job, shape):
            return True
        is_over = self._left.reclaims <= 0 or job in self._not_again
        return is_over and (priority.preempts or priority.preempts_others)

    def _keep_in_limits(self, queue: TeamQueue, user_queue: UserQueue, code: Code) -> None:
        """Keep space for a user's next job in its own team's limits, if these refuse it."""
        team, by_cap = queue.team, code is Code.CLASS_CAP_REACHED
        shape = user_queue.cls.shape
        if by_cap or (
            code is Code.WAITING_FOR_FREE_GPUS and self._pool.is_at_limit(team, shape.total_mgpu)
        ):
            has_place = self._reserved.fits(shape) or self._reclaimer.could_be_freed(shape)
            job = self._jobs[user_queue.job[1]]
            self._reserved.limits.refuse(job, team, shape, has_place=has_place)

    def _skips_blocked(self, team: int) -> bool:
        tree, for_all = self._pool.tree, self._pool.policy.skips_blocked_within_team
        given = tree.given[tree.paths[team][-1]].skips_blocked_within_team
        return for_all if given is None else given

    def _refuse(self, queue: TeamQueue, user_queue: UserQueue, source: int) -> bool:
        """Set aside the jobs in a user's class that would delay a job with a reservation.

        The user's next job is one of them. Return whether only the limits of its own team are in
        its way.
        """
        reserved, cls, team = self._reserved, user_queue.cls, queue.team
        mgpu, class_id = cls.shape.total_mgpu, cls.priority.id
        space = self._obstacles.space_taken_by(queue, user_queue)
        longest: tuple[int, Reserved | ReservedSpace | None] | None
        if space is not None:
            longest = reserved.limits.longest_s(team, mgpu, class_id)
        elif self._pool.blocker(team, mgpu) is None and reserved.fits(cls.shape):
            longest = reserved.longest_s(team, cls.shape, class_id, source)
        else:
            longest = reserved.longest_of_claim_s(self._jobs[user_queue.job[1]], team, source)
        assert longest is not None
        longest_s, first = longest
        assert first is not None
        cls.reserved = first.job.mgpu, first.start_at
        queue.refuse(cls, self._obstacles.longer_than(longest_s))
        return space is not None
