"""What the jobs of each team hold of one pool while a cycle goes on, and until when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from arbiter.earmarks import Earmark
from arbiter.holdings import Holding, Node
from arbiter.pool import Pool
from arbiter.snapshot import QueuedJob
from arbiter.time_limits import KnownEnds


@dataclass(slots=True, eq=False)
class Held:
    """What one job of a team holds or is promised of a pool, in milli-GPU, of which class it is,
    and when it is gone at the latest in epoch seconds (None: nobody knows). `comes_first` says
    whether the job that is asked for comes after it in the team's order (class, submit time, id);
    what starts in this cycle or is claimed counts as if."""

    mgpu: int
    priority_class: str
    end: int | None
    comes_first: bool


class TeamUse:
    """What the jobs of each team hold, and until when."""

    def __init__(self, pool: Pool, ends: KnownEnds) -> None:
        self._pool = pool
        self._ends = ends
        self._new: dict[int, list[QueuedJob]] = {}

    def note_start(self, job: QueuedJob, team: int) -> None:
        """`job` starts in this cycle."""
        self._new.setdefault(team, []).append(job)

    def held(self, team: int, job: QueuedJob, *, before: bool = False) -> Iterator[Held]:
        """What the others of the team of `job` hold, or of those that run only who come `before`
        it; what is being stopped is gone at the end of its grace, or of its time limit before that.
        A claim takes the place of those of its own team who are stopped for it."""
        pool, ends = self._pool, self._ends
        replaced: dict[Holding, int] = {}
        for earmark in self._claims(team):
            claimed = earmark.job
            yield Held(claimed.mgpu, claimed.priority_class, ends.of_claim(earmark), True)
            left = claimed.mgpu
            for one in earmark.going:
                if one.team == team:
                    replaced[one] = min(left, one.mgpu)
                    left -= replaced[one]
        for new in self._new.get(team, ()):
            yield Held(new.mgpu, new.priority_class, ends.of_start(new, pool.taken_at), True)
        for leaving in (*pool.leaving, *pool.stopped):
            if leaving.team == team:
                gone_by = max(pool.taken_at, pool.grace_until(leaving))
                if (over := ends.of(leaving)) is not None:
                    gone_by = min(gone_by, over)
                mgpu = leaving.mgpu - replaced.get(leaving, 0)
                yield Held(mgpu, leaving.run.priority_class, gone_by, False)
        place = -pool.ground.priority(job.priority_class).order, job.submitted_at, job.id
        for held in self._running(team):
            if held not in pool.stopped:
                run = held.run
                is_first = (-held.order, run.submitted_at, run.job) < place
                if is_first or not before:
                    yield Held(held.mgpu, run.priority_class, ends.of(held), is_first)

    def counted_mgpu(self, team: int) -> int:
        """What of the team's use is known job by job: of claims, what is free for them."""
        leaving = (one.mgpu for one in self._pool.leaving if one.team == team)
        return (
            sum(one.mgpu for one in self._running(team))
            + sum(leaving)
            + sum(new.mgpu for new in self._new.get(team, ()))
            + sum(one.uncovered_mgpu for one in self._claims(team))
        )

    def _claims(self, team: int) -> list[Earmark]:
        return [one for one in self._pool.earmarks.values() if one.team == team]

    def _running(self, team: int) -> Iterator[Holding]:
        jobs = self._pool.holdings.teams.get(team)
        for held in () if jobs is None else (one.what for one in jobs.jobs):
            if isinstance(held, Holding):
                yield held

    def end_of(self, holding: Holding) -> int | None:
        """When an attempt that nobody stops is gone at the latest, if that is known."""
        return self._ends.of(holding)

    def on_nodes(self, team: int) -> Counter[Node]:
        """What the team's running jobs hold of each node and room."""
        found = Counter[Node]()
        for held in self._running(team):
            for slot in held.run.slots:
                found[held.run.cluster, slot.node] += slot.mgpu
        return found

    def is_in_guarantee_by(self, at: int, job: QueuedJob, team: int) -> bool:
        """Whether `job` fits in its team's guarantee at a moment, beside what still runs then of
        those jobs of the team that come before it. Others, which have passed it, do not count."""
        left = self._pool.quota.guaranteed[team]
        if job.mgpu > left:
            return False
        for held in self.held(team, job, before=True):
            is_there = held.comes_first and (held.end is None or held.end > at)
            if is_there and held.mgpu <= left:
                left -= held.mgpu
        return job.mgpu <= left
