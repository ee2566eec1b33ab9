"""Timers of exports. A task may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import shared_task

from exports import running
from exports.auditing import audit_lately
from primitives.clock import SystemClock

#: Less than the broker's visibility time-out, after which another worker would get the task.
_TIME_LIMIT_S = 280
_SOFT_TIME_LIMIT_S = 240


@shared_task(time_limit=_TIME_LIMIT_S, soft_time_limit=_SOFT_TIME_LIMIT_S)
def write_export() -> None:
    """Write the file of one export."""
    running.run_next(SystemClock().now)


@shared_task
def drop_old_exports() -> None:
    """Delete old files."""
    running.drop_old(SystemClock().now())


@shared_task(time_limit=_TIME_LIMIT_S)
def audit_charges() -> None:
    """Audit this month and the last one, and log each difference."""
    audit_lately(SystemClock().now())
