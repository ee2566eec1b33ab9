"""The chargeback report and its click-through over a busy month.

    python tests/performance/bench_chargeback.py [--smoke] [--explain]

100,000 attempts with 300,000 segments of 60 teams in 2 pools over 30 days, prices that change
once, open segments among them; target: the median of the whole month under 1 s. Printed apart:
the month by department, one day of it, the month by groups of two dimensions, a page of the jobs
behind the month, the usage of 100 jobs, and telling the meter 1,000 changes of class at once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from bed import a_database, spread

MONTH = datetime(2026, 11, 1, tzinfo=UTC)
DAYS = 30
NOW = MONTH + timedelta(days=DAYS)
MONTH_TARGET_MS = 1_000


def main() -> None:
    """Fill a database, ask, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a hundredth of the size, one round")
    parser.add_argument("--explain", action="store_true", help="print the report's plan too")
    arguments = parser.parse_args()
    attempts = 1_000 if arguments.smoke else 100_000
    with a_database():
        measure(attempts, 1 if arguments.smoke else 7, explain=arguments.explain)


def measure(attempts: int, rounds: int, *, explain: bool) -> None:
    """Print the figures for one size."""
    from django.db import connection

    from billing.metering import record_classed
    from billing.models import MeteredAttempt
    from billing.periods import Period
    from billing.usage_sql import rows_of
    from builders.portal_builders import an_actor
    from chargeback import reports
    from chargeback.dimensions import Dimension
    from chargeback.jobs import jobs_behind
    from chargeback.reports import Asked, Narrowed, grouped_report
    from tenants.models import Node
    from tenants.roles import Role

    fill(attempts)
    finance = an_actor(Node.objects.get(path="bench/"), Role.FINANCE)
    month = Period(MONTH, NOW, NOW)
    day = Period(MONTH + timedelta(days=9), MONTH + timedelta(days=10), NOW)
    print(f"{attempts} attempts, {3 * attempts} segments, 60 teams, 2 pools, {DAYS} days")

    def timed(name: str, act: Callable[[], object], target_ms: int | None = None) -> None:
        act()
        times = [clock(act) for _ in range(rounds)]
        verdict = ""
        if target_ms is not None:
            word = "met" if statistics.median(times) < target_ms else "NOT met"
            verdict = f", target {target_ms} ms {word}"
        print(f"{name:<32}{spread(times)}{verdict}")

    def report(by: Sequence[Dimension], start: datetime = MONTH, end: datetime = NOW) -> Any:
        return grouped_report(actor=finance, by=by, asked=Asked(start, end), now=NOW)

    department = [Dimension.DEPARTMENT]
    timed("month by department", lambda: report(department), MONTH_TARGET_MS)
    timed("one day by department", lambda: report(department, day.start, day.end))
    for by in (
        (Dimension.DAY, Dimension.USAGE_CLASS),
        (Dimension.TEAM, Dimension.POOL),
        (Dimension.TEAM, Dimension.USER),
    ):
        timed(
            f"month by {' and '.join(by)}",
            lambda by=by: report(by),  # type: ignore[misc]
        )
    timed(
        "page of jobs behind the month",
        lambda: jobs_behind(
            actor=finance, period=month, narrowed=Narrowed(node_path="bench"), limit=50
        ),
    )
    timed(
        "page of jobs of a team",
        lambda: jobs_behind(
            actor=finance,
            period=month,
            narrowed=Narrowed(node_path="bench/department-0/team-0"),
            limit=50,
        ),
    )
    jobs: list[UUID] = list(MeteredAttempt.objects.values_list("job_id", flat=True)[:100])
    timed("usage of 100 jobs", lambda: usage_of(jobs))
    by_team = report([Dimension.TEAM])
    assert by_team.segments_mgpu_s == by_team.totals.mgpu_s
    open_ids = list(
        MeteredAttempt.objects.filter(segments__end=None).values_list("pk", flat=True)[:1_000]
    )
    times = []
    for number in range(rounds):
        pairs = [(pk, 1_000 * (number % 2)) for pk in open_ids]
        at = NOW + timedelta(seconds=number)
        times.append(clock(lambda pairs=pairs, at=at: record_classed(pairs, at, at)))  # type: ignore[misc]
    print(f"{f'{len(open_ids)} changes of class':<32}{spread(times)}")
    if explain:
        plan: list[str] = []

        def explained(statement: str, parameters: dict[str, object]) -> list[tuple[object, ...]]:
            plan.extend(
                row[0] for row in rows_of("EXPLAIN (ANALYZE, BUFFERS) " + statement, parameters)
            )
            return rows_of(statement, parameters)

        reports.rows_of = explained  # type: ignore[assignment]
        report(department)
        print("\n".join(plan))
    connection.close()


