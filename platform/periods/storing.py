"""Stores the charges of past days, so that closing and correcting months need not rate them again.

Nobody depends on it: a day that is not stored is rated from its segments.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from bank.settling import zone_of
from billing.charge_grouping import Charging
from billing.models import MeteredParty
from billing.stored_charges import (
    forget_changed_days,
    forget_days_outside,
    store_day,
    stored_days,
)
from periods.charges import CORRECTED_MONTHS_MAX
from periods.months import month_in
from tenants.models import Node, NodeKind

logger = logging.getLogger(__name__)

#: Days that one run stores for an organization.
DAYS_MAX = 60


def store_past_days(now: datetime) -> None:
    """Store past days of every organization with use, the latest ones first, up to `DAYS_MAX`.

    Stored days that changed are stored anew. A repeat changes nothing. An organization that fails
    is logged, and the others follow.
    """
    used = MeteredParty.objects.values("organization")
    for organization in Node.objects.filter(kind=NodeKind.ORGANIZATION, pk__in=used):
        try:
            store_days_of(organization.pk, now)
        except Exception:
            logger.exception("the past days of %s cannot be stored", organization.slug)


def store_days_of(organization_id: UUID, now: datetime) -> int:
    """Store past days of one organization, and return how many are new."""
    zone = zone_of(organization_id)
    forget_changed_days(organization_id)
    forget_days_outside(organization_id, zone)
    charging, known, count = Charging.of(organization_id), stored_days(organization_id), 0
    for span in _past_days(zone, now):
        if span not in known and store_day(charging, *span, now=now):
            count += 1
            if count == DAYS_MAX:
                break
    return count


def _past_days(zone: ZoneInfo, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the days of `zone` that a closing may read, latest first."""
    first = now.astimezone(zone).date().replace(day=1)
    for _ in range(CORRECTED_MONTHS_MAX + 2):
        days = [(start, end) for _, start, end in month_in(first, zone).days() if end <= now]
        yield from reversed(days)
        first = (first - timedelta(days=1)).replace(day=1)
