"""A team lead's day with Tab, Shift+Tab, Enter, Space, the arrows and Escape only.

Submit a job, read its log and its timeline, cancel it, change a quota through the preview, undo
it, sign out. Nothing is clicked, and no script sets the focus. Wherever the focus comes, it is in
sight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from builders.installation import Tidegate, settle

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

WITHIN_MS = 60_000
FRAMES_MS = 500
STOPS = 120  # Tab leads to everything on a page in fewer
LEAD = "leo@ai-company"

#: What has the focus and does not show it inside the window; nothing where it shows.
_UNSEEN = """() => {
  const at = document.activeElement;
  if (at === null || at === document.body) return null;
  // A field draws its ring around itself with what belongs to it; a radio button, on its label.
  const drawn = [at, at.closest('.mantine-Input-wrapper > *'), at.labels?.[0]].filter(Boolean);
  const hasRing = (e) => getComputedStyle(e).outlineStyle !== 'none' &&
    parseFloat(getComputedStyle(e).outlineWidth) >= 2;
  const isInSight = (e) => {
    const box = e.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && box.bottom > 0 && box.right > 0 &&
      box.top < innerHeight && box.left < innerWidth;
  };
  if (drawn.some((e) => hasRing(e) && isInSight(e))) return null;
  return `${at.tagName} ${at.className} ${(at.ariaLabel ?? at.textContent).slice(0, 60)}`;
}"""

#: Done when what is drawn now has had its effects, and their timers have run.
_AFTER_TIMERS = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh browser profile; an error in the page's own code fails the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(WITHIN_MS)
    expect.set_options(timeout=WITHIN_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


class Keys:
    """A keyboard whose every press leaves the focus in sight."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.see()

    def see(self) -> None:
        """Fail unless what has the focus shows that, and is inside the window."""
        unseen = self.page.evaluate(_UNSEEN)
        if unseen is not None:
            # What moves into sight is there with one of the next frames.
            self.page.wait_for_timeout(FRAMES_MS)
            unseen = self.page.evaluate(_UNSEEN)
        assert unseen is None, f"{unseen} has the focus and does not show it."

    def go_to(self, wanted: Locator, *, back: bool = False) -> None:
        """Press Tab until the element has the focus; with `back`, Shift+Tab."""
        expect(wanted).to_be_visible()
        for _ in range(STOPS):
            if wanted.evaluate("(element) => element === document.activeElement"):
                return
            self.press("Shift+Tab" if back else "Tab")
        raise AssertionError(f"Tab does not lead to {wanted}.")

    def fill(self, wanted: Locator, text: str) -> None:
        self.go_to(wanted)
        self.page.keyboard.type(text)

    def enter(self, wanted: Locator) -> None:
        self.go_to(wanted)
        self.page.keyboard.press("Enter")


def test_a_lead_works_without_a_mouse(tidegate: Tidegate, page: Page) -> None:
    """Planted: fields that show the focus by the colour of a thin border, as Mantine has them; a
    drawer that gives the focus back to nothing.
    """
    keys = Keys(page)
    sign_in(tidegate, page, keys)
    submit_and_cancel(page, keys)
    lead = tidegate.caller(LEAD)

    def limit() -> int | None:
        (quota,) = lead.get("/quotas", node="ai-company/research/nlp", pool="h100")["items"]
        return quota["lend_limit_mgpu"]

    assert limit() is None
    open_quota(page, keys)
    # Escape closes, and the focus is where it was.
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("link", name="NLP", exact=True)).to_be_focused()
    keys.see()
    page.keyboard.press("Enter")
    drawer = page.get_by_role("dialog")
    keys.fill(drawer.get_by_label("Lend limit"), "150")
    keys.fill(drawer.get_by_label("Reason"), "50 GPUs stay ready")
    keys.enter(drawer.get_by_role("button", name="Preview and save"))
    apply(page, keys)
    assert settle(limit) == 150_000
    open_quota(page, keys)
    keys.enter(page.get_by_role("dialog").get_by_role("button", name="Undo: 50 GPUs stay ready"))
    apply(page, keys)
    settle(lambda: limit() is None)
    keys.go_to(page.get_by_role("button", name="Account of leo"), back=True)
    page.keyboard.press("Enter")
    sign_out = page.get_by_role("menuitem", name="Sign out")
    expect(page.get_by_role("menuitem").first).to_be_focused()
    keys.press("ArrowUp")
    expect(sign_out).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def sign_in(tidegate: Tidegate, page: Page, keys: Keys) -> None:
    persona = tidegate.personas[LEAD]
    page.goto(f"{tidegate.address}/")
    expect(page.get_by_label("Login")).to_be_focused()
    keys.fill(page.get_by_label("Login"), persona.login)
    keys.fill(page.get_by_role("textbox", name="Password"), persona.password)
    keys.enter(page.get_by_role("button", name="Sign in", exact=True))
    expect(page.get_by_role("heading", name=re.compile("^Hello"))).to_be_visible()


