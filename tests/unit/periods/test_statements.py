"""Statements: numbers without gaps, cents that sum to the charges, and the ledger of money."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from audit.models import AuditEvent
from billing.models import RateCard
from builders.billing_builders import a_metered_attempt, a_rate_card, record_fault, terms_of
from builders.period_builders import DUE, GPU_HOUR, close
from builders.portal_builders import Company, a_company, a_team, an_actor
from ledger.accounts import find_account
from ledger.checking import check_ledgers
from ledger.models import Transfer
from periods import statements
from periods.models import BillingPeriod
from periods.posting import post_statements
from periods.statement_models import Statement, StatementCounter, StatementLine
from periods.statements import Unit, cents_of, credit_statement, issue_statements
from primitives.errors import Conflict, Forbidden, InvalidRequest, NotFound
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600
CENT = 10_000_000
JANUARY = datetime(2027, 1, 4, tzinfo=UTC)


@pytest.fixture
def company() -> Company:
    company = a_company()
    a_rate_card(company.organization)
    return company


@pytest.fixture
def fiona(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE, "fiona")


def issue(
    company: Company,
    actor: Actor,
    month: str = "2026-11",
    unit: Unit = Unit.DEPARTMENT,
    **more: date,
) -> list[Statement]:
    return issue_statements(
        company.organization.pk, month, unit, actor=actor, now=more.pop("now", DUE), **more
    )


def a_closed_month(company: Company, actor: Actor) -> BillingPeriod:
    """November with 8 GPU-hours of nlp (16 EUR), 1 of vision (2 EUR) and 3 of inference (6 EUR)."""
    a_metered_attempt(company.nlp)
    a_metered_attempt(company.vision, mgpu=1_000)
    a_metered_attempt(company.inference, mgpu=3_000)
    return close(company, actor, "2026-11", "known")


def balance(owner: Node, kind: str = "team") -> int | None:
    """Return the balance of an account in EUR, or None where it was never opened."""
    account = find_account("money:EUR", str(owner.pk), kind)
    return account and account.balance // 10**9


def test_each_department_gets_a_statement(company: Company, fiona: Actor) -> None:
    """A team right below the organization gets its own."""
    lab = a_team(company.organization, "lab")
    a_metered_attempt(lab, mgpu=500)
    a_closed_month(company, fiona)
    issued = issue(company, fiona, due_on=date(2026, 12, 31))
    assert [(one.number, one.unit_path, one.unit_name, one.total_cents) for one in issued] == [
        ("2026-00001", "ai-company/lab", "lab", 100),
        ("2026-00002", "ai-company/production", "production", 600),
        ("2026-00003", "ai-company/research", "research", 1_800),
    ]
    lines = issued[2].lines.order_by("number")
    assert [
        (line.number, line.team_path, line.usage_class, line.mgpu_s, line.amount_cents)
        for line in lines
    ] == [
        (1, "ai-company/research/nlp", "guaranteed", 8 * GPU_HOUR, 1_600),
        (2, "ai-company/research/vision", "guaranteed", GPU_HOUR, 200),
    ]
    assert (issued[0].currency, issued[0].due_on) == ("EUR", date(2026, 12, 31))
    event = AuditEvent.objects.get(action="statement.issued", subject_id=str(issued[2].pk))
    assert (event.detail["number"], event.detail["total_cents"]) == ("2026-00003", 1_800)


def test_statements_are_posted_in_the_ledger_of_money(company: Company, fiona: Actor) -> None:
    """Each team owes its lines, revenue has their sum, and posting twice changes nothing.

    Planted: one transfer for the whole department."""
    a_closed_month(company, fiona)
    issued = issue(company, fiona)
    post_statements(issued, now=DUE)
    assert [balance(one) for one in (company.nlp, company.vision, company.inference)] == [
        *(-16, -2),
        -6,
    ]
    assert balance(company.organization, "revenue") == 24
    assert Transfer.objects.count() == 3
    assert check_ledgers() == {"money:EUR": []}


def test_a_credit_note_takes_all_back(company: Company, fiona: Actor) -> None:
    """Then the charges may be issued anew, by team. A statement is credited once.

    Planted: charges of a credited statement that count as issued."""
    a_closed_month(company, fiona)
    _, research = issue(company, fiona)
    note = credit_statement(research.pk, "wrong unit", actor=fiona, now=DUE)
    assert (note.number, note.kind, note.total_cents) == ("2026-00003", "credit_note", -1_800)
    assert (note.unit_path, note.reason, note.credits) == (
        *("ai-company/research", "wrong unit"),
        research,
    )
    assert sorted(note.lines.values_list("amount_cents", flat=True)) == [-1_600, -200]
    assert [balance(company.nlp), balance(company.organization, "revenue")] == [0, 6]
    assert check_ledgers() == {"money:EUR": []}
    for again, words in ((research, "credited already"), (note, "is a credit note")):
        with pytest.raises(Conflict, match=words):
            credit_statement(again.pk, "again", actor=fiona, now=DUE)
    anew = issue(company, fiona, unit=Unit.TEAM)
    assert [(one.number, one.unit_path) for one in anew] == [
        ("2026-00004", "ai-company/research/nlp"),
        ("2026-00005", "ai-company/research/vision"),
    ]
    assert balance(company.nlp) == -16
    with pytest.raises(Conflict, match="All charges of 2026-11 have a statement"):
        issue(company, fiona)


def test_a_correction_is_a_line_that_names_its_month(company: Company, fiona: Actor) -> None:
    """December's statement gives back what November charged for a node that failed.

    Against: corrections in the line of the month that books them."""
    attempt = a_metered_attempt(company.nlp)
    close(company, fiona, "2026-11", "known")
    issue(company, fiona)
    record_fault(attempt.pk, attempt.segments.get().start, DUE, "node_failed")
    close(company, fiona, "2026-12", "known", JANUARY)
    (statement,) = issue(company, fiona, "2026-12", now=JANUARY)
    assert (statement.number, statement.total_cents) == ("2027-00001", -1_600)
    assert [
        (line.month, line.is_correction, line.usage_class, line.mgpu_s, line.amount_cents)
        for line in statement.lines.order_by("number")
    ] == [
        (date(2026, 11, 1), True, "fault", 8 * GPU_HOUR, 0),
        (date(2026, 11, 1), True, "guaranteed", -8 * GPU_HOUR, -1_600),
    ]
    assert [balance(company.nlp), balance(company.organization, "revenue")] == [0, 0]


@pytest.mark.parametrize(
    ("costs", "cents"),
    [
        ([4_000_000] * 3, [1, 0, 0]),
        ([-4_000_000] * 3, [0, 0, -1]),
        ([2_000_000, 6_000_000, 5_000_000], [0, 1, 0]),
        ([5_000_000], [0]),
        ([15_000_000], [2]),
        ([25_000_001, -5_000_000], [3, -1]),
        ([], []),
    ],
)
def test_cents_are_by_largest_remainder(costs: list[int], cents: list[int]) -> None:
    """The sum is the total rounded half to even, and each is less than a cent from its cost.

    Planted: each cost rounded for itself; the smallest remainders first."""
    assert cents_of(costs, "EUR") == cents


def test_a_currency_without_cents_is_billed_in_whole_units() -> None:
    """0.5, 0.7 and 1.9 yen are 3.1. Planted: hundredths of a yen."""
    yen = [500_000_000, 700_000_000, 1_900_000_000]
    assert cents_of(yen, "JPY") == [0, 100, 200]
    assert cents_of([5_000_000, 16_000_000], "KWD") == [0, 2]


def test_the_cents_of_all_statements_sum_to_the_month(company: Company, fiona: Actor) -> None:
    """Three units with 0.4 cents each have one cent together.

    Planted: the remainders of each statement for itself."""
    for number in range(3):
        a_metered_attempt(a_team(company.research, f"t{number}"), 0, 72, mgpu=100)
    close(company, fiona, "2026-11", "known")
    issued = issue(company, fiona, unit=Unit.TEAM)
    assert [one.total_cents for one in issued] == [1, 0, 0]
    assert sum(line.cost_nano for one in issued for line in one.lines.all()) == 3 * CENT * 4 // 10


def test_numbers_have_no_gaps_after_a_rollback(company: Company, fiona: Actor) -> None:
    """A failed issue gives its number back. Another organization counts for itself.

    Against: a sequence of the database, which never goes back."""
    a_closed_month(company, fiona)
    with transaction.atomic():
        assert len(issue(company, fiona)) == 2
        transaction.set_rollback(True)
    assert [one.number for one in issue(company, fiona)] == ["2026-00001", "2026-00002"]
    other = a_company("elsewhere")
    a_rate_card(other.organization)
    gina = an_actor(other.organization, Role.FINANCE, "gina")
    a_closed_month(other, gina)
    assert [one.number for one in issue(other, gina)] == ["2026-00001", "2026-00002"]


def test_what_cannot_be_issued_is_refused(company: Company, fiona: Actor) -> None:
    a_metered_attempt(company.nlp)
    with pytest.raises(Conflict, match="2026-11 is not closed"):
        issue(company, fiona)
    close(company, fiona, "2026-11", "known")
    with pytest.raises(InvalidRequest, match="due date has passed"):
        issue(company, fiona, due_on=date(2026, 12, 3))
    auditor = an_actor(company.organization, Role.AUDITOR)
    with pytest.raises(Forbidden):
        issue(company, auditor)
    head = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    with pytest.raises(NotFound):
        issue(company, head)
    (statement,) = issue(company, fiona)
    for actor, error in ((auditor, Forbidden), (head, NotFound)):
        with pytest.raises(error):
            credit_statement(statement.pk, "no", actor=actor, now=DUE)
    free = a_company("free")
    gina = an_actor(free.organization, Role.FINANCE, "gina")
    a_metered_attempt(free.nlp)
    close(free, gina, "2026-11", "known")
    with pytest.raises(Conflict, match="has no currency"):
        issue(free, gina)


def test_the_database_refuses_every_change_of_a_statement(company: Company, fiona: Actor) -> None:
    a_closed_month(company, fiona)
    _, research = issue(company, fiona)
    line = research.lines.order_by("number")[0]
    for change in (
        lambda: Statement.objects.filter(pk=research.pk).update(total_cents=1),
        lambda: Statement.objects.filter(pk=research.pk).delete(),
        lambda: StatementLine.objects.filter(pk=line.pk).update(amount_cents=1),
        lambda: StatementLine.objects.filter(pk=line.pk).delete(),
        lambda: StatementCounter.objects.update(last=7),
        lambda: StatementCounter.objects.all().delete(),
        lambda: StatementCounter.objects.create(
            organization=company.organization, year=2030, last=1
        ),
    ):
        with pytest.raises(DatabaseError), transaction.atomic():
            change()
    line.pk, line.number = None, 3
    with pytest.raises(IntegrityError, match="gets no more lines"), transaction.atomic():
        line.save(force_insert=True)


def test_the_database_refuses_statements_that_cannot_be(company: Company, fiona: Actor) -> None:
    """A total that is not the sum, charges issued twice, and a credit of another amount."""
    period = a_closed_month(company, fiona)
    _, research = issue(company, fiona)

    def a_copy(cents: int, **changes: object) -> None:
        values = {
            field.attname: getattr(research, field.attname) for field in research._meta.fields
        }
        copy = Statement(**{**values, "id": None, "line_count": 1, "total_cents": cents, **changes})
        copy.pk = Statement().pk
        line = research.lines.order_by("number")[0]
        line.pk, line.statement, line.number, line.amount_cents = None, copy, 1, 1_600
        line.save(force_insert=True)
        copy.save(force_insert=True)

    for changes, words in (
        ({"cents": 1}, "not the sum of its lines"),
        ({"cents": 1_600, "line_count": 2}, "not the sum of its lines"),
        ({"cents": 1_600}, "has a statement of this month already"),
        (
            {"cents": 1_600, "kind": "credit_note", "credits_id": research.pk, "reason": "x"},
            "not of its statement",
        ),
        ({"cents": 1_600, "kind": "credit_note"}, "not of its statement"),
    ):
        with pytest.raises(IntegrityError, match=words), transaction.atomic():
            a_copy(**changes)
    assert period.statements.count() == 2


def test_the_bound_of_lines(
    company: Company, fiona: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "LINES_MAX", 2)
    a_closed_month(company, fiona)
    with pytest.raises(Conflict, match="3 lines are too many; at most 2"):
        issue(company, fiona)


def test_commitments_and_top_ups_are_lines_and_showback_is_none(
    company: Company, fiona: Actor
) -> None:
    """A commitment of a day, a minimum of two hours on the next, and a day of showback.

    Use that the commitment pays is in the line of its class, at no cost. A team with showback alone
    gets no statement. Planted: showback billed as lines that cost nothing."""
    card, day = RateCard.objects.get(), 24 * HOUR
    terms_of(card, "commitment", start=0, end=day)
    terms_of(card, "pay_per_use", start=day, end=2 * day, minimum_s=2 * HOUR)
    terms_of(card, "showback", start=2 * day)
    for number in range(3):
        a_metered_attempt(company.nlp, number * day, number * day + HOUR, mgpu=1_000)
    a_metered_attempt(a_team(company.organization, "lab"), 2 * day, 2 * day + HOUR, mgpu=1_000)
    close(company, fiona, "2026-11", "known")
    issued = {one.unit_path: one for one in issue(company, fiona, unit=Unit.TEAM)}
    assert {path: one.total_cents for path, one in issued.items()} == {
        "ai-company/production/inference": 76_800,
        "ai-company/research/nlp": 38_800,
        "ai-company/research/vision": 38_400,
    }
    lines = issued["ai-company/research/nlp"].lines.order_by("number")
    assert [(line.usage_class, line.mgpu_s // GPU_HOUR, line.amount_cents) for line in lines] == [
        ("commitment", 8 * 24, 38_400),
        ("guaranteed", 2, 200),
        ("top_up", 1, 200),
    ]
