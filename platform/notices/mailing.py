"""Sends mails with notices: at least once, with bounded retries, and with each outcome stored."""

from __future__ import annotations

import logging
import smtplib
from collections.abc import Callable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings as django_settings
from django.core.mail import EmailMultiAlternatives
from django.db import transaction
from django.db.models import QuerySet

from notices.mail_models import ERROR_LENGTH_MAX, Mail, MailState
from notices.mail_text import html_of, text_of
from notices.models import Notice
from notices.preferences import settings_of
from tenants.access import Actor
from tenants.roles import Permission

log = logging.getLogger(__name__)

#: Pauses after failures. After the last one the mail has failed.
PAUSES = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 240))
#: How long a worker has a mail for itself; more than a conversation with a server takes.
LEASE = timedelta(minutes=5)

Clock = Callable[[], datetime]


class _Refused(Exception):
    """The mail can never be delivered. The text is the reason."""


def own_mails(actor: Actor) -> QuerySet[Mail]:
    """Return the mails to the actor; none with a token that may not read."""
    if not actor.permits(Permission.VIEW_TREE):
        return Mail.objects.none()
    return Mail.objects.filter(user=actor.user)


def send_next_mail(clock: Clock) -> bool:
    """Send one mail that is due, and store the outcome. Return whether one was due."""
    mail = _claim(clock())
    if mail is None:
        return False
    address = mail.user.email
    if mail.attempts > len(PAUSES) + 1:
        _end(mail, MailState.FAILED, clock(), address, "The worker died during each try.")
        return True
    try:
        _send(mail, address)
    except _Refused as refusal:
        _end(mail, MailState.FAILED, clock(), address, str(refusal))
    except (OSError, smtplib.SMTPException) as error:
        _fail(mail, clock(), address, _reason(error))
    else:
        _end(mail, MailState.SENT, clock(), address, "")
    return True


@transaction.atomic
def _claim(now: datetime) -> Mail | None:
    """Mark the next due mail as being sent, also one whose worker died, and return it."""
    due = Mail.objects.filter(state__in=[MailState.PENDING, MailState.SENDING], next_at__lte=now)
    mail = (
        due.select_for_update(skip_locked=True, of=("self",))
        .select_related("user")
        .order_by("next_at", "pk")
        .first()
    )
    if mail is not None:
        mail.state = MailState.SENDING
        mail.attempts += 1
        mail.next_at = now + LEASE
        mail.save(update_fields=["state", "attempts", "next_at"])
    return mail


def _send(mail: Mail, address: str) -> None:
    """Give the mail to the mail server. Raises _Refused, OSError or SMTPException."""
    if not mail.user.is_active or not address:
        raise _Refused("The person has no email address, or is deactivated.")
    notices = list(Notice.objects.filter(pk__in=mail.items.values("notice")).order_by("pk"))
    zone = ZoneInfo(settings_of(mail.user_id).time_zone)
    host = django_settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].rstrip(">")
    url = django_settings.PUBLIC_URL
    message = EmailMultiAlternatives(
        subject=mail.subject,
        body=text_of(mail.user.name, notices, url=url, zone=zone),
        to=[address],
        # The same id at each try, so that a mail server drops the second copy.
        headers={"Message-ID": f"<{mail.pk}@{host}>", "Auto-Submitted": "auto-generated"},
    )
    message.attach_alternative(html_of(mail.user.name, notices, url=url, zone=zone), "text/html")
    try:
        message.send()
    except smtplib.SMTPRecipientsRefused as error:
        code, answer = next(iter(error.recipients.values()))
        if code >= 500:
            raise _Refused(_answer(code, answer)) from error
        raise
    except smtplib.SMTPDataError as error:
        if error.smtp_code >= 500:
            raise _Refused(_answer(error.smtp_code, error.smtp_error)) from error
        raise


def _reason(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return _answer(*next(iter(error.recipients.values())))
    if isinstance(error, smtplib.SMTPResponseException):
        return _answer(error.smtp_code, error.smtp_error)
    return f"The mail server does not answer: {error}"[:ERROR_LENGTH_MAX]


def _answer(code: int, text: bytes | str) -> str:
    words = text.decode(errors="replace") if isinstance(text, bytes) else text
    return f"The mail server answered {code}: {' '.join(words.split())}"[:ERROR_LENGTH_MAX]


def _fail(mail: Mail, now: datetime, address: str, reason: str) -> None:
    """Try again after a pause, or give up after the last one."""
    if mail.attempts > len(PAUSES):
        _end(mail, MailState.FAILED, now, address, reason)
        return
    log.warning("mail %s is sent again: %s", mail.pk, reason)
    _stored(mail).update(
        state=MailState.PENDING,
        next_at=now + PAUSES[mail.attempts - 1],
        address=address,
        error=reason,
    )


def _end(mail: Mail, state: MailState, now: datetime, address: str, reason: str) -> None:
    if state is MailState.FAILED:
        log.warning("mail %s has failed: %s", mail.pk, reason)
    _stored(mail).update(state=state, ended_at=now, address=address, error=reason)


def _stored(mail: Mail) -> QuerySet[Mail]:
    """Return the row of this try. A worker that was too slow changes nothing of a later try."""
    return Mail.objects.filter(pk=mail.pk, state=MailState.SENDING, attempts=mail.attempts)
