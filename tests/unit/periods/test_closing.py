"""Months are closed once, with their charges, and never change again."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from audit.models import AuditEvent
from billing.models import UsageSegment
from billing.periods import Period
from billing.reconciliation_models import Reconciliation
from builders.api_callers import by_token
from builders.billing_builders import (
    DAY,
    a_metered_attempt,
    a_rate_card,
    at,
    record_ended,
    record_fault,
)
from builders.chargeback_builders import report_of
from builders.period_builders import DECEMBER, DUE, GPU_HOUR, an_empty_closed_month, close
from builders.portal_builders import Company, a_company, an_actor
from clusters.models import CapacitySegment
from periods import closing
from periods.closing import months_of, one_month
from periods.digests import digest_of
from periods.models import BillingPeriod, ChargeRow
from primitives.errors import Conflict, Forbidden, NotFound
from quotas.models import OrganizationPolicy
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def company() -> Company:
    company = a_company()
    a_rate_card(company.organization)
    return company


@pytest.fixture
def fiona(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE, "fiona")


def all_green(company: Company, first: date, count: int, status: str = "green") -> None:
    """Every day is compared and green."""
    for number in range(count):
        day = first + timedelta(days=number)
        midnight = datetime.combine(day, datetime.min.time(), UTC)
        Reconciliation.objects.create(
            cluster=company.cluster,
            day=day,
            status=status,
            as_of=midnight + timedelta(days=2),
            until=midnight + timedelta(days=1),
        )


def test_a_month_is_closed_after_its_grace_with_green_days(company: Company, fiona: Actor) -> None:
    """Against: the grace counted from the start; a day that was never compared taken for green."""
    a_metered_attempt(company.nlp)
    for now, words in (
        (DECEMBER - timedelta(seconds=1), "is not over"),
        (DUE - timedelta(seconds=1), "may still change. Close it from 2026-12-04 00:00 UTC on"),
        (DUE, "30 days are not confirmed by their clusters, the first is 2026-11-01 of local"),
    ):
        with pytest.raises(Conflict, match=words):
            close(company, fiona, "2026-11", now=now)
    all_green(company, date(2026, 11, 1), 30)
    with pytest.raises(Conflict, match="A month before 2026-12 is not closed"):
        close(company, fiona, "2026-12", now=DUE + timedelta(days=40))
    period = close(company, fiona, "2026-11")
    assert (period.start, period.end, period.reason) == (DAY, DECEMBER, "")
    (row,) = period.rows.all()
    assert (row.number, row.day, row.team_path, row.pool, row.usage_class) == (
        *(1, date(2026, 11, 1), "ai-company/research/nlp", "h100"),
        "guaranteed",
    )
    assert (row.mgpu_s, row.price_nano, row.cost_nano) == (
        *(8 * GPU_HOUR, 2_000_000_000),
        16_000_000_000,
    )
    event = AuditEvent.objects.get(action="period.closed")
    assert event.detail == {"month": "2026-11", "digest": period.digest, "reason": ""}
    with pytest.raises(Conflict, match="is closed already"):
        close(company, fiona, "2026-11")


def test_a_red_day_needs_an_acknowledgement_or_a_reason(company: Company, fiona: Actor) -> None:
    a_metered_attempt(company.nlp)
    all_green(company, date(2026, 11, 1), 29)
    all_green(company, date(2026, 11, 30), 1, "red")
    row = Reconciliation.objects.get(day=date(2026, 11, 30))
    red = {"account": "nlp", "pool": "h100", "is_green": False, "difference_count": 1}
    red |= {"metered_mgpu_s": 1, "accounted_mgpu_s": 2, "cut_count": 0, "cut_mgpu_s": 0}
    row.accounts.create(team=company.nlp, **red)
    with pytest.raises(Conflict, match="1 days are not confirmed"):
        close(company, fiona, "2026-11")
    with transaction.atomic():
        period = close(company, fiona, "2026-11", "known since ticket 12")
        assert period.reason == "known since ticket 12"
        transaction.set_rollback(True)
    Reconciliation.objects.filter(pk=row.pk).update(
        acknowledged_at=DUE,
        acknowledged_by="fiona",
        acknowledged_reason="known",
        acknowledged_digest="0",
    )
    assert close(company, fiona, "2026-11", "not needed").reason == ""


def test_days_before_a_cluster_was_watched_block_nothing(company: Company, fiona: Actor) -> None:
    a_metered_attempt(company.nlp)
    CapacitySegment.objects.create(
        cluster=company.cluster,
        pool=company.pool,
        capacity_mgpu=1,
        start=datetime(2026, 11, 29, 13, tzinfo=UTC),
    )
    with pytest.raises(Conflict, match=r"2 days are not confirmed .* first is 2026-11-29"):
        close(company, fiona, "2026-11")


def test_a_closed_month_stays_and_late_facts_are_corrections_in_the_next(
    company: Company, fiona: Actor
) -> None:
    """An attempt turns out to have ended sooner, and another one is metered late. A second closing
    corrects nothing twice.

    Against: corrections without those of earlier months; only changes upwards."""
    shorter = a_metered_attempt(company.nlp, 0, None, guaranteed_mgpu=0)
    a_metered_attempt(company.vision, 86_400, 86_400 + 7_200)
    period = close(company, fiona, "2026-11", "first")
    rows = list(period.rows.order_by("number"))
    before = [(row.day, row.mgpu_s, row.cost_nano) for row in rows]
    assert len(rows) == 31
    assert digest_of(period, rows) == period.digest
    record_ended(shorter.pk, at(43_200), DUE + timedelta(hours=1))
    a_metered_attempt(company.inference, 172_800, 172_800 + 3_600)
    january = datetime(2027, 1, 4, tzinfo=UTC)
    december = close(company, fiona, "2026-12", "second", january)
    again = BillingPeriod.objects.get(pk=period.pk)
    kept = list(again.rows.order_by("number"))
    assert [(row.day, row.mgpu_s, row.cost_nano) for row in kept] == before
    assert digest_of(again, kept) == again.digest
    corrections = list(december.rows.filter(is_correction=True).order_by("number"))
    assert [(row.day, row.team_path, row.usage_class) for row in corrections][:2] == [
        (date(2026, 11, 1), "ai-company/research/nlp", "borrowed"),
        (date(2026, 11, 2), "ai-company/research/nlp", "borrowed"),
    ]
    late = [row for row in corrections if row.team_id == company.inference.pk]
    assert [(row.day, row.mgpu_s, row.cost_nano) for row in late] == [
        (date(2026, 11, 3), 8 * GPU_HOUR, 16_000_000_000)
    ]
    # Original and corrections together are the truth.
    report = report_of(
        fiona, Period(DAY, DECEMBER, as_of=DECEMBER), node=company.organization.display_path
    )
    sums = ChargeRow.objects.filter(month=date(2026, 11, 1))
    assert sum(row.mgpu_s for row in sums) == report.totals.mgpu_s
    assert sum(row.cost_nano for row in sums) == report.totals.cost_nano
    assert not december.rows.filter(is_correction=False).exists()
    february = close(company, fiona, "2027-01", "third", datetime(2027, 2, 4, tzinfo=UTC))
    assert february.row_count == 0


def test_the_database_refuses_every_change_of_a_closed_month(
    company: Company, fiona: Actor
) -> None:
    a_metered_attempt(company.nlp)
    period = close(company, fiona, "2026-11", "known")
    row = period.rows.get()
    for change in (
        lambda: ChargeRow.objects.filter(pk=row.pk).update(cost_nano=1),
        lambda: ChargeRow.objects.filter(pk=row.pk).delete(),
        lambda: BillingPeriod.objects.filter(pk=period.pk).update(digest="0"),
        lambda: BillingPeriod.objects.filter(pk=period.pk).delete(),
    ):
        with pytest.raises(DatabaseError), transaction.atomic():
            change()
    row.pk, row.number = None, 2
    with pytest.raises(IntegrityError, match="gets no more charges"), transaction.atomic():
        row.save(force_insert=True)
    december = BillingPeriod(
        organization=company.organization,
        month=date(2026, 12, 1),
        start=DECEMBER,
        end=DECEMBER + timedelta(days=31),
        time_zone="UTC",
        closed_at=DECEMBER + timedelta(days=40),
        closed_by="fiona",
        row_count=1,
        digest="0",
    )
    with pytest.raises(IntegrityError, match="has not all of its charges"), transaction.atomic():
        december.save(force_insert=True)
    december.row_count = 0
    for field, value in (
        ("start", DAY),
        ("end", DECEMBER),
        ("month", date(2026, 11, 1)),
        ("closed_at", DECEMBER),
    ):
        right = getattr(december, field)
        setattr(december, field, value)
        with pytest.raises(IntegrityError), transaction.atomic():
            december.save(force_insert=True)
        setattr(december, field, right)
    december.save(force_insert=True)


def test_a_changed_time_zone_leaves_no_gap(company: Company, fiona: Actor) -> None:
    """The next month begins where the closed one ended, whatever its zone.

    Against: charges assigned to months by their day."""
    a_metered_attempt(company.nlp)
    close(company, fiona, "2026-11", "known")
    OrganizationPolicy.objects.update_or_create(
        organization=company.organization, defaults={"time_zone": "America/New_York"}
    )
    december, november = months_of(company.organization, now=DUE)
    assert (november.period is not None, december.month.start) == (True, DECEMBER)
    assert december.month.end == datetime(2027, 1, 1, 5, tzinfo=UTC)
    attempt = a_metered_attempt(company.nlp)
    UsageSegment.objects.filter(attempt=attempt).update(
        start=DECEMBER, end=DECEMBER + timedelta(hours=1)
    )
    january = datetime(2027, 1, 5, tzinfo=UTC)
    row = close(company, fiona, "2026-12", "known", january).rows.get()
    # The first five hours are the evening of the day before in the new zone.
    assert (row.month, row.day, row.is_correction) == (DECEMBER.date(), date(2026, 11, 30), False)
    later = close(company, fiona, "2027-01", "known", datetime(2027, 2, 5, tzinfo=UTC))
    assert later.row_count == 0


def test_only_finance_closes_and_strangers_see_nothing(company: Company) -> None:
    a_metered_attempt(company.nlp)
    head = an_actor(company.research, Role.DEPARTMENT_ADMIN, "head")
    with pytest.raises(NotFound):
        close(company, head, "2026-11", "known")
    auditor = an_actor(company.organization, Role.AUDITOR, "auditor")
    with pytest.raises((Forbidden, NotFound)):
        close(company, auditor, "2026-11", "known")
    assert not BillingPeriod.objects.exists()


def test_months_over_the_api(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    a_metered_attempt(company.nlp)
    monkeypatch.setattr("primitives.clock.SystemClock.now", lambda self: DUE)
    caller = by_token(an_actor(company.organization, Role.FINANCE, "fiona").user)
    path = f"organizations/{company.organization.pk}/periods"
    december, november = caller.get(path).json()["items"]
    assert (december["state"], november["state"]) == ("open", "due")
    assert (november["month"], november["due_at"]) == ("2026-11", "2026-12-04T00:00:00Z")
    assert november["unconfirmed"][0] == {"cluster": "local", "day": "2026-11-01", "status": None}
    assert (november["closed_at"], november["digest"]) == (None, None)
    assert caller.send("POST", f"{path}/2026-11/close", {}).status_code == 409
    closed = caller.send("POST", f"{path}/2026-11/close", {"reason": "known"})
    assert closed.status_code == 200
    assert closed.json() == caller.get(f"{path}/2026-11").json()
    assert (closed.json()["state"], closed.json()["reason"]) == ("closed", "known")
    assert closed.json()["charges"] == [
        {
            "team": "ai-company/research/nlp",
            "pool": "h100",
            "device": "gpu",
            "usage_class": "guaranteed",
            "is_correction": False,
            "mgpu_s": 8 * GPU_HOUR,
            "extra_mgpu_s": 0,
            "unpriced_mgpu_s": 0,
            "cost_nano": 16_000_000_000,
        }
    ]
    assert caller.get(f"{path}/2025-01").status_code == 404


def test_a_month_older_than_the_list_is_found(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a search in the list, which has the latest months only."""
    monkeypatch.setattr(closing, "MONTHS_MAX", 1)
    old, new = (
        an_empty_closed_month(company.organization, date(2026, month, 1)) for month in (9, 10)
    )
    now = DECEMBER - timedelta(days=1)
    listed = months_of(company.organization, now=now)
    assert [view.month.name for view in listed] == ["2026-11"]
    for period in (old, new):
        name = f"{period.month:%Y-%m}"
        assert one_month(company.organization, name, now=now).period == period