def submit_and_cancel(page: Page, keys: Keys) -> None:
    keys.enter(page.get_by_role("navigation", name="Main").get_by_role("link", name="Submit"))
    team = page.get_by_role("combobox", name="Team")
    keys.fill(team, "nlp")
    keys.press("ArrowDown")
    keys.press("Enter", "Tab")
    expect(team).to_have_value("ai-company/research/nlp")
    keys.fill(page.get_by_label("Name", exact=True), "by-keyboard")
    gpus = page.get_by_role("textbox", name="GPUs in total")
    keys.fill(gpus, "8")
    script = page.get_by_role("textbox", name="Script", exact=True)
    keys.go_to(script)
    # Below the line that is there.
    keys.press("ArrowDown", "ArrowDown")
    keys.fill(script, "echo hello; sleep 600")
    keys.enter(page.get_by_role("button", name="Submit", exact=True))
    expect(page.get_by_role("heading", name="by-keyboard")).to_be_visible()
    expect(page.get_by_text("running", exact=True).first).to_be_visible()
    log = page.get_by_role("log")
    expect(log).to_contain_text("hello")
    keys.go_to(page.get_by_role("tab", name="Log"))
    # Past the tab of files.
    keys.press("ArrowRight", "ArrowRight")
    expect(page.get_by_role("tab", name="Timeline")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Timeline")).to_contain_text("submitted")
    keys.press("ArrowLeft", "ArrowLeft")
    keys.go_to(log)
    keys.go_to(page.get_by_role("button", name="Cancel", exact=True))
    page.keyboard.press("Space")
    answer(page, keys, "Cancel it")
    expect(page.get_by_text("cancelled", exact=True).first).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)


def open_quota(page: Page, keys: Keys) -> None:
    keys.enter(page.get_by_role("navigation", name="Main").get_by_role("link", name="Quotas"))
    keys.enter(page.get_by_role("link", name="NLP", exact=True))
    expect(page.get_by_role("dialog").get_by_label("Lend limit")).to_be_visible()


def apply(page: Page, keys: Keys) -> None:
    """Look at the preview of the planned change that is open, and apply it."""
    preview = page.get_by_role("region", name="Preview")
    expect(preview.get_by_role("status")).to_be_visible()
    keys.enter(page.get_by_role("button", name="Apply it now"))
    answer(page, keys, "Apply it")
    expect(page.get_by_role("heading", name=re.compile("applied"))).to_be_visible()


def answer(page: Page, keys: Keys, name: str) -> None:
    """Go from the safe answer of a dialog, which has the focus, to the other one, and give it."""
    expect(page.get_by_role("button", name="Back")).to_be_focused()
    # The dialog sets the focus twice, with a timer each: a Tab in between would be undone.
    page.evaluate(_AFTER_TIMERS)
    keys.press("Tab")
    expect(page.get_by_role("button", name=name, exact=True)).to_be_focused()
    page.keyboard.press("Enter")
