"""Mails to a person whose second factors changed, so that a stranger's act is noticed."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import transaction

from tenants.models import User
from tenants.password_mail import send_mail


def tell_by_mail(user: User, happened: str, *, now: datetime) -> None:
    """Mail the sentence to the user at the commit, if mail is configured."""
    body = (
        f"Hello {user.name},\n\n"
        f"{happened} This concerns your account {user.login} on Tidegate, at "
        f"{now:%Y-%m-%d %H:%M} UTC.\n\n"
        f"If this was not you, change your password and tell your administrator:\n"
        f"{settings.PUBLIC_URL}/access\n"
    )
    transaction.on_commit(
        lambda: send_mail(user.email, "Your Tidegate sign-in has changed", body), robust=True
    )
