"""The evaluation of all budgets of an organization, and what a cycle reads of them.

    python tests/performance/bench_budgets.py [--smoke]

1,000 teams with a budget each, in departments of 50 with budgets in money, and one of the
organization. They used 100,000 segments in 30 days, and 2,000 attempts run. Target: an evaluation
within 500 ms. Printed apart: the first evaluation of a day, and the stops of a cycle with 20,000
queued jobs.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bed import a_database

DAYS = 30
MONTH = datetime(2026, 11, 1, tzinfo=UTC)
NOW = MONTH + timedelta(days=DAYS, hours=-1)
TARGET_MS = 500


def main() -> None:
    """Evaluate, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a fiftieth of the size")
    arguments = parser.parse_args()
    with a_database():
        measure(50 if arguments.smoke else 1)


def measure(part: int) -> None:
    """Print the figures for a `part`-th of the size."""
    from budgets.evaluation import evaluate
    from jobs.queue.budget_stops import budget_stops

    teams, attempts, running, queued = (n // part for n in (1_000, 100_000, 2_000, 20_000))
    organization = fill(teams, attempts, running, queued)
    print(f"{teams} teams, {attempts} segments, {running} running, {queued} queued")
    clock("first evaluation of a day", lambda: evaluate(organization.pk, NOW))
    for number in range(1, 4):
        moment = NOW + timedelta(seconds=30 * number)
        took_ms = clock("evaluation", lambda moment=moment: evaluate(organization.pk, moment))  # type: ignore[misc]
    print(f"target {TARGET_MS} ms {'met' if took_ms <= TARGET_MS else 'NOT met'}")
    for _ in range(3):
        clock("stops of a cycle", lambda: budget_stops(NOW + timedelta(seconds=100)))


def clock(name: str, act: Callable[[], object]) -> float:
    """Print and return the milliseconds that `act` takes.

    Beside them it prints the CPU time of Python and of the database's process.
    """
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (backend,) = cursor.fetchone()
    began, python_s, database_s = time.perf_counter(), time.process_time(), cpu_s(backend)
    act()
    took_ms = (time.perf_counter() - began) * 1_000
    python_ms = (time.process_time() - python_s) * 1_000
    database_ms = (cpu_s(backend) - database_s) * 1_000
    cpu = f"CPU: Python {python_ms:7,.0f} ms, database {database_ms:7,.0f} ms"
    print(f"{name:<28}{took_ms:8,.0f} ms   {cpu}", flush=True)
    return took_ms


def cpu_s(process: int) -> float:
    """Return the CPU time of a process of this machine in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fill(teams: int, attempts: int, running: int, queued: int):  # type: ignore[no-untyped-def]
    """Make the organization, its budgets, its use and its jobs, by few statements."""
    from django.db import connection

    from builders.billing_builders import a_rate_card
    from builders.budget_builders import a_budget
    from builders.portal_builders import (
        a_cluster,
        a_department,
        a_pool,
        a_priority_class,
        a_team,
        a_user,
        an_organization,
    )
    from jobs.models import Attempt, Job

    organization = an_organization("bench")
    pool, cluster, user = a_pool(), a_cluster(), a_user(organization)
    a_rate_card(organization, start=-86_400)
    normal = a_priority_class(organization)
    departments = [a_department(organization, f"d-{n}") for n in range(max(1, teams // 50))]
    made = [a_team(departments[n % len(departments)], f"t-{n}") for n in range(teams)]
    for node in made:
        a_budget(node, 10_000, name=node.slug)
    for node in departments:
        a_budget(node, measure="money", limit=10**14, name=node.slug)
    a_budget(organization, 10_000_000, window="quarter")
    names = {
        "teams": [node.pk for node in made],
        "organization": organization.pk,
        "user": user.pk,
        "pool": pool.pk,
        "cluster": cluster.pk,
        "month": MONTH,
        "now": NOW,
        "ended": attempts,
        "all": attempts + running,
        "count": teams,
        "span_s": (DAYS - 1) * 86_400,
    }
    jobs = [
        Job(
            organization=organization,
            team=made[n % teams],
            user=user,
            name="job",
            type="training",
            pool=pool,
            priority_class=normal,
            mgpu_per_node=1_000,
            node_count=1,
            script="x",
            state="running" if n < running else "queued",
            submitted_at=NOW,
            time_limit_s=3_600,
        )
        for n in range(running + queued)
    ]
    Job.objects.bulk_create(jobs, batch_size=2_000)
    Attempt.objects.bulk_create(
        Attempt(
            job=job,
            number=1,
            cluster=cluster,
            slots=[],
            mgpu=1_000,
            guaranteed_mgpu=1_000,
            state="running",
            epoch=1,
            granted_at=NOW,
            started_at=NOW,
        )
        for job in jobs[:running]
    )
    with connection.cursor() as cursor:
        for statement in _FILL:
            cursor.execute(statement, names)
    return organization


_FILL = (
    """
    INSERT INTO billing_meteredattempt (id, job_id, job_name, number, organization_id, team_id,
        user_id, pool_id, cluster_id, priority_class, multiplier_ppm, use_factor_percent, mgpu)
    SELECT md5(n::text)::uuid, md5(n::text)::uuid, 'job', 1, %(organization)s,
        (%(teams)s::uuid[])[1 + n %% %(count)s], %(user)s, %(pool)s, %(cluster)s, 'normal',
        1000000, 100, 1000
    FROM generate_series(0, %(all)s - 1) AS n
    """,
    """
    INSERT INTO billing_usagesegment (attempt_id, start, "end", guaranteed_mgpu, borrowed_mgpu)
    SELECT md5(n::text)::uuid, began, CASE WHEN n < %(ended)s THEN began + interval '2 h' END, 600,
        400
    FROM (
        SELECT n, CASE WHEN n < %(ended)s
            THEN %(month)s::timestamptz + (n::bigint * 7919 %% %(span_s)s) * interval '1 s'
            ELSE %(now)s::timestamptz - interval '10 m' END AS began
        FROM generate_series(0, %(all)s - 1) AS n
    ) AS made
    """,
    "ANALYZE",
)


if __name__ == "__main__":
    main()
