"""The effect of a change of quotas or of a limit: two futures of one snapshot, compared."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from arbiter.api.policy import Policy
from arbiter.api.snapshot import QueuedJob, Quota, Snapshot
from simulator.look_ahead import Assumptions, GpuTime, LookAhead, Loss, of_pools

#: The longest look-ahead, in seconds.
HORIZON_S_MAX = 31 * 86_400


class Alternative(Protocol):
    """A change to a snapshot. `pools` are those in which it matters."""

    @property
    def pools(self) -> frozenset[str]: ...

    def course(self, snapshot: Snapshot) -> list[tuple[int, Snapshot]]:
        """Return (moment, snapshot with the change) in order of time, the first from now on."""
        ...


@dataclass(frozen=True, slots=True)
class LongerLimit:
    """Another time limit of one job, which runs or waits."""

    job: str
    pools: frozenset[str]
    time_limit_s: int

    def course(self, snapshot: Snapshot) -> list[tuple[int, Snapshot]]:
        """See `Alternative`. It holds from now on."""
        changed = replace(
            snapshot,
            running=tuple(
                replace(run, time_limit_s=self.time_limit_s) if run.job == self.job else run
                for run in snapshot.running
            ),
            queued=tuple(
                replace(job, time_limit_s=self.time_limit_s) if job.id == self.job else job
                for job in snapshot.queued
            ),
        )
        return [(snapshot.taken_at, changed)]


@dataclass(frozen=True, slots=True)
class Change:
    """New quotas; each replaces the present quota of its node and pool, if there is one.

    They hold from `begins_at` (epoch seconds; None or past: at once) until `ends_at` (None: for
    good).
    """

    quotas: tuple[Quota, ...]
    begins_at: int | None = None
    ends_at: int | None = None

    @property
    def pools(self) -> frozenset[str]:
        """Return the pools with changed quotas."""
        return frozenset(quota.pool for quota in self.quotas)

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with these quotas."""
        changed = {(quota.node, quota.pool): quota for quota in self.quotas}
        unchanged = [quota for quota in snapshot.quotas if (quota.node, quota.pool) not in changed]
        return replace(snapshot, quotas=(*unchanged, *changed.values()))

    def course(self, snapshot: Snapshot) -> list[tuple[int, Snapshot]]:
        """Return (moment, snapshot with its quotas) in order of time, the first from now on."""
        now, changed = snapshot.taken_at, self.apply(snapshot)
        begins_at = now if self.begins_at is None else max(now, self.begins_at)
        found = [(now, snapshot), (begins_at, changed)] if begins_at > now else [(now, changed)]
        if self.ends_at is not None:
            found.append((max(begins_at, self.ends_at), snapshot))
        return found


@dataclass(frozen=True, slots=True)
class Shift:
    """A waiting job with another start time: epoch seconds without and with the change.

    A time of None is not before the end of the look-ahead. `sooner_s` is negative if the job starts
    later; with one None it is a lower bound of the shift, and `is_at_least` is true. `pool` is the
    first changed pool that the job accepts, or else its own.
    """

    job: str
    team: str
    user: str
    pool: str
    mgpu: int
    before: int | None
    after: int | None
    sooner_s: int

    @property
    def is_at_least(self) -> bool:
        """Return whether one of the two times is unknown."""
        return self.before is None or self.after is None


@dataclass(frozen=True, slots=True)
class TeamUse:
    """The GPUs of a team in use in a pool, in milli-GPU: now, and at the end of both futures."""

    team: str
    pool: str
    now_mgpu: int
    before_mgpu: int
    after_mgpu: int


