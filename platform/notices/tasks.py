"""The timers of notices. Their tasks may be late, lost or run twice without harm."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from celery import shared_task

from notices import retention
from notices.expiring_roles import give_role_notices
from notices.expiring_tokens import give_token_notices
from notices.mail_queue import compose_due_mails
from notices.mailing import send_next_mail
from notices.webhook_delivery import deliver_next_webhook
from primitives.clock import SystemClock

Clock = Callable[[], datetime]

#: Less than the lease of a mail. A conversation with a mail server ends within some seconds.
_TIME_LIMIT_S = 240
#: Mails or messages that one task begins, and for how long. Others follow the next time.
_SENT_MAX = 200
_SENT_FOR = timedelta(seconds=60)


@shared_task
def drop_old_notices() -> None:
    """Delete notices that are old, or too many for one person, and what else is old."""
    retention.drop_old_notices(SystemClock().now())
    retention.drop_old_mails(SystemClock().now())
    retention.drop_old_deliveries(SystemClock().now())
    retention.drop_old_announcements(SystemClock().now())


@shared_task
def notify_of_expiring_tokens() -> None:
    """Tell people of access tokens that expire soon."""
    give_token_notices(SystemClock().now())


@shared_task(time_limit=_TIME_LIMIT_S)
def send_mails() -> None:
    """Compose the mails that are due, and send some."""
    compose_due_mails(SystemClock().now())
    _repeat(send_next_mail)


@shared_task(time_limit=_TIME_LIMIT_S)
def deliver_webhooks() -> None:
    """Post some events to webhooks."""
    _repeat(deliver_next_webhook)


def _repeat(send_next: Callable[[Clock], bool]) -> None:
    clock = SystemClock().now
    began = clock()
    for _ in range(_SENT_MAX):
        if clock() > began + _SENT_FOR or not send_next(clock):
            return


@shared_task
def notify_of_expiring_roles() -> None:
    """Tell people of roles that expire soon."""
    give_role_notices(SystemClock().now())
