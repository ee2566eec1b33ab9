"""Disputes about the charge of an attempt: opened, decided once, and refunded by reversal."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.db import IntegrityError, transaction

from adjustments.adjusting import adjustments_between
from adjustments.disputes import (
    accept_dispute,
    decline_dispute,
    open_dispute,
    visible_disputes,
)
from adjustments.models import Adjustment, Dispute
from audit.models import AuditEvent
from billing.models import RateCard
from builders.adjustment_builders import (
    CHARGE_NANO,
    a_charged_attempt,
    a_finance_person,
    an_open_dispute,
    close_bare,
    priced,
)
from builders.api_callers import by_token
from builders.billing_builders import DAY, a_metered_attempt, record_fault, terms_of
from builders.portal_builders import NOW, Company, a_company, an_actor
from primitives.errors import Conflict, Forbidden, InvalidRequest, NotFound
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

LATER = DAY + timedelta(days=25)


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


def counted(company: Company) -> list[tuple[int, str, bool]]:
    found = adjustments_between(company.organization.pk, DAY, LATER + timedelta(seconds=1))
    return [(one.amount_nano, f"{one.month:%Y-%m}", one.is_correction) for one in found]


def test_an_accepted_dispute_refunds_the_charge_once(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """The refund names the dispute, the attempt's user and pool. A second dispute is refused.

    Planted: a repeated acceptance that refunds again.
    """
    attempt = a_charged_attempt(company)
    dispute = open_dispute(attempt.pk, "the node was broken", actor=lena, now=LATER)
    assert (dispute.charged_nano, dispute.status) == (CHARGE_NANO, "open")
    with pytest.raises(Conflict, match="open already"):
        open_dispute(attempt.pk, "again", actor=lena, now=LATER)
    accept_dispute(dispute.pk, None, note="sorry", actor=fay, now=LATER)
    again = accept_dispute(dispute.pk, None, note="", actor=fay, now=LATER)
    assert (again.refund_nano, again.note) == (CHARGE_NANO, "sorry")
    refund = Adjustment.objects.get(dispute=dispute)
    assert (refund.user_id, refund.pool_id) == (attempt.user_id, attempt.pool_id)
    assert refund.reason == "Refund of bert, attempt 1"
    assert counted(company) == [(-CHARGE_NANO, "2026-11", False)]
    with pytest.raises(Conflict, match="refunded already"):
        open_dispute(attempt.pk, "more", actor=lena, now=LATER)
    events = AuditEvent.objects.filter(action__startswith="dispute.").order_by("id")
    assert [event.action for event in events] == ["dispute.opened", "dispute.accepted"]


def test_the_commitment_of_the_team_is_not_disputed(company: Company, lena: Actor) -> None:
    """The use of the attempt is inside of the guarantee, and costs nothing beyond it."""
    terms_of(RateCard.objects.get(organization=company.organization), "commitment")
    with pytest.raises(Conflict, match="no charge to dispute"):
        open_dispute(a_charged_attempt(company).pk, "why", actor=lena, now=LATER)


def test_a_part_is_refunded_and_never_more_than_the_charge(
    company: Company, lena: Actor, fay: Actor
) -> None:
    dispute = open_dispute(a_charged_attempt(company).pk, "half", actor=lena, now=LATER)
    for wrong in (0, -1, CHARGE_NANO + 1):
        with pytest.raises(InvalidRequest, match="at most the charge"):
            accept_dispute(dispute.pk, wrong, note="", actor=fay, now=LATER)
    accept_dispute(dispute.pk, CHARGE_NANO // 2, note="", actor=fay, now=LATER)
    assert counted(company) == [(-CHARGE_NANO // 2, "2026-11", False)]


def test_a_charge_that_became_a_fault_is_not_refunded_again(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """The second of two hours is lost to a fault and costs nothing, so half of the charge is left.

    Planted: the charge at the opening as the bound.
    """
    attempt = a_charged_attempt(company)
    dispute = open_dispute(attempt.pk, "the node broke", actor=lena, now=LATER)
    record_fault(attempt.pk, DAY + timedelta(hours=1), LATER, "node_failed")
    for refund_nano in (None, CHARGE_NANO // 2 + 1):
        with pytest.raises(Conflict, match=r"The charge is now 24\.00 EUR\. Refund at most that"):
            accept_dispute(dispute.pk, refund_nano, note="", actor=fay, now=LATER)
    assert counted(company) == []
    accept_dispute(dispute.pk, CHARGE_NANO // 2, note="", actor=fay, now=LATER)
    assert counted(company) == [(-CHARGE_NANO // 2, "2026-11", False)]


def test_a_refund_of_a_closed_month_is_a_correction_in_the_next_open_one(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """September's use; September and October are closed. Planted: the month of the use."""
    attempt = a_metered_attempt(company.nlp, -40 * 86_400, -40 * 86_400 + 7_200, pool=company.pool)
    dispute = an_open_dispute(company, attempt, lena.user)
    for month in (date(2026, 9, 1), date(2026, 10, 1)):
        close_bare(company.organization, month)
    accept_dispute(dispute.pk, None, note="", actor=fay, now=LATER)
    assert counted(company) == [(-CHARGE_NANO, "2026-11", True)]


