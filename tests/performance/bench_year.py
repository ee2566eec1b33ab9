"""A year of an organization: closing a month, chargeback of a month, and DuckDB beside it.

    python tests/performance/bench_year.py [--segments 10000000] [--smoke] [--explain]

1,000 teams in 3 pools use GPUs for a year; a price changes in the middle of November. Targets for
10,000,000 segments: the charges of November in 5 s from segments and in 1 s from stored charges,
a team's November in 200 ms, and the organization by day and usage class in 500 ms. DuckDB rates
the same November from Parquet. CPU time is that of the database's session.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from bed import a_database

if TYPE_CHECKING:
    from tenants.models import Node

YEAR = datetime(2026, 1, 1, tzinfo=UTC)
MONTH = datetime(2026, 11, 1, tzinfo=UTC)
MONTH_END = datetime(2026, 12, 1, tzinfo=UTC)
NOW = datetime(2027, 1, 1, tzinfo=UTC)
SEGMENTS = 10_000_000
#: Segments of each attempt.
PARTS = 3


def main() -> None:
    """Fill a database, ask, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--segments", type=int, default=SEGMENTS, help="how many; default %(default)s"
    )
    parser.add_argument("--smoke", action="store_true", help="3,000 segments, one round")
    parser.add_argument("--explain", action="store_true", help="print the plans too")
    arguments = parser.parse_args()
    with a_database():
        if arguments.smoke:
            measure(1_000, teams=10, rounds=1, explain=arguments.explain)
        else:
            measure(arguments.segments // PARTS, teams=1_000, rounds=3, explain=arguments.explain)


def measure(attempts: int, *, teams: int, rounds: int, explain: bool) -> None:
    """Print the figures for one size."""
    from billing.charge_grouping import Charging
    from billing.daily_charges import charges_in
    from billing.stored_charges import store_day
    from builders.portal_builders import an_actor
    from chargeback.dimensions import Dimension
    from chargeback.reports import Asked, Narrowed, grouped_report
    from tenants.roles import Role

    began = time.perf_counter()
    organization = fill(attempts, teams=teams)
    filled_s = time.perf_counter() - began
    print(f"{PARTS * attempts:,} segments of {teams:,} teams in a year, filled in {filled_s:.0f} s")
    finance = an_actor(organization, Role.FINANCE)
    asked = Asked(MONTH, MONTH_END)
    midnights = [MONTH + timedelta(days=number) for number in range(31)]
    team = f"{organization.slug}/team-{teams // 2}"

    def of_days() -> int:
        return sum(len(found) for _, found in charges_in(pairwise(midnights), organization.pk))

    def store() -> None:
        charging = Charging.of(organization.pk)
        for day in pairwise(midnights):
            assert store_day(charging, *day, now=NOW)

    taken_s = timed("the month from segments", of_days, 1, 5_000)
    baseline(organization, taken_s)
    timed("the month stored", store, 1, None)
    timed("the month from stored charges", of_days, 1, 1_000)
    timed(
        "a team's month",
        lambda: grouped_report(
            actor=finance,
            by=[Dimension.TEAM, Dimension.POOL],
            asked=asked,
            narrowed=Narrowed(team),
            now=NOW,
        ),
        rounds,
        200,
    )
    timed(
        "a team's month by day and class",
        lambda: grouped_report(
            actor=finance,
            by=[Dimension.DAY, Dimension.USAGE_CLASS],
            asked=asked,
            narrowed=Narrowed(team),
            now=NOW,
        ),
        rounds,
        200,
    )
    timed(
        "the month by day and class",
        lambda: grouped_report(
            actor=finance, by=[Dimension.DAY, Dimension.USAGE_CLASS], asked=asked, now=NOW
        ),
        rounds,
        500,
    )


def timed(name: str, act: Callable[[], Any], rounds: int, target_ms: int | None) -> float:
    """Print the medians of wall time and the session's CPU time. Return the first, in seconds."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        session = psutil.Process(cursor.fetchone()[0])
    walls, cpus = [], []
    for _ in range(rounds):
        cpu_s, began = sum(session.cpu_times()[:2]), time.perf_counter()
        act()
        walls.append(time.perf_counter() - began)
        cpus.append(sum(session.cpu_times()[:2]) - cpu_s)
    wall_s, cpu_s = statistics.median(walls), statistics.median(cpus)
    verdict = ""
    if target_ms is not None:
        word = "met" if wall_s * 1_000 <= target_ms else "NOT met"
        verdict = f", target {target_ms:,} ms {word}"
    print(
        f"{name:<36}{wall_s * 1_000:>8,.0f} ms, CPU {cpu_s * 1_000:>7,.0f} ms{verdict}; "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return wall_s


def baseline(organization: Node, taken_s: float) -> None:
    """Print how long DuckDB rates the same month, and the ratio to `taken_s`."""
    import duckdb
    from django.db import transaction

    from exports.audit_sql import AUDIT
    from exports.raw_use import RAW_TABLES, write_raw_use
    from exports.tables import CHARGE_COLUMNS
    from exports.writers import ParquetWriter

    times_s = {
        "begin_s": -(1 << 40),
        "since_s": int(MONTH.timestamp()),
        "until_s": int(MONTH_END.timestamp()),
    }
    with tempfile.TemporaryDirectory() as name, duckdb.connect(config={"threads": 1}) as database:
        folder = Path(name)
        with transaction.atomic():
            write_raw_use(folder, organization=organization.pk, since=MONTH, until=MONTH_END)
        with ParquetWriter(folder / "charges.parquet", CHARGE_COLUMNS):
            pass
        for table in (*RAW_TABLES, "charges"):
            database.read_parquet(str(folder / f"{table}.parquet")).create_view(table)
        began = time.perf_counter()
        database.execute(AUDIT, times_s).fetchall()
        duckdb_s = time.perf_counter() - began
    print(f"{'DuckDB, one thread':<36}{duckdb_s * 1_000:>8,.0f} ms, ratio {taken_s / duckdb_s:.1f}")


def fill(attempts: int, *, teams: int) -> Node:
    """Make the year by the database itself, and return the organization.

    Attempts have ids in the order of their starts, as the real ones. The constraints of segments
    are dropped, because checking them takes most of the time; no statement reads their indexes.
    """
    import psycopg

    from builders.billing_builders import a_rate_card
    from builders.portal_builders import a_cluster, a_pool, a_team, a_user, an_organization

    organization = an_organization("bench")
    pools = [a_pool(f"pool-{number}") for number in range(3)]
    change_s = int((MONTH + timedelta(days=15) - YEAR).total_seconds())
    since_s = int((YEAR - datetime(2026, 11, 1, tzinfo=UTC)).total_seconds())
    for pool in pools:
        a_rate_card(organization, pool=pool, start=since_s, end=since_s + change_s)
        a_rate_card(
            organization,
            {"guaranteed": 2_345_678_901, "borrowed": 987_654_321},
            pool=pool,
            start=since_s + change_s,
        )
    values = {
        "teams": [a_team(organization, f"team-{number}").pk for number in range(teams)],
        "pools": [pool.pk for pool in pools],
        "users": [a_user(organization, f"member-{number}").pk for number in range(teams)],
        "organization": organization.pk,
        "cluster": a_cluster().pk,
        "attempts": attempts,
        "year": YEAR,
        "seconds": 365 * 86_400,
    }
    with psycopg.connect(os.environ["TIDEGATE_OWNER_DATABASE_URL"], autocommit=True) as owner:
        owner.execute(_BARE)
        owner.execute(_ATTEMPTS, values)
        owner.execute(_SEGMENTS, values)
        owner.execute(_INDEXES)
        owner.execute("VACUUM ANALYZE billing_meteredattempt, billing_usagesegment")
        owner.execute("ANALYZE")
    return organization


_BARE = """
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT conrelid::regclass AS home, conname FROM pg_constraint
        WHERE conrelid = 'billing_usagesegment'::regclass AND contype IN ('f', 'x')
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', found.home, found.conname);
    END LOOP;
END
$$;
ALTER TABLE billing_usagesegment DISABLE TRIGGER USER;
CREATE TEMPORARY TABLE dropped AS
SELECT indexname, indexdef FROM pg_indexes
WHERE tablename = 'billing_usagesegment' AND indexname NOT LIKE '%pkey';
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT * FROM dropped LOOP
        EXECUTE format('DROP INDEX %I', found.indexname);
    END LOOP;
END
$$
"""

_INDEXES = """
SET maintenance_work_mem = '1GB';
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT * FROM dropped LOOP
        EXECUTE found.indexdef;
    END LOOP;
END
$$
"""

# The id is a UUID of version 7.
_ATTEMPTS = """
INSERT INTO billing_meteredattempt (id, job_id, job_name, number, priority_class, multiplier_ppm,
    use_factor_percent, job_type, mgpu, cluster_id, organization_id, pool_id, team_id, user_id)
SELECT (lpad(to_hex((date_part('epoch', %(year)s::timestamptz) * 1000
                     + n * 1000 * %(seconds)s::bigint / %(attempts)s)::bigint), 12, '0')
        || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
       md5('job' || n)::uuid, 'train', 1, (ARRAY['high', 'normal', 'low'])[1 + n %% 3],
       1000000 + 250000 * (n %% 3), 100, (ARRAY['training', 'interactive'])[1 + n %% 2],
       1000 * (1 + n %% 8), %(cluster)s, %(organization)s,
       (%(pools)s::uuid[])[1 + h %% 3], (%(teams)s::uuid[])[1 + h / 3 %% teams],
       (%(users)s::uuid[])[1 + (h / 3 + h / 7 %% 3) %% teams]
FROM (
    SELECT n, abs(hashint8(n))::bigint AS h, cardinality(%(teams)s::uuid[]) AS teams
    FROM generate_series(1, %(attempts)s::bigint) AS n
) AS numbered
"""

_SEGMENTS = """
INSERT INTO billing_usagesegment (attempt_id, start, "end", guaranteed_mgpu, borrowed_mgpu)
SELECT id, began + part * length, began + (part + 1) * length,
       CASE part WHEN 0 THEN mgpu WHEN 1 THEN mgpu / 2 ELSE 0 END,
       CASE part WHEN 0 THEN 0 WHEN 1 THEN mgpu - mgpu / 2 ELSE mgpu END
FROM (
    SELECT id, mgpu, %(year)s + interval '1 second' * (n * %(seconds)s::bigint / %(attempts)s)
               AS began,
           interval '1 second' * (600 + n * 7919 %% 7200) AS length
    FROM (
        SELECT id, mgpu, row_number() OVER (ORDER BY id) AS n FROM billing_meteredattempt
    ) AS numbered
) AS attempt, generate_series(0, 2) AS part
"""


if __name__ == "__main__":
    main()
