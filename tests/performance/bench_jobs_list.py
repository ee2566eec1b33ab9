"""The jobs list through REST, on a table of 100,000 jobs.

    python tests/performance/bench_jobs_list.py [--smoke]

The web process as `make up` starts it, 8 connections; pages of 50 jobs for an administrator who
sees all of them, for a lead who sees one team's, and for a researcher who sees their own; target:
p95 under 50 ms for each. The clients share the machine with server and database.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import psycopg
from bed import a_database
from web_bed import a_web_process, verdict

if TYPE_CHECKING:
    from clusters.models import Cluster, Pool
    from quotas.models import PriorityClass
    from tenants.models import Node, User

CLIENTS = 8
P95_MAX_MS = 50
TEAMS = 100
USERS_PER_TEAM = 5
ENDED = "ended_at__gte=2026-09-21T14:00:00Z&ended_at__lt=2026-09-21T15:00:00Z"


def main() -> None:
    """Fill a database, list, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a hundredth of the size")
    arguments = parser.parse_args()
    with a_database():
        measure(1_000 if arguments.smoke else 100_000, 24 if arguments.smoke else 1_000)


def measure(jobs: int, requests: int) -> None:
    """Print the figures for one size."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from builders.api_callers import Caller

    tokens = fill(jobs)
    caller = Caller({"Authorization": f"Bearer {tokens['administrator']}"})
    caller.get("jobs")
    with CaptureQueriesContext(connection) as queries:
        page = caller.get("jobs").json()
    connection.close()
    assert len(page["items"]) == 50
    deep = page["next"].removeprefix("/api/v1/")
    # Every connection to the database has planned its statements by then.
    warm_up = min(requests, 200)
    print(f"{jobs} jobs of {TEAMS} teams, {CLIENTS} connections, pages of 50")
    print(f"{'statements of a page':<40} {len(queries)}")
    with a_web_process() as process:
        for label, person, path in (
            ("newest, administrator", "administrator", "jobs"),
            ("next page, administrator", "administrator", deep),
            ("oldest first, administrator", "administrator", "jobs?sort=submitted_at"),
            ("running, administrator", "administrator", "jobs?state=running"),
            ("one team, administrator", "administrator", "jobs?team=bench/team-7"),
            ("one user, administrator", "administrator", "jobs?user=user-7-3"),
            ("common name, administrator", "administrator", "jobs?q=train"),
            ("rare name, administrator", "administrator", "jobs?q=needle"),
            ("native id, administrator", "administrator", "jobs?q=native-4711"),
            ("username, administrator", "administrator", "jobs?q=user-7-3"),
            ("by name, administrator", "administrator", "jobs?sort=name"),
            ("by start, administrator", "administrator", "jobs?sort=-started_at"),
            ("by end, administrator", "administrator", "jobs?sort=-ended_at"),
            ("by GPUs, administrator", "administrator", "jobs?sort=-gpus"),
            ("by state, administrator", "administrator", "jobs?sort=state"),
            ("by team, administrator", "administrator", "jobs?sort=team"),
            ("by user, administrator", "administrator", "jobs?sort=-user"),
            ("a rare class, administrator", "administrator", "jobs?priority_class=rare"),
            ("a rare type, administrator", "administrator", "jobs?type=inference"),
            ("an empty cluster, administrator", "administrator", "jobs?cluster=none"),
            ("borrowed, administrator", "administrator", "jobs?usage_class=borrowed"),
            ("ended then, administrator", "administrator", f"jobs?{ENDED}"),
            ("by name, lead of a team", "lead", "jobs?sort=name"),
            ("by end, lead of a team", "lead", "jobs?sort=-ended_at"),
            ("by team, researcher", "researcher", "jobs?sort=team"),
            ("newest, lead of a team", "lead", "jobs"),
            ("newest, researcher", "researcher", "jobs"),
        ):
            head = (
                f"GET /api/v1/{path} HTTP/1.1\nHost: 127.0.0.1\n"
                f"Authorization: Bearer {tokens[person]}"
            )
            process.load(warm_up, CLIENTS, head)
            measured = process.load(requests, CLIENTS, head)
            is_met = measured.at(0.95) < P95_MAX_MS
            print(f"{label:<32}{measured}  p95 < {P95_MAX_MS} ms: {verdict(is_met)}")
    connection.close()


def fill(jobs: int) -> dict[str, str]:
    """Jobs made by the database itself, one in a hundred running; tokens by person."""

    from builders.api_callers import a_token
    from builders.portal_builders import (
        a_cluster,
        a_grant,
        a_pool,
        a_priority_class,
        a_team,
        a_user,
        an_organization,
    )
    from tenants.roles import Role

    pool, cluster = a_pool(), a_cluster()
    organization = an_organization("bench")
    normal = a_priority_class(organization)
    a_priority_class(organization, "rare")
    a_cluster("none")
    teams = [a_team(organization, f"team-{number}") for number in range(TEAMS)]
    users = [
        [a_user(organization, f"user-{team}-{number}") for number in range(USERS_PER_TEAM)]
        for team in range(TEAMS)
    ]
    administrator = a_user(organization, "administrator")
    a_grant(administrator, Role.ORGANIZATION_ADMIN, organization)
    lead, researcher = users[7][0], users[7][3]
    a_grant(lead, Role.TEAM_LEAD, teams[7])
    a_grant(researcher, Role.RESEARCHER, teams[7])
    # User n works in the team of job n: as many lists as there are people a team.
    workers = [users[n % TEAMS][n // TEAMS] for n in range(TEAMS * USERS_PER_TEAM)]
    insert_jobs(jobs, teams, workers, normal, pool, cluster)
    # Only the owner may; on a living database autovacuum does it.
    with psycopg.connect(os.environ["TIDEGATE_OWNER_DATABASE_URL"], autocommit=True) as owner:
        owner.execute("ANALYZE")
    return {
        "administrator": a_token(administrator)[1],
        "lead": a_token(lead)[1],
        "researcher": a_token(researcher)[1],
    }


def insert_jobs(
    jobs: int,
    teams: Sequence[Node],
    users: Sequence[User],
    priority_class: PriorityClass,
    pool: Pool,
    cluster: Cluster,
) -> None:
    """Jobs of teams and users by turns, made by the database itself, one in a hundred running."""
    from django.db import connection

    with connection.cursor() as cursor:
        # Ids as version 7 UUIDs are: a time in milliseconds, then the job's number.
        cursor.execute(
            """
            INSERT INTO jobs_job (id, organization_id, team_id, user_id, name, type, origin,
                pool_id, pools, priority_class_id, mgpu_per_node, node_count, features, script,
                environment, notes, notice_signal, is_preemptible, is_requeueable, launch,
                is_singleton, arguments, appends_output, signals_shell_only, requeue_on,
                requeue_max, state, submitted_at, started_at, ended_at, attempt_number)
            SELECT (lpad(to_hex(1790000000000 + n * 1000), 12, '0') || '7000'
                    || lpad(to_hex(n), 16, '8000000000000000'))::uuid,
                   %(organization)s, (%(teams)s::uuid[])[n %% %(team_count)s + 1],
                   (%(users)s::uuid[])[n %% %(user_count)s + 1],
                   CASE WHEN n %% 5000 = 17 THEN 'needle-' ELSE 'train-' END || n,
                   'training', 'portal', %(pool)s, '{}', %(class)s, 1000, 1, '{}',
                   repeat('python train.py' || chr(10), 50),
                   '{}', '[]', 'TERM', false, true, 'per_node', false, '{}', false, false, '{}', 10,
                   CASE WHEN n %% 100 = 0 THEN 'running' ELSE 'succeeded' END,
                   to_timestamp(1790000000 + n), to_timestamp(1790000001 + n),
                   CASE WHEN n %% 100 <> 0 THEN to_timestamp(1790000100 + n) END, 1
            FROM generate_series(1, %(jobs)s) AS n
            """,
            {
                "organization": teams[0].organization_id,
                "teams": [team.pk for team in teams],
                "team_count": len(teams),
                "users": [user.pk for user in users],
                "user_count": len(users),
                "pool": pool.pk,
                "class": priority_class.pk,
                "jobs": jobs,
            },
        )
        cursor.execute(
            """
            INSERT INTO jobs_attempt (id, job_id, number, cluster_id, slots, mgpu,
                guaranteed_mgpu, state, epoch, granted_at, native_state, started_at, ended_at,
                released_at, exit_codes, message, missed_listings, native_id)
            SELECT gen_random_uuid(), id, 1, %(cluster)s, '[{"node": "n1", "mgpu": 1000}]', 1000,
                   1000, CASE WHEN state = 'running' THEN 'running' ELSE 'ended' END, 1,
                   submitted_at, '', started_at, ended_at, ended_at, '{}', '', 0,
                   'native-' || row_number() OVER (ORDER BY id)
            FROM jobs_job
            """,
            {"cluster": cluster.pk},
        )


if __name__ == "__main__":
    main()
