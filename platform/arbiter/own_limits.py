"""Room inside a team's own limits that is kept for its first job which only these refuse.

Such a job waits for its own team's jobs and for nobody else, so it needs no reservation of
devices: those would stay idle while quota refuses it. But jobs of the team behind it that are small
enough would fill what ends there again and again, and it would wait for good. So the same rule
holds for them as for whoever comes after a reservation: one starts only where it is gone when the
first job fits, by what is known of the ends of what the team runs, or where room is left for both.
This is EASY backfill (Lifka, 1995) with the limit as the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from arbiter.holdings import Holding
from arbiter.pool import Pool
from arbiter.queue_order import Priority
from arbiter.quota_tree import UNLIMITED
from arbiter.snapshot import QueuedJob
from arbiter.time_limits import KnownEnds

#: A team, and the class that its cap is of; None: what limits is the team's own quota.
Key = tuple[int, str | None]


class Held(NamedTuple):
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

    def held(self, team: int, job: QueuedJob) -> Iterator[Held]:
        """What the others of the team of `job` hold; what is being stopped is gone at the end of
        its grace, or of its time limit before that."""
        pool, ends = self._pool, self._ends
        for earmark in pool.earmarks.values():
            if earmark.team == team:
                claimed = earmark.job
                yield Held(claimed.mgpu, claimed.priority_class, ends.of_claim(earmark), True)
        for new in self._new.get(team, ()):
            yield Held(new.mgpu, new.priority_class, ends.of_start(new, pool.taken_at), True)
        for leaving in (*pool.leaving, *pool.stopped):
            if leaving.team == team:
                gone_by = max(pool.taken_at, pool.grace_until(leaving))
                if (over := ends.of(leaving)) is not None:
                    gone_by = min(gone_by, over)
                yield Held(leaving.mgpu, leaving.run.priority_class, gone_by, False)
        place = -pool.ground.priority(job.priority_class).order, job.submitted_at, job.id
        jobs = pool.holdings.teams.get(team)
        for held in () if jobs is None else (one.what for one in jobs.jobs):
            if isinstance(held, Holding) and held not in pool.stopped:
                run = held.run
                is_first = (-held.order, run.submitted_at, run.job) < place
                yield Held(held.mgpu, run.priority_class, ends.of(held), is_first)

    def is_in_guarantee_by(self, at: int, job: QueuedJob, team: int) -> bool:
        """Whether `job` fits in its team's guarantee at a moment, beside what still runs then of
        those jobs of the team that come before it. Others, which have passed it, do not count."""
        left = self._pool.quota.guaranteed[team]
        if job.mgpu > left:
            return False
        for held in self.held(team, job):
            is_there = held.comes_first and (held.end is None or held.end > at)
            if is_there and held.mgpu <= left:
                left -= held.mgpu
        return job.mgpu <= left


@dataclass(slots=True)
class Kept:
    """From `start_at` on the limit has room for `job` and for `spare_mgpu` more. `is_own`: it fits
    in its team's guarantee then."""

    job: QueuedJob
    start_at: int
    is_own: bool
    spare_mgpu: int

    def binds(self, team: int, source: int) -> bool:
        """Whether it binds a job of its team that draws on the guarantee of `source`: what fits in
        the team's own goes before what would have to borrow."""
        return self.is_own or source != team


class OwnLimits:
    """What is kept in the limits of teams in one pool and cycle: for each team's quota and for each
    of its capped classes at most one job, the first in the team's order."""

    def __init__(self, pool: Pool, use: TeamUse) -> None:
        self._pool = pool
        self._use = use
        #: For whom something is to be kept, by teams, and what it comes to once somebody has asked
        #: (None: nobody knows when the limit has room).
        self._first: dict[int, dict[Key, QueuedJob]] = {}
        self._kept: dict[Key, Kept | None] = {}

    def refuse(self, job: QueuedJob, team: int, priority: Priority, *, by_cap: bool) -> None:
        """The team's own limit, or its cap in the class of `job`, refuses the job."""
        key = team, priority.id if by_cap else None
        self._first.setdefault(team, {}).setdefault(key, job)

    def __contains__(self, team: int) -> bool:
        """Whether something is to be kept in the limits of a team."""
        return team in self._first

    def binding(self, team: int, priority_class: str, source: int) -> Iterator[Kept]:
        """What a job of the team may not delay that is of such a class and draws on the guarantee
        of `source`."""
        first = self._first.get(team)
        if first is None:
            return
        for key, job in first.items():
            if key[1] is None or key[1] == priority_class:
                if key not in self._kept:
                    self._kept[key] = self._look(key, job)
                kept = self._kept[key]
                if kept is not None and kept.binds(team, source):
                    yield kept

    def longest_s(
        self, team: int, mgpu: int, priority_class: str, source: int
    ) -> tuple[int, Kept | None]:
        """How long such a job of the team may run that starts now, and for whom room is kept that
        allows no more; (UNLIMITED, None) where nothing is in its way."""
        longest: tuple[int, Kept | None] = UNLIMITED, None
        for kept in self.binding(team, priority_class, source):
            allowed_s = kept.start_at - self._pool.taken_at
            if allowed_s < longest[0] and mgpu > kept.spare_mgpu:
                longest = allowed_s, kept
        return longest

    def note(self, team: int, mgpu: int, priority_class: str, end: int | None) -> None:
        """A job of the team starts, or is promised GPUs, until `end`."""
        for key in self._first.get(team, ()):
            kept = self._kept.get(key)
            if kept is None or key[1] not in (None, priority_class):
                continue
            if end is None or end > kept.start_at:
                kept.spare_mgpu -= mgpu

    def forget(self, team: int) -> None:
        """Of what the team holds something goes sooner than it was known to."""
        for key in self._first.get(team, ()):
            self._kept.pop(key, None)

    def _look(self, key: Key, job: QueuedJob) -> Kept | None:
        pool, (team, capped) = self._pool, key
        if capped is None:
            limit = pool.quota.limits[team]
        else:
            cap = pool.ground.priority(capped).cap_mgpu
            assert cap is not None
            limit = cap
        held = [
            one
            for one in self._use.held(team, job)
            if capped is None or one.priority_class == capped
        ]
        spare = limit - job.mgpu - sum(one.mgpu for one in held)
        at = pool.taken_at
        ends = sorted((one.end, one.mgpu) for one in held if one.end is not None)
        for end, mgpu in ends:
            if spare >= 0 and end > at:
                break
            at = max(at, end)
            spare += mgpu
        if spare < 0:
            return None
        return Kept(job, at, self._use.is_in_guarantee_by(at, job, team), spare)
