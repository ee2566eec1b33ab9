"""Refunds and the charges that they are about: over months, after late faults, and by place."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction

from adjustments.disputes import DisputedRow, accept_dispute, open_dispute, open_row_dispute
from adjustments.models import Adjustment, Dispute
from audit.models import AuditEvent
from billing.models import MeteredAttempt
from builders.adjustment_builders import (
    CHARGE_NANO,
    a_charged_attempt,
    a_finance_person,
    priced,
)
from builders.billing_builders import a_metered_attempt, at, record_fault
from builders.period_builders import DUE, close
from builders.portal_builders import Company, a_company, a_department, an_actor
from periods.code_models import CodeKind
from periods.codes import NewCode, set_codes
from periods.statements import Unit, issue_statements
from primitives.errors import Conflict, Forbidden
from quotas.models import Quota
from tenants.access import Actor
from tenants.moving import move_node
from tenants.roles import Permission, Role, Scope

pytestmark = pytest.mark.django_db

JANUARY = datetime(2027, 1, 4, tzinfo=UTC)


@pytest.fixture
def company() -> Company:
    company = a_company()
    priced(company)
    return company


@pytest.fixture
def lena(company: Company) -> Actor:
    return an_actor(company.nlp, Role.TEAM_LEAD, "lena")


@pytest.fixture
def fay(company: Company) -> Actor:
    return a_finance_person(company, "fay")


def refund(dispute: Dispute, fay: Actor, amount_nano: int | None = None) -> None:
    accept_dispute(dispute.pk, amount_nano, note="", actor=fay, now=DUE)


def disputed(attempt: MeteredAttempt, actor: Actor) -> Dispute:
    return open_dispute(attempt.pk, "the node was broken", actor=actor, now=DUE)


def disputed_row(company: Company, actor: Actor, month: str = "2026-11") -> Dispute:
    row = DisputedRow(company.nlp, company.pool, month)
    return open_row_dispute(row, "a broken rack", actor=actor, now=DUE)


def an_attempt_over_the_month_end(company: Company) -> MeteredAttempt:
    """Two hours of October and two of November, which cost `CHARGE_NANO` each."""
    return a_metered_attempt(company.nlp, -7_200, 7_200, pool=company.pool)


def statement_lines(
    company: Company, fay: Actor, month: str, unit: Unit = Unit.TEAM
) -> list[tuple[str, str, str, int, str]]:
    """Return the unit, class, month, cents and cost centre of each line of the month."""
    issued = issue_statements(company.organization.pk, month, unit, actor=fay, now=JANUARY)
    return [
        (
            *(statement.unit_path, line.usage_class, f"{line.month:%Y-%m}"),
            *(line.amount_cents, line.cost_centre),
        )
        for statement in issued
        for line in statement.lines_in_order
    ]


# -- faults after a refund ------------------------------------------------------------------


def test_a_fault_after_the_refund_is_credited_once(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """The fault is the correction of a closed month, and the closing takes the refund back.

    The next closing takes nothing back again. Planted: nothing taken back; the same at every
    closing.
    """
    attempt, team = a_charged_attempt(company), company.nlp.display_path
    close(company, fay, "2026-11", "known")
    dispute = disputed(attempt, lena)
    refund(dispute, fay)
    record_fault(attempt.pk, at(0), DUE + timedelta(days=1), "node_failed")
    close(company, fay, "2026-12", "known", JANUARY)
    close(company, fay, "2027-01", "known", JANUARY + timedelta(days=31))
    assert statement_lines(company, fay, "2026-11") == [(team, "guaranteed", "2026-11", 4_800, "")]
    december = statement_lines(company, fay, "2026-12")
    assert sorted(line[1:4] for line in december if line[3] != 0) == [
        ("guaranteed", "2026-11", -4_800),
        ("refund", "2026-11", -4_800),
        ("refund", "2026-11", 4_800),
    ]
    with pytest.raises(Conflict):
        statement_lines(company, fay, "2027-01")
    event = AuditEvent.objects.get(action="dispute.taken_back")
    assert event.detail["taken_back_nano"] == CHARGE_NANO
    taken_back = Adjustment.objects.get(amount_nano__gt=0)
    assert (taken_back.dispute, taken_back.is_correction) == (dispute, True)
    assert taken_back.reason == "The charge fell after the refund of bert, attempt 1"


def test_a_fault_of_half_of_the_use_takes_half_of_the_refund_back(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """November is open all the time, and nothing is a correction. Planted: all of the refund."""
    attempt = a_charged_attempt(company)
    refund(disputed(attempt, lena), fay)
    record_fault(attempt.pk, at(3_600), DUE + timedelta(hours=1), "node_failed")
    close(company, fay, "2026-11", "known", DUE + timedelta(hours=2))
    booked = Adjustment.objects.order_by("pk")
    assert [(one.amount_nano, one.month, one.is_correction) for one in booked] == [
        (-CHARGE_NANO, date(2026, 11, 1), False),
        (CHARGE_NANO // 2, date(2026, 11, 1), False),
    ]


def test_the_refund_of_a_row_keeps_what_its_other_use_costs(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """The row costs 96, of which 72 are refunded. A fault leaves 48, so 24 are taken back.

    A partial refund below the charge of now stays whole. Planted: the refund against the first
    charge of the attempt alone.
    """
    first, _ = a_charged_attempt(company), a_charged_attempt(company)
    refund(disputed_row(company, lena), fay, CHARGE_NANO * 3 // 2)
    other = a_metered_attempt(company.vision, 0, 7_200, pool=company.pool)
    refund(disputed(other, an_actor(company.vision, Role.TEAM_LEAD, "vera")), fay, 5)
    record_fault(first.pk, at(0), DUE + timedelta(hours=1), "node_failed")
    close(company, fay, "2026-11", "known", DUE + timedelta(hours=2))
    booked = Adjustment.objects.order_by("pk").values_list("amount_nano", flat=True)
    assert list(booked) == [-CHARGE_NANO * 3 // 2, -5, CHARGE_NANO // 2]


def test_the_database_lets_no_more_be_taken_back_than_was_refunded(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """Nor is a dispute refunded again. Planted: all amounts above 0."""
    dispute = disputed(a_charged_attempt(company), lena)
    refund(dispute, fay)
    first = Adjustment.objects.get(dispute=dispute)

    def book(amount_nano: int) -> None:
        first.pk, first.amount_nano, first._state.adding = None, amount_nano, True
        first.id = Adjustment._meta.pk.get_default()
        with transaction.atomic():
            first.save(force_insert=True)

    book(1)
    for wrong in (-1, CHARGE_NANO):
        with pytest.raises(IntegrityError, match="amount of an accepted dispute"):
            book(wrong)
    book(CHARGE_NANO - 1)


# -- use over months ------------------------------------------------------------------------


def test_an_attempt_over_a_month_end_is_refunded_for_what_is_left(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """The attempt costs 96; the row of October is refunded. Planted: the month of its end."""
    attempt = an_attempt_over_the_month_end(company)
    refund(disputed_row(company, lena, "2026-10"), fay)
    dispute = disputed(attempt, lena)
    assert dispute.charged_nano == CHARGE_NANO
    refund(dispute, fay)
    with pytest.raises(Conflict, match="all of it was refunded"):
        disputed_row(company, lena, "2026-11")


def test_each_row_has_the_share_of_a_refunded_attempt(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """Another attempt of November is left in its row. Planted: all of it in the last month."""
    refund(disputed(an_attempt_over_the_month_end(company), lena), fay)
    a_charged_attempt(company)
    with pytest.raises(Conflict, match="charged nothing in 2026-10"):
        disputed_row(company, lena, "2026-10")
    assert disputed_row(company, lena, "2026-11").charged_nano == CHARGE_NANO


def test_the_refund_of_a_part_counts_in_the_last_month_first(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """60 of 96 leave 36 of October. Closing changes none of it. Planted: the first month first."""
    refund(disputed(an_attempt_over_the_month_end(company), lena), fay, CHARGE_NANO * 5 // 4)
    row = disputed_row(company, lena, "2026-10")
    assert row.charged_nano == CHARGE_NANO * 3 // 4
    refund(row, fay)
    with pytest.raises(Conflict, match="charged nothing in 2026-11"):
        disputed_row(company, lena, "2026-11")
    for month in ("2026-10", "2026-11"):
        close(company, fay, month, "known")
    assert sum(Adjustment.objects.values_list("amount_nano", flat=True)) == -2 * CHARGE_NANO
    assert Adjustment.objects.count() == 2


# -- places and rights ----------------------------------------------------------------------


def test_a_refund_counts_for_the_place_of_its_use(company: Company, fay: Actor) -> None:
    """nlp moved to another department, with another cost centre, before it was refunded.

    Planted: the place at the time of the refund.
    """
    attempt, lab = a_charged_attempt(company), a_department(company.organization, "lab")
    codes = [
        NewCode(path, CodeKind.COST_CENTRE, code, date(2026, 11, 1))
        for path, code in (("ai-company/research", "4711"), ("ai-company/lab", "8000"))
    ]
    set_codes(company.organization.pk, codes, actor=fay, now=DUE)
    close(company, fay, "2026-11", "known")
    Quota.objects.all().delete()
    alice = an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice")
    moved_at = datetime(2026, 12, 2, tzinfo=UTC)
    move_node(actor=alice, node=company.nlp, parent=lab, now=moved_at)
    refund(disputed(attempt, alice), fay)
    close(company, fay, "2026-12", "known", JANUARY)
    research = "ai-company/research"
    assert [
        *statement_lines(company, fay, "2026-11", Unit.DEPARTMENT),
        *statement_lines(company, fay, "2026-12", Unit.DEPARTMENT),
    ] == [
        (research, "guaranteed", "2026-11", 4_800, "4711"),
        (research, "refund", "2026-11", -4_800, "4711"),
    ]


def test_a_token_that_sees_no_costs_disputes_no_row(company: Company, lena: Actor) -> None:
    """The dispute would say what the team was charged. Planted: the right of jobs alone."""
    a_charged_attempt(company)
    narrow = replace(lena, scopes=frozenset({Scope.JOBS}))
    with pytest.raises(Forbidden, match="see the costs of ai-company/research/nlp") as refused:
        disputed_row(company, narrow)
    assert refused.value.data["permission"] == Permission.VIEW_COSTS.value
    assert not Dispute.objects.exists()
