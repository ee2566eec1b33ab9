"""The settlement of credits: one interval of many teams in several pools.

    python tests/performance/bench_settlement.py [--smoke]

Half of the teams borrow, half lend, all from usage segments. Target: 1,000 teams in 3 pools within
a second, and a read of all balances for the arbiter.
"""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime, timedelta

from bed import a_database

START = datetime(2026, 11, 1, tzinfo=UTC)
TARGET_S = 1.0
POOLS = 3


def main() -> None:
    """Settle, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a fiftieth of the size")
    arguments = parser.parse_args()
    with a_database():
        measure(20 if arguments.smoke else 1_000)


def measure(teams: int) -> None:
    """Print the figures for so many teams in each of 3 pools."""
    from bank.balances import read_balances
    from bank.models import CreditBank
    from bank.settling import settle_due
    from billing.metering import Observed, record_observed, register_attempts
    from builders.billing_builders import a_grant_of
    from builders.portal_builders import a_pool, a_quota, a_team, a_user, an_organization

    organization = an_organization("bench")
    pools = [a_pool(f"pool-{n}") for n in range(POOLS)]
    user = a_user(organization)
    for pool in pools:
        a_quota(organization, pool, 8 * teams)
    grants = []
    for number in range(teams):
        team = a_team(organization, f"team-{number}")
        for pool in pools:
            a_quota(team, pool, 8)
            mgpu = 12_000 if number % 2 else 4_000
            grants.append(a_grant_of(team, user=user, pool=pool, mgpu=mgpu))
    now = START + timedelta(days=1)
    register_attempts(grants, now=now)
    record_observed([Observed(one.attempt_id, "started", START) for one in grants], now=now)
    CreditBank.objects.create(organization=organization, is_on=True, switched_at=START)
    for interval in (1, 2):
        began = time.perf_counter()
        settled = settle_due(START + timedelta(seconds=900 * interval + 60))
        took_s = time.perf_counter() - began
        assert settled == POOLS
        verdict = "met" if took_s <= TARGET_S else "NOT met"
        print(
            f"interval {interval}: {teams:,} teams in {POOLS} pools: {took_s:.2f} s, "
            f"target {TARGET_S:.0f} s for 1,000 {verdict}"
        )
    began = time.perf_counter()
    stored = read_balances()
    print(f"{len(stored.rows):,} balances read: {(time.perf_counter() - began) * 1_000:,.0f} ms")


if __name__ == "__main__":
    main()
