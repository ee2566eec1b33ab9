"""Frozen charges have the grain of every report, exact sums, and the same digest for ever."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest
from django.db import IntegrityError, transaction

from billing.daily_charges import charges_between
from billing.metering import UnpaidSpan, record_unpaid
from billing.models import RateCard, UsageClass
from billing.periods import Period
from builders.billing_builders import (
    DAY,
    a_metered_attempt,
    a_rate_card,
    at,
    record_fault,
    terms_of,
)
from builders.chargeback_builders import report_of
from builders.period_builders import DECEMBER, DUE, GPU_HOUR, close
from builders.portal_builders import Company, a_company, a_user, an_actor
from periods.charges import closed_until, frozen_charges
from periods.digests import canonical_line
from periods.models import BillingPeriod, ChargeRow
from quotas.models import OrganizationPolicy
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600
A_DAY = 86_400
JANUARY = datetime(2027, 1, 4, tzinfo=UTC)


@pytest.fixture
def company() -> Company:
    company = a_company()
    a_rate_card(company.organization)
    return company


@pytest.fixture
def fiona(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE, "fiona")


def sums_of(actor: Actor, company: Company, start: datetime, end: datetime) -> tuple[int, int]:
    """Return use and cost of the organization by the report."""
    report = report_of(actor, Period(start, end, as_of=end), node=company.organization.display_path)
    return report.totals.mgpu_s, report.totals.cost_nano


def test_a_charge_says_all_that_reports_group_by(company: Company, fiona: Actor) -> None:
    """Each class, user, priority class and type of job has its own row, and a fault its reason.

    Planted: faults of all reasons in one row."""
    ada = a_user(company.organization, "ada")
    bert = a_user(company.organization, "bert")
    a_metered_attempt(company.nlp, 0, HOUR, user=ada, guaranteed_mgpu=6_000)
    a_metered_attempt(
        company.nlp, 0, HOUR, user=ada, job_type="inference", multiplier_ppm=1_500_000
    )
    unpaid = a_metered_attempt(company.nlp, 0, HOUR, user=bert, guaranteed_mgpu=0)
    record_unpaid(
        [UnpaidSpan(unpaid.pk, at(0), at(HOUR // 2), 8_000)],
        organization_id=company.organization.pk,
        pool_id=company.pool.pk,
        start=at(0),
        end=at(HOUR),
        now=at(2 * HOUR),
    )
    for reason in ("node_failed", "preempted"):
        lost = a_metered_attempt(company.nlp, 0, HOUR, user=bert, priority_class="low")
        record_fault(lost.pk, at(0), at(2 * HOUR), reason)
    period = close(company, fiona, "2026-11", "known")
    found = [
        (
            *(row.username, row.usage_class, row.fault, row.priority_class, row.job_type),
            *(row.multiplier_ppm, row.price_nano, row.mgpu_s // GPU_HOUR, row.cost_nano // 10**9),
        )
        for row in period.rows.all()
    ]
    assert sorted(found) == [
        ("ada", "borrowed", "", "normal", "training", 1_000_000, 10**9, 2, 2),
        ("ada", "guaranteed", "", "normal", "inference", 1_500_000, 2 * 10**9, 8, 24),
        ("ada", "guaranteed", "", "normal", "training", 1_000_000, 2 * 10**9, 6, 12),
        ("bert", "borrowed", "", "normal", "training", 1_000_000, 10**9, 4, 4),
        ("bert", "fault", "node_failed", "low", "training", 1_000_000, 0, 8, 0),
        ("bert", "fault", "preempted", "low", "training", 1_000_000, 0, 8, 0),
        ("bert", "unpaid", "", "normal", "training", 1_000_000, 10**9, 4, 4),
    ]
    assert {row.cluster for row in period.rows.all()} == {"local"}
    assert sums_of(fiona, company, DAY, DECEMBER) == (40 * GPU_HOUR, 46 * 10**9)


def test_commitments_top_ups_and_showback_are_frozen_with_the_use(
    company: Company, fiona: Actor
) -> None:
    """A commitment of 32 GPUs on the first day, then a minimum of two hours, then showback.

    Use inside the guarantee costs nothing more, and showback costs nothing. The digest covers the
    quantities. Against: commitments without a user left out; showback frozen as a cost."""
    card = RateCard.objects.get()
    terms_of(card, "commitment", start=0, end=A_DAY)
    terms_of(card, "pay_per_use", start=A_DAY, end=2 * A_DAY, minimum_s=2 * HOUR)
    terms_of(card, "showback", start=2 * A_DAY)
    for day in range(3):
        a_metered_attempt(company.nlp, day * A_DAY, day * A_DAY + HOUR, mgpu=1_000)
    period = close(company, fiona, "2026-11", "known")
    found = [
        (
            *(row.day.day, row.usage_class, row.mode, row.user_id is None),
            *(row.mgpu_s // GPU_HOUR, row.extra_mgpu_s // GPU_HOUR, row.cost_nano // 10**9),
        )
        for row in period.rows.order_by("day", "usage_class", "team_path")
    ]
    assert found == [
        (1, "commitment", "commitment", True, 0, 16 * 24, 768),
        (1, "commitment", "commitment", True, 0, 8 * 24, 384),
        (1, "commitment", "commitment", True, 0, 8 * 24, 384),
        (1, "guaranteed", "commitment", False, 1, 0, 0),
        (2, "guaranteed", "pay_per_use", False, 1, 0, 2),
        (2, "top_up", "pay_per_use", False, 0, 1, 2),
        (3, "guaranteed", "showback", False, 1, 0, 0),
    ]
    assert sums_of(fiona, company, DAY, DECEMBER) == (3 * GPU_HOUR, 1_540 * 10**9)
    first = period.rows.get(day=date(2026, 11, 2), usage_class="top_up")
    assert canonical_line(first).endswith(b'2000000000,0,2000000000,"pay_per_use",3600000]\n')


def test_spans_sum_to_the_longer_one(company: Company, fiona: Actor) -> None:
    """Three days of a small price round as one span of three days.

    Against: each day rated for itself."""
    a_rate_card(company.organization, {"unpaid": 1_200_010})
    attempt = a_metered_attempt(company.nlp, 0, 3 * A_DAY, mgpu=1, guaranteed_mgpu=0)
    record_unpaid(
        [UnpaidSpan(attempt.pk, at(0), at(3 * A_DAY), 1)],
        organization_id=company.organization.pk,
        pool_id=company.pool.pk,
        start=at(0),
        end=at(3 * A_DAY),
        now=at(4 * A_DAY),
    )
    assert [
        charge.cost_nano
        for day in range(3)
        for charge in charges_between(
            company.organization.pk, at(day * A_DAY), at((day + 1) * A_DAY)
        ).values()
    ] == [28_800, 28_800, 28_801]
    elsewhere = a_company("elsewhere")
    assert charges_between(elsewhere.organization.pk, DAY, DECEMBER) == {}


def test_a_late_price_moves_use_to_its_line() -> None:
    """The correction takes the use away where it had no price, and charges it at its price.

    Planted: corrections keyed by all but the price, which made the change of use vanish."""
    company = a_company()
    fiona = an_actor(company.organization, Role.FINANCE)
    a_metered_attempt(company.nlp, 0, HOUR, mgpu=1_000)
    november = close(company, fiona, "2026-11", "known")
    (row,) = november.rows.all()
    assert (row.rate_line, row.price_nano, row.mgpu_s, row.cost_nano) == (None, None, GPU_HOUR, 0)
    a_rate_card(company.organization)
    december = close(company, fiona, "2026-12", "known", JANUARY)
    found = {row.price_nano: (row.mgpu_s, row.cost_nano) for row in december.rows.all()}
    assert found == {None: (-GPU_HOUR, 0), 2 * 10**9: (GPU_HOUR, 2 * 10**9)}
    assert all(row.is_correction for row in december.rows.all())


def test_frozen_charges_of_a_span(company: Company, fiona: Actor) -> None:
    """Charges count on their day, and corrections in the whole month that booked them.

    Planted: days that the span cuts."""
    organization = company.organization.pk
    for day in (0, 29, 30):
        a_metered_attempt(
            company.nlp, day * A_DAY, day * A_DAY + HOUR, mgpu=(day + 1) * 1_000, now=DUE
        )
    assert closed_until(organization) is None
    close(company, fiona, "2026-11", "known")
    assert closed_until(organization) == DECEMBER
    a_metered_attempt(company.nlp, 0, HOUR, mgpu=100_000)

    def gpus(start: datetime, end: datetime) -> list[int]:
        return [row.mgpu_s // GPU_HOUR for row in frozen_charges(organization, start, end)]

    later = DECEMBER + timedelta(days=31)
    assert gpus(DAY, later) == [1, 30]
    close(company, fiona, "2026-12", "known", JANUARY)
    assert gpus(DAY, DECEMBER) == [1, 30]
    assert gpus(DAY, later) == [1, 30, 31, 100]
    assert gpus(DAY + timedelta(seconds=1), later) == [30, 31, 100]
    assert gpus(DAY, later - timedelta(days=1)) == [1, 30, 31]
    assert gpus(later, later + timedelta(days=31)) == []
    assert list(frozen_charges(a_company("elsewhere").organization.pk, DAY, later)) == []


def test_days_of_frozen_charges_are_those_of_the_zone(company: Company, fiona: Actor) -> None:
    """New York's 1 November has 25 hours, from 4:00 UTC to 5:00 UTC."""
    OrganizationPolicy.objects.update_or_create(
        organization=company.organization, defaults={"time_zone": "America/New_York"}
    )
    a_metered_attempt(company.nlp, 4 * HOUR, 30 * HOUR, mgpu=1_000)
    close(company, fiona, "2026-11", "known", DUE + timedelta(hours=5))
    start, end = at(4 * HOUR), at(29 * HOUR)
    rows = list(frozen_charges(company.organization.pk, start, end))
    assert [(row.day, row.mgpu_s) for row in rows] == [(date(2026, 11, 1), 25 * GPU_HOUR)]
    assert list(frozen_charges(company.organization.pk, start, at(28 * HOUR))) == []


