"""Entitlement, fair-share, capacity and the columns of the tree among 1,000 teams.

    python tests/performance/bench_shares.py [--smoke]

The month of `bench_history.py`: 100,000 attempts of 1,000 teams. Target: 300 ms for each answer.
The starts by size of an entitlement are decided by the arbiter; they have no target.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

from bed import a_database, spread
from bench_history import NOW, TARGET_MS, clock, fill

TEAM = "bench/department-0/team-0"


def main() -> None:
    """Fill a database, ask, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a hundredth of the size, one round")
    arguments = parser.parse_args()
    attempts, teams = (1_000, 40) if arguments.smoke else (100_000, 1_000)
    with a_database():
        measure(attempts, teams, 1 if arguments.smoke else 5)


def measure(attempts: int, teams: int, rounds: int) -> None:
    """Print the figures for one size."""
    from django.db import connection

    from builders.portal_builders import a_cluster, a_cluster_node, a_priority_class, an_actor
    from clusters.models import Pool
    from shares.capacity import capacity_of
    from shares.entitlements import entitlement_of
    from shares.explained_fair_share import explained_fair_share
    from shares.summaries import summaries_below
    from tenants.models import Node
    from tenants.roles import Role

    fill(attempts, teams)
    pool = Pool.objects.get()
    for number in range(teams // 2):
        a_cluster_node(a_cluster(), pool, f"node-{number}")
    a_priority_class(Node.objects.get(path="bench/"))
    reader = an_actor(Node.objects.get(path=f"{TEAM}/"), Role.RESEARCHER)
    print(f"{attempts} attempts, {teams} teams")
    acts: dict[str, Callable[[], object]] = {
        "entitlement, numbers": lambda: entitlement_of(
            TEAM, with_starts=False, actor=reader, now=NOW
        ),
        "fair-share of the tree": lambda: explained_fair_share(
            "bench", pool, actor=reader, now=NOW
        ),
        "capacity": lambda: capacity_of("bench", pool, actor=reader, now=NOW),
        "columns of the tree": lambda: summaries_below("bench", pool, actor=reader, now=NOW),
    }
    for name, act in acts.items():
        times = [clock(act) for _ in range(rounds)]
        word = "met" if statistics.median(times) < TARGET_MS else "NOT met"
        print(f"{name:<24}{spread(times)}, target {TARGET_MS} ms {word}")
    times = [clock(lambda: entitlement_of(TEAM, actor=reader, now=NOW)) for _ in range(rounds)]
    print(f"{'entitlement with starts':<24}{spread(times)}")
    connection.close()


if __name__ == "__main__":
    main()
