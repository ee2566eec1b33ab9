"""What 2,000 slow connections do to others.

    python tests/performance/bench_slow_clients.py [--smoke]

The web process as `make up` starts it, with slow clients of four kinds (`slow_clients.py`) at the
same loopback address as everybody else. Asked for meanwhile: `/healthz`, each time on a new
connection, and pages of jobs by a person with a token, on kept and on new connections; target: p95
under 0.5 s for each. All share the machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from bed import a_database
from web_bed import a_web_process, verdict

P95_MAX_MS = 500
RATE_PER_S = 20
#: Until the crowd is whole, and the first of it have met their time limit.
SETTLE_S = 20


def main() -> None:
    """Fill a database, ask alone and in the crowd, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a hundredth of the crowd")
    arguments = parser.parse_args()
    with a_database():
        measure(20 if arguments.smoke else 2_000, 10 if arguments.smoke else 300, arguments.smoke)


def measure(slow: int, requests: int, is_smoke: bool) -> None:
    """Print the figures for one size."""
    from django.db import connection

    from builders.api_callers import a_token
    from builders.job_builders import a_job
    from builders.portal_builders import a_company, a_grant, a_user
    from tenants.roles import Role

    company = a_company()
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    for _ in range(50):
        a_job(company, bob)
    bearer = {"Authorization": f"Bearer {a_token(bob)[1]}"}
    connection.close()
    is_met = True
    with a_web_process() as process:
        for crowd in (0, slow):
            print(f"{crowd} slow connections")
            with slow_clients(process.port, crowd):
                if crowd and not is_smoke:
                    time.sleep(SETTLE_S)
                for label, path, headers, is_kept in (
                    ("/healthz, new connections", "/healthz", {}, False),
                    ("page of jobs, new connections", "/api/v1/jobs", bearer, False),
                    ("page of jobs, one connection", "/api/v1/jobs", bearer, True),
                ):
                    times = asked(process.port, path, headers, requests, is_kept=is_kept)
                    p95 = sorted(times)[int(0.95 * (len(times) - 1))]
                    is_met = is_met and p95 < P95_MAX_MS
                    print(
                        f"  {label:<32} p50 {statistics.median(times):6.1f}  p95 {p95:6.1f}  "
                        f"max {max(times):6.1f} ms"
                    )
    print(f"p95 under {P95_MAX_MS} ms: {verdict(is_met)}")


def asked(
    port: int, path: str, headers: dict[str, str], requests: int, *, is_kept: bool
) -> list[float]:
    """The times of `requests` requests at an even rate, in milliseconds, each answered 200."""
    times, client = [], HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(requests):
        begin = time.perf_counter()
        client.request("GET", path, headers=headers)
        answer = client.getresponse()
        answer.read()
        times.append((time.perf_counter() - begin) * 1000)
        if answer.status != 200:
            raise SystemExit(f"{path} was answered {answer.status}")
        if not is_kept:
            client.close()
        time.sleep(max(0, 1 / RATE_PER_S - (time.perf_counter() - begin)))
    client.close()
    return times


@contextmanager
def slow_clients(port: int, count: int) -> Iterator[None]:
    """Slow clients meanwhile; at the end it is said how many there were."""
    if count == 0:
        yield
        return
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("slow_clients.py")), str(port), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield
        seen = json.loads(process.communicate(timeout=60)[0])
        print(
            f"  opened {seen['opened']}, closed by the server {seen['closed_by_server']}, "
            f"open at a time {seen['open_mean']:.0f}"
        )
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
