"""Cycles of a fleet of 80,000 GPUs: python tests/performance/bench_scale.py [--smoke]

10,000 nodes of 8 GPUs, 2,500 of each of four types; 1,000 teams in three levels that share every
type evenly; 24,000 running at first, which hold all GPUs, of the sizes that are asked for; 50,000
and 100,000 queued, two kinds of jobs in each team, of any type. Printed, in CPU time:

- *steady*: a core that lives on. Each cycle 2 % of what runs has ended, what started runs, and as
  much comes as started; that the core is told of it counts, too. As small jobs pass large ones that
  wait, more would run from cycle to cycle: before the next one, which does not count, jobs like
  those that ended have taken the places of those that started. The decision alone, and with the
  explanation of every waiting job; and with 30 ends a cycle, which are those of a second where jobs
  run for a quarter of an hour.
- *empty*: all that is known is told at once, to a core that knew nothing, and nothing runs: with as
  many starts as a cycle makes at most, the decision alone and with the explanations; and with as
  many starts as there is room for.
- *several pools*: a tenth, or half, of all that ran is gone, and some of 10,000 jobs accept all
  types, in any order: a cycle of a core that knows it all already, the decision alone.
- *memory*: by how much the process grew by such a core and all that it was told.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from resource import getpagesize

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import (
    Device,
    OtherPool,
    PriorityClass,
    QueuedJob,
    Quota,
    RunningJob,
    Slot,
    Snapshot,
    TreeNode,
)
from arbiter.cycle.decide import decide
from arbiter.cycle.scheduler import Core

NOW = 1_000_000
POOLS = ("a100", "b200", "h100", "l40s")
CLASSES = (
    PriorityClass("high", 100, preempts_within_team=True),
    PriorityClass("normal", 10),
    PriorityClass("low", 1, grace_period_s=60),
)
#: Milli-GPU on each node, nodes, and how many of 200 jobs ask for that: 3.3 GPUs on average.
SHAPES = (
    (1000, 1, 76),
    (2000, 1, 44),
    (4000, 1, 50),
    (8000, 1, 26),
    (8000, 2, 3),
    (8000, 4, 1),
)


def tree(teams: int, mgpu: int) -> tuple[tuple[TreeNode, ...], tuple[Quota, ...], list[str]]:
    """Ten organizations with ten departments each, and `teams` teams, which share `mgpu` of every
    pool evenly."""
    leaves = [f"o{i % 10}/d{i % 100}/t{i}" for i in range(teams)]
    guaranteed: dict[str, int] = {}
    for leaf in leaves:
        department = leaf.rpartition("/")[0]
        for node in (leaf, department, department.partition("/")[0]):
            guaranteed[node] = guaranteed.get(node, 0) + mgpu // teams
    nodes = tuple(
        TreeNode(node, node.rpartition("/")[0] or None, rank=len(node) % 3) for node in guaranteed
    )
    quotas = tuple(Quota(node, pool, most) for pool in POOLS for node, most in guaranteed.items())
    return nodes, quotas, leaves


def world(*, queued: int, nodes: int, teams: int) -> Snapshot:
    """All `nodes` of each pool full, and so many jobs waiting."""
    dice = random.Random(1)
    tree_nodes, quotas, leaves = tree(teams, nodes * 8_000)
    asked = [(mgpu, count) for mgpu, count, weight in SHAPES for _ in range(weight)]
    kinds = {leaf: [(dice.choice(asked), dice.choice(CLASSES).id) for _ in "12"] for leaf in leaves}
    running = [
        RunningJob(
            job=f"r-{pool}-{number}",
            attempt=f"r-{pool}-{number}.1",
            team=dice.choice(leaves),
            user="u",
            pool=pool,
            cluster="c",
            slots=slots,
            priority_class=dice.choice(CLASSES).id,
            submitted_at=NOW - 9_000,
            started_at=NOW - dice.randrange(8_000),
            time_limit_s=86_400,
        )
        for pool in POOLS
        for number, slots in enumerate(filled(pool, nodes, asked, dice))
    ]
    waiting = []
    for i in range(queued):
        team = dice.choice(leaves)
        (mgpu, count), priority_class = dice.choice(kinds[team])
        waiting.append(
            QueuedJob(
                id=f"q{i:06d}",
                team=team,
                user="u",
                pool=dice.choice(POOLS),
                mgpu_per_node=mgpu,
                node_count=count,
                priority_class=priority_class,
                submitted_at=NOW - dice.randrange(50_000),
            )
        )
    return Snapshot(
        taken_at=NOW,
        nodes=tree_nodes,
        quotas=quotas,
        priority_classes=CLASSES,
        devices=tuple(
            Device("c", f"{pool}-{i:05d}", pool, 8_000) for pool in POOLS for i in range(nodes)
        ),
        clusters=frozenset({"c"}),
        running=tuple(running),
        queued=tuple(waiting),
    )


def filled(
    pool: str, nodes: int, asked: list[tuple[int, int]], dice: random.Random
) -> list[tuple[Slot, ...]]:
    """Slots of jobs of the sizes that are asked for, until all nodes are full."""
    left = nodes * 8_000
    sizes = []
    while left:
        mgpu, count = dice.choice(asked)
        if mgpu * count <= left:
            sizes.append((mgpu, count))
            left -= mgpu * count
    # Larger ones first: then each finds its place, as each size is a multiple of the next.
    found = []
    node, room = 0, 8_000
    for mgpu, count in sorted(sizes, reverse=True):
        found.append(tuple(Slot(f"{pool}-{node + i:05d}", mgpu) for i in range(count)))
        room -= mgpu
        if not room:
            node, room = node + count, 8_000
    return found


def classed(snapshot: Snapshot) -> Snapshot:
    """The same, with every attempt's guaranteed part as the last cycle left it."""
    plan = decide(replace(snapshot, queued=()), Policy())
    parts = {one.attempt: one.guaranteed_mgpu for one in plan.classed}
    return replace(
        snapshot,
        running=tuple(
            replace(run, guaranteed_mgpu=parts.get(run.attempt, 0)) for run in snapshot.running
        ),
    )


