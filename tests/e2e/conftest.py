"""An installation of its own for each module that asks, as `make up` starts it, and a browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from builders.installation import START_WITHIN_S, STOP_WITHIN_S, Tidegate
from builders.web_pages import made_up_answers
from embedded.ports import a_free_port

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def tidegate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tidegate]:
    """A Tidegate with the demo company, wiped when the module is done."""
    running = Tidegate(tmp_path_factory.mktemp("tidegate"), a_free_port())
    try:
        running.embedded("up", "--detach", timeout_s=START_WITHIN_S)
        yield running
    finally:
        running.hang_up()
        running.embedded("reset", "--yes", timeout_s=STOP_WITHIN_S)


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


@pytest.fixture(scope="module")
def made_up_pages() -> Iterator[str]:
    """The address of the pages with made-up answers, with the longest names and numbers."""
    with made_up_answers() as address:
        yield address