def usage_of(jobs: Sequence[UUID]) -> None:
    """What each of these has used, as a page of jobs asks it."""
    from billing.queries import USAGE_OF_JOB
    from webapi.statements import array_text, prepared_cursor

    usage = USAGE_OF_JOB.format(job="wanted.id")
    with prepared_cursor() as cursor:
        cursor.execute(
            f"SELECT {usage} FROM unnest(%(jobs)s::uuid[]) AS wanted (id)",
            {"jobs": array_text(jobs), "now": NOW},
        )
        cursor.fetchall()


def clock(act: Callable[[], object]) -> float:
    """Milliseconds that `act` takes."""
    begin = time.perf_counter()
    act()
    return (time.perf_counter() - begin) * 1_000


def fill(attempts: int) -> None:
    """The month, made by the database itself: three segments of an hour each per attempt.

    Every hundredth attempt still runs.
    """
    import psycopg

    from builders.billing_builders import a_rate_card
    from builders.portal_builders import (
        a_cluster,
        a_department,
        a_pool,
        a_quota,
        a_team,
        a_user,
        an_organization,
    )

    organization = an_organization("bench")
    teams = [
        a_team(department, f"team-{number}")
        for department in (a_department(organization, f"department-{n}") for n in range(6))
        for number in range(10)
    ]
    pools = [a_pool("h100"), a_pool("a100")]
    half = 15 * 86_400
    for pool in pools:
        a_quota(organization, pool, 1_000)
        a_rate_card(organization, pool=pool, end=half)
        a_rate_card(
            organization,
            {"guaranteed": 2_345_678_901, "borrowed": 987_654_321},
            pool=pool,
            start=half,
        )
    values = {
        "teams": [team.pk for team in teams],
        "pools": [pool.pk for pool in pools],
        "organization": organization.pk,
        "user": a_user(organization).pk,
        "cluster": a_cluster().pk,
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
            SELECT gen_random_uuid(), gen_random_uuid(), 'train', 1, 'normal',
                1000000 + 250000 * (n %% 3), 100, 1000 * (1 + n %% 8), %(cluster)s,
                %(organization)s,
                (%(pools)s::uuid[])[1 + n %% 2], (%(teams)s::uuid[])[1 + n %% 60], %(user)s
            FROM generate_series(1, %(attempts)s) AS n
            """,
            values,
        )
        owner.execute(
            """
            INSERT INTO billing_usagesegment
                (attempt_id, start, "end", guaranteed_mgpu, borrowed_mgpu)
            SELECT id,
                began + part * interval '1 hour',
                CASE WHEN n %% 100 = 0 AND part = 2 THEN NULL
                     ELSE began + (part + 1) * interval '1 hour' END,
                CASE part WHEN 0 THEN mgpu WHEN 1 THEN mgpu / 2 ELSE 0 END,
                CASE part WHEN 0 THEN 0 WHEN 1 THEN mgpu - mgpu / 2 ELSE mgpu END
            FROM (
                SELECT id, mgpu, n,
                    %(month)s + interval '1 second'
                    * ((n::bigint * 7919) %% (%(seconds)s - 10800)) AS began
                FROM (
                    SELECT id, mgpu, row_number() OVER (ORDER BY id) AS n
                    FROM billing_meteredattempt
                ) AS numbered
            ) AS attempt, generate_series(0, 2) AS part
            """,
            values,
        )
        owner.execute(
            """
            INSERT INTO billing_meterevent (attempt_id, kind, at, guaranteed_mgpu, recorded_at)
            SELECT attempt_id, 'started', min(start), NULL, min(start)
            FROM billing_usagesegment GROUP BY attempt_id
            UNION ALL
            SELECT attempt_id, 'classed', start, guaranteed_mgpu, start FROM billing_usagesegment
            """
        )
        owner.execute("ANALYZE")


if __name__ == "__main__":
    main()
