"""Browsers that sign in with a password."""

from __future__ import annotations

from typing import Any

from builders.api_callers import Caller, as_nobody
from tenants.models import User

PASSWORD = "correct horse battery staple"
OTHER_PASSWORD = "another horse battery staple"


def give_password(user: User, password: str = PASSWORD) -> None:
    """Store a password, as if it had always been there."""
    user.set_password(password)
    user.save(update_fields=["password"])


def a_browser() -> Caller:
    """A browser that has been shown the login page: it has a CSRF cookie."""
    caller = as_nobody()
    assert caller.get("session").status_code == 401
    return Caller({"X-CSRFToken": caller.client.cookies["csrftoken"].value}, caller.client)


def sign_in(user: User, password: str = PASSWORD) -> Any:
    """The answer to signing in with a fresh browser."""
    return a_browser().post("session", {"login": user.login, "password": password})


def a_signed_in_browser(user: User, password: str = PASSWORD) -> Caller:
    """A fresh browser that has signed in."""
    browser = a_browser()
    answer = browser.post("session", {"login": user.login, "password": password})
    assert answer.status_code == 200, answer.content
    return Caller({"X-CSRFToken": answer.json()["csrf_token"]}, browser.client)
