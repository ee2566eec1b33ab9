"""A second factor from its enrolment to its reset, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from playwright.sync_api import Browser, Page, expect

from builders.app_server import serving
from builders.browsers import PASSWORD
from builders.factor_builders import STEP, code_at
from builders.portal_builders import a_grant, a_user, an_organization
from tenants.models import AuthenticatorApp, SecurityKey
from tenants.roles import Role

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    # WhiteNoise reads its files synchronously; uvicorn serves them all the same.
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume:Warning"),
]

WITHIN_MS = 30_000


@pytest.fixture(scope="module", autouse=True)
def _beside_a_browser() -> Iterator[None]:
    """Playwright keeps an event loop in this thread, where Django would refuse its database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, settings: Any, browser: Browser) -> Iterator[str]:
    """The application, with the built pages, an administrator and a person."""
    settings.WHITENOISE_USE_FINDERS = True
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    organization = an_organization("ai-company")
    alice = a_user(organization, "alice", password=PASSWORD)
    a_grant(alice, Role.ORGANIZATION_ADMIN, organization)
    a_user(organization, "bob", password=PASSWORD)
    with serving() as address:
        yield address


def a_page(browser: Browser) -> Page:
    """A browser of its own."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(WITHIN_MS)
    expect.set_options(timeout=WITHIN_MS)
    return page


def send_password(page: Page, address: str, login: str, path: str = "/access") -> None:
    """Enter login and password on the sign-in page."""
    page.goto(f"{address}/login?next={path}")
    page.get_by_label("Login").fill(login)
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def add_an_app(page: Page) -> tuple[str, list[str]]:
    """Confirm the key that the page shows, and return it with the recovery codes."""
    shown = page.get_by_text(re.compile("^([A-Z2-7]{4} ){7}[A-Z2-7]{4}$"))
    key = shown.inner_text().replace(" ", "")
    assert page.get_by_alt_text("QR code of the key").evaluate("image => image.naturalWidth") > 0
    page.get_by_label("Code").fill(code_at(datetime.now(UTC), key))
    page.get_by_role("button", name="Add the app").click()
    codes = page.get_by_role("list", name="Recovery codes").get_by_role("listitem")
    expect(codes).to_have_count(10)
    return key, codes.all_inner_texts()


def test_a_required_factor_is_added_used_and_reset(address: str, browser: Browser) -> None:
    """Against: a page of the portal before the factor, and a CSP that hides the QR code."""
    admin = a_page(browser)
    send_password(admin, address, "alice@ai-company", "/sign-in")
    admin.get_by_role("switch", name="Require a second factor").press("Space")
    admin.get_by_role("button", name="Require it").click()
    expect(admin.get_by_role("heading", name="Add a second factor")).to_be_visible()
    add_an_app(admin)
    admin.get_by_role("button", name="I have stored them").click()
    expect(admin.get_by_role("switch", name="Require a second factor")).to_be_checked()

    page = a_page(browser)
    send_password(page, address, "bob@ai-company")
    expect(page.get_by_role("heading", name="Add a second factor")).to_be_visible()
    key, codes = add_an_app(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert codes[0] in download.value.path().read_text()
    page.get_by_role("button", name="I have stored them").click()
    expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
    expect(page.get_by_role("button", name="Remove Authenticator app")).to_be_disabled()

    # The code of the enrolment is used up, so the one of the next step signs in.
    other = a_page(browser)
    send_password(other, address, "bob@ai-company")
    other.get_by_label("Code").fill(code_at(datetime.now(UTC) + STEP, key))
    other.get_by_role("button", name="Continue").click()
    expect(other.get_by_role("heading", name="Second factor")).to_be_visible()
    third = a_page(browser)
    send_password(third, address, "bob@ai-company")
    third.get_by_label("Code").fill(codes[0])
    third.get_by_role("button", name="Continue").click()
    expect(third.get_by_text("9 recovery codes left.")).to_be_visible()

    admin.goto(f"{address}/people?user=bob@ai-company")
    admin.get_by_role("button", name="Reset…").click()
    admin.get_by_role("button", name="Reset them").click()
    expect(admin.get_by_text("None.", exact=True)).to_be_visible()
    expect(third.get_by_role("heading", name="Sign in")).to_be_visible()
    assert not AuthenticatorApp.objects.filter(user__username="bob").exists()


def test_a_security_key_is_added_and_signs_in(address: str, browser: Browser) -> None:
    """Chromium's virtual authenticator answers. Against: options that no browser can read."""
    # An address is no name for a key, and localhost is.
    address = address.replace("127.0.0.1", "localhost")
    page = a_page(browser)
    key = page.context.new_cdp_session(page)
    key.send("WebAuthn.enable")
    key.send(
        "WebAuthn.addVirtualAuthenticator",
        {"options": {"protocol": "ctap2", "transport": "usb", "isUserVerified": True}},
    )
    send_password(page, address, "bob@ai-company")
    page.get_by_role("button", name="Add a security key").click()
    page.get_by_role("textbox", name="Name").fill("Blue key")
    page.get_by_role("button", name="Add the key").click()
    codes = page.get_by_role("list", name="Recovery codes").get_by_role("listitem")
    expect(codes).to_have_count(10)
    page.get_by_role("button", name="I have stored them").click()
    expect(page.get_by_role("rowheader", name="Blue key")).to_be_visible()

    page.context.clear_cookies()
    send_password(page, address, "bob@ai-company")
    page.get_by_role("button", name="Use a security key").click()
    expect(page.get_by_role("rowheader", name="Blue key")).to_be_visible()
    used = SecurityKey.objects.get()
    assert (used.name, used.last_used_at is not None) == ("Blue key", True)
    page.get_by_role("button", name="Remove Blue key").click()
    page.get_by_label("Password, or a code of the app").fill(PASSWORD)
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("button", name="Add a security key")).to_be_visible()
    expect(page.get_by_role("rowheader", name="Blue key")).to_have_count(0)
    assert not SecurityKey.objects.exists()
