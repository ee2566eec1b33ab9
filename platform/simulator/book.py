"""Queued jobs, running attempts and claims, carried over from plan to plan of the arbiter."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace

from arbiter.api.plan import Reclaim, Start
from arbiter.api.snapshot import Claim, Phase, QueuedJob, RunningJob
from arbiter.cycle.scheduler import Core
from arbiter.quota.tree import UNLIMITED


class Book:
    """Jobs by id: all `queued` ones and those with `claims`; `running` attempts by attempt id.

    The book reports every change to `core`. `kind` returns an equal key for jobs that differ only
    in their limits. Jobs of one kind are ordered by submit time, then by id.
    """

    def __init__(self, kind: Callable[[QueuedJob], Hashable], core: Core) -> None:
        self.core = core
        self.queued: dict[str, QueuedJob] = {}
        self.running: dict[str, RunningJob] = {}
        self.claims: dict[str, Claim] = {}
        self._kind = kind
        #: The jobs of each kind that wait without a claim, by age and by time limit.
        self._waiting: dict[Hashable, tuple[list[tuple[int, str]], list[tuple[int, str]]]] = {}

    def queue(self, job: QueuedJob) -> bool:
        """Add `job` to the waiting jobs without a claim.

        Return whether it is the first of its kind, or has the shortest time limit of its kind.
        """
        if self.queued.get(job.id) is not job:
            self.queued[job.id] = job
            self.core.queue(job)
        kind = self._kind(job)
        age, limit = (job.submitted_at, job.id), _limit(job)
        known = self._waiting.get(kind)
        if known is None:
            self._waiting[kind] = [age], [limit]
            return True
        by_age, by_limit = known
        insort(by_age, age)
        insort(by_limit, limit)
        return by_age[0] == age or by_limit[0] == limit

    def queue_claimed(self, job: QueuedJob, claim: Claim) -> None:
        """Add `job` to the waiting jobs, together with its claim."""
        self.queued[job.id] = job
        self.claims[job.id] = claim
        self.core.queue(job)
        self.core.claim(claim)

    def hold(self, run: RunningJob) -> None:
        """Record the attempt as running, in place of any earlier record of it."""
        self.running[run.attempt] = run
        self.core.hold(run)

    def release(self, attempt: str) -> RunningJob:
        """Remove the attempt and return its record."""
        self.core.release(attempt)
        return self.running.pop(attempt)

    def looked_at(self, most: int) -> int:
        """Return how many jobs a cycle looks at, counting up to `most` jobs of each kind."""
        waiting = sum(min(len(by_age), most) for by_age, _ in self._waiting.values())
        return waiting + len(self.claims) + len(self.running)

    def waiting(self) -> Iterator[tuple[Hashable, str, int]]:
        """Yield (kind, first job, number of jobs) of each kind that waits without a claim."""
        for kind, (by_age, _) in self._waiting.items():
            yield kind, by_age[0][1], len(by_age)

    def start(self, start: Start, now: int, preemptions: int) -> QueuedJob:
        """Move the job from the queue to the running attempts and return its queued record.

        The attempt has the id of the job. `preemptions` is how often the job was preempted before.
        """
        job = self.queued.pop(start.job)
        self.core.withdraw(job.id)
        if self.claims.pop(start.job, None) is None:
            self._take_out(job)
        else:
            self.core.unclaim(job.id)
        run = RunningJob(
            job=job.id,
            attempt=job.id,
            team=job.team,
            user=job.user,
            pool=start.pool or job.pool,
            cluster=start.cluster,
            slots=start.slots,
            priority_class=job.priority_class,
            submitted_at=job.submitted_at,
            started_at=now,
            time_limit_s=job.time_limit_s,
            preemptions=preemptions,
            cpu_milli=job.cpu_milli,
            memory_mib=job.memory_mib,
        )
        self.hold(run)
        return job

    def reclaim(self, reclaim: Reclaim, now: int) -> None:
        """Mark the victims as being stopped and give the job its claim."""
        self._take_out(self.queued[reclaim.job])
        claim = Claim(
            reclaim.job,
            reclaim.cluster,
            reclaim.slots,
            reclaim.grace_until,
            claimed_at=now,
            pool=reclaim.pool,
        )
        self.claims[reclaim.job] = claim
        self.core.claim(claim)
        for victim in reclaim.victims:
            self.hold(
                replace(
                    self.running[victim.attempt],
                    phase=Phase.STOPPING,
                    grace_until=now + victim.grace_s,
                    beneficiary=reclaim.job,
                )
            )

    def give_up(self, job: str) -> None:
        """Remove the claim of `job`, if it has one; the job waits without a claim again."""
        if self.claims.pop(job, None) is not None:
            self.core.unclaim(job)
            self.queue(self.queued[job])

    def _take_out(self, job: QueuedJob) -> None:
        """Remove `job` from the jobs that wait without a claim."""
        kind = self._kind(job)
        by_age, by_limit = self._waiting[kind]
        if len(by_age) == 1:
            del self._waiting[kind]
            return
        del by_age[bisect_left(by_age, (job.submitted_at, job.id))]
        del by_limit[bisect_left(by_limit, _limit(job))]


def _limit(job: QueuedJob) -> tuple[int, str]:
    """Return the sort key of a job by time limit."""
    return UNLIMITED if job.time_limit_s is None else job.time_limit_s, job.id
