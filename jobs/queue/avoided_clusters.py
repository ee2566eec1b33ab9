"""Clusters that recently failed to start a job, which the job therefore avoids."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import connection

from jobs.lifecycle import NOT_STARTED

#: How long a job avoids a cluster that did not start it, unless quotas are pushed to the cluster.
AVOIDED_FOR = timedelta(minutes=15)


def avoided_clusters(now: datetime) -> Mapping[str, frozenset[str]]:
    """Return by job the clusters that recently did not start it.

    A push of quotas to a cluster ends its avoidance. One query; ids are texts. A start that a
    silent cluster left unanswered got no notice, so such a cluster is used again as soon as it
    answers.
    """
    found: dict[str, frozenset[str]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_AVOIDED, [NOT_STARTED, now - AVOIDED_FOR])
        for job, cluster in cursor.fetchall():
            found[job] = found.get(job, frozenset()) | {cluster}
    return found


# Written by hand, because every cycle runs it, and the ORM would take longer to build than to run
# it.
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
