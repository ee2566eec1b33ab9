"""The timers of people and roles. Their tasks may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings
from django.db import transaction

from primitives.clock import SystemClock
from tenants.granting import remove_expired_roles
from tenants.invitations import due_invitation, mail_later
from tenants.password_mail import mail_invitation
from tenants.session_store import SessionStore

#: Mails of one run. The task runs each minute.
MAILS_MAX = 200
#: Refused mails that end a run, because each can take 10 s. A later run tries them again.
REFUSALS_MAX = 10


@shared_task
def drop_expired_roles() -> None:
    """Delete roles that have expired. They give no rights before that either."""
    remove_expired_roles(SystemClock().now())


@shared_task
def mail_due_invitations() -> None:
    """Mail imported invitations, at most 200 a run. A refused mail does not hold up the others."""
    refusals = 0
    for _ in range(MAILS_MAX if settings.IS_MAIL_CONFIGURED else 0):
        with transaction.atomic():
            now = SystemClock().now()
            due = due_invitation(now)
            if due is None:
                return
            if not mail_invitation(*due):
                mail_later(due[0], now)
                refusals += 1
        if refusals == REFUSALS_MAX:
            return


@shared_task
def drop_old_sessions() -> None:
    """Delete expired browser sessions."""
    SessionStore.clear_expired()
