"""Stores the charges of past days, so that closing and correcting months need not rate them again.

Nobody depends on it: a day that is not stored is rated from its segments.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from bank.settling import zone_of
from billing.charge_grouping import Charging
from billing.models import MeteredParty
from billing.stored_charges import forget_changed_days, store_day, stored_days
from periods.charges import CORRECTED_MONTHS_MAX
from periods.months import month_in
from tenants.models import Node, NodeKind

#: Days that one run stores for an organization.
DAYS_MAX = 60


def store_past_days(now: datetime) -> None:
    """Store past days of every organization with use, the latest ones first, up to `DAYS_MAX`.

    Stored days that changed are stored anew. A repeat changes nothing.
    """
    used = MeteredParty.objects.values("organization")
    for organization in Node.objects.filter(kind=NodeKind.ORGANIZATION, pk__in=used):
        store_days_of(organization.pk, now)


def store_days_of(organization_id: UUID, now: datetime) -> int:
    """Store past days of one organization, and return how many are new."""
    forget_changed_days(organization_id)
    charging, known, count = Charging.of(organization_id), stored_days(organization_id), 0
    for span in _past_days(organization_id, now):
        if span not in known and store_day(charging, *span, now=now):
            count += 1
            if count == DAYS_MAX:
                break
    return count


def _past_days(organization_id: UUID, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the days that a closing may read, in the organization's time zone, latest first."""
    zone = zone_of(organization_id)
    first = now.astimezone(zone).date().replace(day=1)
    for _ in range(CORRECTED_MONTHS_MAX + 2):
        days = [(start, end) for _, start, end in month_in(first, zone).days() if end <= now]
        yield from reversed(days)
        first = (first - timedelta(days=1)).replace(day=1)
