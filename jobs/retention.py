"""How long what is over is kept, and how it goes."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from jobs.intentions import stop_intention
from jobs.models import Attempt, JobOrigin
from outbox.recording import intend

#: Logs and the cluster's own record of an ended attempt are kept this long.
LOGS_KEPT_FOR = timedelta(days=14)


@transaction.atomic
def forget_ended_attempts(*, now: datetime, limit: int = 1_000) -> int:
    """Intend that clusters drop attempts that ended 14 days ago; returns how many."""
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
