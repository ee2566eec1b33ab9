"""The state that the cycles of all pools share: the pools, use, credits and claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from arbiter.api.policy import Budget
from arbiter.api.snapshot import Balance, Claim, Device, QueuedJob, Quota, RunningJob, Usage
from arbiter.api.sources import Accounts
from arbiter.cache.pool import open_pool
from arbiter.cache.pool_config import PoolConfig
from arbiter.cache.running import Holdings
from arbiter.cycle.pool_cycle import PoolCycle, SharedJobs
from arbiter.fairshare.fair_tree import FairShares, FairUse, Starts, fair_use
from arbiter.placement.resources import Demand, demand_of
from arbiter.queue.closed_places import ClosedPlaces
from arbiter.queue.pending import PendingQueue
from arbiter.quota.tree import Tree

#: A pool caches at most so many answers per kind of waiting jobs, plus a constant. More answers
#: belong to jobs that are gone; then the pool is set up anew.
_ANSWERS_PER_KIND = 4
_QUESTIONS_BESIDES = 2_000


class PoolState:
    """The known state of one pool; `config` and `holdings` are None until a cycle needs them.

    These two hold all caches of a pool that outlive a cycle. Their size is bounded by the contents
    of the pool, and for waiting jobs by `_ANSWERS_PER_KIND` and `_QUESTIONS_BESIDES`.
    """

    def __init__(self) -> None:
        self.quotas: list[Quota] = []
        self.devices: list[Device] = []
        self.balances: list[Balance] = []
        self.running: dict[str, RunningJob] = {}
        self.pending = PendingQueue()
        self.closed = ClosedPlaces(self.pending)
        #: The requests of attempts whose jobs request CPU or memory.
        self.demands: Counter[Demand] = Counter()
        self.config: PoolConfig | None = None
        self.holdings: Holdings | None = None

    def hold(self, run: RunningJob) -> None:
        """Note that the attempt holds GPUs of the pool."""
        self.running[run.attempt] = run
        demand = demand_of(run)
        if demand is not None:
            self.demands[demand] += 1
        if self.holdings is not None:
            self.holdings.add(run)

    def release(self, attempt: str) -> None:
        """Note that the attempt is gone."""
        demand = demand_of(self.running.pop(attempt))
        if demand is not None:
            self.demands[demand] -= 1
            if not self.demands[demand]:
                del self.demands[demand]
        if self.holdings is not None:
            self.holdings.remove(attempt)

    @property
    def is_empty(self) -> bool:
        """Return whether the pool holds no information any more."""
        return not (
            self.running or self.pending.jobs or self.quotas or self.devices or self.balances
        )

    @property
    def wanted(self) -> Iterator[Demand]:
        """Return the CPU and memory requests of all waiting and running jobs that state any."""
        return chain(self.pending.demands, self.demands)

    def forget(self) -> None:
        """Have the pool set up anew if it caches too much, or ignores a CPU or memory request."""
        most = _ANSWERS_PER_KIND * len(self.pending.by_kind) + _QUESTIONS_BESIDES
        config = self.config
        if config is not None and (
            config.remembered > most or not config.resources.suffices(self.wanted)
        ):
            self.config = None


class CycleInputs:
    """Use, credits and checkpoints as of one moment, as given to the core or from its accounts."""

    __slots__ = ("_accounts", "_balances", "_now", "_usage")

    def __init__(
        self,
        usage: Mapping[str, Sequence[Usage]],
        balances: Mapping[str, Sequence[Balance]],
        accounts: Accounts | None,
        now: int,
    ) -> None:
        """Take `usage` by team and `balances` by pool; `accounts` replace both."""
        self._usage = usage
        self._balances = balances
        self._accounts = accounts
        self._now = now

    def usage(self, team: str) -> Iterable[Usage]:
        """Return the recent use of each user of a team."""
        if self._accounts is None:
            return self._usage.get(team, ())
        return self._accounts.usage(team, self._now)

    def balances(self, pool: str) -> Iterable[Balance]:
        """Return the credits of a pool."""
        if self._accounts is None:
            return self._balances[pool]
        return [one for one in self._accounts.balances(self._now) if one.pool == pool]

    def checkpoint_at(self, run: RunningJob) -> int | None:
        """Return when an attempt last checkpointed, as the accounts know it (epoch seconds)."""
        return None if self._accounts is None else self._accounts.checkpoint_at(run, self._now)


class PoolCycles:
    """Opens and runs the cycles of pools, which share the same sums of use.

    It keeps no reference to its cycles, so that unused ones are freed at once.
    """

    __slots__ = (
        *("_claims", "_explains", "_half_lives_s", "_laid_out", "_now", "_shared", "_starts"),
        *("_states", "_inputs", "_tree", "_use_of_all", "_weights"),
    )

    def __init__(
        self,
        tree: Tree,
        states: Mapping[str, PoolState],
        laid_out: Mapping[str, tuple[PoolConfig, Holdings]],
        inputs: CycleInputs,
        *,
        claims: Mapping[str, Sequence[Claim]],
        shared: Mapping[str, QueuedJob],
        starts: Starts,
        weights: Mapping[str, int],
        half_lives_s: tuple[int, ...],
        now: int,
        explains: bool,
    ) -> None:
        """Prepare the cycles of the pools in `states`.

        `claims` are by pool, `shared` jobs by id. `starts`, `weights` and `half_lives_s` are as in
        `fair_use`.
        """
        self._tree = tree
        self._states = states
        self._laid_out = laid_out
        self._inputs = inputs
        self._claims = claims
        self._shared = shared
        self._starts = starts
        self._weights = weights
        self._half_lives_s = half_lives_s
        self._now = now
        self._explains = explains
        self._use_of_all: FairUse | None = None

    def run(self, name: str, shared: SharedJobs, budget: Budget) -> PoolCycle:
        """Open and run the cycle of a pool; see `multi_pool.Run`."""
        state, (config, holdings) = self._states[name], self._laid_out[name]
        claims = [claim for claim in self._claims.get(name, ()) if claim.job not in shared.absent]
        inputs, jobs = self._inputs, state.pending.jobs
        pool = open_pool(
            config, holdings, jobs, claims, inputs.balances, inputs.checkpoint_at, self._now
        )
        cycle = PoolCycle(
            pool, state.pending, self._shares, budget=budget, explains=self._explains, shared=shared
        )
        try:
            cycle.decide()
        except BaseException:
            cycle.close()
            raise
        return cycle

    def reserves(self, job: QueuedJob) -> bool:
        """Return whether a job that accepts several pools holds its reservation in this one.

        That is the first of its pools in which a job of a known team could ever start.
        """
        asked = self._shared[job.id]
        for name in asked.pools:
            config, _ = self._laid_out[name]
            team, shape = config.tree.index.get(asked.team), config.shape_of(asked.in_pool(name))
            if team is None:
                return False
            cap_mgpu = config.priority(asked.priority_class).cap_mgpu
            if config.verdict(team, shape, cap_mgpu)[0] is None:
                return job.pool == name
        return False

    def _shares(self, config: PoolConfig) -> FairShares:
        """Return the fair-share of the nodes and users of a pool."""
        if self._use_of_all is None:
            self._use_of_all = fair_use(
                self._tree,
                usage=self._inputs.usage,
                starts=self._starts,
                weights=self._weights,
                half_lives_s=self._half_lives_s,
                at=self._now,
            )
        return FairShares(
            self._tree,
            config.quota.weights,
            self._use_of_all,
            pool_weight=config.weight,
            parts=config.parts,
        )
