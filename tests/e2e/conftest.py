"""An installation of its own for each module that asks, as `make up` starts it, and a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from builders.installation import START_WITHIN_S, STOP_WITHIN_S, Tidegate
from builders.submit_page import chromium
from builders.web_pages import made_up_answers
from embedded.ports import a_free_port


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
    """One Chromium for the module."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def made_up_pages() -> Iterator[str]:
    """The address of the pages with made-up answers, with the longest names and numbers."""
    with made_up_answers() as address:
        yield address
