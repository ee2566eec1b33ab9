"""Jobs that accept several pools, in order of preference: in which of them each is served
(R-50 to R-52).

Such a job stands in the line of every pool that it accepts, and each pool is decided as if it were
alone, in its own order of service. Where several would then start the same job, the one that the
job names first does; the job leaves the others, and they are decided anew without it. So nobody
passes anybody in any pool because a job stands in other lines too. Once a pool starts a job, the
pools that it likes better go on offering to it alone what they would have anyway: it is no reason
there to wait, to reserve or to take anything back. This is deferred acceptance with the pools
offering (Gale and Shapley 1962); it ends when no job is served otherwise than the pools took for
granted. Of several ways to agree it is the one that the pools like best: a job that accepts one
pool more may be served in a later one that it names than without it, or where gangs are in the way
not in this cycle (seen in one of 250 drawn worlds). With gangs an end need not come by itself:
after `ROUNDS_MAX` rounds each job stands in one pool only, which ends it in one more, and what is
left over waits for the next cycle.

What a cycle may start and take back in all is dealt out only then. Where it does not do for all,
everybody stands in one pool only for the rest of the cycle, and each pool may do as much as the
others, as far as it has anything to do.

A start now, wherever, goes before taking GPUs back, and that happens in the first pool that would.
A job for which GPUs are being given back since an earlier cycle waits for them, and stands in no
other line meanwhile: others were stopped for it. A reservation is made in one pool only, the first
in which the job could ever start, so that who accepts more pools keeps its place there. A claim
in a further pool binds it all the same: what comes free in its first meanwhile goes to others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from arbiter.api.plan import Code, Obstacle, Waiting
from arbiter.api.policy import Budget, Policy
from arbiter.api.snapshot import QueuedJob
from arbiter.cycle.pool_cycle import PoolCycle, SharedJobs

#: How often at most a pool is decided before every job is left in one pool only. Where more would
#: be needed it is gangs that go to and fro: sixteen rounds started hardly more (docs/speed.md).
ROUNDS_MAX = 4

#: Codes that are told of a pool only where there is nothing better to say of another one.
_LAST_TO_TELL = {Code.CLUSTER_UNAVAILABLE: 1, Code.NEVER_FITS: 2}


class Served(NamedTuple):
    """Where a job is served: it starts there, or GPUs are being given back for it."""

    pool: str
    is_start: bool


class _Line(NamedTuple):
    """Who of the jobs that accept several pools is not in line in a pool, or only to start."""

    absent: frozenset[str]
    only_starts: frozenset[str]


_ALL_IN_LINE = _Line(frozenset(), frozenset())

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
        self._knew: dict[str, tuple[_Line, Budget]] = {}

    def decide(self) -> None:
        """Run the cycles of all pools; `cycles` has the last of each."""
        most = Budget(self._policy.starts_max, self._policy.reclaims_max)
        lines = self._agree(most) if self._shared else {}
        self._round(lines, dict.fromkeys(self._names, most))
        if self._is_too_much(most):
            self._round(lines, self._dealt(most))

    def close(self) -> None:
        """The cycle is over."""
        for cycle in self.cycles.values():
            cycle.close()

    def _agree(self, most: Budget) -> Mapping[str, _Line]:
        """Who stands where once all pools, each by the whole budget, agree on who is served where;
        in one pool each where they do not, or where that is more than a cycle may do."""
        served = {job: Served(pool, is_start=False) for job, pool in self._claimed.items()}
        budgets = dict.fromkeys(self._names, most)
        for _ in range(ROUNDS_MAX):
            lines = self._lines(served)
            self._round(lines, budgets)
            found = self._served()
            is_too_much = self._is_too_much(most)
            if found == served and not is_too_much:
                return lines
            served = found
            if is_too_much:
                break
        return self._lines_of_one(served)

    def _round(self, lines: Mapping[str, _Line], budgets: Mapping[str, Budget]) -> None:
        """Decide all pools by these lines and budgets."""
        for name in self._names:
            self._redo(name, lines, budgets[name])

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

    def _redo(self, name: str, lines: Mapping[str, _Line], left: Budget) -> PoolCycle:
        """The cycle of a pool by these lines and this budget: the one that it had where that did
        the same."""
        line = lines.get(name, _ALL_IN_LINE)
        cycle = self.cycles.get(name)
        if cycle is not None:
            knew, had = self._knew[name]
            if knew == line and left.does_as(had, len(cycle.starts), len(cycle.reclaims)):
                return cycle
            del self.cycles[name]
            cycle.close()
        shared = SharedJobs(line.absent, line.only_starts, self._not_again, self._reserves)
        cycle = self.cycles[name] = self._run(name, shared, left)
        self._knew[name] = line, left
        return cycle

    def _served(self) -> dict[str, Served]:
        """Where each job is best served, by what the pools decided."""
        found: dict[str, tuple[bool, int]] = {}
        for name, cycle in self.cycles.items():
            starts = [start.job for start in cycle.starts]
            claims = [earmark.job for earmark in cycle.pool.earmarks.values()]
            for is_late, jobs in ((False, starts), (True, claims)):
                for job in jobs:
                    if job.others:
                        offer = is_late, self._shared[job.id].pools.index(name)
                        found[job.id] = min(found.get(job.id, offer), offer)
        return {
            job: Served(self._shared[job].pools[at], is_start=not is_late)
            for job, (is_late, at) in found.items()
        }

    def _lines(self, served: Mapping[str, Served]) -> dict[str, _Line]:
        """Who stands where, when `served` are served so."""
        absent: dict[str, set[str]] = {}
        only_starts: dict[str, set[str]] = {}
        for job, (pool, is_start) in served.items():
            keeps_claim = self._claimed.get(job) == pool
            is_better = True
            for other in self._shared[job].pools:
                if other == pool:
                    is_better = False
                elif keeps_claim or (is_start and not is_better):
                    absent.setdefault(other, set()).add(job)
                else:
                    only_starts.setdefault(other, set()).add(job)
        return {
            name: _Line(frozenset(absent.get(name, ())), frozenset(only_starts.get(name, ())))
            for name in absent.keys() | only_starts.keys()
        }

    def _lines_of_one(self, served: Mapping[str, Served]) -> dict[str, _Line]:
        """Who stands where, when each job stands in one pool only: where it is `served`, else where
        it has a claim, so that it is known there that it gave that up, else where it may hold a
        reservation."""
        absent: dict[str, set[str]] = {}
        for job, asked in self._shared.items():
            if job in served:
                at = served[job].pool
            elif job in self._claimed:
                at = self._claimed[job]
            else:
                homes = (name for name in asked.pools if self._reserves(asked.in_pool(name)))
                at = next(homes, asked.pool)
            for other in asked.pools:
                if other != at:
                    absent.setdefault(other, set()).add(job)
        return {name: _Line(frozenset(jobs), frozenset()) for name, jobs in absent.items()}


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
