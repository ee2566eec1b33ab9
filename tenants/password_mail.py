"""Mails password links, if a mail server is configured."""

from __future__ import annotations

import logging
import smtplib
from datetime import datetime

from django.conf import settings
from django.core.mail import EmailMessage

from tenants.models import User

log = logging.getLogger(__name__)


def link_of(secret: str) -> str:
    """Return path and fragment of the page that sets a password. Browsers never send a fragment."""
    return f"/set-password#{secret}"


def mail_link(user: User, secret: str, *, expires_at: datetime) -> bool:
    """Send the link to the user's address. Return whether a mail server accepted it.

    False without a configured server or an address, or if the server refuses or does not answer
    within 10 s.
    """
    if not settings.IS_MAIL_CONFIGURED or not user.email:
        return False
    message = EmailMessage(
        subject="Set your Tidegate password",
        body=(
            f"Hello {user.name},\n\n"
            f"An administrator of Tidegate created a link for {user.login}. Use it to set your "
            f"password, once, until {expires_at:%Y-%m-%d %H:%M} UTC:\n\n"
            f"{settings.PUBLIC_URL}{link_of(secret)}\n\n"
            "If you did not expect this, tell your administrator.\n"
        ),
        to=[user.email],
    )
    try:
        return message.send() == 1
    except (OSError, smtplib.SMTPException) as error:
        # The text of the error may quote the message, so it is not logged.
        log.warning("A password link was not mailed: %s", type(error).__name__)
        return False
