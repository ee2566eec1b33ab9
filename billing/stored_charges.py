"""Charges of past days, stored, so that a later reader need not rate them again.

A day may be stored once it has been over for `STORED_AFTER`. Each change to the charges of such
old days leaves a note in its own transaction, by a trigger (`ChangedCharges`). A stored day with a
note on it is not read, so readers are exact at every moment. Commitments are not stored, because
a changed guarantee leaves no note. A migration that changes how use is rated must delete all days.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Min

from billing.charge_grouping import Charging, grouped
from billing.stored_charge_models import ChangedCharges, StoredCharge, StoredDay
from billing.usage_sql import ACCOUNTS, PLANNED, POOLS_MAX
from bulk.alone import alone_with
from primitives.days import midnight

#: Notes are left by changes of what is older than 48 hours. The rest is longer than a transaction.
STORED_AFTER = timedelta(hours=72)


def stored_charges(
    organization_id: UUID, start: datetime, end: datetime
) -> list[tuple[Any, ...]] | None:
    """Return the stored charges of a day, or None where it must be rated.

    A row has the ids of team and pool, then the columns from the class on as in `daily_charges`.
    """
    with connection.cursor() as cursor:
        cursor.execute(_STORED, {"organization": organization_id, "start": start, "end": end})
        rows = cursor.fetchall()
    if not rows:
        return None
    return [row[1:] for row in rows if row[1] is not None]


def stored_days(organization_id: UUID) -> set[tuple[datetime, datetime]]:
    """Return the start and end of each stored day."""
    days = StoredDay.objects.filter(organization=organization_id)
    return set(days.values_list("start", "end"))


def forget_changed_days(organization_id: UUID) -> None:
    """Delete the stored days that notes touch, and these notes."""
    with alone_with(StoredDay._meta.db_table):
        notes = ChangedCharges.objects.filter(organization=organization_id)
        first = notes.aggregate(at=Min("start"))["at"]
        if first is not None:
            days = StoredDay.objects.filter(organization=organization_id, end__gt=first)
            StoredCharge.objects.filter(day__in=days).delete()
            days.delete()
            notes.delete()


def forget_days_outside(organization_id: UUID, zone: ZoneInfo) -> None:
    """Delete the stored days that are no days of `zone`, which are those of an earlier time zone.

    They would overlap the days of `zone`, of which none could be stored.
    """
    with alone_with(StoredDay._meta.db_table):
        days = StoredDay.objects.filter(organization=organization_id)
        outside = [
            pk
            for pk, start, end in days.values_list("pk", "start", "end")
            if (start, end) != _day_of(start, zone)
        ]
        StoredCharge.objects.filter(day__in=outside).delete()
        days.filter(pk__in=outside).delete()


def _day_of(moment: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    day = moment.astimezone(zone).date()
    return midnight(day, zone), midnight(day + timedelta(days=1), zone)


def store_day(charging: Charging, start: datetime, end: datetime, *, now: datetime) -> bool:
    """Store the charges of a day, and return whether that was possible.

    It was not within `STORED_AFTER` of its end, and if a team moved on that day. A stored day stays
    as it is.
    """
    if now < end + STORED_AFTER or charging.nodes_in(start, end) is None:
        return False
    with alone_with(StoredDay._meta.db_table):
        day, is_new = StoredDay.objects.get_or_create(
            organization_id=charging.organization_id, start=start, end=end
        )
        if is_new:
            with connection.cursor() as cursor:
                cursor.execute(PLANNED)
                cursor.execute(_STORE, {**charging.scope(start, end), "day": day.pk})
    return True


# One statement, so that a day is read whole or not at all.
_STORED = """
SELECT d.id, c.team_id, c.pool_id, c.usage_class, c.fault, u.id, COALESCE(u.username, ''),
       COALESCE(k.name, ''), c.priority_class, c.multiplier_ppm, c.job_type, c.rate_line_id,
       c.price_nano, c.mode, c.mgpu_s, c.extra_mgpu_s, c.cost_nano
FROM billing_storedday d
LEFT JOIN billing_storedcharge c ON c.day_id = d.id
LEFT JOIN tenants_user u ON u.id = c.user_id
LEFT JOIN clusters_cluster k ON k.id = c.cluster_id
WHERE d.organization_id = %(organization)s AND d.start = %(start)s AND d."end" = %(end)s
  AND NOT EXISTS (
      SELECT FROM billing_changedcharges n
      WHERE n.organization_id = d.organization_id AND n.start < d."end"
  )
"""

_STORE = f"""
WITH {ACCOUNTS}, {grouped()}
INSERT INTO billing_storedcharge (day_id, team_id, pool_id, usage_class, fault, user_id, cluster_id,
    priority_class, multiplier_ppm, job_type, rate_line_id, price_nano, mode, mgpu_s, extra_mgpu_s,
    cost_nano)
SELECT %(day)s, (%(teams)s::uuid[])[account / {POOLS_MAX}],
       (%(pools)s::uuid[])[account %% {POOLS_MAX}], class, fault, user_id, cluster_id,
       priority_class, multiplier_ppm, job_type, line_id, price_nano, mode, mgpu_s, extra_mgpu_s,
       cost_nano
FROM charges WHERE user_id IS NOT NULL
"""  # noqa: S608 - made of constants only
