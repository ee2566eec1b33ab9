"""Closed months for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from builders.portal_builders import Company
from periods.closing import close_month
from periods.models import BillingPeriod
from tenants.access import Actor

DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)
#: The end of the grace of November.
DUE = DECEMBER + timedelta(hours=72)
#: One GPU for an hour, in milli-GPU-seconds.
GPU_HOUR = 3_600_000


def close(
    company: Company, actor: Actor, name: str, reason: str = "", now: datetime = DUE
) -> BillingPeriod:
    """Close a month such as "2026-11"; a reason closes unconfirmed days, too."""
    return close_month(company.organization.pk, name, reason, actor=actor, now=now)
