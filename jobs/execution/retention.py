"""Retention times of ended work, and its deletion."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, transaction

from jobs.intentions import stop_intention
from jobs.models import Attempt, JobOrigin
from outbox.recording import intend

#: Retention time of logs and of the cluster's own record of an ended attempt.
LOGS_KEPT_FOR = timedelta(days=14)
#: Retention time of a job's reasons after its end. Writing bounds the lines of each job
#: (`jobs.queue.reason_lines.LINES_MAX`).
REASONS_KEPT_FOR = timedelta(days=90)
#: Retention time of the points of an attempt after its end. Their number is bounded
#: (`jobs.execution.sampling.POINTS_MAX`). The summary stays.
METRIC_POINT_RETENTION = timedelta(days=90)
#: The most lines that one statement deletes, and that one run of the timer deletes.
_AT_ONCE = 10_000
_LINES_MAX = 500_000


@transaction.atomic
def forget_ended_attempts(*, now: datetime, limit: int = 1_000) -> int:
    """Intend that clusters drop attempts that ended 14 days ago; return how many."""
    old = list(
        Attempt.objects.select_for_update(skip_locked=True, of=("self",))
        .filter(
            released_at__lt=now - LOGS_KEPT_FOR,
            forgotten_at=None,
            job__origin=JobOrigin.PORTAL,
        )
        .order_by("pk")[:limit]
    )
    Attempt.objects.filter(pk__in=[attempt.pk for attempt in old]).update(forgotten_at=now)
    intend([stop_intention("forget_attempt", attempt) for attempt in old], now=now)
    return len(old)


def forget_old_reasons(*, now: datetime, limit: int = _LINES_MAX) -> int:
    """Delete the reasons of jobs that ended 90 days ago; return the number of lines."""
    return _delete_in_parts(_FORGET_REASONS, now - REASONS_KEPT_FOR, limit)


def forget_old_metric_points(*, now: datetime, limit: int = _LINES_MAX) -> int:
    """Delete the points of attempts that ended 90 days ago; return their number."""
    return _delete_in_parts(_FORGET_POINTS, now - METRIC_POINT_RETENTION, limit)


def _delete_in_parts(statement: str, before: datetime, limit: int) -> int:
    """Delete in parts, each in its own transaction. The next run deletes the rest."""
    dropped = 0
    while dropped < limit:
        at_once = min(_AT_ONCE, limit - dropped)
        with connection.cursor() as cursor:
            cursor.execute(statement, [before, before, at_once])
            count = cursor.rowcount
        dropped += count
        if count < at_once:
            break
    return dropped


# A line is no newer than its job's end, so those to drop are among the oldest.
_FORGET_REASONS = """
DELETE FROM jobs_jobreason WHERE id IN (
    SELECT r.id FROM jobs_jobreason r JOIN jobs_job j ON j.id = r.job_id
    WHERE r.since < %s AND j.ended_at < %s
    LIMIT %s
)
"""
_FORGET_POINTS = """
DELETE FROM jobs_metricpoint WHERE id IN (
    SELECT p.id FROM jobs_metricpoint p JOIN jobs_attempt a ON a.id = p.attempt_id
    WHERE p.at < %s AND a.released_at < %s
    LIMIT %s
)
"""