def test_use_before_the_first_closed_month_is_a_correction(company: Company, fiona: Actor) -> None:
    """The meter learns of use in October after November was closed as the first month.

    Planted: only closed months rated anew."""
    a_metered_attempt(company.nlp)
    close(company, fiona, "2026-11", "known")
    day = 86_400
    told = DUE + timedelta(days=1)
    a_metered_attempt(company.vision, -10 * day, -10 * day + 3_600, now=told)
    december = close(company, fiona, "2026-12", "known", DUE + timedelta(days=31))
    (row,) = december.rows.all()
    assert (row.is_correction, row.month, row.day, row.team_path, row.mgpu_s) == (
        *(True, date(2026, 10, 1), date(2026, 10, 22), "ai-company/research/vision"),
        8 * GPU_HOUR,
    )
    january = close(company, fiona, "2027-01", "known", DUE + timedelta(days=62))
    assert january.row_count == 0


def test_late_facts_of_months_beyond_the_last_twelve_are_corrections(
    company: Company, fiona: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is for months without news. Planted: the months cut at the bound."""
    monkeypatch.setattr(closing, "CORRECTED_MONTHS_MAX", 1)
    attempt = a_metered_attempt(company.nlp)
    close(company, fiona, "2026-11", "known")
    in_january = DUE + timedelta(days=31)
    close(company, fiona, "2026-12", "known", in_january)
    record_fault(attempt.pk, at(0), in_january + timedelta(days=1), "node_failed")
    january = close(company, fiona, "2027-01", "known", DUE + timedelta(days=62))
    assert [
        (row.month, row.usage_class, row.mgpu_s) for row in january.rows.order_by("number")
    ] == [
        (date(2026, 11, 1), "fault", 8 * GPU_HOUR),
        (date(2026, 11, 1), "guaranteed", -8 * GPU_HOUR),
    ]