def test_a_declined_dispute_has_a_sentence_and_the_charge_may_be_disputed_again(
    company: Company, lena: Actor, fay: Actor
) -> None:
    attempt = a_charged_attempt(company)
    dispute = open_dispute(attempt.pk, "slow", actor=lena, now=LATER)
    with pytest.raises(InvalidRequest, match="Say in note"):
        decline_dispute(dispute.pk, note="", actor=fay, now=LATER)
    declined = decline_dispute(dispute.pk, note="the node was fine", actor=fay, now=LATER)
    assert (declined.status, declined.refund_nano) == ("declined", None)
    with pytest.raises(Conflict, match="declined already"):
        accept_dispute(dispute.pk, None, note="", actor=fay, now=LATER)
    second = open_dispute(attempt.pk, "with a proof", actor=lena, now=LATER)
    assert decline_dispute(second.pk, note="", actor=lena, now=LATER).status == "withdrawn"
    assert counted(company) == []


def test_people_dispute_charges_of_their_own_jobs_and_of_teams_that_they_lead(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """Planted: everybody in the team."""
    author = an_actor(company.nlp, Role.RESEARCHER, "bob")
    colleague = an_actor(company.nlp, Role.RESEARCHER, "carl")
    attempt = a_charged_attempt(company, author.user)
    for other in (colleague, fay, an_actor(company.vision, Role.TEAM_LEAD)):
        with pytest.raises(NotFound):
            open_dispute(attempt.pk, "mine?", actor=other, now=LATER)
    made = open_dispute(attempt.pk, "mine", actor=author, now=LATER)
    seen = [list(visible_disputes(one)) for one in (author, lena, fay, colleague)]
    assert seen == [[made], [made], [made], []]
    with pytest.raises(Forbidden):
        accept_dispute(made.pk, None, note="", actor=lena, now=LATER)
    with pytest.raises(NotFound):
        accept_dispute(made.pk, None, note="", actor=colleague, now=LATER)


def test_nobody_decides_the_own_dispute(company: Company) -> None:
    """An administrator of the organization has finance rights, and leads its teams, too."""
    both = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    made = open_dispute(a_charged_attempt(company).pk, "mine", actor=both, now=LATER)
    with pytest.raises(Forbidden, match="another person"):
        accept_dispute(made.pk, None, note="", actor=both, now=LATER)


def test_only_a_charge_can_be_disputed(company: Company, lena: Actor) -> None:
    running = a_metered_attempt(company.nlp, 0, None, pool=company.pool)
    with pytest.raises(Conflict, match="still runs"):
        open_dispute(running.pk, "why", actor=lena, now=LATER)
    unused = a_metered_attempt(company.nlp, None, None, pool=company.pool)
    with pytest.raises(Conflict, match="no charge to dispute"):
        open_dispute(unused.pk, "why", actor=lena, now=LATER)


def test_the_second_of_two_decisions_is_refused_over_rest(
    company: Company, lena: Actor, fay: Actor
) -> None:
    """Two people of finance look at one dispute. The second one reads what happened."""
    attempt = a_charged_attempt(company)
    body = {"attempt": str(attempt.pk), "reason": "broken"}
    made = by_token(lena.user).post("disputes", body, Idempotency_Key="once")
    assert made.status_code == 201, made.content
    assert by_token(lena.user).post("disputes", body, Idempotency_Key="once").json() == made.json()
    shown = by_token(fay.user).get("disputes?status=open").json()["items"][0]
    assert (shown["may_decide"], shown["subject"], shown["charged_nano"]) == (
        *(True, "bert, attempt 1"),
        CHARGE_NANO,
    )
    flo = a_finance_person(company, "flo")
    path = f"disputes/{shown['id']}"
    accepted = by_token(fay.user).post(f"{path}/accept", {"refund_nano": 5})
    assert (accepted.status_code, accepted.json()["refund_nano"]) == (200, 5)
    refused = by_token(flo.user).post(f"{path}/decline", {"note": "no"})
    assert refused.status_code == 409
    assert "accepted already" in refused.json()["detail"]
    listed = by_token(lena.user).get(f"adjustments?node={company.nlp.path}").json()["items"]
    assert [(one["amount_nano"], one["dispute"]) for one in listed] == [(-5, shown["id"])]
    assert by_token(lena.user).get(f"disputes?job={attempt.job_id}").json()["items"] != []


# -- what the database keeps ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"status": "accepted", "refund_nano": CHARGE_NANO + 1}, "refund_is_at_most_the_charge"),
        ({"status": "accepted", "refund_nano": None}, "refund_is_at_most_the_charge"),
        ({"status": "declined", "refund_nano": 1, "note": "x"}, "refund_is_at_most_the_charge"),
        ({"status": "declined"}, "declined_dispute_has_a_note"),
        ({"status": "accepted", "refund_nano": 1, "own": True}, "decided_by_another_person"),
        ({"charged_nano": 1}, "decided once and stay"),
        ({"reason": "another"}, "decided once and stay"),
    ],
)
def test_the_database_refuses(
    company: Company, lena: Actor, fay: Actor, change: dict[str, object], name: str
) -> None:
    made = an_open_dispute(company, a_charged_attempt(company), lena.user)
    values = dict(change)
    if "status" in values:
        person = lena if values.pop("own", False) else fay
        values |= {"decided_by": person.user, "decided_at": NOW}
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        Dispute.objects.filter(pk=made.pk).update(**values)


