"""The history of a node among 1,000 teams, beside the sum of the segments by SQL.

    python tests/performance/bench_history.py [--smoke]

100,000 attempts of 1,000 teams in 20 departments over 30 days, most of them above the guarantee of
their team, so that lending changes all the time. Target: 300 ms for each history. Days that are
over for 72 hours are stored, as the timer does it. The rest is integrated when it is read.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from bed import a_database, spread

MONTH = datetime(2026, 11, 1, tzinfo=UTC)
DAYS = 30
NOW = MONTH + timedelta(days=DAYS)
DEPARTMENTS = 20
TARGET_MS = 300


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

    from builders.portal_builders import an_actor
    from chargeback.reports import Asked
    from clusters.models import Pool
    from history.storing import store_past_days
    from history.use import history_of
    from tenants.models import Node
    from tenants.roles import Role

    fill(attempts, teams)
    pool = Pool.objects.get()
    reader = an_actor(Node.objects.get(path="bench/"), Role.FINANCE)
    print(f"{attempts} attempts, {teams} teams, {DEPARTMENTS} departments, {DAYS} days")
    begin = time.perf_counter()
    store_past_days(NOW)
    print(f"past days stored in {time.perf_counter() - begin:.1f} s")
    paths = ("bench", "bench/department-0", "bench/department-0/team-0")
    for days in (1, 7, 30):
        asked = Asked(NOW - timedelta(days=days), NOW)
        for path in paths:

            def act(path: str = path, asked: Asked = asked) -> object:
                return history_of(path, pool, actor=reader, asked=asked, now=NOW)

            times = [clock(act) for _ in range(rounds)]
            word = "met" if statistics.median(times) < TARGET_MS else "NOT met"
            print(f"{days:>2} days of {path:<28}{spread(times)}, target {TARGET_MS} ms {word}")
    history = history_of("bench", pool, actor=reader, asked=Asked(MONTH, NOW), now=NOW)
    with connection.cursor() as cursor:
        cursor.execute(_SUM, [NOW, MONTH])
        (mgpu_s,) = cursor.fetchone()
    assert history.series.used_mgpu_s == mgpu_s, "the history and the segments differ"
    connection.close()


_SUM = """
SELECT SUM((guaranteed_mgpu + borrowed_mgpu)
           * date_part('epoch', LEAST("end", %s) - GREATEST(start, %s))::bigint)::bigint
FROM billing_usagesegment
"""


def clock(act: Callable[[], object]) -> float:
    """Milliseconds that `act` takes."""
    begin = time.perf_counter()
    act()
    return (time.perf_counter() - begin) * 1_000


def fill(attempts: int, teams: int) -> None:
    """The month, made by the database itself: a segment of three hours for each attempt."""
    import psycopg

    from builders.portal_builders import (
        a_cluster,
        a_department,
        a_pool,
        a_quota,
        a_team,
        a_user,
        an_organization,
    )
    from clusters.models import CapacitySegment

    organization, pool, cluster = an_organization("bench"), a_pool(), a_cluster()
    CapacitySegment.objects.create(
        cluster=cluster, pool=pool, capacity_mgpu=4_000 * teams, start=MONTH
    )
    a_quota(organization, pool, 4 * teams)
    found = []
    for number in range(DEPARTMENTS):
        department = a_department(organization, f"department-{number}")
        a_quota(department, pool, 4 * teams // DEPARTMENTS)
        for each in range(teams // DEPARTMENTS):
            found.append(a_team(department, f"team-{each}"))
            a_quota(found[-1], pool, 3)
    values = {
        "teams": [team.pk for team in found],
        "pool": pool.pk,
        "organization": organization.pk,
        "user": a_user(organization).pk,
        "cluster": cluster.pk,
        "attempts": attempts,
        "month": MONTH,
        "seconds": DAYS * 86_400,
    }
    with psycopg.connect(os.environ["TIDEGATE_OWNER_DATABASE_URL"], autocommit=True) as owner:
        owner.execute(
            """
            INSERT INTO billing_meteredattempt (id, job_id, job_name, number, priority_class,
                multiplier_ppm, use_factor_percent, mgpu, cluster_id, organization_id, pool_id,
                team_id, user_id)
            SELECT gen_random_uuid(), gen_random_uuid(), 'train', 1, 'normal', 1000000, 100,
                1000 * (1 + n %% 8), %(cluster)s, %(organization)s, %(pool)s,
                (%(teams)s::uuid[])[1 + n %% cardinality(%(teams)s::uuid[])], %(user)s
            FROM generate_series(1, %(attempts)s) AS n
            """,
            values,
        )
        owner.execute(
            """
            INSERT INTO billing_usagesegment
                (attempt_id, start, "end", guaranteed_mgpu, borrowed_mgpu)
            SELECT id, began, began + interval '3 hours', LEAST(mgpu, 3000),
                   GREATEST(0, mgpu - 3000)
            FROM (
                SELECT id, mgpu, %(month)s + interval '1 second'
                    * ((row_number() OVER (ORDER BY id) * 7919) %% (%(seconds)s - 10800)) AS began
                FROM billing_meteredattempt
            ) AS attempt
            """,
            values,
        )
        owner.execute("ANALYZE")


if __name__ == "__main__":
    main()
