"""The timer of credits. The task may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import shared_task

from bank.settling import settle_due
from primitives.clock import SystemClock


@shared_task
def settle_credits() -> None:
    """Settle all intervals that are over, up to a day of each pool. Others follow the next time."""
    settle_due(SystemClock().now())
