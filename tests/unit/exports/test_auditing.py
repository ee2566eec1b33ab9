"""The audit of a month by DuckDB: it agrees to the unit, and it finds what it should."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from billing import charges
from billing.chargeback import chargeback
from billing.models import UsageSegment
from billing.periods import Period
from builders.billing_builders import DAY, LATER, a_metered_attempt, a_rate_card, at
from builders.portal_builders import Company, a_company, a_pool, an_actor, an_organization
from exports import auditing
from exports.auditing import AuditedLine, audit_lately, audit_month
from quotas.models import OrganizationPolicy
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600
A_DAY = 86_400
NOVEMBER = Period(DAY, DAY + timedelta(days=30), LATER)


@pytest.fixture
def company() -> Company:
    """Odd prices that change, a gap, a tie to round to even, use from October, and running jobs."""
    company = a_company()
    a_rate_card(company.organization, {"guaranteed": 1_234_567_891}, end=5 * HOUR + 7)
    a_rate_card(company.organization, {"guaranteed": 987_654_321}, start=6 * HOUR)
    a_rate_card(company.organization, {"borrowed": 1_800_000}, start=-A_DAY)
    a_metered_attempt(
        company.nlp, -HOUR, 7 * HOUR + 11, mgpu=333, multiplier_ppm=1_333_333,
        guaranteed_mgpu=100, classes=[(HOUR, 200), (2 * HOUR + 1, 0)],
    )  # fmt: skip
    a_metered_attempt(company.vision, 5, None, mgpu=64_001)
    a_metered_attempt(company.inference, 0, 1, mgpu=1, guaranteed_mgpu=0)
    a_metered_attempt(company.nlp, 0, HOUR, pool=a_pool("cpu", device="cpu"), mgpu=4_000)
    a_metered_attempt(company.nlp, -2 * A_DAY, -A_DAY)
    an_organization("empty")
    return company


def test_a_month_agrees_to_the_unit(company: Company) -> None:
    """The audit, the charges and the report have the same sums; October's use is in none.

    Planted, in the audit: no cost of the use before the month taken off; half rounded up."""
    lines = audit_month(2026, 11, now=LATER)
    assert [(line.pool, line.usage_class, line.is_equal) for line in lines] == [
        ("cpu", "guaranteed", True),
        ("h100", "borrowed", True),
        ("h100", "guaranteed", True),
    ]
    finance = an_actor(company.organization, Role.FINANCE)
    report = chargeback(actor=finance, period=NOVEMBER)
    assert sum(line.audited_mgpu_s for line in lines) == report.totals.mgpu_s
    assert sum(line.audited_nano for line in lines) == report.totals.cost_nano
    assert lines[0].audited_nano == 0


def test_a_month_is_one_of_the_organizations_zone(company: Company) -> None:
    """New York's October ends at 4 o'clock UTC of 1 November."""
    OrganizationPolicy.objects.update_or_create(
        organization=company.organization, defaults={"time_zone": "America/New_York"}
    )
    october = audit_month(2026, 10, now=at(4 * HOUR))
    assert all(line.is_equal for line in october)
    finance = an_actor(company.organization, Role.FINANCE)
    period = Period(at(4 * HOUR - 31 * A_DAY), at(4 * HOUR), at(4 * HOUR))
    report = chargeback(actor=finance, period=period)
    assert sum(line.audited_nano for line in october) == report.totals.cost_nano
    assert audit_month(2027, 1, now=LATER) == []


def test_a_wrong_charge_is_found(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    """One nano too much for one attempt, and one mGPU-second too little, are both found."""
    made = charges._charge

    def wrong(*arguments: object) -> charges.Charge:
        row = made(*arguments)  # type: ignore[arg-type]
        if row.pool == "cpu":
            return row._replace(mgpu_s=row.mgpu_s - 1)
        return row._replace(billed_cost_nano=row.billed_cost_nano + 1)

    monkeypatch.setattr(charges, "_charge", wrong)
    assert [line.is_equal for line in audit_month(2026, 11, now=LATER)] == [False] * 3


def test_the_daily_audit_logs_each_difference(
    company: Company, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is of this month and of the last one, across the year.

    Planted: this month alone."""
    assert audit_lately(LATER) == 0
    asked: list[tuple[int, int]] = []

    def differing(year: int, month: int, *, now: datetime) -> list[AuditedLine]:
        asked.append((year, month))
        return [AuditedLine("ai-company", "h100", "borrowed", 1, 1, 2, month)]

    monkeypatch.setattr(auditing, "audit_month", differing)
    assert audit_lately(datetime(2027, 1, 2, tzinfo=UTC)) == 2
    assert asked == [(2026, 12), (2027, 1)]
    assert "audited_nano=12" in caplog.text


def test_a_lost_segment_is_lost_in_both(company: Company) -> None:
    """The audit starts from the segments. Their loss is for the reconciliation to find."""
    UsageSegment.objects.all().delete()
    assert audit_month(2026, 11, now=LATER) == []


def test_the_command(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails where a line differs, and names it."""
    out = StringIO()
    call_command("audit_charges", month="2026-11", stdout=out)
    assert out.getvalue().count(": equal\n") == 3
    with pytest.raises(CommandError, match="--month must be a month such as 2026-11"):
        call_command("audit_charges", month="11/2026")

    def differing(year: int, month: int, *, now: datetime) -> list[AuditedLine]:
        return [AuditedLine("ai-company", "h100", "borrowed", 1, 1, 2, 3)]

    monkeypatch.setattr("portal.management.commands.audit_charges.audit_month", differing)
    out = StringIO()
    with pytest.raises(CommandError, match="The charges differ from the audit"):
        call_command("audit_charges", month="2026-11", stdout=out)
    assert out.getvalue() == (
        "ai-company h100 borrowed: charged 1 mGPU-s and 2 nano, audited 1 mGPU-s and 3 nano: "
        "DIFFERENT\n"
    )
    assert auditing.audit_month is not differing