def test_corrections_of_every_class_make_the_truth(company: Company, fiona: Actor) -> None:
    """A fault that is known late changes the class of a whole attempt; the sums follow.

    Against: only two of the classes frozen."""
    attempt = a_metered_attempt(company.nlp, 0, HOUR, guaranteed_mgpu=2_000)
    close(company, fiona, "2026-11", "known")
    record_fault(attempt.pk, at(0), DUE, "node_failed")
    close(company, fiona, "2026-12", "known", JANUARY)
    sums: Counter[str] = Counter()
    for row in ChargeRow.objects.all():
        sums[row.usage_class] += row.mgpu_s // GPU_HOUR
        sums["cost"] += row.cost_nano
    assert sums == {"guaranteed": 0, "borrowed": 0, UsageClass.FAULT.value: 8, "cost": 0}


def test_the_line_of_the_digest_never_changes() -> None:
    """A digest of today can be checked in ten years."""
    row = ChargeRow(
        number=7,
        is_correction=True,
        month=date(2026, 11, 1),
        day=date(2026, 11, 30),
        team_id=UUID(int=1),
        team_path="ai-company/nlp",
        user_id=UUID(int=2),
        username="ada",
        pool="h100",
        device="gpu",
        cluster="alpha",
        usage_class="borrowed",
        fault="",
        priority_class="normal",
        multiplier_ppm=1_000_000,
        job_type="training",
        rate_line_id=UUID(int=3),
        price_nano=2,
        mgpu_s=-3,
        cost_nano=-4,
    )
    zeros = "00000000-0000-0000-0000-00000000000"
    assert canonical_line(row).decode() == (
        f'[7,true,"2026-11-01","2026-11-30","{zeros}1","ai-company/nlp","{zeros}2","ada","h100",'
        f'"gpu","alpha","borrowed","","normal",1000000,"training","{zeros}3",2,-3,-4]\n'
    )


def test_the_database_refuses_charges_that_cannot_be(company: Company, fiona: Actor) -> None:
    """Use that is not positive, a cost without a price, a price without a line, a reason without a
    fault."""
    a_metered_attempt(company.nlp)
    row = close(company, fiona, "2026-11", "known").rows.get()
    # Charges come before their month, whose reference is checked at the end of the transaction.
    period = BillingPeriod(organization=company.organization)
    for changes in (
        {"mgpu_s": 0},
        {"cost_nano": -1},
        {"price_nano": None},
        {"rate_line_id": None},
        {"rate_line_id": None, "price_nano": None},
        {"usage_class": "fault"},
        {"fault": "lost"},
    ):
        values = {field.attname: getattr(row, field.attname) for field in ChargeRow._meta.fields}
        values |= {"id": None, "period_id": period.pk, **changes}
        with pytest.raises(IntegrityError, match="violates check"), transaction.atomic():
            ChargeRow(**values).save(force_insert=True)
