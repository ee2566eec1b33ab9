"""Jobs that accept several pools, in order of preference: in which of them each is served
(R-50 to R-52).

Such a job stands in the line of every pool that it accepts. All pools are decided as if each were
alone. A job takes the first pool of its own order that would start it, else the first that would
take GPUs back for it. It leaves the other lines, and these pools are decided again without it,
until no pool serves other jobs. Gangs can bring it about that this does not end by itself. So after
`ROUNDS_MAX` rounds each job stands in one pool only, and what is left over waits for the next
cycle.

What a cycle may start and take back in all is dealt out only then. Where it does not do for all,
every job stands in one pool only for the rest of the cycle, and each pool may do as much as the
others, as far as it has anything to do.

A job for which GPUs are being given back since an earlier cycle waits for them, and stands in no
other line meanwhile: others were stopped for it. A reservation is made in one pool only, the first
in which the job could ever start, so that a job that accepts more pools keeps its place there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from arbiter.api.plan import Code, Obstacle, Waiting
from arbiter.api.policy import Budget, Policy
from arbiter.api.snapshot import QueuedJob
from arbiter.cycle.pool_cycle import PoolCycle, SharedJobs

#: How often at most a pool is decided before every job is left in one pool only. Where more would
#: be needed it is gangs that go to and fro: sixteen rounds started hardly more (docs/speed.md).
ROUNDS_MAX = 4

#: Codes that are told of a pool only where there is nothing better to say of another one.
_LAST_TO_TELL = {Code.CLUSTER_UNAVAILABLE: 1, Code.NEVER_FITS: 2}


#: The jobs that are in no line of a pool, by pool.
_Absent = Mapping[str, frozenset[str]]

#: Opens and runs the cycle of a pool: its name, what it has to know of others, its budget.
Run = Callable[[str, SharedJobs, Budget], PoolCycle]


class Rounds:
    """The cycles of all pools, decided until they agree on the jobs that accept several."""

    def __init__(
        self,
        names: Iterable[str],
        run: Run,
        policy: Policy,
        *,
        shared: Mapping[str, QueuedJob],
        claimed: Mapping[str, str],
        reserves: Callable[[QueuedJob], bool],
    ) -> None:
        """`shared` are the jobs that accept several pools; `claimed` says in which pool GPUs are
        being given back for one since an earlier cycle."""
        self.cycles: dict[str, PoolCycle] = {}
        self._names = sorted(names)
        self._run = run
        self._policy = policy
        self._shared = shared
        self._claimed = claimed
        self._not_again = frozenset(claimed)
        self._reserves = reserves
        self._knew: dict[str, tuple[frozenset[str], Budget]] = {}

    def decide(self) -> None:
        """Run the cycles of all pools; `cycles` has the last of each."""
        most = Budget(self._policy.starts_max, self._policy.reclaims_max)
        absent: _Absent = self._agree(most) if self._shared else {}
        self._round(absent, dict.fromkeys(self._names, most))
        if self._is_too_much(most):
            self._round(absent, self._dealt(most))

    def close(self) -> None:
        """The cycle is over."""
        for cycle in self.cycles.values():
            cycle.close()

    def _agree(self, most: Budget) -> _Absent:
        """Return which jobs stand in no line of a pool, once no pool serves other jobs than in the
        round before. Where that does not come, or is more than a cycle may do, each job stands in
        one pool only."""
        served = dict(self._claimed)
        budgets = dict.fromkeys(self._names, most)
        for _ in range(ROUNDS_MAX):
            absent = self._served_elsewhere(served)
            self._round(absent, budgets)
            found = self._served()
            is_too_much = self._is_too_much(most)
            if found == served and not is_too_much:
                return absent
            served = found
            if is_too_much:
                break
        return self._outside_of_one(served)

    def _round(self, absent: _Absent, budgets: Mapping[str, Budget]) -> None:
        """Decide all pools by these lines and budgets."""
        for name in self._names:
            self._redo(name, absent.get(name, frozenset()), budgets[name])

    def _dealt(self, most: Budget) -> dict[str, Budget]:
        """What each pool may do where all together would do more than one cycle may."""
        cycles = [self.cycles[name] for name in self._names]
        starts = _deal([[start.job for start in cycle.starts] for cycle in cycles], most.starts)
        claiming = [[cycle.jobs[one.job] for one in cycle.reclaims] for cycle in cycles]
        reclaims = _deal(claiming, most.reclaims)
        return {
            name: Budget(*left) for name, *left in zip(self._names, starts, reclaims, strict=True)
        }

    def _is_too_much(self, most: Budget) -> bool:
        """Whether all pools together do more than one cycle may."""
        cycles = self.cycles.values()
        return (
            sum(len(cycle.starts) for cycle in cycles) > most.starts
            or sum(len(cycle.reclaims) for cycle in cycles) > most.reclaims
        )

    def _redo(self, name: str, absent: frozenset[str], left: Budget) -> PoolCycle:
        """The cycle of a pool without the `absent` jobs and by this budget: the one that it had
        where that did the same."""
        cycle = self.cycles.get(name)
        if cycle is not None:
            knew, had = self._knew[name]
            if knew == absent and left.does_as(had, len(cycle.starts), len(cycle.reclaims)):
                return cycle
            del self.cycles[name]
            cycle.close()
        shared = SharedJobs(absent, self._not_again, self._reserves)
        cycle = self.cycles[name] = self._run(name, shared, left)
        self._knew[name] = absent, left
        return cycle

    def _served(self) -> dict[str, str]:
        """Return the pool in which each job is best served: a start goes before a claim, and then
        the job's own order counts."""
        found: dict[str, tuple[bool, int]] = {}
        for name, cycle in self.cycles.items():
            starts = [start.job for start in cycle.starts]
            claims = [earmark.job for earmark in cycle.pool.earmarks.values()]
            for is_late, jobs in ((False, starts), (True, claims)):
                for job in jobs:
                    if job.others:
                        offer = is_late, self._shared[job.id].pools.index(name)
                        found[job.id] = min(found.get(job.id, offer), offer)
        return {job: self._shared[job].pools[at] for job, (_, at) in found.items()}

    def _served_elsewhere(self, served: Mapping[str, str]) -> _Absent:
        """Return which jobs are `served` in other pools, by pool."""
        absent: dict[str, set[str]] = {}
        for job, pool in served.items():
            for other in self._shared[job].pools:
                if other != pool:
                    absent.setdefault(other, set()).add(job)
        return {name: frozenset(jobs) for name, jobs in absent.items()}

    def _outside_of_one(self, served: Mapping[str, str]) -> _Absent:
        """Return which jobs are in no line of a pool where each job stands in one: where it is
        `served`, else where it has a claim, so that it is known there that it gave that up, else
        where it may hold a reservation."""
        one_of: dict[str, str] = {}
        for job, asked in self._shared.items():
            homes = (name for name in asked.pools if self._reserves(asked.in_pool(name)))
            one_of[job] = served.get(job) or self._claimed.get(job) or next(homes, asked.pool)
        return self._served_elsewhere(one_of)


