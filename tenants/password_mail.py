"""Password links by mail, where a mail server is configured."""

from __future__ import annotations

import logging
import smtplib
from datetime import datetime

from django.conf import settings
from django.core.mail import EmailMessage

from tenants.models import User

log = logging.getLogger(__name__)


def link_of(secret: str) -> str:
    """Path and fragment of the page that sets a password; browsers send no fragment to a server."""
    return f"/set-password#{secret}"


def mail_link(user: User, secret: str, *, expires_at: datetime) -> bool:
    """Send the link to the user's address; whether a mail server took it.

    False where no server is configured, the user has no address, or the server refuses or does
    not answer within 10 s.
    """
    if not settings.IS_MAIL_CONFIGURED or not user.email:
        return False
    message = EmailMessage(
        subject="Set your Tidegate password",
        body=(
            f"Hello {user.name},\n\n"
            f"an administrator of Tidegate made a link for {user.login}. With it you set your "
            f"password, once, until {expires_at:%Y-%m-%d %H:%M} UTC:\n\n"
            f"{settings.PUBLIC_URL}{link_of(secret)}\n\n"
            "If you did not expect this, tell your administrator.\n"
        ),
        to=[user.email],
    )
    try:
        return message.send() == 1
    except (OSError, smtplib.SMTPException) as error:
        # The text of the error may quote the message.
        log.warning("A password link was not mailed: %s", type(error).__name__)
        return False
