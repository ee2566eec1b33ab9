"""Disputes about a row of a month's report: all that a team was charged for a pool."""

from __future__ import annotations

from datetime import date

import pytest
from django.db import IntegrityError, transaction

from adjustments.disputes import DisputedRow, accept_dispute, open_dispute, open_row_dispute
from adjustments.models import Adjustment, Dispute
from builders.adjustment_builders import (
    CHARGE_NANO,
    a_charged_attempt,
    a_finance_person,
    close_bare,
    priced,
)
from builders.api_callers import by_token
from builders.billing_builders import a_metered_attempt
from builders.period_builders import DUE
from builders.portal_builders import Company, a_company, an_actor
from primitives.errors import Conflict, Forbidden, InvalidRequest
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def company() -> Company:
    """nlp has two attempts in November, each with a charge of `CHARGE_NANO`."""
    company = a_company()
    priced(company)
    return company


@pytest.fixture
def lena(company: Company) -> Actor:
    return an_actor(company.nlp, Role.TEAM_LEAD, "lena")


@pytest.fixture
def fay(company: Company) -> Actor:
    return a_finance_person(company, "fay")


def november(company: Company) -> DisputedRow:
    return DisputedRow(company.nlp, company.pool, "2026-11")


def opened(company: Company, actor: Actor) -> Dispute:
    return open_row_dispute(november(company), "a broken rack", actor=actor, now=DUE)


def test_a_row_is_all_of_the_month_and_refunded_by_reversal(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """October's use, another team's and another pool's are no part of it.

    Planted: the use of all months.
    """
    a_charged_attempt(company)
    a_charged_attempt(company)
    a_metered_attempt(company.nlp, -86_400, -79_200, pool=company.pool)
    a_metered_attempt(company.vision, 0, 7_200, pool=company.pool)
    dispute = opened(company, lena)
    assert (dispute.charged_nano, dispute.subject) == (2 * CHARGE_NANO, "h100 in 2026-11")
    with pytest.raises(Conflict, match="open already"):
        opened(company, lena)
    accept_dispute(dispute.pk, None, note="", actor=fay, now=DUE)
    refund = Adjustment.objects.get(dispute=dispute)
    assert (refund.amount_nano, refund.team, refund.pool, refund.user) == (
        *(-2 * CHARGE_NANO, company.nlp),
        *(company.pool, None),
    )
    assert (refund.month, refund.is_correction) == (date(2026, 11, 1), False)
    assert refund.reason == "Refund of h100 in 2026-11"
    with pytest.raises(Conflict, match="refunded already"):
        opened(company, lena)


def test_the_refund_of_a_closed_month_is_a_correction(
    company: Company, lena: Actor, fay: Actor
) -> None:
    a_charged_attempt(company)
    dispute = opened(company, lena)
    close_bare(company.organization, date(2026, 11, 1))
    accept_dispute(dispute.pk, None, note="", actor=fay, now=DUE)
    refund = Adjustment.objects.get(dispute=dispute)
    assert (refund.month, refund.is_correction) == (date(2026, 12, 1), True)


def test_refunds_of_attempts_are_no_part_of_the_row(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """An attempt of two was refunded after the row was disputed. Planted: the whole row."""
    first = a_charged_attempt(company)
    a_charged_attempt(company)
    row = opened(company, lena)
    one = open_dispute(first.pk, "broken", actor=lena, now=DUE)
    accept_dispute(one.pk, None, note="", actor=fay, now=DUE)
    with pytest.raises(Conflict, match=r"The charge is now 48\.00 EUR"):
        accept_dispute(row.pk, None, note="", actor=fay, now=DUE)
    accept_dispute(row.pk, CHARGE_NANO, note="", actor=fay, now=DUE)


def test_attempts_of_a_refunded_row_are_refunded_for_what_is_left(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """The row costs 96 and 60 are refunded. An attempt of 48 has 36 left, and the next has none.

    Planted: an attempt without regard to its row.
    """
    first, second = a_charged_attempt(company), a_charged_attempt(company)
    row = opened(company, lena)
    accept_dispute(row.pk, CHARGE_NANO * 5 // 4, note="", actor=fay, now=DUE)
    one = open_dispute(first.pk, "broken", actor=lena, now=DUE)
    assert one.charged_nano == CHARGE_NANO * 3 // 4
    accept_dispute(one.pk, None, note="", actor=fay, now=DUE)
    with pytest.raises(Conflict, match="no charge to dispute"):
        open_dispute(second.pk, "broken", actor=lena, now=DUE)


def test_people_who_manage_the_jobs_of_the_team_dispute_its_rows(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """Planted: everybody who sees the team."""
    a_charged_attempt(company)
    author = an_actor(company.nlp, Role.RESEARCHER, "bob")
    for other in (author, fay, an_actor(company.vision, Role.TEAM_LEAD)):
        with pytest.raises(Forbidden, match="manage the jobs of"):
            opened(company, other)
    body = {"team": company.nlp.path, "pool": "h100", "month": "2026-11", "reason": "x"}
    for change in ({"pool": None}, {"attempt": str(company.nlp.pk)}, {"team": None}):
        refused = by_token(lena.user).post("disputes", body | change)
        assert refused.status_code == 400
        assert "an attempt, or else a team" in refused.json()["detail"]


def test_only_a_charge_of_a_month_that_is_over_is_disputed(company: Company, lena: Actor) -> None:
    """November is over on 4 December. Planted: the present month, too."""
    for wrong in ("2026-12", "november", "2027-01"):
        row = DisputedRow(company.nlp, company.pool, wrong)
        with pytest.raises(InvalidRequest, match="Give a month that is over"):
            open_row_dispute(row, "why", actor=lena, now=DUE)
    with pytest.raises(Conflict, match="charged nothing in 2026-11"):
        opened(company, lena)
    department = DisputedRow(company.research, company.pool, "2026-11")
    with pytest.raises(InvalidRequest, match="is no team"):
        open_row_dispute(department, "why", actor=lena, now=DUE)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"attempt": None}, "about_an_attempt_or_a_row"),
        ({"month": date(2026, 11, 1)}, "about_an_attempt_or_a_row"),
        ({"attempt": None, "month": date(2026, 11, 1), "is_of_pool": True}, "disputed_once"),
    ],
)
def test_the_database_refuses(
    company: Company, lena: Actor, change: dict[str, object], name: str
) -> None:
    attempt = a_charged_attempt(company)
    row = opened(company, lena)
    values = dict(change)
    if values.pop("is_of_pool", False):
        values["pool"] = company.pool
    fields = ("organization", "team", "charged_nano", "currency", "reason", "status")
    more = {field: getattr(row, field) for field in (*fields, "asked_by", "asked_at")}
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        Dispute.objects.create(**{**more, "attempt": attempt, **values})


def test_the_row_of_a_dispute_stays(company: Company, lena: Actor) -> None:
    """Planted: the trigger of attempts alone."""
    a_charged_attempt(company)
    rows = Dispute.objects.filter(pk=opened(company, lena).pk)
    with pytest.raises(IntegrityError, match="decided once and stay"), transaction.atomic():
        rows.update(month=date(2026, 10, 1))
