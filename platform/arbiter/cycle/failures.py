"""What becomes of a job that cannot start, and of those behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from arbiter.api.plan import Code
from arbiter.api.policy import Budget
from arbiter.api.snapshot import QueuedJob
from arbiter.backfill.reservations import Reservations
from arbiter.backfill.reserved import Reserved
from arbiter.backfill.team_limits import Kept
from arbiter.cache.pool import Pool
from arbiter.cycle.obstacles import Obstacles
from arbiter.preemption.reclaim import Reclaimer
from arbiter.queue.order import JobLine, TeamQueue


class Failures:
    """Sets jobs of one pool aside for the rest of the cycle.

    `left` is what the cycle may still do; the jobs `not_again` take no GPUs back in it.
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

    def fail(self, queue: TeamQueue, line: JobLine, code: Code, source: int) -> None:
        """Nobody of the class of `line` starts in this cycle, or nobody who would delay a
        reservation; in a strict queue nobody behind it either.

        A job that fits in its team's guarantee keeps its place in it, unless it would start no
        sooner if those behind it waited, too: it waits for one of its team that comes first, or
        for GPUs that nobody could give back and of which nobody knows when they come free.
        """
        cls, keeps_place = line.cls, source == queue.team
        if code is Code.RESERVED_FOR_LARGER_JOB:
            keeps_place &= not self._refuse(queue, line, source)
        else:
            cls.code = code
        if cls.may_reserve:
            self._keep_in_limits(queue, line, code)
        if code is Code.CLASS_CAP_REACHED:
            return
        if code is Code.WAITING_FOR_FREE_GPUS:
            keeps_place = keeps_place and self._may_get_gpus(line)
        if keeps_place and code is not Code.BEHIND_HIGHER_PRIORITY:
            queue.blocked_mgpu += cls.shape.total_mgpu
        if not self._skips_blocked(queue.team):
            for behind in queue.classes:
                if behind.code is None:
                    behind.code = Code.BEHIND_HIGHER_PRIORITY

    def _may_get_gpus(self, line: JobLine) -> bool:
        """Whether the next job of `line`, which cannot start, is to have its GPUs at a time that is
        known, or could have them now if all that is borrowed were gone, or may yet look in another
        cycle whom of lower class to stop for them."""
        job, shape, priority = line.job[1], line.cls.shape, line.cls.priority
        if self._reclaimer.could_be_freed(shape) or self._reserved.knows_when(job, shape):
            return True
        is_over = self._left.reclaims <= 0 or job in self._not_again
        return is_over and (priority.preempts or priority.preempts_others)

    def _keep_in_limits(self, queue: TeamQueue, line: JobLine, code: Code) -> None:
        """Keep room for the next job of `line` where its own team's limits refuse it."""
        team, by_cap = queue.team, code is Code.CLASS_CAP_REACHED
        shape = line.cls.shape
        if by_cap or (
            code is Code.WAITING_FOR_FREE_GPUS and self._pool.is_at_limit(team, shape.total_mgpu)
        ):
            has_place = self._reserved.fits(shape) or self._reclaimer.could_be_freed(shape)
            job = self._jobs[line.job[1]]
            self._reserved.limits.refuse(job, team, shape, has_place=has_place)

    def _skips_blocked(self, team: int) -> bool:
        tree, for_all = self._pool.tree, self._pool.policy.skips_blocked_within_team
        given = tree.given[tree.paths[team][-1]].skips_blocked_within_team
        return for_all if given is None else given

    def _refuse(self, queue: TeamQueue, line: JobLine, source: int) -> bool:
        """Set aside those of the class of `line`, and its next job among them, who would delay one
        for whom something is kept; whether that is in their own team's limits alone."""
        reserved, cls, team = self._reserved, line.cls, queue.team
        mgpu, class_id = cls.shape.total_mgpu, cls.priority.id
        kept = self._obstacles.kept_from(queue, line)
        longest: tuple[int, Reserved | Kept | None] | None
        if kept is not None:
            longest = reserved.limits.longest_s(team, mgpu, class_id)
        elif self._pool.blocker(team, mgpu) is None and reserved.fits(cls.shape):
            longest = reserved.longest_s(team, cls.shape, class_id, source)
        else:
            longest = reserved.longest_of_claim_s(self._jobs[line.job[1]], team, source)
        assert longest is not None
        longest_s, first = longest
        assert first is not None
        cls.reserved = first.job.mgpu, first.start_at
        queue.refuse(cls, self._obstacles.longer_than(longest_s))
        return kept is not None