@dataclass(frozen=True, slots=True)
class TeamTime:
    """GPU time of a team in a pool and a priority class, in milli-GPU-seconds, in both futures."""

    team: str
    pool: str
    priority_class: str
    guaranteed_before_mgpu_s: int
    guaranteed_after_mgpu_s: int
    borrowed_before_mgpu_s: int
    borrowed_after_mgpu_s: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The effects of a change from `taken_at` until `until`; largest first, then by id.

    `until` is before `asked_until` if the work was cut. `reclaimed` are the jobs preempted only
    with the change, `spared` the jobs preempted only without it. `precision_s` is the distance
    between the last decisions. `assumed_ends` is how many jobs have no time limit. `starts` has the
    first start of every waiting job that starts without the change, and `waiting` the waiting jobs.
    """

    taken_at: int
    asked_until: int
    until: int
    precision_s: int
    assumed_ends: int
    starts: Mapping[str, int]
    waiting: tuple[QueuedJob, ...]
    shifts: tuple[Shift, ...]
    reclaimed: tuple[Loss, ...]
    spared: tuple[Loss, ...]
    use: tuple[TeamUse, ...]
    time: tuple[TeamTime, ...]

    @property
    def is_cut(self) -> bool:
        """Return whether the look-ahead ended before the requested time."""
        return self.until < self.asked_until


def what_if(
    snapshot: Snapshot,
    policy: Policy,
    change: Alternative,
    horizon_s: int,
    assumptions: Assumptions | None = None,
) -> Difference:
    """Return how the next `horizon_s` seconds differ with and without `change`.

    The same core decides both futures at the same moments and up to the same end (`look_ahead`).
    Only the changed pools are simulated, and the pools joined with them by jobs that accept
    several. Use in other pools counts for fair-share until now.

    The result is pure and deterministic. `assumptions` bound the work; `until` shows where it was
    cut.

    Raises ValueError for a horizon that is not from 1 s to 31 days, or for an invalid tree.
    """
    if not 1 <= horizon_s <= HORIZON_S_MAX:
        raise ValueError(f"the horizon is {horizon_s} s; choose 1 to {HORIZON_S_MAX}")
    assumed = assumptions or Assumptions()
    here = of_pools(snapshot, change.pools)
    begins, asked_until = here.taken_at, here.taken_at + horizon_s
    before = LookAhead(here, policy, assumed)
    (_, first), *switches = change.course(here)
    after = LookAhead(first, policy, assumed)
    used = before.in_use()
    work = before.decide() + after.decide()
    assumed = assumed.within(work, begins, asked_until)
    moments = assumed.moments(begins, asked_until)
    place, until = 0, asked_until
    while next_events := [
        one
        for one in (
            before.next_event_at(),
            after.next_event_at(),
            switches[0][0] if switches else None,
        )
        if one is not None
    ]:
        place = bisect_left(moments, min(next_events), lo=place + 1)
        if place == len(moments):
            break
        if work >= assumed.work_max:
            until = moments[place]
            break
        for future in (before, after):
            future.advance(moments[place])
        while switches and switches[0][0] <= moments[place]:
            after.switch_to(switches.pop(0)[1])
        work += before.decide() + after.decide()
    before.close(until)
    after.close(until)
    return Difference(
        taken_at=begins,
        asked_until=asked_until,
        until=until,
        precision_s=assumed.step(until - begins),
        assumed_ends=sum(run.time_limit_s is None for run in here.running)
        + sum(job.time_limit_s is None for job in here.queued),
        starts=before.started,
        waiting=tuple(sorted(here.queued, key=lambda job: job.id)),
        shifts=_shifts(here, before.started, after.started, until, change.pools),
        reclaimed=_only(after.lost, before.lost),
        spared=_only(before.lost, after.lost),
        use=_uses(used, before.in_use(), after.in_use(), change.pools),
        time=_times(before.gpu_time, after.gpu_time, change.pools),
    )


def _shifts(
    snapshot: Snapshot,
    before: Mapping[str, int],
    after: Mapping[str, int],
    until: int,
    pools: Collection[str],
) -> tuple[Shift, ...]:
    found = []
    for job in snapshot.queued:
        without, with_it = before.get(job.id), after.get(job.id)
        if without != with_it:
            pool = next((pool for pool in job.pools if pool in pools), job.pool)
            sooner_s = (until if without is None else without) - (
                until if with_it is None else with_it
            )
            found.append(
                Shift(job.id, job.team, job.user, pool, job.mgpu, without, with_it, sooner_s)
            )
    return tuple(sorted(found, key=lambda one: (-abs(one.sooner_s), one.job)))


def _only(here: Mapping[str, Loss], there: Mapping[str, Loss]) -> tuple[Loss, ...]:
    """Return the losses that only the first of two futures has."""
    found = [loss for job, loss in here.items() if job not in there]
    return tuple(sorted(found, key=lambda one: (-one.at_risk_mgpu_s, one.job)))


def _uses(
    now: Mapping[tuple[str, str], int],
    before: Mapping[tuple[str, str], int],
    after: Mapping[tuple[str, str], int],
    pools: Collection[str],
) -> tuple[TeamUse, ...]:
    return tuple(
        TeamUse(*key, now.get(key, 0), before.get(key, 0), after.get(key, 0))
        for key in sorted(now.keys() | before.keys() | after.keys())
        if key[1] in pools
    )


def _times(
    before: Mapping[tuple[str, str, str], GpuTime],
    after: Mapping[tuple[str, str, str], GpuTime],
    pools: Collection[str],
) -> tuple[TeamTime, ...]:
    none = GpuTime()
    return tuple(
        TeamTime(
            *key,
            before.get(key, none).guaranteed_mgpu_s,
            after.get(key, none).guaranteed_mgpu_s,
            before.get(key, none).borrowed_mgpu_s,
            after.get(key, none).borrowed_mgpu_s,
        )
        for key in sorted(before.keys() | after.keys())
        if key[1] in pools
    )
