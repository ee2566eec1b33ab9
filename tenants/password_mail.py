"""Mails password links and invitations, if a mail server is configured."""

from __future__ import annotations

import logging
import smtplib
from datetime import datetime

from django.conf import settings
from django.core.mail import EmailMessage

from tenants.models import Invitation, User

log = logging.getLogger(__name__)


def link_of(secret: str) -> str:
    """Return path and fragment of the page that sets a password. Browsers never send a fragment."""
    return f"/set-password#{secret}"


def mail_link(user: User, secret: str, *, expires_at: datetime) -> bool:
    """Send the link to the user's address. Return whether a mail server accepted it.

    False without a configured server or an address, or if the server refuses or does not answer
    within 10 s.
    """
    return send_mail(
        user.email,
        "Set your Tidegate password",
        f"Hello {user.name},\n\n"
        f"An administrator of Tidegate created a link for {user.login}. Use it to set your "
        f"password, once, until {expires_at:%Y-%m-%d %H:%M} UTC:\n\n"
        f"{settings.PUBLIC_URL}{link_of(secret)}\n\n"
        "If you did not expect this, tell your administrator.\n",
    )


def mail_invitation(invitation: Invitation, secret: str) -> bool:
    """Send an invitation to its address. Return whether a mail server accepted it, as above."""
    login = f"{invitation.username}@{invitation.node.organization_slug}"
    return send_mail(
        invitation.email,
        f"Join {invitation.node.display_path} on Tidegate",
        f"Hello {invitation.name},\n\n"
        f"{invitation.invited_by.name} invites you to {invitation.node.display_path} on Tidegate. "
        f"Your login will be {login}. Choose a password, until "
        f"{invitation.expires_at:%Y-%m-%d %H:%M} UTC:\n\n"
        f"{settings.PUBLIC_URL}{link_of(secret)}\n\n"
        "If you did not expect this, ignore this mail.\n",
    )


def send_mail(address: str, subject: str, body: str) -> bool:
    """Send a mail. Return whether a mail server accepted it, as `mail_link` does."""
    if not settings.IS_MAIL_CONFIGURED or not address:
        return False
    message = EmailMessage(subject=subject, body=body, to=[address])
    try:
        return message.send() == 1
    except (OSError, smtplib.SMTPException) as error:
        # The text of the error may quote the message, so it is not logged.
        log.warning("A mail was not sent: %s", type(error).__name__)
        return False
