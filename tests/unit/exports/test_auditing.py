"""The audit of a month by DuckDB: it agrees to the unit, and it finds what it should."""

from __future__ import annotations

from datetime import datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from billing import charges
from billing.metering import Observed, UnpaidSpan, record_observed, record_unpaid
from billing.models import RateCard, UsageSegment
from billing.periods import Period
from builders.billing_builders import DAY, LATER, a_metered_attempt, a_rate_card, at, terms_of
from builders.chargeback_builders import report_of
from builders.portal_builders import Company, a_company, a_pool, an_actor, an_organization
from exports import auditing
from exports.auditing import AuditedLine, audit_month
from quotas.models import OrganizationPolicy, Quota, QuotaChange
from tenants.models import FormerArchiving, Node
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
    report = report_of(finance, NOVEMBER)
    assert sum(line.audited_mgpu_s for line in lines) == report.totals.mgpu_s
    assert sum(line.audited_nano for line in lines) == report.totals.cost_nano
    assert lines[0].audited_nano == 0


def test_a_month_with_terms_agrees_to_the_unit(company: Company) -> None:
    """Modes that change, odd multipliers, minimums, increments, and a guarantee that changes.

    Vision and nlp were archived for some time, and vision is again.

    Planted, in the audit: former archivings left out. Against, in the audit: the terms of the
    month's start; use inside a commitment billed; half rounded up in prices; a top-up at the price
    of the first second.
    """
    card = RateCard.objects.get()
    terms_of(card, "commitment", start=-A_DAY, end=HOUR + 1, guaranteed_ppm=500_000)
    terms_of(card, "showback", start=2 * HOUR, end=3 * HOUR)
    terms_of(
        card, "pay_per_use", start=4 * HOUR, end=9 * A_DAY, guaranteed_ppm=333_333,
        unpaid_ppm=123_457, minimum_s=500, increment_s=60,
    )  # fmt: skip
    terms_of(card, "commitment", start=9 * A_DAY + 1, borrowed_ppm=1_500_000, increment_s=3_600)
    for start in (4 * HOUR, 10 * A_DAY):
        a_metered_attempt(
            company.nlp, start, start + 77, mgpu=777, guaranteed_mgpu=333, multiplier_ppm=1_000_001
        )
    quota = Quota.objects.get(node=company.vision)
    QuotaChange.objects.create(
        quota=quota,
        at=at(10 * A_DAY),
        before={"guaranteed_mgpu": 7_777, "lend_limit_mgpu": None},
        after={"guaranteed_mgpu": 8_000, "lend_limit_mgpu": None},
        reason="x",
    )
    for slug, start, end in (
        ("vision", HOUR, 9 * A_DAY + HOUR),
        ("vision", 11 * A_DAY, 12 * A_DAY + 1),
        ("nlp", 9 * A_DAY + HOUR, 9 * A_DAY + 2 * HOUR),
    ):
        FormerArchiving.objects.create(
            node=Node.objects.get(slug=slug), start=at(start), end=at(end)
        )
    Node.objects.filter(slug="vision").update(archived_at=at(13 * A_DAY))
    lines = audit_month(2026, 11, now=LATER)
    assert [(line.pool, line.usage_class, line.is_equal) for line in lines] == [
        ("cpu", "guaranteed", True),
        ("h100", "borrowed", True),
        ("h100", "commitment", True),
        ("h100", "guaranteed", True),
        ("h100", "top_up", True),
    ]
    report = report_of(an_actor(company.organization, Role.FINANCE), NOVEMBER)
    assert sum(line.audited_nano for line in lines) == report.totals.cost_nano
    assert all(line.audited_nano > 0 for line in lines[1:])


def test_a_month_is_one_of_the_organizations_zone(company: Company) -> None:
    """New York's October ends at 4 o'clock UTC of 1 November."""
    OrganizationPolicy.objects.update_or_create(
        organization=company.organization, defaults={"time_zone": "America/New_York"}
    )
    october = audit_month(2026, 10, now=at(4 * HOUR))
    assert all(line.is_equal for line in october)
    finance = an_actor(company.organization, Role.FINANCE)
    period = Period(at(4 * HOUR - 31 * A_DAY), at(4 * HOUR), at(4 * HOUR))
    report = report_of(finance, period)
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


def test_unpaid_and_faulty_use_are_audited(company: Company) -> None:
    """Unpaid use has its own price for some hours, and that of borrowed use in between.

    Planted, in the audit: unpaid use counted as borrowed; a fault with a price; the gap of the last
    price left out."""
    a_rate_card(company.organization, {"unpaid": 333_333_333}, start=2 * HOUR, end=3 * HOUR)
    a_rate_card(company.organization, {"unpaid": 777_777_777}, start=5 * HOUR, end=6 * HOUR + 1)
    unpaid = a_metered_attempt(company.nlp, -5, 9 * HOUR, mgpu=777, guaranteed_mgpu=111)
    record_unpaid(
        [UnpaidSpan(unpaid.pk, at(0), at(8 * HOUR + 13), 555)],
        organization_id=company.organization.pk,
        pool_id=company.pool.pk,
        start=at(0),
        end=at(9 * HOUR),
        now=LATER,
    )
    faulty = a_metered_attempt(company.vision, 0, 2 * HOUR, mgpu=64_001, guaranteed_mgpu=1)
    record_observed([Observed(faulty.pk, "fault", at(HOUR), reason="node_failed")], LATER)
    lines = {
        line.usage_class: line for line in audit_month(2026, 11, now=LATER) if line.pool == "h100"
    }
    assert {name: line.is_equal for name, line in lines.items()} == {
        "borrowed": True, "fault": True, "guaranteed": True, "unpaid": True,
    }  # fmt: skip
    assert lines["unpaid"].audited_mgpu_s == 555 * (8 * HOUR + 13)
    assert (lines["fault"].audited_mgpu_s, lines["fault"].audited_nano) == (64_001 * HOUR, 0)


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
