"""Periodic housekeeping; each task may be lost or run twice without harm."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task

from jobs.arbitration.recording import forget_old_cycles
from jobs.execution.cost_caps import stop_at_cost_caps
from jobs.execution.ending_soon import give_time_limit_notices
from jobs.execution.retention import (
    forget_ended_attempts,
    forget_old_metric_points,
    forget_old_reasons,
)
from jobs.execution.slipped_starts import give_slip_notices
from jobs.recurring import runs
from outbox.delivery import drop_delivered
from primitives.clock import SystemClock
from webapi.idempotency import forget_old_answers


@shared_task
def drop_what_is_done() -> None:
    """Delete old rows of six kinds.

    They are messages delivered over a week ago, expired idempotent answers, and cycle records
    beyond their bounds. Reasons and metric points of jobs that ended long ago, and old runs without
    a job, go too.
    """
    now = SystemClock().now()
    drop_delivered(before=now - timedelta(days=7))
    forget_old_answers(now=now)
    forget_old_cycles(now=now)
    forget_old_reasons(now=now)
    forget_old_metric_points(now=now)
    runs.forget_old_runs(now=now)


@shared_task
def submit_due_runs() -> None:
    """Submit the due runs of schedules, up to two hundred. Others follow the next time."""
    runs.submit_due_runs(now=SystemClock().now())


@shared_task
def stop_jobs_at_cost_caps() -> None:
    """Stop the running jobs whose charge has reached their cost cap."""
    stop_at_cost_caps(SystemClock().now())


@shared_task
def notify_of_time_limits() -> None:
    """Tell owners of running jobs that reach their time limit soon."""
    give_time_limit_notices(SystemClock().now())


@shared_task
def notify_of_slipped_starts() -> None:
    """Tell owners of queued jobs that are expected to start much later."""
    give_slip_notices(SystemClock().now())


@shared_task
def forget_old_attempts() -> None:
    """Ask clusters to drop the logs of attempts past their retention time."""
    forget_ended_attempts(now=SystemClock().now())
