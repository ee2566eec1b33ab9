"""What a change of quotas would do: two futures of one snapshot, and how they differ."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Quota, Snapshot
from simulator.look_ahead import Assumptions, Held, LookAhead, Loss, of_pools

_HORIZON_S_MAX = 31 * 86_400


@dataclass(frozen=True, slots=True)
class Change:
    """Quotas as they would be, each in the place of that of its node and pool, or new: from
    `begins_at` on (epoch seconds), at once if None or past, and until `ends_at`, for good if None.
    """

    quotas: tuple[Quota, ...]
    begins_at: int | None = None
    ends_at: int | None = None

    @property
    def pools(self) -> frozenset[str]:
        """The pools that it touches."""
        return frozenset(quota.pool for quota in self.quotas)

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with these quotas."""
        changed = {(quota.node, quota.pool): quota for quota in self.quotas}
        kept = [quota for quota in snapshot.quotas if (quota.node, quota.pool) not in changed]
        return replace(snapshot, quotas=(*kept, *changed.values()))

    def course(self, snapshot: Snapshot) -> list[tuple[int, Snapshot]]:
        """From when on which quotas count, in the order of time, the first from now on."""
        now, changed = snapshot.taken_at, self.apply(snapshot)
        begins_at = now if self.begins_at is None else max(now, self.begins_at)
        found = [(now, snapshot), (begins_at, changed)] if begins_at > now else [(now, changed)]
        if self.ends_at is not None:
            found.append((max(begins_at, self.ends_at), snapshot))
        return found


@dataclass(frozen=True, slots=True)
class Shift:
    """A waiting job that starts at another time: epoch seconds without and with the change. `pool`
    is the first that it accepts of those that the change touches, if there is one.

    None is not before the end of what was looked at. `sooner_s` is negative where it starts later;
    with one None it is that much at least, and `is_at_least`.
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
        """Whether one of the two times is not known."""
        return self.before is None or self.after is None


@dataclass(frozen=True, slots=True)
class TeamUse:
    """What a team has in use of a pool, in milli-GPU: now, and at the end of both futures."""

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
    """What a change would do from `taken_at` until `until`; largest first, then by id.

    `until` is before `asked_until` where the work was cut. `reclaimed` are the jobs that are given
    notice only with the change, `spared` those only without. `precision_s` is how far apart the
    last decisions are; `assumed_ends` is how many jobs have no time limit.
    """

    taken_at: int
    asked_until: int
    until: int
    precision_s: int
    assumed_ends: int
    shifts: tuple[Shift, ...]
    reclaimed: tuple[Loss, ...]
    spared: tuple[Loss, ...]
    use: tuple[TeamUse, ...]
    time: tuple[TeamTime, ...]

    @property
    def is_cut(self) -> bool:
        """Whether it was not looked as far ahead as was asked."""
        return self.until < self.asked_until


def what_if(
    snapshot: Snapshot,
    policy: Policy,
    change: Change,
    horizon_s: int,
    assumptions: Assumptions | None = None,
) -> Difference:
    """How the next `horizon_s` seconds differ between `snapshot` and `snapshot` with `change`.

    Both are decided by the same core at the same moments, and see the same end (`look_ahead`). Only
    the pools that the change touches are looked at, and those that are joined with them by jobs
    that accept several: what was used elsewhere counts for fair-share until now. Pure and
    deterministic; the work is bounded by `assumptions`, and what is left out then is told by
    `until`.

    Raises ValueError for a horizon that is not from 1 s to 31 days, or a tree that is none.
    """
    if not 1 <= horizon_s <= _HORIZON_S_MAX:
        raise ValueError(f"the horizon is {horizon_s} s; choose 1 to {_HORIZON_S_MAX}")
    assumed = assumptions or Assumptions()
    here = of_pools(snapshot, change.pools)
    begins, asked_until = here.taken_at, here.taken_at + horizon_s
    before = LookAhead(here, policy, assumed)
    (_, first), *turns = change.course(here)
    after = LookAhead(first, policy, assumed)
    used = before.in_use()
    work = before.decide() + after.decide()
    assumed = assumed.within(work, begins, asked_until)
    moments = assumed.moments(begins, asked_until)
    place, until = 0, asked_until
    while due := [
        one
        for one in (before.due(), after.due(), turns[0][0] if turns else None)
        if one is not None
    ]:
        place = bisect_left(moments, min(due), lo=place + 1)
        if place == len(moments):
            break
        if work >= assumed.work_max:
            until = moments[place]
            break
        for future in (before, after):
            future.advance(moments[place])
        while turns and turns[0][0] <= moments[place]:
            after.turn_to(turns.pop(0)[1])
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
        shifts=_shifts(here, before.started, after.started, until, change.pools),
        reclaimed=_only(after.lost, before.lost),
        spared=_only(before.lost, after.lost),
        use=_uses(used, before.in_use(), after.in_use(), change.pools),
        time=_times(before.held, after.held, change.pools),
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
    """The losses that only one of two futures has."""
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
    before: Mapping[tuple[str, str, str], Held],
    after: Mapping[tuple[str, str, str], Held],
    pools: Collection[str],
) -> tuple[TeamTime, ...]:
    none = Held()
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
