"""Whether any waiting job of a pool could still start or reclaim GPUs in a cycle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from arbiter.api.policy import Budget
from arbiter.api.snapshot import QueuedJob
from arbiter.backfill.reservations import Reservations
from arbiter.cache.pool import Pool
from arbiter.cache.pool_config import PoolConfig
from arbiter.placement.free_devices import Shape
from arbiter.preemption.reclaim import Reclaimer
from arbiter.queue.order import Age, JobClass, Priority, TeamQueue
from arbiter.queue.pending import PendingQueue
from arbiter.quota.tree import ROOT, UNLIMITED


class Prospects:
    """The classes of waiting jobs, searched one by one for one that could still be served.

    Free GPUs only decrease within a cycle until some job looks for victims. So a class that cannot
    be served is not looked at again until `look_out`.
    """

    def __init__(
        self,
        pool: Pool,
        pending: PendingQueue,
        left: Budget,
        reclaimer: Reclaimer,
        reserved: Reservations,
    ) -> None:
        """Share `left` and `reserved` with the cycle, which changes them.

        Call `look_out` before `are_any`.
        """
        self._pool = pool
        self._pending = pending
        self._left = left
        self._reclaimer = reclaimer
        self._reserved = reserved
        self._classes: Iterator[tuple[TeamQueue, JobClass]] = iter(())
        self._class: tuple[TeamQueue, JobClass] | None = None

    def may_be_any(self) -> bool:
        """Return whether any job has prospects, before the queues are built."""
        blocker = self._pool.blocker
        for shape, of_shape in self._pending.by_shape(self._pool.config.group_of).items():
            fits = self._left.starts > 0 and self._reserved.fits(shape)
            if not fits and self._left.reclaims <= 0:
                continue
            for pending_class in of_shape.values():
                group = pending_class.group
                team = group.team
                if team is None or group.code is not None:
                    continue
                if fits and blocker(team, shape.total_mgpu) is None:
                    return True
                if self.may_look_for_victims(team, shape, group.priority):
                    return True
        return False

    def look_out(self, reserved: Reservations) -> None:
        """Restart the search over all classes, with these reservations."""
        self._reserved = reserved
        self._classes = _in_question(self._pool.config, self._pending, self._left, reserved)
        self._class = next(self._classes, None)

    def are_any(self) -> bool:
        """Return whether any class could still start, or look for victims."""
        while self._class is not None:
            if self._may_any_start(*self._class):
                return True
            self._class = next(self._classes, None)
        return False

    def may_look_for_victims(self, team: int, shape: Shape, priority: Priority) -> bool:
        """Return whether GPUs might be reclaimed for jobs of a team."""
        if self._left.reclaims <= 0 or not self._reclaimer.may_find(team, priority):
            return False
        return (
            priority.preempts
            or priority.preempts_others
            or (
                self._reclaimer.could_help(team, shape)
                and self._reclaimer.could_be_freed(shape)
                and self._pool.source(team, shape.total_mgpu) != ROOT
            )
        )

    def _may_any_start(self, queue: TeamQueue, cls: JobClass) -> bool:
        if cls.code is not None:
            return False
        for user_queue in cls.user_queues:
            if user_queue.at < len(user_queue.jobs):
                break
        else:
            return False
        team, shape = queue.team, cls.shape
        if self._may_start(team, shape) and not self._all_delay(queue, cls):
            return True
        return self.may_look_for_victims(team, shape, cls.priority)

    def _may_start(self, team: int, shape: Shape) -> bool:
        """Return whether jobs of a team could start now if there were no reservations."""
        return (
            self._left.starts > 0
            and self._reserved.fits(shape)
            and self._pool.blocker(team, shape.total_mgpu) is None
        )

    def _all_delay(self, queue: TeamQueue, cls: JobClass) -> bool:
        """Return whether all jobs of a class that fits now would delay an existing reservation.

        Later reservations and starts never allow any of them to run longer.
        """
        if not self._reserved.may_bind(queue.team):
            return False
        source = self._pool.source(queue.team, cls.shape.total_mgpu)
        longest_s, _ = self._reserved.longest_s(queue.team, cls.shape, cls.priority.id, source)
        jobs = self._pending.jobs
        return all(
            longest_s < limit_s(jobs, job)
            for user_queue in cls.user_queues
            for job in user_queue.jobs[user_queue.at :]
        )


def _in_question(
    config: PoolConfig, pending: PendingQueue, left: Budget, reserved: Reservations
) -> Iterator[tuple[TeamQueue, JobClass]]:
    """Return all classes, without those that cannot start because others of their shape cannot."""
    for shape, of_shape in pending.by_shape(config.group_of).items():
        for pending_class in of_shape.values():
            if pending_class.at is not None:
                yield pending_class.at
                if left.reclaims <= 0 and (left.starts <= 0 or not reserved.fits(shape)):
                    break


def limit_s(jobs: Mapping[str, QueuedJob], job: Age) -> int:
    """Return the time limit in seconds of one of `jobs`; UNLIMITED if it has none."""
    given_s = jobs[job[1]].time_limit_s
    return UNLIMITED if given_s is None else given_s
