"""A new organization in the browser: one form with an imported tree, and its people sign in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core import mail
from playwright.sync_api import Browser, Page, expect

from builders.browser_story import PASSWORD, Story, a_story
from builders.portal_builders import a_grant, a_user
from tenants.models import Node, RoleGrant
from tenants.roles import Role
from tenants.tasks import mail_due_invitations

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    # WhiteNoise sends the pages' files so.
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume:Warning"),
]
MONDAY = datetime(2026, 11, 23, 10, tzinfo=UTC)
TREE = """kind,path,name,user,role
department,blue-whale/labs,Labs,,
team,blue-whale/labs/nlp,Language,,
member,blue-whale/labs/nlp,Ana Lima,ana@example.org,researcher
"""
WRONG = TREE.replace("blue-whale/labs/nlp,Language", "blue-whale/lab/nlp,Language")


@pytest.fixture(scope="module", autouse=True)
def _beside_a_browser() -> Iterator[None]:
    """Playwright keeps an event loop in this thread, where Django would refuse its database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch, settings: Any, browser: Browser) -> Iterator[Story]:
    with a_story(monkeypatch, settings, browser, MONDAY) as found:
        settings.IS_MAIL_CONFIGURED = True
        settings.PUBLIC_URL = found.address
        found.people["root"] = a_user(None, "root", password=PASSWORD)
        a_grant(found.people["root"], Role.PLATFORM_ADMIN, None)
        yield found


def choose_tree(page: Page, text: str) -> None:
    file = {"name": "tree.csv", "mimeType": "text/csv", "buffer": text.encode()}
    page.locator("input[type=file]").set_input_files([file])  # type: ignore[list-item]
    page.get_by_role("button", name="Preview").click()


def join(story: Story, address: str, username: str) -> None:
    """Set a password with the link that was mailed to `address`, and sign in."""
    (message,) = (each for each in mail.outbox if each.to == [address])
    (link,) = re.findall(r"http\S+#tdi_\S+", str(message.body))
    context = story.browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(link)
    page.get_by_label(re.compile("^New password")).first.fill(PASSWORD)
    page.get_by_label(re.compile("^New password again")).fill(PASSWORD)
    page.get_by_role("button", name="Set password").click()
    page.get_by_role("link", name="Sign in").click()
    page.get_by_label("Login").fill(f"{username}@blue-whale")
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile("^Hello"))).to_be_visible()
    context.close()


def test_a_new_organization_starts_with_one_form_and_an_imported_tree(story: Story) -> None:
    """A wrong line is named first, and nothing is made of that file."""
    with story.seen_by("root", "/organizations") as page:
        page.get_by_role("button", name="New organization").click()
        dialog = page.get_by_role("dialog", name="New organization")
        dialog.get_by_role("textbox", name=re.compile("^Name")).fill("Blue Whale")
        dialog.get_by_role("textbox", name=re.compile("^Email")).fill("maria@example.org")
        dialog.get_by_role("textbox", name=re.compile("^Their name")).fill("Maria Silva")
        choose_tree(page, WRONG)
        expect(page.get_by_role("table", name="Errors")).to_contain_text(
            "The parent blue-whale/lab does not exist. Add a row for it."
        )
        create = page.get_by_role("button", name="Create the organization")
        expect(create).to_be_disabled()
        assert not Node.objects.filter(slug="blue-whale").exists()
        choose_tree(page, TREE)
        expect(page.get_by_role("table", name="Changes")).to_contain_text("ana@example.org")
        create.click()
        expect(page.get_by_text("was mailed to maria@example.org")).to_be_visible()
        page.get_by_role("link", name="Open its tree").click()
        expect(page.get_by_role("table", name="Nodes below")).to_contain_text("Labs")

    mail_due_invitations()
    join(story, "maria@example.org", "maria")
    join(story, "ana@example.org", "ana")
    grants = RoleGrant.objects.filter(node__organization__slug="blue-whale").order_by("user__login")
    assert list(grants.values_list("user__login", "role", "node__path")) == [
        ("ana@blue-whale", "researcher", "blue-whale/labs/nlp/"),
        ("maria@blue-whale", "organization_admin", "blue-whale/"),
    ]
