"""Planned changes on a timer; the task may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import shared_task

from primitives.clock import SystemClock
from quotas.planned_changes import carry_out_due


@shared_task
def carry_out_planned_changes() -> None:
    """Expire, apply and take back what is due; the rest of more than a hundred comes next time."""
    carry_out_due(now=SystemClock().now())
