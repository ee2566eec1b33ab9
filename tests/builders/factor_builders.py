"""Second factors of people, and the codes that their authenticator apps show."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value

from builders.api_callers import Caller
from builders.browsers import PASSWORD, a_browser
from tenants.models import AuthenticatorApp, User
from tenants.sealing import seal

KEY = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
STEP = timedelta(seconds=30)


def code_at(moment: datetime, key: str = KEY) -> str:
    """The six digits that an app with this key shows then."""
    return str(format_hotp_value(hotp_value(key, int(moment.timestamp()) // 30)))


def an_app(user: User, *, at: datetime) -> AuthenticatorApp:
    """An authenticator app with KEY, whose last code was accepted long before `at`."""
    return AuthenticatorApp.objects.create(
        user=user, sealed_key=seal(KEY), last_step=0, created_at=at - timedelta(days=1)
    )


def first_step(user: User, password: str = PASSWORD) -> tuple[Caller, Any]:
    """A fresh browser that has sent the password, and the answer to it."""
    browser = a_browser()
    answer = browser.post("session", {"login": user.login, "password": password})
    return browser, answer


def second_step(browser: Caller, code: str) -> Any:
    """The answer to a code in the browser of `first_step`."""
    return browser.post("session/second-factor", {"code": code})


def signed_in_with_code(user: User, code: str) -> Caller:
    """A fresh browser that has signed in with password and code."""
    browser, _ = first_step(user)
    answer = second_step(browser, code)
    assert answer.status_code == 200, answer.content
    return Caller({"X-CSRFToken": answer.json()["csrf_token"]}, browser.client)