def test_a_dispute_stays_and_an_attempt_has_one_that_counts(
    company: Company, lena: Actor, fay: Actor
) -> None:
    attempt = a_charged_attempt(company)
    made = an_open_dispute(company, attempt, lena.user)
    with pytest.raises(IntegrityError, match="attempt_is_disputed_once"), transaction.atomic():
        an_open_dispute(company, attempt, fay.user)
    rows = Dispute.objects.filter(pk=made.pk)
    with pytest.raises(IntegrityError, match="decided once and stay"), transaction.atomic():
        rows.delete()
    rows.update(status="accepted", refund_nano=5, decided_by=fay.user, decided_at=NOW)
    with pytest.raises(IntegrityError, match="decided once and stay"), transaction.atomic():
        rows.update(status="declined", refund_nano=None, note="no")
    refund = {
        "organization": company.organization,
        "team": company.nlp,
        "dispute": made,
        "month": date(2026, 11, 1),
        "effective_at": NOW,
        "currency": "EUR",
        "reason": "refund",
        "status": "done",
        "asked_by": fay.user,
        "asked_at": NOW,
        "decided_at": NOW,
    }
    with pytest.raises(IntegrityError, match="amount of an accepted dispute"), transaction.atomic():
        Adjustment.objects.create(amount_nano=-6, **refund)
    Adjustment.objects.create(amount_nano=-5, **refund)
    with pytest.raises(IntegrityError, match="amount of an accepted dispute"), transaction.atomic():
        Adjustment.objects.create(amount_nano=-5, **refund)
