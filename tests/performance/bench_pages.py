"""Pages in Chromium with 100,000 jobs and 1,000 teams: the time until a person can use them.

    python tests/performance/bench_pages.py [--smoke]

The web process as `make up` starts it, with the built pages. A page can be used once what it is for
is shown and the browser is idle, counted from the start of its navigation. Target: 1.5 s on 2 cores
for home, jobs, quotas and history, with the files of the portal in the browser's cache.

Then the list of jobs is scrolled page by page: elements in the document, and the time of its pages.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import TYPE_CHECKING

import bench_history
import bench_jobs_list
import psycopg
from bed import a_database, spread
from web_bed import a_web_process, verdict

from servers import plan_servers

if TYPE_CHECKING:
    from playwright.sync_api import Page

TARGET_MS = 1_500
#: Addresses, and what of them a person waits for. `{department}` is a node with 50 teams.
PAGES = (
    ("home", "/", "main .card table"),
    ("jobs", "/jobs", "main tbody tr:nth-child(20)"),
    ("quotas", "/quotas", "main tbody tr:nth-child(20)"),
    ("history of the organization", "/tree/{organization}/history", "main canvas"),
    ("history of a department", "/tree/{department}/history", "main canvas"),
)
#: So far the list of jobs is scrolled, in rows.
SCROLLED_ROWS = 5_000
#: The list by most of its height, or to its end, and the number of the last row in the document.
_SCROLL = """(frame) => {
  frame.scrollTop += frame.clientHeight * 0.8;
  const rows = frame.querySelectorAll("tbody tr[aria-rowindex]");
  return Number(rows[rows.length - 1].getAttribute("aria-rowindex"));
}"""
_ELEMENTS = "() => document.querySelectorAll('*').length"
_IDLE = "() => new Promise((done) => requestIdleCallback(() => done(performance.now())))"


def main() -> None:
    """Fill a database, open pages, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a hundredth of the size, one round")
    arguments = parser.parse_args()
    jobs, teams = (1_000, 40) if arguments.smoke else (100_000, 1_000)
    with a_database():
        plan_servers().start_valkey()
        measure(jobs, teams, 1 if arguments.smoke else 5)


def measure(jobs: int, teams: int, rounds: int) -> None:
    """Print the figures for one size."""
    from django.core.management import call_command
    from django.db import connection

    from builders.browsers import PASSWORD
    from builders.portal_builders import a_grant, a_priority_class, a_user
    from builders.submit_page import chromium
    from clusters.models import Cluster, Pool
    from history.storing import store_past_days
    from tenants.models import Node, NodeKind
    from tenants.roles import Role

    bench_history.fill(jobs, teams)
    pool, organization = Pool.objects.get(), Node.objects.get(path="bench/")
    users = [a_user(organization, f"person-{number}") for number in range(10)]
    bench_jobs_list.insert_jobs(
        jobs,
        list(Node.objects.filter(kind=NodeKind.TEAM)),
        users,
        a_priority_class(organization),
        pool,
        Cluster.objects.get(),
    )
    store_past_days(bench_history.NOW)
    admin = a_user(organization, "admin", password=PASSWORD)
    a_grant(admin, Role.ORGANIZATION_ADMIN, organization)
    with psycopg.connect(os.environ["TIDEGATE_OWNER_DATABASE_URL"], autocommit=True) as owner:
        owner.execute("ANALYZE")
    ids = {
        "organization": organization.pk,
        "department": Node.objects.get(path="bench/department-0/").pk,
    }
    print(f"{jobs} jobs, {teams} teams in {bench_history.DEPARTMENTS} departments")
    call_command("collectstatic", interactive=False, verbosity=0)
    with a_web_process() as process, chromium() as browser:
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(60_000)
        origin = f"http://127.0.0.1:{process.port}"
        page.goto(f"{origin}/login")
        page.get_by_label("Login").fill(admin.login)
        page.get_by_role("textbox", name="Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.get_by_role("heading", name="Hello").wait_for()
        for name, address, wanted in PAGES:
            times = []
            for _ in range(rounds + 1):
                page.goto(origin + address.format(**ids))
                page.locator(wanted).first.wait_for()
                times.append(page.evaluate(_IDLE))
            is_met = statistics.median(times[-rounds:]) < TARGET_MS
            shown = f"{spread(times[-rounds:])}, first {times[0]:.0f} ms"
            print(f"{name:<28}{shown}  < {TARGET_MS} ms: {verdict(is_met)}", flush=True)
        scroll(page, f"{origin}/jobs", min(SCROLLED_ROWS, jobs))
    connection.close()


def scroll(page: Page, address: str, rows: int) -> None:
    """Scroll the list of jobs by so many rows, and print what that took."""
    page.goto(address)
    frame = page.locator(".rows-frame")
    frame.locator("tbody tr:nth-child(20)").wait_for()
    first = page.evaluate(_ELEMENTS)
    most, steps, begun_s = first, 0, time.monotonic()
    while frame.evaluate(_SCROLL) < rows:
        page.evaluate("() => new Promise((done) => requestAnimationFrame(done))")
        most = max(most, page.evaluate(_ELEMENTS))
        steps += 1
    spent_s = time.monotonic() - begun_s
    print(
        f"{rows} jobs scrolled in {spent_s:.1f} s, {steps} steps; "
        f"elements: {first} at first, {most} at most"
    )


if __name__ == "__main__":
    main()
