"""The timers of notices. Their tasks may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import shared_task

from notices import retention
from notices.expiring_tokens import give_token_notices
from primitives.clock import SystemClock


@shared_task
def drop_old_notices() -> None:
    """Delete notices that are old, or too many for one person."""
    retention.drop_old_notices(SystemClock().now())


@shared_task
def notify_of_expiring_tokens() -> None:
    """Tell people of access tokens that expire soon."""
    give_token_notices(SystemClock().now())
