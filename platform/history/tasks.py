"""The timers of history. Their tasks may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import shared_task

from history.lead_notices import give_week_notices
from history.storing import store_past_days
from primitives.clock import SystemClock

#: More than the time in which nodes are begun.
_TIME_LIMIT_S = 240
#: Less than the time between two runs. Each day is stored in its own transaction.
_STORING_LIMIT_S = 1_500


@shared_task(time_limit=_TIME_LIMIT_S)
def notify_of_week() -> None:
    """Tell leads of the last week, on Mondays."""
    give_week_notices(SystemClock().now)


@shared_task(time_limit=_STORING_LIMIT_S)
def store_history() -> None:
    """Store the history of past days."""
    store_past_days(SystemClock().now())
