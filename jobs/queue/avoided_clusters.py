"""Clusters that did not start a job a short while ago, which it therefore avoids."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import connection

from jobs.lifecycle import NOT_STARTED

#: How long a cluster that did not start a job is not asked to start it again, unless somebody
#: pushes the quotas to it.
AVOIDED_FOR = timedelta(minutes=15)


def avoided_clusters(now: datetime) -> Mapping[str, frozenset[str]]:
    """By job, the clusters that did not start it a short while ago, and to which no quotas were
    pushed since. One query; ids as texts. What a silent cluster left unanswered got no notice, and
    is welcome there as soon as that answers."""
    found: dict[str, frozenset[str]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_AVOIDED, [NOT_STARTED, now - AVOIDED_FOR])
        for job, cluster in cursor.fetchall():
            found[job] = found.get(job, frozenset()) | {cluster}
    return found


# By hand, as every cycle asks, and building it would cost more than running it.
_AVOIDED = """
SELECT a.job_id::text, a.cluster_id::text FROM jobs_attempt a
WHERE a.outcome = %s AND a.stop_reason = 'withdrawn' AND a.notice_at IS NOT NULL
    AND a.released_at > %s
    AND NOT EXISTS (
        SELECT FROM quotas_quotapush p
        WHERE p.cluster_id = a.cluster_id AND p.kind = 'push' AND p.status = 'done'
            AND p.done_at > a.released_at
    )
"""
