"""Bounds the inboxes: notices go after 90 days, and beyond the newest 1,000 of a person.

Mails and deliveries to webhooks go after 30 days, and announcements 90 days after their end.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection

from notices.announcement_models import Announcement
from notices.mail_models import Mail
from notices.models import Notice
from notices.webhook_models import WebhookDelivery

KEPT_FOR = timedelta(days=90)
LOGS_KEPT_FOR = timedelta(days=30)
#: The most notices of one person.
KEPT_MAX = 1_000
#: The most notices that one call deletes for each reason.
DROPPED_MAX = 10_000


def drop_old_notices(now: datetime) -> int:
    """Delete notices beyond the bounds; return how many. Others follow with the next call."""
    old = Notice.objects.filter(at__lt=now - KEPT_FOR).order_by("at").values_list("pk", flat=True)
    dropped = _drop(list(old[:DROPPED_MAX]))
    with connection.cursor() as cursor:
        cursor.execute(_BEYOND, {"kept": KEPT_MAX, "most": DROPPED_MAX})
        beyond = [pk for (pk,) in cursor.fetchall()]
    return dropped + _drop(beyond)


def _drop(ids: list[UUID]) -> int:
    """Delete notices, with their places in mails; return the number of notices."""
    _, counts = Notice.objects.filter(pk__in=ids).delete()
    return counts.get(Notice._meta.label, 0)


def drop_old_deliveries(now: datetime) -> int:
    """Delete old deliveries to webhooks; return how many. Others follow with the next call."""
    old = WebhookDelivery.objects.filter(created_at__lt=now - LOGS_KEPT_FOR).order_by("created_at")
    ids = list(old.values_list("pk", flat=True)[:DROPPED_MAX])
    dropped, _ = WebhookDelivery.objects.filter(pk__in=ids).delete()
    return dropped


def drop_old_mails(now: datetime) -> int:
    """Delete the log of old mails; return how many. Others follow with the next call."""
    old = Mail.objects.filter(created_at__lt=now - LOGS_KEPT_FOR).order_by("created_at")
    dropped, _ = Mail.objects.filter(
        pk__in=list(old.values_list("pk", flat=True)[:DROPPED_MAX])
    ).delete()
    return dropped


def drop_old_announcements(now: datetime) -> int:
    """Delete announcements that ended long ago; return how many. Others follow with the next call.

    The audit log keeps their texts.
    """
    old = Announcement.objects.filter(end__lt=now - KEPT_FOR).order_by("end")
    ids = list(old.values_list("pk", flat=True)[:DROPPED_MAX])
    _, counts = old.filter(pk__in=ids).delete()
    return counts.get(Announcement._meta.label, 0)


#: Only people with too many notices are ranked.
_BEYOND = """
SELECT kept.id
FROM (
    SELECT user_id FROM notices_notice GROUP BY user_id HAVING count(*) > %(kept)s
) AS full_inbox
CROSS JOIN LATERAL (
    SELECT id FROM notices_notice n WHERE n.user_id = full_inbox.user_id
    ORDER BY id DESC OFFSET %(kept)s
) AS kept
LIMIT %(most)s
"""
