"""The report of closed months beside charges, statements and the ledger."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from builders.api_callers import by_token
from builders.billing_builders import a_metered_attempt, a_rate_card
from builders.period_builders import DUE, GPU_HOUR, close
from builders.portal_builders import Company, a_company, an_actor, an_organization
from chargeback.checks import MonthCheck, closed_months
from chargeback.reports import Asked
from periods.posting import posted_nano
from periods.statements import Unit, credit_statement, issue_statements
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NANO = 1_000_000_000
JANUARY = datetime(2027, 1, 4, tzinfo=UTC)
QUERY = "start=2026-11-01&end=2026-12-01"


@pytest.fixture
def company() -> Company:
    """November with 1 GPU-hour of nlp at 2 EUR, and 3 of inference."""
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp, mgpu=1_000)
    a_metered_attempt(company.inference, mgpu=3_000)
    return company


@pytest.fixture
def fiona(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE, "fiona")


def checks(actor: Actor, now: datetime = DUE) -> list[MonthCheck]:
    asked = Asked(date(2026, 11, 1), date(2027, 1, 1), min(now, JANUARY))
    return closed_months(actor=actor, asked=asked, now=now)


def test_a_closed_month_is_as_billed(company: Company, fiona: Actor) -> None:
    """Its statements are in the ledger, also after one of them was credited."""
    assert checks(fiona) == []
    period = close(company, fiona, "2026-11", "known")
    as_billed = MonthCheck(
        organization="ai-company",
        month="2026-11",
        currency="EUR",
        closed_at=period.closed_at,
        report_mgpu_s=4 * GPU_HOUR,
        billed_mgpu_s=4 * GPU_HOUR,
        report_nano=8 * NANO,
        billed_nano=8 * NANO,
        corrections_nano=0,
        statements_nano=None,
        ledger_nano=None,
    )
    assert checks(fiona) == [as_billed]
    assert (as_billed.is_as_billed, as_billed.is_posted, as_billed.advice) == (True, True, "")
    issued = issue_statements(company.organization.pk, "2026-11", Unit.TEAM, actor=fiona, now=DUE)
    (check,) = checks(fiona)
    assert (check.statements_nano, check.ledger_nano) == (8 * NANO, 8 * NANO)
    credit_statement(issued[0].pk, "wrong", actor=fiona, now=DUE)
    (check,) = checks(fiona)
    assert check.statements_nano == check.ledger_nano
    assert check.statements_nano in (2 * NANO, 6 * NANO)


def test_a_late_fact_is_a_difference_until_the_next_month_corrects_it(
    company: Company, fiona: Actor
) -> None:
    """Against: charges without corrections of later months (red for ever)."""
    close(company, fiona, "2026-11", "known")
    a_metered_attempt(company.nlp, mgpu=2_000)
    (check,) = checks(fiona)
    assert (check.difference_nano, check.is_as_billed) == (4 * NANO, False)
    assert "Close the next month" in check.advice
    close(company, fiona, "2026-12", "known", now=JANUARY)
    december, november = checks(fiona, JANUARY)
    assert (december.month, december.report_nano, december.is_as_billed) == ("2026-12", 0, True)
    assert (november.billed_nano, november.corrections_nano) == (8 * NANO, 4 * NANO)
    assert (november.is_as_billed, november.advice) == (True, "")


def test_a_statement_that_is_not_posted_is_red(
    company: Company, fiona: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: the statements compared with themselves."""
    close(company, fiona, "2026-11", "known")
    monkeypatch.setattr("periods.statements.post_statements", lambda *_, **__: None)
    issued = issue_statements(company.organization.pk, "2026-11", Unit.TEAM, actor=fiona, now=DUE)
    assert posted_nano(issued) == 0
    (check,) = checks(fiona)
    assert (check.statements_nano, check.ledger_nano, check.is_posted) == (8 * NANO, 0, False)
    assert "`tidegate-admin check-ledgers`" in check.advice


def test_closed_months_over_rest(company: Company, fiona: Actor) -> None:
    close(company, fiona, "2026-11", "known")
    (month,) = (
        by_token(fiona.user).get(f"reports/chargeback/closed-months?{QUERY}").json()["months"]
    )
    month.pop("closed_at")
    assert month == {
        "organization": "ai-company",
        "month": "2026-11",
        "currency": "EUR",
        "report_mgpu_s": 4 * GPU_HOUR,
        "billed_mgpu_s": 4 * GPU_HOUR,
        "report_nano": 8 * NANO,
        "billed_nano": 8 * NANO,
        "corrections_nano": 0,
        "difference_nano": 0,
        "is_as_billed": True,
        "statements_nano": None,
        "ledger_nano": None,
        "is_posted": True,
        "advice": "",
    }


def test_only_those_who_see_a_whole_organization_see_its_check(
    company: Company, fiona: Actor
) -> None:
    close(company, fiona, "2026-11", "known")
    for node, role in (
        (company.research, Role.DEPARTMENT_ADMIN),
        (an_organization("elsewhere"), Role.FINANCE),
    ):
        assert checks(an_actor(node, role)) == []
    assert len(checks(an_actor(None, Role.PLATFORM_ADMIN))) == 1
