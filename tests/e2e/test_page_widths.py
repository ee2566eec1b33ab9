"""No page is wider than the window, whatever people call their jobs.

Every page, with names of 200 characters without a space, numbers of 20 digits and 12 levels of
departments, against made-up answers (`frontend/mock/extreme.ts`). A table may scroll inside its
card; the page itself never scrolls sideways.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from builders.web_pages import PAGES, every_address, routes, show

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

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


def test_every_route_is_looked_at() -> None:
    assert routes() == set(PAGES)


def test_no_page_scrolls_sideways(browser: Browser, made_up_pages: str) -> None:
    """On a phone, and when the window is made wide.

    Planted: a table with no card that scrolls; a block of 1,500 px on wide windows alone.
    """
    context = browser.new_context()
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    wide = {}
    for path in every_address(page, made_up_pages):
        page.set_viewport_size({"width": 390, "height": 900})
        show(page, f"{made_up_pages}{path}")
        for width in (390, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function("(width) => innerWidth === width", arg=width)
            found = page.evaluate("document.scrollingElement.scrollWidth")
            if found > width:
                wide[path, width] = (found, page.evaluate(_TOO_WIDE))
    context.close()
    assert wide == {}
    assert errors == []
