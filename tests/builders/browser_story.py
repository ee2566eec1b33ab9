"""A company behind a real socket, and its people before a browser at moments of a moved clock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from django.db import connection
from playwright.sync_api import Browser, Page, expect

from builders.app_server import serving
from builders.clocks import ClockAt
from builders.pictures import WIDTH
from builders.portal_builders import Company, a_company, a_grant, a_user
from primitives.clock import SystemClock
from tenants.models import User
from tenants.roles import Role

PASSWORD = "a password of the story"
WITHIN_MS = 30_000


@dataclass(frozen=True)
class Story:
    company: Company
    clock: ClockAt
    browser: Browser
    address: str
    people: dict[str, User]

    @contextmanager
    def seen_by(self, name: str, path: str) -> Iterator[Page]:
        """A page of the person at the clock's moment. No script on it may fail."""
        context = self.browser.new_context(
            viewport={"width": WIDTH, "height": 900}, timezone_id="UTC", reduced_motion="reduce"
        )
        context.set_default_timeout(WITHIN_MS)
        context.clock.set_fixed_time(self.clock.time)
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(self.address)
        page.get_by_label("Login").fill(self.people[name].login)
        page.get_by_role("textbox", name="Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page.get_by_role("heading", name=re.compile("^Hello"))).to_be_visible()
        page.goto(f"{self.address}{path}")
        yield page
        context.close()
        assert errors == []


@contextmanager
def a_story(
    monkeypatch: pytest.MonkeyPatch, settings: Any, browser: Browser, begin: datetime
) -> Iterator[Story]:
    """Research has nlp and vision with 8 GPUs each. Bob, Mira and Dora work there."""
    settings.WHITENOISE_USE_FINDERS = True
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    clock = ClockAt(begin)
    monkeypatch.setattr(SystemClock, "now", lambda self: clock.time)
    company = a_company()
    people = {}
    for name, role, node in (
        ("bob", Role.RESEARCHER, company.nlp),
        ("mira", Role.TEAM_LEAD, company.vision),
        ("dora", Role.DEPARTMENT_ADMIN, company.research),
    ):
        people[name] = a_user(company.organization, name, password=PASSWORD)
        a_grant(people[name], role, node)
    with serving() as address:
        yield Story(company, clock, browser, address, people)
