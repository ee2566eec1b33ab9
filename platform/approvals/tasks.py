"""The timer of requests. The task may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import shared_task

from approvals.asking import expire_requests
from primitives.clock import SystemClock


@shared_task
def expire_undecided() -> None:
    """Close requests that nobody decided in time, and tell of those that expire soon."""
    expire_requests(SystemClock().now())