class Fleet:
    """A core that lives on, and what it is told from cycle to cycle."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.core = Core.of(snapshot, policy)
        self.running = {run.attempt: run for run in snapshot.running}
        self.waiting = {job.id: job for job in snapshot.queued}
        self._now = snapshot.taken_at
        self._dice = random.Random(1)

    def cycle(self, *, explains: bool, ends: int | None = None) -> tuple[Plan, int, float]:
        """One cycle, with what is told before and after it: what was decided, how many changes were
        told, and milliseconds. `ends` jobs have ended; 2 % of what runs if None."""
        core, running, waiting = self.core, self.running, self.waiting
        self._now += 1
        ends = len(running) // 50 if ends is None else ends
        ended = [running.pop(one) for one in self._dice.sample(sorted(running), ends)]
        gc.collect()
        gc.disable()
        begin = time.process_time()
        for run in ended:
            core.release(run.attempt)
        plan = core.cycle(self._now, explains=explains)
        spent = time.process_time() - begin
        jobs = [waiting[start.job] for start in plan.starts]
        come = [replace(job, id=f"{job.id}+", submitted_at=self._now) for job in jobs]
        started = [
            RunningJob(
                job.id, job.id, job.team, job.user, job.pool, start.cluster, start.slots,
                job.priority_class, job.submitted_at, self._now, time_limit_s=86_400,
                guaranteed_mgpu=start.guaranteed_mgpu,
            )
            for job, start in zip(jobs, plan.starts, strict=True)
        ]  # fmt: skip
        begin = time.process_time()
        for job in jobs:
            core.withdraw(job.id)
        for job in come:
            core.queue(job)
        for run in started:
            core.hold(run)
        spent_ms = (spent + time.process_time() - begin) * 1000
        gc.enable()
        for job in jobs:
            del waiting[job.id]
        waiting.update((job.id, job) for job in come)
        for run in started:
            core.release(run.attempt)
        for run in ended:
            again = f"{run.job}+"
            running[again] = replace(run, job=again, attempt=again, started_at=self._now)
            core.hold(running[again])
        for one in plan.classed:
            if one.attempt in running:
                run = running[one.attempt] = replace(
                    running[one.attempt], guaranteed_mgpu=one.guaranteed_mgpu
                )
                core.hold(run)
        return plan, len(ended) + 3 * len(plan.starts), spent_ms


def report(name: str, times: list[float], target_ms: int | None, text: str) -> None:
    """One line, and whether the median reaches the target."""
    median = statistics.median(times)
    word = ""
    if target_ms is not None:
        word = f"target {target_ms} ms {'met' if median < target_ms else 'NOT met'}"
    print(f"{name:<34} {min(times):7.1f} {median:7.1f} {max(times):7.1f}   {text:<36} {word}")


def steady(
    snapshot: Snapshot,
    rounds: int,
    *,
    explains: bool = False,
    ends: int | None = None,
    target_ms: int | None = None,
) -> None:
    """Measure a core that lives on. It takes nothing back: who started runs until it ends."""
    fleet = Fleet(snapshot, Policy(reclaims_max=0))
    for _ in range(2):
        fleet.cycle(explains=explains, ends=ends)
    cycles = [fleet.cycle(explains=explains, ends=ends) for _ in range(rounds)]
    starts = sum(len(plan.starts) for plan, _, _ in cycles) // rounds
    changes = sum(count for _, count, _ in cycles) // rounds
    name = f"steady, {len(snapshot.queued):,} queued"
    if ends is not None:
        name += f", {ends} ends"
    text = f"{starts} starts, {changes} changes, {len(fleet.running):,} running"
    report(f"{name}, explained" if explains else name, [ms for _, _, ms in cycles], target_ms, text)


def empty(name: str, act: Callable[[], Plan], rounds: int, target_ms: int | None) -> None:
    """Measure cycles, of a core that was told everything just now if `act` makes it."""
    times = []
    for _ in range(rounds):
        gc.collect()
        gc.disable()
        begin = time.process_time()
        plan = act()
        times.append((time.process_time() - begin) * 1000)
        gc.enable()
    report(name, times, target_ms, f"{len(plan.starts):,} starts")


def several_pools(full: Snapshot, queued: int, rounds: int) -> None:
    """Measure cycles where something is free and some jobs accept all pools."""
    for gone_percent in (10, 50):
        for several_percent in (0, 1, 10, 100):
            dice = random.Random(1)
            some = replace(
                full,
                running=tuple(r for r in full.running if dice.randrange(100) >= gone_percent),
                queued=tuple(
                    accepting_all(job, dice) if dice.randrange(100) < several_percent else job
                    for job in full.queued[:queued]
                ),
            )
            core = Core.of(some, Policy())
            core.cycle(NOW, explains=False)
            name = f"{gone_percent} % gone, {several_percent} % accept all"
            empty(name, lambda core=core: core.cycle(NOW, explains=False), rounds, None)


def accepting_all(job: QueuedJob, dice: random.Random) -> QueuedJob:
    """The job as it accepts all pools, in any order."""
    first, *others = dice.sample(POOLS, len(POOLS))
    return replace(job, pool=first, others=tuple(map(OtherPool, others)))


def resident_mib() -> int:
    """What the process holds of memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * getpagesize() >> 20


