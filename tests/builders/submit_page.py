"""A person in a real browser, who drops files on the page *Submit a job*."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from builders.installation import Tidegate

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WITHIN_MS = 30_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """The machine's own Chromium; its absence fails the test and never skips it."""
    path = os.environ.get("TIDEGATE_CHROMIUM") or next(
        (found for name in NAMES if (found := shutil.which(name))), None
    )
    assert path, "Chromium is missing: run `make chromium`."
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def drop(page: Page, file: Path) -> None:
    """Drop a file on the field for scripts, as from the desktop."""
    dropped = page.evaluate_handle(
        """([name, text]) => {
            const dropped = new DataTransfer();
            dropped.items.add(new File([text], name));
            return dropped;
        }""",
        [file.name, file.read_text()],
    )
    field = page.get_by_role("textbox", name="sbatch script or manifest")
    field.dispatch_event("drop", {"dataTransfer": dropped})


@contextmanager
def signed_in(tidegate: Tidegate, browser: Browser, login: str) -> Iterator[Page]:
    """A page of the person, on which no script may fail."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(WITHIN_MS)
    expect.set_options(timeout=WITHIN_MS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{tidegate.address}/")
    page.get_by_label("Login").fill(login)
    page.get_by_role("textbox", name="Password").fill(tidegate.personas[login].password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile("^Hello"))).to_be_visible()
    yield page
    page.close()
    assert errors == []


def submitted(page: Page, name: str) -> str:
    """Submit what the page shows, and return the id of the job."""
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    return page.url.rpartition("/")[2].partition("?")[0]
