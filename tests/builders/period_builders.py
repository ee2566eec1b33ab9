"""Closed months for tests."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from builders.portal_builders import Company
from periods.closing import close_month
from periods.code_models import AccountingCode, CodeKind
from periods.digests import digest_of
from periods.models import BillingPeriod
from periods.months import month_in
from periods.statement_models import Statement
from tenants.access import Actor
from tenants.models import Node

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


def an_empty_closed_month(organization: Node, first: date) -> BillingPeriod:
    """A closed month without charges, in EUR."""
    month = month_in(first, ZoneInfo("UTC"))
    period = BillingPeriod(
        organization=organization,
        month=first,
        start=month.start,
        end=month.end,
        time_zone="UTC",
        currency="EUR",
        closed_at=month.end,
        closed_by="fiona",
        row_count=0,
    )
    period.digest = digest_of(period, [])
    period.save(force_insert=True)
    return period


def an_empty_statement(period: BillingPeriod) -> Statement:
    """A statement without lines."""
    return Statement.objects.create(
        period=period,
        organization=period.organization,
        kind="statement",
        year=period.month.year,
        unit_path=f"{period.organization.slug}/research",
        unit_name="Research",
        organization_name=period.organization.name,
        provider="Tidegate",
        currency=period.currency,
        total_cents=0,
        line_count=0,
        issued_at=period.closed_at,
        issued_by="fiona",
    )


def an_accounting_code(node: Node) -> AccountingCode:
    """The project code P-12, from January 2030 on."""
    return AccountingCode.objects.create(
        node=node,
        kind=CodeKind.PROJECT_CODE,
        code="P-12",
        start=date(2030, 1, 1),
        set_at=DUE,
        set_by="fiona",
    )
