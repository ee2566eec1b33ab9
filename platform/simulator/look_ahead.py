"""The future of a snapshot if no more work is submitted, simulated with the same core.

Jobs end at their time limits. A job without a limit is assumed to run for `Assumptions.runtime_s`,
or for twice its present run time if that is longer. A preempted job holds its GPUs until the end of
the grace, queues again and starts from the beginning, on the same cluster. No other submission,
failure or change happens.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from arbiter.api.plan import Plan, Victim
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Phase, QueuedJob, RunningJob, Snapshot
from arbiter.cycle.scheduler import Core
from arbiter.quota.tree import tree_of
from simulator.accounts import RecentUse
from simulator.book import Book

#: The most jobs of one kind that count as work.
_COUNTED = 4

_RANGES = {
    "runtime_s": (1, 366 * 86_400),
    "step_s": (1, 86_400),
    "precision": (1, 10_000),
    "precision_min": (1, 10_000),
    "work_max": (1, 10**9),
}


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The assumptions of a look-ahead, and the limits of its work.

    `runtime_s`: how long a job without a time limit runs. Decisions have fixed moments, independent
    of events. The distance between two moments is `step_s`, or the time ahead divided by
    `precision` if that is longer. `precision` is lowered down to `precision_min` if the work would
    be too much otherwise. No further step is taken once the cycles have looked at `work_max` jobs,
    running ones included.

    Raises ValueError when a number is out of its range.
    """

    runtime_s: int = 86_400
    step_s: int = 60
    precision: int = 50
    precision_min: int = 10
    work_max: int = 200_000

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} is {value}; choose {low} to {high}")

    def within(self, work: int, begins: int, ends: int) -> Assumptions:
        """Return a copy with the highest precision that keeps the work within `work_max`.

        `work` is the work of the first moment; every moment is assumed to need as much.
        """
        chosen = self
        while (
            chosen.precision > self.precision_min
            and work * len(chosen.moments(begins, ends)) > self.work_max
        ):
            chosen = replace(chosen, precision=max(self.precision_min, chosen.precision // 2))
        return chosen

    def step(self, ahead_s: int) -> int:
        """Return the seconds between two decisions that are `ahead_s` seconds ahead."""
        return max(self.step_s, ahead_s // self.precision)

    def moments(self, begins: int, ends: int) -> tuple[int, ...]:
        """Return the moments of decisions from `begins` on and before `ends`."""
        found = [begins]
        while (following := found[-1] + self.step(found[-1] - begins)) < ends:
            found.append(following)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Loss:
    """A running job that is preempted at `noticed_at`, for `beneficiary`.

    `at_risk_mgpu_s` is its work from its last known checkpoint, or its start, until `noticed_at`.
    """

    job: str
    team: str
    user: str
    pool: str
    mgpu: int
    noticed_at: int
    at_risk_mgpu_s: int
    beneficiary: str


@dataclass(slots=True)
class GpuTime:
    """GPU time of one team, pool and priority class, in milli-GPU-seconds."""

    guaranteed_mgpu_s: int = 0
    borrowed_mgpu_s: int = 0


class LookAhead:
    """One future of a snapshot, advanced moment by moment.

    `started` has the first start of every waiting job, `lost` the first preemption of every job.
    `gpu_time` is the GPU time by (team, pool, priority class) up to the present moment of the
    simulation.
    """

    def __init__(self, snapshot: Snapshot, policy: Policy, assumptions: Assumptions) -> None:
        self.now = snapshot.taken_at
        self.started: dict[str, int] = {}
        self.lost: dict[str, Loss] = {}
        self.gpu_time: dict[tuple[str, str, str], GpuTime] = {}
        self._assumptions = assumptions
        core = Core(policy)
        self._book = Book(_kind, core)
        self._set_tree(snapshot)
        core.set_devices(snapshot.devices, snapshot.clusters)
        core.set_maintenance(snapshot.maintenance)
        #: The ends of maintenance windows, after which jobs may start without another event.
        self._reopenings = sorted({one.end_at for one in snapshot.maintenance})
        core.set_balances(snapshot.balances)
        self._wake: int | None = self.now
        #: The guaranteed milli-GPU of an attempt, and since when.
        self._classed: dict[str, tuple[int, int]] = {}
        #: When an attempt ends. `_ends` is a heap of the same; its entries may be out of date.
        self._end_of: dict[str, int] = {}
        self._ends: list[tuple[int, str]] = []
        #: How often requeued jobs were preempted; unknown for jobs that waited in the snapshot.
        self._preemptions: dict[str, int] = {}
        #: The queued record of each started job, for when it queues again.
        self._waited: dict[str, QueuedJob] = {}
        self._half_lives = _half_lives(snapshot, policy)
        #: Use by half-life and pool.
        self._used: dict[tuple[int, str], RecentUse] = {}
        for row in snapshot.usage:
            if row.team in self._half_lives:
                self._used_in(row.team, row.pool).know(row)
        claims = {claim.job: claim for claim in snapshot.claims}
        for job in snapshot.queued:
            if job.id in claims:
                self._book.queue_claimed(job, claims[job.id])
            else:
                self._book.queue(job)
        for run in snapshot.running:
            self._book.hold(run)
            self._begin(run)

    # -- the loop ---------------------------------------------------------------------------

    def next_event_at(self) -> int | None:
        """Return the time of the next event, or None."""
        ends = self._next_end()
        if self._wake is None or (ends is not None and ends < self._wake):
            return ends
        return self._wake

    def advance(self, until: int) -> None:
        """Move the time to `until` and end every attempt that is due by then."""
        while (ends := self._next_end()) is not None and ends <= until:
            _, attempt = heappop(self._ends)
            self._leave(attempt, ends)
        self.now = until

    def switch_to(self, snapshot: Snapshot) -> None:
        """Use the tree, quotas and classes of `snapshot` from now on."""
        self._set_tree(snapshot)
        self._wake = self.now

    def _set_tree(self, snapshot: Snapshot) -> None:
        self._book.core.set_tree(
            snapshot.nodes, snapshot.quotas, snapshot.priority_classes, snapshot.pool_weights
        )

    def close(self, until: int) -> None:
        """End the simulation just before `until` and complete `gpu_time`; call it last."""
        self.advance(until - 1)
        for attempt in self._book.running:
            self._settle(attempt, until)

    def decide(self) -> int:
        """Run a cycle if anything changed and return how many jobs it looked at."""
        if self._wake is None or self._wake > self.now:
            return 0
        core, looked_at = self._book.core, self._book.looked_at(_COUNTED)
        core.set_usage(tuple(row for used in self._used.values() for row in used.usage(self.now)))
        plan = core.cycle(self.now, explains=False)
        self._apply(plan)
        has_news = plan.starts or plan.reclaims or plan.dropped_claims
        self._wake = self.now + 1 if has_news else self._next_reopening()
        return looked_at

    def _next_reopening(self) -> int | None:
        """Return the next end of a maintenance window, or None."""
        return next((at for at in self._reopenings if at > self.now), None)

    def in_use(self) -> dict[tuple[str, str], int]:
        """Return the GPUs in use now by (team, pool), in milli-GPU."""
        found: dict[tuple[str, str], int] = {}
        for run in self._book.running.values():
            found[run.team, run.pool] = found.get((run.team, run.pool), 0) + run.mgpu
        return found

    def _next_end(self) -> int | None:
        """Return the time of the next end of an attempt, or None."""
        while self._ends and self._end_of.get(self._ends[0][1]) != self._ends[0][0]:
            heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def _apply(self, plan: Plan) -> None:
        now = self.now
        for dropped in plan.dropped_claims:
            self._book.give_up(dropped)
        for start in plan.starts:
            job = self._book.start(start, now, self._preemptions.get(start.job, 0))
            self._waited[job.id] = job
            self.started.setdefault(job.id, now)
            run = replace(self._book.running[job.id], guaranteed_mgpu=start.guaranteed_mgpu)
            self._book.hold(run)
            self._begin(run)
        for reclaim in plan.reclaims:
            self._book.reclaim(reclaim, now)
            for victim in reclaim.victims:
                self._note(victim, reclaim.job)
        for classed in plan.classed:
            self._settle(classed.attempt, now)
            self._classed[classed.attempt] = classed.guaranteed_mgpu, now
            run = self._book.running[classed.attempt]
            self._book.hold(replace(run, guaranteed_mgpu=classed.guaranteed_mgpu))

    # -- jobs -------------------------------------------------------------------------------

    def _begin(self, run: RunningJob) -> None:
        """Record that `run` holds its GPUs from now on, and when it will end."""
        self._classed[run.attempt] = run.guaranteed_mgpu or 0, self.now
        self._use(run, run.mgpu, self.now)
        ends: int | None
        if run.phase is Phase.STOPPING:
            ends = run.grace_until
        else:
            ran = self.now - run.started_at
            whole = run.time_limit_s
            if whole is None:
                whole = max(self._assumptions.runtime_s, 2 * ran)
            ends = run.started_at + whole
        if ends is not None:
            self._leave_at(run.attempt, max(ends, self.now + 1))

    def _leave_at(self, attempt: str, at: int) -> None:
        self._end_of[attempt] = at
        heappush(self._ends, (at, attempt))

    def _note(self, victim: Victim, beneficiary: str) -> None:
        """Record the preemption of `victim`: it ends after its grace, or earlier by itself."""
        run, now = self._book.running[victim.attempt], self.now
        safe_since = max(run.started_at, run.checkpoint_at or run.started_at)
        self.lost.setdefault(
            run.job,
            Loss(
                run.job,
                run.team,
                run.user,
                run.pool,
                run.mgpu,
                now,
                run.mgpu * max(0, now - safe_since),
                beneficiary,
            ),
        )
        gone = now + victim.grace_s
        if self._end_of.get(run.attempt, gone) >= gone:
            self._leave_at(run.attempt, max(gone, now + 1))

    def _leave(self, attempt: str, at: int) -> None:
        """End the attempt at `at`; a job preempted for another job queues again."""
        self._settle(attempt, at)
        run = self._book.release(attempt)
        del self._end_of[attempt], self._classed[attempt]
        self._use(run, -run.mgpu, at)
        self._wake = at if self._wake is None else min(self._wake, at)
        is_stopped = run.phase is Phase.STOPPING and run.beneficiary is not None
        is_cut = run.grace_until is not None and at >= run.grace_until
        if is_stopped and is_cut and run.job not in self._book.queued:
            self._preemptions[run.job] = run.preemptions + 1
            self._book.queue(self._waited.get(run.job) or run.queued_again())

    # -- account ----------------------------------------------------------------------------

    def _settle(self, attempt: str, at: int) -> None:
        """Add the GPU time of an attempt up to `at`, by its present class."""
        run = self._book.running[attempt]
        guaranteed_mgpu, since = self._classed[attempt]
        if at <= since:
            return
        gpu_time = self.gpu_time.setdefault((run.team, run.pool, run.priority_class), GpuTime())
        gpu_time.guaranteed_mgpu_s += guaranteed_mgpu * (at - since)
        gpu_time.borrowed_mgpu_s += (run.mgpu - guaranteed_mgpu) * (at - since)

    def _use(self, run: RunningJob, mgpu: int, at: int) -> None:
        """Add `mgpu` to the recent use of the user of `run` from `at` on."""
        if run.team in self._half_lives:
            self._used_in(run.team, run.pool).hold(run.team, run.user, mgpu, at)

    def _used_in(self, team: str, pool: str) -> RecentUse:
        key = self._half_lives[team], pool
        if key not in self._used:
            self._used[key] = RecentUse(*key)
        return self._used[key]


def of_pools(snapshot: Snapshot, pools: Collection[str]) -> Snapshot:
    """Return the part of the snapshot in these pools.

    Jobs that accept several pools join them: the joined pools are included.
    """
    pools = _joined(snapshot, pools)
    return replace(
        snapshot,
        quotas=tuple(quota for quota in snapshot.quotas if quota.pool in pools),
        devices=tuple(device for device in snapshot.devices if device.pool in pools),
        running=tuple(run for run in snapshot.running if run.pool in pools),
        queued=tuple(job for job in snapshot.queued if job.pool in pools),
        balances=tuple(balance for balance in snapshot.balances if balance.pool in pools),
    )


def _joined(snapshot: Snapshot, pools: Collection[str]) -> frozenset[str]:
    found = frozenset(pools)
    accepted = {job.pools for job in snapshot.queued if job.others}
    while more := frozenset().union(*(one for one in accepted if found & set(one))) - found:
        found |= more
    return found


def _kind(job: QueuedJob) -> QueuedJob:
    """Return the job without its id and submit time, as the key of equal jobs."""
    return replace(job, id="", submitted_at=0)


def _half_lives(snapshot: Snapshot, policy: Policy) -> dict[str, int]:
    """Return the half-life of use of every tree node, as set by its organization."""
    tree = tree_of(snapshot.nodes)
    default_s = policy.fair_share_half_life_s
    return {
        node: tree.given[path[-1]].half_life_s or default_s
        for node, path in zip(tree.ids, tree.paths, strict=True)
    }
