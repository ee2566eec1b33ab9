"""Every built page of the frontend, with made-up answers, for tests in a real browser."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Page, expect

from embedded.ports import a_free_port

FRONTEND = Path(__file__).parents[2] / "frontend"
SERVER_WITHIN_S = 120
WAIT_MS = 60_000
PERIOD = "start=2026-10-01T00:00:00Z&end=2026-11-01T00:00:00Z"


def uuid(number: int) -> str:
    """An id as the made-up company has them."""
    return f"01935000-0000-7000-8000-{number:012x}"


#: Addresses of every route, by its pattern in `frontend/src/shell/router.tsx`.
PAGES = {
    "/login": [],  # signed in, it leads home
    "/": ["/"],
    "/quotas": ["/quotas", "/quotas?node=ai-company/research/nlp"],
    "/tree/$nodeId": [],  # leads to the members
    "/tree/$nodeId/members": [f"/tree/{uuid(105)}/members"],
    "/tree/$nodeId/structure": [f"/tree/{uuid(104)}/structure"],
    "/tree/$nodeId/history": [f"/tree/{uuid(104)}/history", f"/tree/{uuid(105)}/history?range=day"],
    "/quota-changes": ["/quota-changes"],
    "/quota-changes/new": ["/quota-changes/new"],
    "/quota-changes/$plannedId": ["/quota-changes/PLAN"],
    "/requests": ["/requests", "/requests?view=mine", "/requests?ask=guarantee"],
    "/policy": ["/policy"],
    "/credits": ["/credits", "/credits?team=ai-company/research/nlp&month=2026-11"],
    "/fair-share": ["/fair-share", "/fair-share?node=ai-company"],
    "/capacity": ["/capacity"],
    "/budgets": ["/budgets"],
    "/adjustments": ["/adjustments"],
    "/periods": ["/periods", "/periods?month=2026-10"],
    "/jobs": ["/jobs"],
    "/jobs/$jobId": [
        f"/jobs/{uuid(number)}?tab={tab}"
        for number in (0x8F2C, 0x9001)
        for tab in ("log", "timeline", "reasons", "decisions", "attempts", "metrics", "script")
    ],
    "/schedules": ["/schedules"],
    "/schedules/$scheduleId": ["/schedules/SCHEDULE"],
    "/templates": ["/templates"],
    "/submit": ["/submit", "/submit?door=sbatch", "/submit?door=yaml"],
    "/chargeback": ["/chargeback?period=last-month&by=department&share=by_guarantee"],
    "/chargeback/jobs": [f"/chargeback/jobs?{PERIOD}&node=ai-company"],
    "/reconciliation": ["/reconciliation?month=2026-11", "/reconciliation?month=2026-11&day=r2"],
    "/prices": ["/prices"],
    "/clusters": ["/clusters"],
    "/clusters/$name": [
        f"/clusters/slurm-a?tab={tab}" for tab in ("nodes", "users", "quotas", "options", "use")
    ],
    "/add-cluster": [f"/add-cluster?kind={kind}" for kind in ("slurm", "kubernetes", "local")],
    "/decisions": ["/decisions", "/decisions?view=cycles"],
    "/decisions/$cycleId": ["/decisions/CYCLE"],
    "/access": ["/access"],
    "/set-password": ["/set-password"],
    "/notices": ["/notices"],
    "/notices/preferences": ["/notices/preferences"],
    "/announcements": ["/announcements"],
    "/maintenance": ["/maintenance"],
    "/notices/webhooks": [f"/notices/webhooks?webhook={uuid(0xE001)}"],
    "/audit": ["/audit"],
    "/organizations": ["/organizations"],
    "/people": ["/people"],
    "/sign-in": ["/sign-in"],
    "/guide": ["/guide", "/guide?q=budget"],
    "/guide/$document": ["/guide/researchers", "/guide/reference-reason-codes"],
    "/device": ["/device", "/device?code=WDJB-MJHT"],
}

#: The id in the first link to an item of the list at the path that is given, once there is one.
_ID_IN_A_LINK = """(top) => [...document.querySelectorAll('main a')]
  .filter((a) => a.pathname.startsWith(`${top}/`))
  .map((a) => a.pathname.slice(top.length + 1))
  .find((end) => /^[0-9a-f-]{36}$/.test(end))"""


def routes() -> set[str]:
    """Return the patterns of all routes of the built frontend."""
    return set(json.loads((FRONTEND / "dist/routes.json").read_text()))


@contextmanager
def made_up_answers() -> Iterator[str]:
    """Serve the built pages with made-up answers; the value is their address."""
    assert (FRONTEND / "dist/index.html").is_file(), "Run `make frontend-build`."
    port = a_free_port()
    node = str(FRONTEND.parent / ".venv/bin/node")
    server = subprocess.Popen([node, "mock/built.ts", str(port)], cwd=FRONTEND)
    try:
        wait_for(f"http://127.0.0.1:{port}/")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def wait_for(address: str) -> None:
    """Return when the address answers."""
    until = time.monotonic() + SERVER_WITHIN_S
    while True:
        try:
            with urlopen(address, timeout=10):
                return
        except URLError:
            assert time.monotonic() < until, f"{address} does not answer"
            time.sleep(0.1)


def every_address(page: Page, address: str) -> list[str]:
    """Return the paths of all pages, with ids of made-up items in place of names."""
    plan, cycle, schedule = (
        first_link(page, f"{address}{at}", at)
        for at in ("/quota-changes", "/decisions?view=cycles", "/schedules")
    )
    return [
        path.replace("PLAN", plan).replace("CYCLE", cycle).replace("SCHEDULE", schedule)
        for paths in PAGES.values()
        for path in paths
    ]


def show(page: Page, address: str) -> None:
    """Open a page, and wait until it has its heading and all its answers."""
    page.goto(address, timeout=WAIT_MS)
    page.wait_for_load_state("networkidle")
    page.locator("main h1").first.wait_for()
    expect(page.locator("main .mantine-Skeleton-root")).to_have_count(0, timeout=WAIT_MS)


def first_link(page: Page, address: str, path: str) -> str:
    """Return the id in the first link from a list to one of its items."""
    show(page, address)
    found = page.wait_for_function(_ID_IN_A_LINK, arg=path.split("?")[0], timeout=WAIT_MS)
    return str(found.json_value())
