"""No page is wider than the window, whatever people call their jobs.

Every page, with names of 200 characters without a space, numbers of 20 digits and 12 levels of
departments, against made-up answers (`frontend/mock/extreme.ts`). A table may scroll inside its
card; the page itself never scrolls sideways.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from embedded.ports import a_free_port

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

FRONTEND = Path(__file__).parents[2] / "frontend"
SERVER_WITHIN_S = 120
WAIT_MS = 60_000  # Vite compiles what a page is made of when it is first asked for
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PERIOD = "start=2026-10-01T00:00:00Z&end=2026-11-01T00:00:00Z"


def uuid(number: int) -> str:
    """An id as the made-up company has them."""
    return f"01935000-0000-7000-8000-{number:012x}"


#: Addresses of every route, by its pattern in `frontend/src/shell/router.tsx`.
PAGES = {
    "/login": [],  # signed in, it leads home
    "/": ["/"],
    "/quotas": ["/quotas", "/quotas?node=ai-company/research/nlp"],
    "/quota-changes": ["/quota-changes"],
    "/quota-changes/new": ["/quota-changes/new"],
    "/quota-changes/$plannedId": ["/quota-changes/PLAN"],
    "/policy": ["/policy"],
    "/jobs": ["/jobs"],
    "/jobs/$jobId": [
        f"/jobs/{uuid(number)}?tab={tab}"
        for number in (0x8F2C, 0x9001)
        for tab in ("log", "timeline", "reasons", "decisions", "attempts", "script")
    ],
    "/submit": ["/submit", "/submit?door=sbatch"],
    "/chargeback": ["/chargeback?period=last-month&group=department"],
    "/chargeback/jobs": [f"/chargeback/jobs?{PERIOD}&node=ai-company"],
    "/clusters": ["/clusters"],
    "/clusters/$name": [
        f"/clusters/slurm-a?tab={tab}" for tab in ("nodes", "users", "quotas", "options", "use")
    ],
    "/add-cluster": ["/add-cluster?kind=slurm", "/add-cluster?kind=kubernetes"],
    "/decisions": ["/decisions", "/decisions?view=cycles"],
    "/decisions/$cycleId": ["/decisions/CYCLE"],
    "/access": ["/access"],
    "/set-password": ["/set-password"],
    "/audit": ["/audit"],
    "/people": ["/people"],
}

#: The innermost elements that reach beyond the window, for whoever mends the page.
_TOO_WIDE = """() => {
  const scrolls = (e) => e && e !== document.body &&
    (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(e).overflowX) ||
      scrolls(e.parentElement));
  return [...document.querySelectorAll('body *')]
    .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e.parentElement))
    .filter((e) => ![...e.children].some((c) => c.getBoundingClientRect().right > innerWidth + 1))
    .slice(0, 5)
    .map((e) => `${e.tagName.toLowerCase()}.${e.className}: ${e.textContent.slice(0, 40)}`);
}"""

#: The id in the first link to an item of the list at the path that is given, once there is one.
_ID_IN_A_LINK = """(top) => [...document.querySelectorAll('main a')]
  .filter((a) => a.pathname.startsWith(`${top}/`))
  .map((a) => a.pathname.slice(top.length + 1))
  .find((end) => /^[0-9a-f-]{36}$/.test(end))"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The pages with their made-up answers, served by Vite."""
    port = a_free_port()
    vite = [str(FRONTEND / "node_modules/.bin/vite"), "--mode", "extreme", "--strictPort"]
    server = subprocess.Popen(
        [*vite, "--port", str(port)],
        cwd=FRONTEND,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PATH": f"{Path(FRONTEND).parent}/.venv/bin:{os.environ['PATH']}"},
    )
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The machine's own Chromium; its absence fails the test and never skips it."""
    path = os.environ.get("TIDEGATE_CHROMIUM") or next(
        (found for name in NAMES if (found := shutil.which(name))), None
    )
    assert path, "Chromium is missing: run `make chromium`."
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def test_every_route_is_looked_at() -> None:
    router = (FRONTEND / "src/shell/router.tsx").read_text()
    routes = set(re.findall(r'^  path: "(/[^"]*)"', router, re.MULTILINE))
    assert routes == set(PAGES)


@pytest.mark.parametrize("width", [390, 1440])
def test_no_page_scrolls_sideways(browser: Browser, address: str, width: int) -> None:
    """Against: names that do not break (the decisions page is 2,097 px wide at 1440)."""
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    plan, cycle = (
        first_link(page, f"{address}{at}", at)
        for at in ("/quota-changes", "/decisions?view=cycles")
    )
    wide = {}
    for paths in PAGES.values():
        for path in paths:
            show(page, f"{address}{path.replace('PLAN', plan).replace('CYCLE', cycle)}")
            found = page.evaluate("document.scrollingElement.scrollWidth")
            if found > width:
                wide[path] = (found, page.evaluate(_TOO_WIDE))
    context.close()
    assert wide == {}
    assert errors == []


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
