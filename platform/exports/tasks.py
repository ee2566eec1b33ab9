"""Timers of exports. A task may be late, lost or run twice without harm."""

from __future__ import annotations

from celery import Task, shared_task

from exports import running
from exports.delivering import deliver_next, plan_deliveries
from exports.nightly_audits import audit_lately
from exports.turns import only_one
from primitives.clock import SystemClock

#: Less than the broker's visibility time-out, after which another worker would get the task.
_TIME_LIMIT_S = 280
_SOFT_TIME_LIMIT_S = 240
#: Steps of deliveries that one task takes. Others follow the next time.
_STEPS_MAX = 20
#: How often the audit of a day tries to get its turn, and how long it waits in between.
_AUDIT_TRIES_MAX = 600
_AUDIT_AGAIN_AFTER_S = 60


@shared_task(time_limit=_TIME_LIMIT_S, soft_time_limit=_SOFT_TIME_LIMIT_S)
def write_export() -> None:
    """Write the file of one export, unless another worker writes or audits."""
    with only_one() as is_free:
        if is_free:
            running.run_next(SystemClock().now)


@shared_task(time_limit=_TIME_LIMIT_S, soft_time_limit=_SOFT_TIME_LIMIT_S)
def deliver_files() -> None:
    """Plan deliveries, and take the next steps of some that are due."""
    plan_deliveries(SystemClock().now())
    for _ in range(_STEPS_MAX):
        if not deliver_next(SystemClock().now):
            return


@shared_task
def drop_old_exports() -> None:
    """Delete old files."""
    running.drop_old(SystemClock().now())


@shared_task(
    bind=True,
    time_limit=_TIME_LIMIT_S,
    max_retries=_AUDIT_TRIES_MAX,
    default_retry_delay=_AUDIT_AGAIN_AFTER_S,
)
def audit_charges(self: Task[[], None]) -> None:
    """Audit this month and the last one, and store the results.

    While another worker writes a file, the audit is put off for a minute.
    """
    with only_one() as is_free:
        if is_free:
            audit_lately(SystemClock().now())
            return
    raise self.retry()
