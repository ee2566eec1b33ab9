"""What waits, runs and is claimed, carried on from plan to plan of the arbiter."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace

from arbiter.api.plan import Reclaim, Start
from arbiter.api.snapshot import Claim, Phase, QueuedJob, RunningJob
from arbiter.cycle.scheduler import Core
from arbiter.quota.tree import UNLIMITED


class Book:
    """Jobs by id, `queued` and those with one of the `claims`; `running` attempts by theirs.

    `core` is told of every change. `kind` says what makes jobs alike but for their limits; of one
    kind the earlier submitted stand first, then the smaller ids.
    """

    def __init__(self, kind: Callable[[QueuedJob], Hashable], core: Core) -> None:
        self.core = core
        self.queued: dict[str, QueuedJob] = {}
        self.running: dict[str, RunningJob] = {}
        self.claims: dict[str, Claim] = {}
        self._kind = kind
        #: The jobs of each kind that wait without a claim, by age and by time limit.
        self._lines: dict[Hashable, tuple[list[tuple[int, str]], list[tuple[int, str]]]] = {}

    def queue(self, job: QueuedJob) -> bool:
        """`job` waits without a claim from now on; whether it is the first of its kind, or the one
        with the shortest time limit."""
        if self.queued.get(job.id) is not job:
            self.queued[job.id] = job
            self.core.queue(job)
        kind = self._kind(job)
        age, limit = (job.submitted_at, job.id), _limit(job)
        known = self._lines.get(kind)
        if known is None:
            self._lines[kind] = [age], [limit]
            return True
        line, by_limit = known
        insort(line, age)
        insort(by_limit, limit)
        return line[0] == age or by_limit[0] == limit

    def queue_claimed(self, job: QueuedJob, claim: Claim) -> None:
        """`job` waits with a claim."""
        self.queued[job.id] = job
        self.claims[job.id] = claim
        self.core.queue(job)
        self.core.claim(claim)

    def hold(self, run: RunningJob) -> None:
        """The attempt runs; what was known of it is replaced."""
        self.running[run.attempt] = run
        self.core.hold(run)

    def release(self, attempt: str) -> RunningJob:
        """The attempt is gone; returns how it ran."""
        self.core.release(attempt)
        return self.running.pop(attempt)

    def looked_at(self, most: int) -> int:
        """How many jobs a cycle looks at, of each kind at most so many."""
        waiting = sum(min(len(line), most) for line, _ in self._lines.values())
        return waiting + len(self.claims) + len(self.running)

    def waiting(self) -> Iterator[tuple[Hashable, str, int]]:
        """Of each kind of which jobs wait without a claim: the first job, and how many."""
        for kind, (line, _) in self._lines.items():
            yield kind, line[0][1], len(line)

    def start(self, start: Start, now: int, preemptions: int) -> QueuedJob:
        """The job, stopped for others so often before, runs from now on as an attempt of the same
        id; returns how it waited."""
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
        """The victims are being stopped from now on, and the job has a claim."""
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
        """The claim of `job`, if it has one, is no more."""
        if self.claims.pop(job, None) is not None:
            self.core.unclaim(job)
            self.queue(self.queued[job])

    def _take_out(self, job: QueuedJob) -> None:
        """`job` waits without a claim no more."""
        kind = self._kind(job)
        line, by_limit = self._lines[kind]
        if len(line) == 1:
            del self._lines[kind]
            return
        del line[bisect_left(line, (job.submitted_at, job.id))]
        del by_limit[bisect_left(by_limit, _limit(job))]


def _limit(job: QueuedJob) -> tuple[int, str]:
    """What orders jobs by time limit."""
    return UNLIMITED if job.time_limit_s is None else job.time_limit_s, job.id