def main() -> None:
    """Decide a few times, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small numbers, one round")
    smoke = parser.parse_args().smoke
    size = {"nodes": 25, "teams": 100} if smoke else {"nodes": 2_500, "teams": 1_000}
    counts = (200, 400) if smoke else (50_000, 100_000)
    rounds = 1 if smoke else 9
    before_mib = resident_mib()
    full = classed(world(queued=counts[1], **size))
    core = Core.of(full, Policy(reclaims_max=0))
    core.cycle(NOW)
    print(f"{len(full.running):,} running; memory: {resident_mib() - before_mib} MiB, target 200")
    del core
    print(f"{'case':<34} {'ms: min':>7} {'median':>7} {'max':>7}")
    for queued, target_ms in zip(counts, (40, 60), strict=True):
        some = replace(full, queued=full.queued[:queued])
        steady(some, rounds, target_ms=target_ms)
        steady(some, rounds, explains=True)
        steady(some, rounds, ends=30)
    none = replace(full, running=())
    rounds = 1 if smoke else 5
    name = f"empty, {counts[1]:,} queued"
    empty(name, lambda: decide(none, Policy(), explains=False), rounds, 500)
    empty(f"{name}, explained", lambda: decide(none, Policy()), rounds, None)
    unbound = Policy(starts_max=1_000_000)
    empty(f"{name}, no most", lambda: decide(none, unbound, explains=False), rounds, None)
    several_pools(full, 100 if smoke else 10_000, 1 if smoke else 3)


if __name__ == "__main__":
    main()
