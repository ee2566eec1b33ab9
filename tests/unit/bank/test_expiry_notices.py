"""Notices of earnings that expire soon: 30, 7 and 1 days before, once each (R-93)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from audit.models import AuditEvent
from bank.models import CreditBank, CreditLot, CreditNotice
from bank.notices import give_notices
from bank.settling import settle_due
from bank.statements import statement_of
from builders.billing_builders import a_metered_attempt, at
from builders.portal_builders import Company, a_company

pytestmark = pytest.mark.django_db

GPU_HOUR = 3_600 * 1_000_000
#: Earnings of 1 November expire at the beginning of this day.
EXPIRY = datetime(2027, 2, 1, tzinfo=UTC)


@pytest.fixture
def company() -> Company:
    """nlp borrowed 24 GPUs for an hour: vision lent 8 and inference 16 GPU-hours."""
    company = a_company()
    CreditBank.objects.create(organization=company.organization, is_on=True, switched_at=at(0))
    a_metered_attempt(company.nlp, 0, 3_600, pool=company.pool, mgpu=32_000)
    assert settle_due(at(3_660)) == 4
    assert set(CreditLot.objects.values_list("expires_at", flat=True)) == {EXPIRY}
    return company


def before(days: int, seconds: int = 0) -> datetime:
    return EXPIRY - timedelta(days=days, seconds=seconds)


def test_each_lot_gets_each_notice_once(company: Company) -> None:
    """Against: a notice with each call; one a second too early."""
    given = [
        give_notices(moment)
        for moment in (
            before(30, 1),
            before(30),
            before(29),
            before(7),
            before(7) + timedelta(hours=1),
            before(1),
            before(0, 1),
            EXPIRY,
        )
    ]
    assert given == [0, 2, 0, 2, 0, 2, 0, 0]
    rows = CreditNotice.objects.filter(team=company.vision).order_by("given_at")
    assert [(row.days, row.amount // GPU_HOUR) for row in rows] == [(30, 8), (7, 8), (1, 8)]


def test_a_lot_that_is_seen_late_gets_the_last_notice_only(company: Company) -> None:
    assert give_notices(before(5)) == 2
    assert set(CreditNotice.objects.values_list("days", flat=True)) == {7}
    assert give_notices(before(4)) == 0


def test_spent_earnings_get_no_notice(company: Company) -> None:
    CreditLot.objects.filter(team=company.vision).delete()
    assert give_notices(before(30)) == 1
    assert CreditNotice.objects.get().team == company.inference


def test_nothing_is_noticed_while_the_bank_is_off(company: Company) -> None:
    CreditBank.objects.update(is_on=False)
    assert give_notices(before(1)) == 0


def test_a_notice_stands_in_the_statement_and_in_the_audit_log(company: Company) -> None:
    give_notices(before(7))
    (notice,) = statement_of(company.vision, company.pool, 2027, 1).notices
    assert (notice.last_day, notice.amount_ugpu_s, notice.days) == (
        date(2027, 1, 31),
        8 * GPU_HOUR,
        7,
    )
    event = AuditEvent.objects.get(action="credits.expire_soon", node_path=company.vision.path)
    assert (event.actor, event.detail["amount_ugpu_s"], event.detail["days"]) == (
        "system",
        8 * GPU_HOUR,
        7,
    )


def test_the_database_keeps_one_notice_before_the_expiry(company: Company) -> None:
    give_notices(before(7))
    rows = CreditNotice.objects.filter(team=company.vision)
    with pytest.raises(DatabaseError, match="is append-only"), transaction.atomic():
        rows.update(days=1)
    with pytest.raises(DatabaseError, match="is append-only"), transaction.atomic():
        rows.delete()
    notice = rows.get()
    notice.pk = None
    with (
        pytest.raises(IntegrityError, match="credit_notice_once_per_expiry"),
        transaction.atomic(),
    ):
        notice.save(force_insert=True)
    notice.days, notice.given_at = 1, EXPIRY
    with (
        pytest.raises(IntegrityError, match="credit_notice_comes_before_the_expiry"),
        transaction.atomic(),
    ):
        notice.save(force_insert=True)
