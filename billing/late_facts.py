"""Facts that the meter learned late."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import Min

from billing.models import MeterEvent


def first_late_use(
    organization_id: UUID, recorded_since: datetime, before: datetime
) -> datetime | None:
    """Return the earliest fact before `before` of the attempts with facts recorded since then.

    Returns None where there is none. Takes one query.
    """
    news = MeterEvent.objects.filter(
        attempt__organization=organization_id, recorded_at__gt=recorded_since
    )
    facts = MeterEvent.objects.filter(attempt__in=news.values("attempt"), at__lt=before)
    first: datetime | None = facts.aggregate(first=Min("at"))["first"]
    return first
