"""Adjustments and refunds on statements: lines of their own, in the digest and in the ledger."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from django.db import IntegrityError, transaction

from adjustments.adjusting import approve_adjustment, ask_for_adjustment
from adjustments.disputes import DisputedRow, accept_dispute, open_dispute, open_row_dispute
from adjustments.models import Adjustment
from builders.adjustment_builders import a_finance_person, asked
from builders.api_callers import by_token
from builders.billing_builders import a_metered_attempt, a_rate_card
from builders.period_builders import DUE, an_empty_closed_month, close
from builders.portal_builders import Company, a_company, an_actor
from ledger.accounts import find_account
from ledger.checking import check_ledgers
from periods.digests import digest_of
from periods.documents import document_of
from periods.models import BillingPeriod
from periods.statement_models import Statement, StatementLine
from periods.statements import Unit, credit_statement, issue_statements
from primitives.errors import Conflict
from primitives.units import NANO_PER_UNIT
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

IN_NOVEMBER = datetime(2026, 11, 20, tzinfo=UTC)
JANUARY = datetime(2027, 1, 4, tzinfo=UTC)


@pytest.fixture
def company() -> Company:
    """In November nlp uses 8 GPU-hours, which cost 16 EUR."""
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp)
    return company


@pytest.fixture
def fiona(company: Company) -> Actor:
    return a_finance_person(company, "fiona")


def adjust(company: Company, actor: Actor, units: int, **changes: object) -> Adjustment:
    return ask_for_adjustment(asked(company, units, **changes), actor=actor, now=IN_NOVEMBER)


def issue(
    company: Company, actor: Actor, month: str = "2026-11", now: datetime = DUE
) -> list[Statement]:
    return issue_statements(company.organization.pk, month, Unit.TEAM, actor=actor, now=now)


def lines_of(statement: Statement) -> list[tuple[str, str, str, bool, int]]:
    return [
        (
            *(line.usage_class, line.pool, f"{line.month:%Y-%m}", line.is_correction),
            line.amount_cents,
        )
        for line in statement.lines_in_order
    ]


def balance(owner: Node, kind: str = "team") -> int:
    """Return the balance of an account in EUR."""
    account = find_account("money:EUR", str(owner.pk), kind)
    assert account is not None
    return account.balance // NANO_PER_UNIT


def test_adjustments_of_the_month_are_lines_of_their_own(company: Company, fiona: Actor) -> None:
    """vision has no use, only a credit. Another month's adjustment and a pending one wait.

    Against: pending adjustments count; those of all months."""
    adjust(company, fiona, 5, pool=company.pool)
    adjust(company, fiona, 7)
    adjust(company, fiona, -20, team=company.vision)
    adjust(company, fiona, 9, month="2026-10")
    adjust(company, fiona, 5_000)
    an_empty_closed_month(company.organization, date(2026, 10, 1))
    close(company, fiona, "2026-11", "known")
    nlp, vision = issue(company, fiona)
    assert lines_of(nlp) == [
        ("guaranteed", "h100", "2026-11", False, 1_600),
        ("adjustment", "h100", "2026-11", False, 500),
        ("adjustment", "", "2026-11", False, 700),
    ]
    assert lines_of(vision) == [("adjustment", "", "2026-11", False, -2_000)]
    assert (nlp.total_cents, vision.total_cents) == (2_800, -2_000)
    assert document_of(nlp)["rows"][2] == [
        *("ai-company/research/nlp: storage of October", "", "adjustment", "2026-11", "", "7.00"),
    ]
    assert [balance(company.nlp), balance(company.vision)] == [-28, 20]
    assert balance(company.organization, "revenue") == 8
    assert check_ledgers() == {"money:EUR": []}


def test_a_refund_after_the_closing_is_a_correction_in_the_next_month(
    company: Company, fiona: Actor
) -> None:
    """November stays as it was, and December's statement names it. Against: December's name."""
    lena = an_actor(company.nlp, Role.TEAM_LEAD)
    attempt = a_metered_attempt(company.nlp, 7_200, 10_800, pool=company.pool)
    november = close(company, fiona, "2026-11", "known")
    (before,) = issue(company, fiona)
    dispute = open_dispute(attempt.pk, "the node was broken", actor=lena, now=DUE)
    accept_dispute(dispute.pk, 4 * NANO_PER_UNIT, note="", actor=fiona, now=DUE)
    assert digest_of(november, november.rows.order_by("number")) == november.digest
    close(company, fiona, "2026-12", "known", JANUARY)
    (after,) = issue(company, fiona, "2026-12", JANUARY)
    assert before.total_cents == 3_200
    assert lines_of(after) == [("refund", "h100", "2026-11", True, -400)]
    assert [balance(company.nlp), balance(company.organization, "revenue")] == [-28, 28]


def test_adjustments_before_the_first_use_have_a_statement(company: Company, fiona: Actor) -> None:
    """The first use is in November, and September has an adjustment, so the months begin there.

    Planted: the months from the first use on.
    """
    adjust(company, fiona, 9, month="2026-09")
    shown = by_token(fiona.user).get(f"organizations/{company.organization.pk}/periods")
    assert [each["month"] for each in shown.json()["items"]] == ["2026-11", "2026-10", "2026-09"]
    close(company, fiona, "2026-09", "")
    (statement,) = issue(company, fiona, "2026-09")
    assert lines_of(statement) == [("adjustment", "", "2026-09", False, 900)]


def test_the_refund_of_a_row_is_a_line_that_names_its_month(company: Company, fiona: Actor) -> None:
    """Against: the month of the closing, and a refund that needs an attempt."""
    lena = an_actor(company.nlp, Role.TEAM_LEAD)
    a_metered_attempt(company.nlp, 7_200, 10_800, pool=company.pool)
    close(company, fiona, "2026-11", "known")
    row = DisputedRow(company.nlp, company.pool, "2026-11")
    dispute = open_row_dispute(row, "a broken rack", actor=lena, now=DUE)
    accept_dispute(dispute.pk, 4 * NANO_PER_UNIT, note="", actor=fiona, now=DUE)
    close(company, fiona, "2026-12", "known", JANUARY)
    (after,) = issue(company, fiona, "2026-12", JANUARY)
    assert lines_of(after) == [("refund", "h100", "2026-11", True, -400)]


def test_the_digest_covers_adjustments(company: Company, fiona: Actor) -> None:
    """A month without any keeps the digest of its charges. Against: a digest without them."""
    with transaction.atomic():
        bare = close(company, fiona, "2026-11", "known").digest
        transaction.set_rollback(True)
    adjust(company, fiona, 5)
    closed = close(company, fiona, "2026-11", "known")
    assert digest_of(closed, closed.rows.order_by("number")) == closed.digest != bare
    shown = by_token(fiona.user).get(f"organizations/{company.organization.pk}/periods/2026-11")
    assert (shown.json()["adjustments_nano"], shown.json()["digest"]) == (
        5 * NANO_PER_UNIT,
        closed.digest,
    )


def test_a_closed_month_gets_no_adjustment(company: Company, fiona: Actor) -> None:
    """One that waited is not approved any more, and none is on two statements."""
    waiting = adjust(company, fiona, 5_000)
    adjust(company, fiona, 5)
    close(company, fiona, "2026-11", "known", datetime(2026, 12, 4, 1, tzinfo=UTC))
    with pytest.raises(Conflict, match="is closed by now"):
        approve_adjustment(
            waiting.pk, note="", actor=a_finance_person(company, "flo"), now=IN_NOVEMBER
        )
    (first,) = issue(company, fiona)
    note = credit_statement(first.pk, "wrong unit", actor=fiona, now=DUE)
    assert lines_of(note)[1] == ("adjustment", "", "2026-11", False, -500)
    (again,) = issue(company, fiona)
    assert again.total_cents == first.total_cents == 2_100
    with pytest.raises(Conflict, match="have a statement"):
        issue(company, fiona)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"usage_class": "guaranteed"}, "adjustments_have_lines_of_their_own"),
        ({"mgpu_s": 1}, "adjustments_have_lines_of_their_own"),
        ({"adjustment": None}, "adjustments_have_lines_of_their_own"),
        ({"number": 2}, "statement_has_an_adjustment_once"),
    ],
)
def test_the_database_refuses(
    company: Company, fiona: Actor, change: dict[str, object], name: str
) -> None:
    adjustment = adjust(company, fiona, 5)
    period: BillingPeriod = an_empty_closed_month(company.organization, date(2026, 10, 1))
    values = {
        "statement": Statement(period=period),
        "number": 1,
        "month": date(2026, 10, 1),
        "is_correction": False,
        "team": company.nlp,
        "team_path": company.nlp.display_path,
        "device": "gpu",
        "usage_class": "adjustment",
        "adjustment": adjustment,
        "mgpu_s": 0,
        "cost_nano": 5,
        "amount_cents": 0,
    }
    lines = [StatementLine(**values), StatementLine(**values | {"number": 2} | change)]
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        StatementLine.objects.bulk_create(lines)
