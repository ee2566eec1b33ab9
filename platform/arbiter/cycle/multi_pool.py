"""Jobs that accept several pools, in order of preference: choose the pool of each (R-50 to R-52).

Such a job queues in every pool that it accepts. Each pool is decided as if it was alone. A job
takes the first pool, in its own order, that would start it. Otherwise it takes the first that would
reclaim GPUs for it. It then leaves the other queues, and these pools are decided again without it,
until the pools agree. With gangs this may never end. So after `ROUNDS_MAX` rounds each job queues
in one pool only, and the rest waits for the next cycle.

The limits on starts and reclaims of a cycle are divided among pools only after that. If they are
too low for all, every job queues in one pool only for the rest of the cycle. Each pool then gets an
equal part, as far as it can use it.

A job with a claim from an earlier cycle waits for its GPUs and queues in no other pool, because
other jobs were stopped for it. A reservation is made in one pool only: the first in which the job
could ever start. So a job that accepts more pools keeps its place there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from arbiter.api.plan import Code, Obstacle, Waiting
from arbiter.api.policy import Budget, Policy
from arbiter.api.snapshot import QueuedJob
from arbiter.cycle.pool_cycle import PoolCycle, SharedJobs

#: The most rounds before every job queues in one pool only. More rounds are needed only when gangs
#: alternate between pools; sixteen rounds started hardly more jobs (docs/speed.md).
ROUNDS_MAX = 4

#: Codes with little information: the job reports another pool's reason if there is a better one.
_LAST_REPORTED = {Code.CLUSTER_UNAVAILABLE: 1, Code.NEVER_FITS: 2}


#: By pool, the jobs that do not queue there.
_Absent = Mapping[str, frozenset[str]]

#: Opens and runs the cycle of a pool, by its name, the jobs it shares with others, and its budget.
Run = Callable[[str, SharedJobs, Budget], PoolCycle]


class Rounds:
    """The cycles of all pools, decided again until they agree on the jobs that accept several."""

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
        """Prepare the cycles of the pools `names`.

        `shared` are the jobs that accept several pools. `claimed` maps a job to the pool in which
        it has a claim from an earlier cycle.
        """
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
        """Run the cycles of all pools; `cycles` has the last one of each pool."""
        most = Budget(self._policy.starts_max, self._policy.reclaims_max)
        absent: _Absent = self._agree(most) if self._shared else {}
        self._round(absent, dict.fromkeys(self._names, most))
        if self._is_too_much(most):
            self._round(absent, self._dealt(most))

    def close(self) -> None:
        """End the cycle of every pool."""
        for cycle in self.cycles.values():
            cycle.close()

    def _agree(self, most: Budget) -> _Absent:
        """Return the jobs that are absent from each pool, once two rounds in a row agree.

        If the pools do not agree in time, or exceed the limits of a cycle, each job queues in one
        pool.
        """
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
        return self._absent_elsewhere(served)

    def _round(self, absent: _Absent, budgets: Mapping[str, Budget]) -> None:
        """Decide all pools with these absent jobs and budgets."""
        for name in self._names:
            self._redo(name, absent.get(name, frozenset()), budgets[name])

    def _dealt(self, most: Budget) -> dict[str, Budget]:
        """Return the budget of each pool, if together they would exceed the limits of a cycle."""
        cycles = [self.cycles[name] for name in self._names]
        starts = _deal([[start.job for start in cycle.starts] for cycle in cycles], most.starts)
        claiming = [[cycle.jobs[one.job] for one in cycle.reclaims] for cycle in cycles]
        reclaims = _deal(claiming, most.reclaims)
        return {
            name: Budget(*left) for name, *left in zip(self._names, starts, reclaims, strict=True)
        }

    def _is_too_much(self, most: Budget) -> bool:
        """Return whether all pools together exceed the limits of a cycle."""
        cycles = self.cycles.values()
        return (
            sum(len(cycle.starts) for cycle in cycles) > most.starts
            or sum(len(cycle.reclaims) for cycle in cycles) > most.reclaims
        )

    def _redo(self, name: str, absent: frozenset[str], left: Budget) -> PoolCycle:
        """Return the cycle of a pool without the `absent` jobs and with this budget.

        The previous cycle is reused if it would come out the same.
        """
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
        """Return by job the pool that serves it best.

        A start is better than a claim; among equals the job's own order decides.
        """
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
        """Return by pool the jobs that are `served` in another one."""
        absent: dict[str, set[str]] = {}
        for job, pool in served.items():
            for other in self._shared[job].pools:
                if other != pool:
                    absent.setdefault(other, set()).add(job)
        return {name: frozenset(jobs) for name, jobs in absent.items()}

    def _absent_elsewhere(self, served: Mapping[str, str]) -> _Absent:
        """Return the jobs that are absent from each pool, so that each job queues in exactly one.

        That is the pool in which it is `served`, else the one of its claim, else the one in which
        it may hold a reservation. The pool of a claim has to see the job, so that it can drop that
        claim.
        """
        pool_of: dict[str, str] = {}
        for job, asked in self._shared.items():
            homes = (name for name in asked.pools if self._reserves(asked.in_pool(name)))
            pool_of[job] = served.get(job) or self._claimed.get(job) or next(homes, asked.pool)
        return self._served_elsewhere(pool_of)


def _deal(wanting: Sequence[Sequence[QueuedJob]], most: int) -> list[int]:
    """Divide `most` among pools: how many of its `wanting` jobs each pool may serve.

    Each pool gets an equal number, up to its number of jobs. The remainder goes, one each, to the
    pools whose next job has waited longest. So the jobs of one pool cannot starve those of another.
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


def merge_reasons(
    by_pool: Mapping[str, Iterable[Waiting]], shared: Mapping[str, QueuedJob]
) -> list[Waiting]:
    """Combine the reasons of all pools, with one `Waiting` for each job that queues in several."""
    if not shared:
        return list(chain.from_iterable(by_pool.values()))
    of_job: dict[str, dict[str, Waiting]] = {}
    for name, reasons in by_pool.items():
        for one in reasons:
            if one.job in shared:
                of_job.setdefault(one.job, {})[name] = one
    found = []
    for name, reasons in by_pool.items():
        for one in reasons:
            if one.job not in of_job:
                found.append(one)
                continue
            here = of_job[one.job]
            pools = [pool for pool in shared[one.job].pools if pool in here]
            if name == min(pools, key=lambda pool: _LAST_REPORTED.get(here[pool].code, 0)):
                pools.sort(key=lambda pool: pool != name)
                obstacles = tuple(_obstacle(pool, here[pool]) for pool in pools)
                found.append(one._replace(in_pools=obstacles))
    return found


def _obstacle(pool: str, one: Waiting) -> Obstacle:
    return Obstacle(pool, one.code, one.numbers, one.node, one.jobs_ahead)
