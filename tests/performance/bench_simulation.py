"""How fast traces are played: python tests/performance/bench_simulation.py [--smoke]
[TRACE QUOTAS --gpus N] [--only POLICY ...]

For each policy: seconds of CPU time, jobs and events a second, and times real time. With the path
of a trace and of its quotas (scaled to the fleet) that; else jobs of a generator whose mix of
sizes is that of public GPU traces: most ask for one GPU, few for several nodes.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Quota, TreeNode
from simulator.comparison import POLICIES, simulate
from simulator.scene import POOL, QuotaTree, read_quotas, stage, uniform_fleet
from simulator.traces import read_trace
from simulator.workload import Settings, TraceJob, gang, prepare

SIZES = (1,) * 80 + (2,) * 6 + (4,) * 6 + (8,) * 6 + (16, 32)
TEAMS = tuple(f"t{i}" for i in range(12))


def generated(count: int, gpus: int, seed: int) -> tuple[TraceJob, ...]:
    """`count` jobs with a load of about nine tenths of `gpus`; they come in bursts by team."""
    dice = random.Random(seed)
    jobs: list[TraceJob] = []
    at = 0
    for i in range(count):
        mgpu, nodes = gang(dice.choice(SIZES), 8)
        duration_s = 1 + int(dice.lognormvariate(6.5, 2.0))
        at += int(dice.expovariate(1.0) * min(duration_s, 40_000) * mgpu * nodes / 900 / gpus)
        team = TEAMS[(i // 50 * 7) % len(TEAMS)] if dice.random() < 0.7 else dice.choice(TEAMS)
        jobs.append(TraceJob(f"g{i}", team, "u", at, min(duration_s, 400_000), mgpu, nodes))
    return tuple(jobs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("quotas", nargs="?", type=Path)
    parser.add_argument("--gpus", type=int, default=512)
    parser.add_argument("--first", type=int, help="only the first jobs")
    parser.add_argument("--only", action="append", choices=list(POLICIES))
    parser.add_argument("--smoke", action="store_true", help="a few hundred jobs")
    given = parser.parse_args()
    if (given.trace is None) != (given.quotas is None):
        parser.error("a trace needs its quotas")
    settings = Settings()
    begin = time.process_time()
    if given.trace is None:
        jobs = generated(300 if given.smoke else 10_000, given.gpus, seed=1)
        tree = QuotaTree(
            tuple(TreeNode(team, None) for team in TEAMS),
            tuple(Quota(team, POOL, 1_000 * (1 + i % 3)) for i, team in enumerate(TEAMS)),
        )
    else:
        jobs = read_trace(given.trace, gpus_per_node=8).jobs
        tree = read_quotas(given.quotas)
    works = prepare(jobs[: given.first], settings)
    machines = uniform_fleet(given.gpus, 8)
    scene, teams = stage(tree, machines, Policy(), [job.team for job in jobs], scale=True)
    print(f"{len(works):,} jobs read in {time.process_time() - begin:.2f} s of CPU time")
    print(
        f"{'policy':<12} {'s':>8} {'jobs/s':>9} {'events/s':>9} {'cycles':>8} {'x real time':>12}"
    )
    for policy in given.only or POLICIES:
        begin = time.process_time()
        outcome = simulate(works, scene, settings, teams, policy)
        spent = max(1e-6, time.process_time() - begin)
        jobs_s, events_s = len(works) / spent, outcome.events / spent
        print(
            f"{policy:<12} {spent:>8.2f} {jobs_s:>9,.0f} {events_s:>9,.0f}"
            f" {outcome.ticks:>8,} {outcome.ended_s / spent:>12,.0f}"
        )


if __name__ == "__main__":
    main()
