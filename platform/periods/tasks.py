"""The timer of stored charges. The task may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import shared_task

from periods.storing import store_past_days
from primitives.clock import SystemClock

#: Less than the time between two runs. Each day is stored in its own transaction.
_TIME_LIMIT_S = 1_500


@shared_task(time_limit=_TIME_LIMIT_S)
def store_charges() -> None:
    """Store the charges of past days."""
    store_past_days(SystemClock().now())
