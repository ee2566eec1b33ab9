"""Adjustments and disputes for tests: a priced company, finance people, and closed months."""

from __future__ import annotations

from datetime import UTC, date, datetime

from adjustments.adjusting import NewAdjustment
from adjustments.models import Adjustment, Dispute
from billing.models import MeteredAttempt
from builders.billing_builders import a_metered_attempt, a_rate_card
from builders.portal_builders import NOW, Company, an_actor
from periods.models import BillingPeriod
from primitives.units import NANO_PER_UNIT
from tenants.access import Actor
from tenants.models import Node, User
from tenants.roles import Role

#: Eight GPUs for two hours, at 3.00 per GPU-hour.
CHARGE_NANO = 48 * NANO_PER_UNIT


def a_finance_person(company: Company, name: str) -> Actor:
    return an_actor(company.organization, Role.FINANCE, name)


def asked(company: Company, units: int, **changes: object) -> NewAdjustment:
    """An adjustment of nlp by so many units of the currency."""
    values: dict[str, object] = {
        "team": company.nlp,
        "user": None,
        "pool": None,
        "amount_nano": units * NANO_PER_UNIT,
        "month": None,
        "reason": "storage of October",
        **changes,
    }
    return NewAdjustment(**values)  # type: ignore[arg-type]


def priced(company: Company) -> None:
    """A rate card in EUR since September, where a GPU-hour of the pool costs 3.00."""
    prices_nano = dict.fromkeys(("guaranteed", "borrowed"), 3 * NANO_PER_UNIT)
    a_rate_card(company.organization, prices_nano, pool=company.pool, start=-60 * 86_400)


def a_charged_attempt(company: Company, user: User | None = None) -> MeteredAttempt:
    """Eight GPUs for two hours of 1 November, which cost `CHARGE_NANO`."""
    return a_metered_attempt(company.nlp, 0, 7_200, pool=company.pool, user=user, job_name="bert")


def close_bare(organization: Node, month: date) -> BillingPeriod:
    """Close a month of the organization, in UTC and without charges."""
    after = date(month.year + month.month // 12, month.month % 12 + 1, 1)
    start, end = (datetime(day.year, day.month, 1, tzinfo=UTC) for day in (month, after))
    return BillingPeriod.objects.create(
        organization=organization,
        month=month,
        start=start,
        end=end,
        time_zone="UTC",
        currency="EUR",
        closed_at=end,
        closed_by="fay",
        row_count=0,
        digest="",
    )


def a_pending_adjustment(company: Company, asked_by: User, expires_at: datetime) -> Adjustment:
    """A charge of 2,000.00 to nlp that waits for a second person."""
    return Adjustment.objects.create(
        organization=company.organization,
        team=company.nlp,
        month=NOW.date().replace(day=1),
        effective_at=NOW,
        amount_nano=2_000 * NANO_PER_UNIT,
        currency="EUR",
        reason="storage of October",
        status="pending",
        asked_by=asked_by,
        asked_at=NOW,
        expires_at=expires_at,
    )


def an_open_dispute(company: Company, attempt: MeteredAttempt, asked_by: User) -> Dispute:
    """A dispute about an attempt of nlp."""
    return Dispute.objects.create(
        organization=company.organization,
        team=company.nlp,
        attempt=attempt,
        charged_nano=CHARGE_NANO,
        currency="EUR",
        reason="the node was broken",
        status="open",
        asked_by=asked_by,
        asked_at=NOW,
    )
