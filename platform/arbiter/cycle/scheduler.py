"""The memory of the arbiter: the contents of a snapshot, updated change by change.

`Core.of(snapshot, policy).cycle(snapshot.taken_at)` equals `decide`. A core that receives every
change gives the same plans without building everything anew. The cost of a cycle then depends on
teams, classes of jobs and changes, but not on all waiting and running jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import (
    Balance,
    Claim,
    Device,
    Maintenance,
    PoolWeight,
    PriorityClass,
    QueuedJob,
    Quota,
    RunningJob,
    Snapshot,
    TreeNode,
    Usage,
)
from arbiter.api.sources import Accounts
from arbiter.cache.pool_config import PoolConfig
from arbiter.cache.running import Holdings
from arbiter.cycle.multi_pool import Rounds
from arbiter.cycle.pool_cycles import CycleInputs, PoolCycles, PoolState
from arbiter.cycle.result import Decided
from arbiter.fairshare.fair_tree import WEIGHT_OF_REFERENCE, Starts, half_lives_of
from arbiter.quota.tree import tree_of


class Core:
    """The arbiter's state and its decisions.

    Changes may come in any order. Rarely changing data (tree, quotas, classes, weights, devices,
    clusters, maintenance) are set as a whole. A plan changes nothing here: a job's start is
    reported like any other change.

    The caller must track what it has reported. Removing something unknown, or a second claim for a
    job, raises an error and changes nothing. The decisions of a cycle can be explained until the
    next change or the next cycle.
    """

    def __init__(self, policy: Policy, accounts: Accounts | None = None) -> None:
        """Create an empty core.

        With `accounts`, use and credits come from there and are never set.
        """
        self._policy = policy
        self._accounts = accounts
        self._pools: dict[str, PoolState] = {}
        self._tree = tree_of(())
        self._half_lives_s: tuple[int, ...] = ()
        self._classes: dict[str, PriorityClass] = {}
        self._weights: dict[str, int] = {}
        self._clusters: frozenset[str] = frozenset()
        self._maintenance: tuple[Maintenance, ...] = ()
        self._usage: dict[str, list[Usage]] = {}
        self._pool_of_job: dict[str, str] = {}
        #: The queued jobs that accept several pools, by id.
        self._shared: dict[str, QueuedJob] = {}
        self._pool_of_attempt: dict[str, str] = {}
        self._claims: dict[str, tuple[Claim, ...]] = {}
        self._cycled_at: int | None = None
        self._decided: Decided | None = None
        self._starts = Starts(self._tree, (), {})

    @classmethod
    def of(cls, snapshot: Snapshot, policy: Policy, accounts: Accounts | None = None) -> Core:
        """Return a core with the contents of `snapshot`."""
        core = cls(policy, accounts)
        core.set_tree(
            snapshot.nodes, snapshot.quotas, snapshot.priority_classes, snapshot.pool_weights
        )
        core.set_devices(snapshot.devices, snapshot.clusters)
        core.set_maintenance(snapshot.maintenance)
        core.set_usage(snapshot.usage)
        core.set_balances(snapshot.balances)
        for run in snapshot.running:
            core.hold(run)
        core._pool_of_job = {job.id: job.pool for job in snapshot.queued}
        by_pool: dict[str, list[QueuedJob]] = {}
        for job in snapshot.queued:
            by_pool.setdefault(job.pool, []).append(job)
            if job.others:
                _refuse_repeated(job)
                core._shared[job.id] = job
                for other in job.others:
                    by_pool.setdefault(other.pool, []).append(job.in_pool(other.pool))
        for name, jobs in by_pool.items():
            core._pool(name).pending.fill(jobs)
        for claim in snapshot.claims:
            # If a job has several claims, at most one is valid; the plan drops the others.
            core._claims[claim.job] = (*core._claims.get(claim.job, ()), claim)
        return core

    # -- what seldom changes ----------------------------------------------------------------

    def set_tree(
        self,
        nodes: Sequence[TreeNode],
        quotas: Iterable[Quota],
        priority_classes: Iterable[PriorityClass],
        pool_weights: Iterable[PoolWeight],
    ) -> None:
        """Replace all nodes, quotas, priority classes and pool weights.

        Raises ValueError for an invalid tree (see `tree_of`); then the old one stays.
        """
        tree = tree_of(nodes)
        self._end_cycle()
        self._tree = tree
        self._half_lives_s = half_lives_of(tree, self._policy.fair_share_half_life_s)
        self._classes = {cls.id: cls for cls in priority_classes}
        self._weights = {one.pool: one.permille for one in pool_weights}
        running = chain.from_iterable(pool.running.values() for pool in self._pools.values())
        self._starts = Starts(tree, self._half_lives_s, self._weights, running, self._classes)
        for pool in self._pools.values():
            pool.quotas = []
            pool.config = None
        for quota in quotas:
            self._pool(quota.pool).quotas.append(quota)

    def set_devices(self, devices: Iterable[Device], clusters: frozenset[str]) -> None:
        """Replace all devices, and the clusters that respond and accept starts."""
        self._end_cycle()
        self._clusters = clusters
        for pool in self._pools.values():
            pool.devices = []
            pool.config = None
        for device in devices:
            self._pool(device.pool).devices.append(device)

    def set_maintenance(self, windows: Iterable[Maintenance]) -> None:
        """Replace all maintenance windows."""
        self._end_cycle()
        self._maintenance = tuple(windows)
        for pool in self._pools.values():
            pool.config = None

    def set_usage(self, usage: Sequence[Usage]) -> None:
        """Replace the recent use of all users."""
        self._end_cycle()
        self._usage = {}
        for row in usage:
            self._usage.setdefault(row.team, []).append(row)

    def set_balances(self, balances: Iterable[Balance]) -> None:
        """Replace all credits."""
        self._end_cycle()
        for pool in self._pools.values():
            pool.balances = []
        for balance in balances:
            self._pool(balance.pool).balances.append(balance)

    # -- what changes -----------------------------------------------------------------------

    def queue(self, job: QueuedJob) -> None:
        """Add a waiting `job`; it replaces a waiting job of the same id.

        Raises ValueError for a job that names a pool twice.
        """
        _refuse_repeated(job)
        self._end_cycle()
        if job.id in self._pool_of_job:
            self.withdraw(job.id)
        self._pool_of_job[job.id] = job.pool
        self._pool(job.pool).closed.add(job)
        if job.others:
            self._shared[job.id] = job
            for other in job.others:
                self._pool(other.pool).closed.add(job.in_pool(other.pool))

    def withdraw(self, job_id: str) -> None:
        """Remove a waiting job: it started or was cancelled. Its claim stays until `unclaim`.

        Raises KeyError for a job that does not wait.
        """
        if job_id not in self._pool_of_job:
            raise KeyError(f"job {job_id!r} does not wait, so it cannot be withdrawn")
        self._end_cycle()
        self._pools[self._pool_of_job.pop(job_id)].closed.remove(job_id)
        shared = self._shared.pop(job_id, None)
        if shared is not None:
            for other in shared.others:
                self._pools[other.pool].closed.remove(job_id)

    def hold(self, run: RunningJob) -> None:
        """Add an attempt that holds GPUs, or replace what is known of it."""
        self._end_cycle()
        if run.attempt in self._pool_of_attempt:
            self.release(run.attempt)
        self._pool_of_attempt[run.attempt] = run.pool
        self._starts.add(run)
        self._pool(run.pool).hold(run)

    def release(self, attempt: str) -> None:
        """Remove an attempt that is gone. Raises KeyError for one that holds nothing."""
        if attempt not in self._pool_of_attempt:
            raise KeyError(f"attempt {attempt!r} holds no GPUs, so it cannot give them back")
        self._end_cycle()
        name = self._pool_of_attempt.pop(attempt)
        pool = self._pools[name]
        self._starts.remove(pool.running[attempt])
        pool.release(attempt)

    def claim(self, claim: Claim) -> None:
        """Add the claim of a job. Raises ValueError if the job has one already."""
        if claim.job in self._claims:
            raise ValueError(f"job {claim.job!r} has a claim; it has to be given up first")
        self._end_cycle()
        self._claims[claim.job] = (claim,)

    def unclaim(self, job_id: str) -> None:
        """Remove the claim of a job. Raises KeyError for a job without a claim."""
        if job_id not in self._claims:
            raise KeyError(f"job {job_id!r} has no claim, so it cannot be given up")
        self._end_cycle()
        del self._claims[job_id]

    # -- cycles -----------------------------------------------------------------------------

    def cycle(self, now: int, *, explains: bool = True, parts: bool = True) -> Plan:
        """Decide as of `now`, see `arbiter.cycle.decide.decide`. Raises the same errors.

        With `parts` False the guaranteed part of each attempt is not computed. Then no attempt is
        classed, and `guaranteed_mgpu` of each start is 0.
        """
        decided = self._decide(now, explains=explains, parts=parts)
        try:
            return decided.explained() if explains else decided.plan
        finally:
            decided.close()

    def decide(self, now: int, *, parts: bool = True) -> Decided:
        """Decide as of `now`; reasons are available until the next change. `parts` as for `cycle`.

        Raises ValueError for a time before that of an earlier cycle, because data that had expired
        by then are gone.
        """
        return self._decide(now, explains=True, parts=parts)

    def _decide(self, now: int, *, explains: bool, parts: bool) -> Decided:
        if self._cycled_at is not None and now < self._cycled_at:
            raise ValueError(f"a cycle was at {self._cycled_at}, and {now} is before it")
        self._end_cycle()
        self._cycled_at = now
        claims: dict[str, list[Claim]] = {}
        claimed: dict[str, str] = {}
        for job, of_job in self._claims.items():
            for claim in of_job:
                # The claim of a job that is gone goes to a pool without a name, only to be dropped.
                name = self._pool_of_job.get(job, "") if claim.pool is None else claim.pool
                claims.setdefault(name, []).append(claim)
                shared = self._shared.get(job)
                if shared is not None and name in shared.pools:
                    known = claimed.setdefault(job, name)
                    claimed[job] = min(known, name, key=shared.pools.index)
        for name in [name for name, state in self._pools.items() if state.is_empty]:
            self._pools.pop(name).pending.forget_groups()
        states = {
            name: self._pools.get(name) or PoolState()
            for name in self._pools.keys() | claims.keys()
        }
        laid_out = {name: self._laid_out(name, state) for name, state in states.items()}
        for name, state in states.items():
            state.closed.update(laid_out[name][0].windows, now)
        balances = {name: state.balances for name, state in states.items()}
        cycles = PoolCycles(
            self._tree,
            states,
            laid_out,
            CycleInputs(self._usage, balances, self._accounts, now),
            claims=claims,
            shared=self._shared,
            starts=self._starts,
            weights=self._weights,
            half_lives_s=self._half_lives_s,
            now=now,
            explains=explains,
        )
        rounds = Rounds(
            states,
            cycles.run,
            self._policy,
            shared=self._shared,
            claimed=claimed,
            reserves=cycles.reserves,
        )
        try:
            rounds.decide()
            self._decided = Decided(rounds, self._shared, claimed, now=now, parts=parts)
        except BaseException:
            rounds.close()
            raise
        return self._decided

    def _end_cycle(self) -> None:
        """Restore the pools as they were before the latest cycle, because something changes now."""
        if self._decided is not None:
            self._decided.close()
            self._decided = None

    def _pool(self, name: str) -> PoolState:
        found = self._pools.get(name)
        if found is None:
            found = self._pools[name] = PoolState()
        return found

    def _laid_out(self, name: str, state: PoolState) -> tuple[PoolConfig, Holdings]:
        state.forget()
        if state.config is None or state.holdings is None:
            state.config = PoolConfig(
                name,
                state.quotas,
                state.devices,
                tree=self._tree,
                policy=self._policy,
                clusters=self._clusters,
                classes=self._classes,
                weight=self._weights.get(name, WEIGHT_OF_REFERENCE),
                half_lives_s=self._half_lives_s,
                demands=state.wanted,
                maintenance=[one for one in self._maintenance if one.pool in (None, name)],
            )
            config = state.config
            state.holdings = Holdings(
                self._tree, config.quota, self._classes, config.offered, config.resources
            )
            for run in state.running.values():
                state.holdings.add(run)
            state.pending.forget_groups()
        return state.config, state.holdings


def _refuse_repeated(job: QueuedJob) -> None:
    if job.others and len(set(job.pools)) < len(job.pools):
        raise ValueError(f"job {job.id} names a pool twice")
