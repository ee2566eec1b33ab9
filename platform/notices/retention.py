"""Bounds the inboxes: notices go after 90 days, and beyond the newest 1,000 of a person."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection

from notices.models import Notice

KEPT_FOR = timedelta(days=90)
#: The most notices of one person.
KEPT_MAX = 1_000
#: The most notices that one call deletes for each reason.
DROPPED_MAX = 10_000


def drop_old_notices(now: datetime) -> int:
    """Delete notices beyond the bounds; return how many. Others follow with the next call."""
    old = Notice.objects.filter(at__lt=now - KEPT_FOR).order_by("at").values_list("pk", flat=True)
    dropped, _ = Notice.objects.filter(pk__in=list(old[:DROPPED_MAX])).delete()
    with connection.cursor() as cursor:
        cursor.execute(_DROP_BEYOND, {"kept": KEPT_MAX, "most": DROPPED_MAX})
        return dropped + int(cursor.rowcount)


#: Only people with too many notices are ranked.
_DROP_BEYOND = """
DELETE FROM notices_notice WHERE id IN (
    SELECT kept.id
    FROM (
        SELECT user_id FROM notices_notice GROUP BY user_id HAVING count(*) > %(kept)s
    ) AS full_inbox
    CROSS JOIN LATERAL (
        SELECT id FROM notices_notice n WHERE n.user_id = full_inbox.user_id
        ORDER BY id DESC OFFSET %(kept)s
    ) AS kept
    LIMIT %(most)s
)
"""
