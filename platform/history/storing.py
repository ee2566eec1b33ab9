"""Stores the history of past days, so that months and years are read from a few rows.

Nobody depends on it: a day that is not stored is integrated from its segments.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Min

from bank.settling import zone_of
from clusters.models import CapacitySegment, Pool
from history.models import StoredDay
from history.stored_days import forget_changed_days, store_day
from primitives.days import midnight
from quotas.models import Quota
from tenants.models import Node, NodeKind

logger = logging.getLogger(__name__)

#: Days that one run stores for an organization and a pool.
DAYS_MAX = 30
#: The oldest days that are stored.
OLDEST = timedelta(days=400)


def store_past_days(now: datetime) -> None:
    """Store past days of every organization in each of its pools, the latest ones first.

    A run stores up to `DAYS_MAX` of each. Stored days that changed are stored anew. A repeat
    changes nothing. An organization that fails is logged, and the others follow.
    """
    forget_changed_days()
    for organization in Node.objects.filter(kind=NodeKind.ORGANIZATION):
        try:
            for pool in _pools_of(organization):
                store_days_of(organization, pool, now)
        except Exception:
            logger.exception("the history of %s cannot be stored", organization.slug)


def store_days_of(organization: Node, pool: Pool, now: datetime) -> int:
    """Store past days of an organization in a pool, and return how many are new."""
    days = StoredDay.objects.filter(organization=organization, pool=pool)
    known, count = set(days.values_list("start", "end")), 0
    for span in _past_days(organization.pk, pool, now):
        if span not in known and store_day(organization, pool, *span, now=now):
            count += 1
            if count == DAYS_MAX:
                break
    return count


def _pools_of(organization: Node) -> list[Pool]:
    quotas = Quota.objects.filter(node__organization=organization)
    return list(Pool.objects.filter(pk__in=quotas.values("pool")))


def _past_days(
    organization_id: UUID, pool: Pool, now: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """Yield the days of the organization's time zone since the pool had GPUs, latest first."""
    capacity = CapacitySegment.objects.filter(pool=pool).aggregate(first=Min("start"))["first"]
    if capacity is None:
        return
    zone = zone_of(organization_id)
    oldest = max(capacity, now - OLDEST)
    day = now.astimezone(zone).date()
    while (end := midnight(day, zone)) > oldest:
        day -= timedelta(days=1)
        yield midnight(day, zone), end
