"""The timer of planned changes. The task may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import shared_task

from primitives.clock import SystemClock
from quotas.planned_changes import carry_out_due


@shared_task
def carry_out_planned_changes() -> None:
    """Expire, apply and revert due changes, up to a hundred. Others follow the next time."""
    carry_out_due(now=SystemClock().now())
