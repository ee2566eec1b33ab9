"""How long a preview of quotas takes: python tests/performance/bench_what_if.py [--smoke]

Prints seconds of CPU time of `what_if` a day ahead, where the guarantee of one team of many is
doubled at its sister's cost: how far it came, and how many jobs start at another time. Running jobs
end over two days, waiting ones have limits of 1 to 8 hours. Small, then the size of bench_cycle,
which is cut by the bound on the work.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import replace

from bench_arbiter import NOW, world

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Snapshot
from simulator.what_if import Change, what_if

DAY_S = 86_400


def with_limits(snapshot: Snapshot) -> Snapshot:
    """Everybody ends some time."""
    dice = random.Random(1)
    return replace(
        snapshot,
        running=tuple(
            replace(run, time_limit_s=NOW - run.started_at + dice.randrange(600, 2 * DAY_S))
            for run in snapshot.running
        ),
        queued=tuple(
            replace(job, time_limit_s=3_600 * dice.choice((1, 2, 4, 8))) for job in snapshot.queued
        ),
    )


def main() -> None:
    """Print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="the small one only")
    arguments = parser.parse_args()
    sizes = [(300, 100, 100, 20), (2_000, 500, 400, 200), (10_000, 1_000, 1_250, 200)]
    for queued, running, devices, teams in sizes[: 1 if arguments.smoke else None]:
        snapshot = with_limits(
            world(queued=queued, running=running, devices=devices, teams=teams, kinds=2, seed=1)
        )
        leaves = {node.id for node in snapshot.nodes} - {node.parent for node in snapshot.nodes}
        gains, gives = sorted(
            (quota for quota in snapshot.quotas if quota.node in leaves), key=lambda one: one.node
        )[:2]
        change = Change(
            (
                replace(gains, guaranteed_mgpu=gains.guaranteed_mgpu + gives.guaranteed_mgpu),
                replace(gives, guaranteed_mgpu=0),
            )
        )
        begin = time.process_time()
        found = what_if(snapshot, Policy(), change, DAY_S)
        took = time.process_time() - begin
        print(
            f"{queued} queued, {running} running, {teams} teams: {took:.1f} s, "
            f"{(found.until - found.taken_at) / 3_600:.1f} h ahead, {len(found.shifts)} jobs start "
            f"at another time, {len(found.reclaimed)} are taken back"
        )


if __name__ == "__main__":
    main()
