"""Every page in both colour schemes, looked at with axe in a real browser.

The rules are those of WCAG 2.2 at levels A and AA, and axe's best practices, landmarks among them.
What takes a keyboard to show is in `test_keyboard_story.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from builders.web_pages import FRONTEND, WAIT_MS, every_address, show

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

AXE = FRONTEND / "node_modules/axe-core/axe.min.js"
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 900}
EVERYTHING: dict[str, Any] = {
    "runOnly": {
        "type": "tag",
        "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    },
    # axe leaves it out unless it is asked for by name.
    "rules": {"target-size": {"enabled": True}},
}
COLOURS: dict[str, Any] = {
    "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
}

_FAULTS = """async (options) => (await axe.run(document, {...options, resultTypes: ['violations']}))
  .violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.target.join(' ')}: ${
    [...node.any, ...node.all, ...node.none].map((check) => check.message).join(' ')}`))"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh browser profile with axe in every page."""
    context = browser.new_context(viewport=WIDE, reduced_motion="reduce")  # type: ignore[arg-type]
    context.add_init_script(path=AXE)
    context.set_default_timeout(WAIT_MS)
    yield context.new_page()
    context.close()


def faults(page: Page) -> list[str]:
    """Return what axe finds on the open page: wide in light and in dark mode, and on a phone."""
    found: list[str] = []
    for scheme, size, options in (
        ("light", WIDE, EVERYTHING),
        # What is not a colour is the same in both schemes.
        ("dark", WIDE, COLOURS),
        ("light", PHONE, EVERYTHING),
    ):
        page.set_viewport_size(size)  # type: ignore[arg-type]
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.locator(f":root[data-mantine-color-scheme={scheme}]").wait_for(state="attached")
        # Colours change from an element to those inside it, a frame each.
        page.wait_for_function(
            "document.getAnimations().every((each) => each.playState !== 'running')"
        )
        where = f"{size['width']} px, {scheme}"
        found += [f"{where}: {each[:500]}" for each in page.evaluate(_FAULTS, options)]
    return found


def test_axe_finds_nothing_on_any_page(page: Page, made_up_pages: str) -> None:
    """Planted: the green of before, twisties of 16 px, links in sentences without a line, a name of
    the account's menu that lacks its text, a card that scrolls and takes no focus.
    """
    found = {}
    for path in every_address(page, made_up_pages):
        page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        show(page, f"{made_up_pages}{path}")
        found[path] = faults(page)
    assert {path: each for path, each in found.items() if each} == {}


def test_axe_finds_nothing_in_what_opens(page: Page, made_up_pages: str) -> None:
    """Planted: a second banner in dialogs and drawers, a menu outside the landmarks with a child
    that is no item.
    """
    found = {}
    show(page, f"{made_up_pages}/quotas")
    page.get_by_role("rowheader").get_by_role("link").nth(3).click()
    expect(page.get_by_role("dialog").get_by_role("heading").first).to_be_visible()
    found["drawer of a quota"] = faults(page)
    for name in ("Theme", "Account of"):
        show(page, f"{made_up_pages}/jobs")
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("menu")).to_be_visible()
        found[name] = faults(page)
    page.get_by_role("menuitem", name="Keyboard").click()
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    found["list of keys"] = faults(page)
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    show(page, f"{made_up_pages}/jobs")
    page.get_by_role("button", name="Menu", exact=True).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found["menu on a phone"] = faults(page)
    assert {what: each for what, each in found.items() if each} == {}


def test_the_login_page_has_no_faults_and_shows_the_password_by_keyboard(
    page: Page, made_up_pages: str
) -> None:
    """Planted: the button that shows the password out of the order of Tab, as Mantine has it."""
    page.route("**/api/v1/session", lambda route: route.fulfill(status=401, json={}))
    show(page, f"{made_up_pages}/login")
    assert faults(page) == []
    page.reload()
    login = page.get_by_label("Login")
    expect(login).to_be_focused()
    page.keyboard.type("ana@ai-company")
    page.keyboard.press("Tab")
    field = page.get_by_role("textbox", name="Password")
    expect(field).to_be_focused()
    page.keyboard.type("secret")
    assert field.get_attribute("type") == "password"
    page.keyboard.press("Tab")
    toggle = page.get_by_role("button", name="Show password")
    expect(toggle).to_be_focused()
    for key, pressed, kind in (("Space", "true", "text"), ("Enter", "false", "password")):
        page.keyboard.press(key)
        expect(toggle).to_have_attribute("aria-pressed", pressed)
        assert field.get_attribute("type") == kind
    assert field.input_value() == "secret"
