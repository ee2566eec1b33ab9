"""Housekeeping on a timer; each task may be lost or run twice without harm."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task
from django.core.management import call_command

from jobs.arbitration.recording import forget_old_cycles
from jobs.execution.retention import forget_ended_attempts, forget_old_reasons
from outbox.delivery import drop_delivered
from primitives.clock import SystemClock
from webapi.idempotency import forget_old_answers


@shared_task
def drop_what_is_done() -> None:
    """Drop delivered messages of last week, idempotent answers past their time, records of cycles
    beyond their bounds, and why jobs waited that ended long ago."""
    now = SystemClock().now()
    drop_delivered(before=now - timedelta(days=7))
    forget_old_answers(now=now)
    forget_old_cycles(now=now)
    forget_old_reasons(now=now)


@shared_task
def forget_old_attempts() -> None:
    """Let clusters drop logs that were kept long enough."""
    forget_ended_attempts(now=SystemClock().now())


@shared_task
def drop_old_sessions() -> None:
    """Drop browser sessions that have expired."""
    call_command("clearsessions")
