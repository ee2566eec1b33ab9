"""The timer of adjustments. The task may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import shared_task

from adjustments.adjusting import expire_adjustments
from primitives.clock import SystemClock


@shared_task
def expire_undecided() -> None:
    """Close adjustments that no second person decided in time."""
    expire_adjustments(SystemClock().now())