def _deal(wanting: Sequence[Sequence[QueuedJob]], most: int) -> list[int]:
    """How many of its jobs each pool may serve, `most` in all: as many each, as far as it has them,
    and what is left over one each to those whose next job waits longest. So no pool's jobs keep
    those of another one waiting for good.
    """
    dealt = [0] * len(wanting)
    left, open_pools = most, [at for at, jobs in enumerate(wanting) if jobs]
    while open_pools and left >= len(open_pools):
        each = min(left // len(open_pools), min(len(wanting[at]) - dealt[at] for at in open_pools))
        for at in open_pools:
            dealt[at] += each
        left -= each * len(open_pools)
        open_pools = [at for at in open_pools if dealt[at] < len(wanting[at])]

    def age_of_next(at: int) -> tuple[int, str]:
        job = wanting[at][dealt[at]]
        return job.submitted_at, job.id

    for at in sorted(open_pools, key=age_of_next)[:left]:
        dealt[at] += 1
    return dealt


def in_one(told: Mapping[str, Iterable[Waiting]], shared: Mapping[str, QueuedJob]) -> list[Waiting]:
    """What is `told` of each pool, with one word for each job that waits in several."""
    if not shared:
        return list(chain.from_iterable(told.values()))
    of_job: dict[str, dict[str, Waiting]] = {}
    for name, reasons in told.items():
        for one in reasons:
            if one.job in shared:
                of_job.setdefault(one.job, {})[name] = one
    found = []
    for name, reasons in told.items():
        for one in reasons:
            if one.job not in of_job:
                found.append(one)
                continue
            here = of_job[one.job]
            pools = [pool for pool in shared[one.job].pools if pool in here]
            if name == min(pools, key=lambda pool: _LAST_TO_TELL.get(here[pool].code, 0)):
                pools.sort(key=lambda pool: pool != name)
                told_of = tuple(_obstacle(pool, here[pool]) for pool in pools)
                found.append(one._replace(in_pools=told_of))
    return found


def _obstacle(pool: str, one: Waiting) -> Obstacle:
    return Obstacle(pool, one.code, one.numbers, one.node, one.jobs_ahead)
