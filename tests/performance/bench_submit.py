"""Jobs submitted through REST, each with its own Idempotency-Key.

    python tests/performance/bench_submit.py [--smoke]

The web process as `make up` starts it, 8 connections, an organization of 200 teams on 125 nodes;
5,000 jobs; target: at least 100 jobs/s. The clients share the machine with server and database.
Printed apart: the statements of one submission, and the dry run.
"""

from __future__ import annotations

import argparse
import json

from bed import a_database
from web_bed import a_web_process, verdict

CLIENTS = 8
RATE_MIN = 100


def main() -> None:
    """Fill a database, submit, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a hundredth of the jobs")
    arguments = parser.parse_args()
    jobs = 50 if arguments.smoke else 5_000
    with a_database():
        measure(jobs, teams=10 if arguments.smoke else 200)


def measure(jobs: int, *, teams: int) -> None:
    """Print the figures for one size."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from builders.api_callers import Caller
    from jobs.models import Job

    token = fill(teams)
    body = json.dumps(
        {
            "team": "bench/team-0",
            "gpus": 8,
            "script": "#!/bin/bash\n" + "python train.py --more\n" * 50,
            "environment": {"SEED": "1"},
            "time_limit_s": 3_600,
        }
    )
    caller = Caller({"Authorization": f"Bearer {token}"})
    caller.post("jobs", json.loads(body), Idempotency_Key="warm")
    with CaptureQueriesContext(connection) as queries:
        caller.post("jobs", json.loads(body), Idempotency_Key="counted")
    connection.close()
    print(f"{teams} teams, 125 nodes, {jobs} jobs, {CLIENTS} connections")
    print(f"{'statements of a submission':<28} {len(queries)}")

    headers = (
        f"HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer {token}\n"
        f"Content-Type: application/json\nContent-Length: {len(body)}"
    )
    submit = f"POST /api/v1/jobs {headers}\nIdempotency-Key: {{key}}"
    with a_web_process() as process:
        process.load(min(jobs, 200), CLIENTS, submit, body)
        before = Job.objects.count()
        measured = process.load(jobs, CLIENTS, submit, body)
        assert Job.objects.count() == before + jobs
        is_met = measured.rate >= RATE_MIN
        print(f"{'submit':<28}{measured}  at least {RATE_MIN} jobs/s: {verdict(is_met)}")
        planned = process.load(
            max(8, jobs // 100), 2, f"POST /api/v1/jobs?dry_run=true {headers}", body
        )
        print(f"{f'dry run, {before + jobs} queued':<28}{planned}")
    connection.close()


def fill(teams: int) -> str:
    """An organization with `teams` teams on 1,000 GPUs; the secret of a token of its admin."""
    from builders.api_callers import a_token
    from builders.portal_builders import (
        a_cluster,
        a_cluster_node,
        a_pool,
        a_priority_class,
        a_quota,
        a_team,
        an_actor,
        an_organization,
    )
    from jobs.submission.submission import OPEN_JOBS_PER_USER_MAX
    from primitives.clock import SystemClock
    from tenants.roles import Role

    assert OPEN_JOBS_PER_USER_MAX >= 10_000
    pool, cluster = a_pool(), a_cluster(seen_at=SystemClock().now())
    organization = an_organization("bench")
    a_quota(organization, pool, 1_000)
    a_priority_class(organization)
    for number in range(teams):
        a_quota(a_team(organization, f"team-{number}"), pool, 1_000 // teams)
    for number in range(125):
        a_cluster_node(cluster, pool, f"node-{number:03d}")
    admin = an_actor(organization, Role.ORGANIZATION_ADMIN)
    return a_token(admin.user)[1]


if __name__ == "__main__":
    main()
