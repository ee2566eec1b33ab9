"""A company connects its identity provider, and its people sign in with it: in a real browser,
with a real OpenID Connect provider."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from playwright.sync_api import Browser, Page, expect

from builders.app_server import serving
from builders.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider, an_oidc_provider
from builders.portal_builders import a_department, a_grant, a_team, a_user, an_organization
from tenants.roles import Role

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    # WhiteNoise reads its files synchronously; uvicorn serves them all the same.
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume:Warning"),
]

PASSWORD = "correct horse battery staple"
WITHIN_MS = 30_000


@pytest.fixture(scope="module", autouse=True)
def _beside_a_browser() -> Iterator[None]:
    """Playwright keeps an event loop in this thread, where Django would refuse its database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, settings: Any, browser: Browser) -> Iterator[str]:
    """The application, with the built pages and the company's tree."""
    settings.WHITENOISE_USE_FINDERS = True
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    organization = an_organization("ai-company")
    research = a_department(organization, "research")
    for team in ("nlp", "vision"):
        a_team(research, team)
    alice = a_user(organization, "alice", password=PASSWORD)
    a_grant(alice, Role.ORGANIZATION_ADMIN, organization)
    with serving() as address:
        yield address


def a_page(browser: Browser) -> Page:
    """A browser of its own."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(WITHIN_MS)
    expect.set_options(timeout=WITHIN_MS)
    return page


def connect(page: Page, address: str, oidc: OidcProvider) -> None:
    """Alice sets the provider up, tests it, and maps two groups."""
    page.goto(f"{address}/login?next=/sign-in")
    page.get_by_label("Login").fill("alice@ai-company")
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_text(f"{address}/api/v1/session/callback/ai-company")).to_be_visible()
    page.get_by_label("Issuer").fill(oidc.issuer)
    page.get_by_label("Client ID").fill(CLIENT_ID)
    page.get_by_label("Client secret").fill(CLIENT_SECRET)
    page.get_by_label("Scopes").fill("openid profile email groups")
    page.get_by_role("switch", name="Create accounts").click()
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Test", exact=True).press("Enter")
    expect(page.get_by_text("its discovery document can be used")).to_be_visible()
    for team in ("nlp", "vision"):
        page.get_by_role("textbox", name="Group", exact=True).fill(f"gpu-{team}")
        page.get_by_role("combobox", name="Node").fill(team)
        # By keyboard: a message of the last act may lie over the list.
        expect(page.get_by_role("option", name=f"ai-company/research/{team}")).to_be_visible()
        page.get_by_role("combobox", name="Node").press("ArrowDown")
        page.get_by_role("combobox", name="Node").press("Enter")
        page.get_by_role("button", name="Add the group").press("Enter")
        expect(page.get_by_role("rowheader", name=f"gpu-{team}")).to_be_visible()


def sign_in_at_provider(page: Page, address: str, login: str) -> None:
    """Press the button of the sign-in page, and sign in at the provider."""
    page.goto(f"{address}/login?organization=ai-company")
    page.get_by_role("button", name="Continue with Company login").click()
    page.get_by_placeholder("Enter any login").fill(login)
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("heading", name=re.compile("^Hello"))).to_be_visible()


def roles(page: Page, address: str) -> list[tuple[str, str]]:
    """The roles of whoever is signed in at this browser."""
    body = page.request.get(f"{address}/api/v1/session").json()
    return [(each["role"], each["node_path"]) for each in body["grants"]]


def test_people_sign_in_with_their_company_and_land_in_their_team(
    address: str, browser: Browser, settings: Any
) -> None:
    """Against: a CSP that stops the way to the provider, and a team that stays as it was."""
    with an_oidc_provider(f"{address}/api/v1/session/callback/ai-company") as oidc:
        settings.IDENTITY_ORIGINS = frozenset({oidc.issuer})
        connect(a_page(browser), address, oidc)
        maria = {"name": "Maria Silva", "email": "maria@example.org", "email_verified": True}
        oidc.set_people({"maria": {**maria, "groups": ["gpu-nlp"]}})
        page = a_page(browser)
        sign_in_at_provider(page, address, "maria")
        expect(page.get_by_role("heading", name="Hello, Maria Silva")).to_be_visible()
        assert roles(page, address) == [("researcher", "ai-company/research/nlp")]

        oidc.set_people({"maria": {**maria, "groups": ["gpu-vision"]}})
        page = a_page(browser)
        sign_in_at_provider(page, address, "maria")
        assert roles(page, address) == [("researcher", "ai-company/research/vision")]

        # A stale way back, as from a bookmark, or from another browser.
        page = a_page(browser)
        page.goto(f"{address}/api/v1/session/callback/ai-company?code=any&state=any")
        expect(page.get_by_role("alert")).to_contain_text("This sign-in has expired")
    # The provider is down now.
    page = a_page(browser)
    page.goto(f"{address}/login?organization=ai-company")
    page.get_by_role("button", name="Continue with Company login").click()
    expect(page.get_by_role("alert")).to_contain_text("Company login does not answer")
