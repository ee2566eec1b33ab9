"""Invariants of requests that the database keeps, each with a violation."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from approvals.models import ChangeRequest, CounterOffer, RequestComment
from builders.approval_builders import a_request, approved, asked
from builders.portal_builders import NOW, Company, a_company, an_actor
from quotas.models import PlannedChange
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db
REJECTED = {"status": "rejected", "note": "no"}


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def bob(company: Company) -> User:
    return an_actor(company.nlp, Role.RESEARCHER, "bob").user


@pytest.fixture
def dora(company: Company) -> User:
    return an_actor(company.research, Role.DEPARTMENT_ADMIN, "dora").user


#: A request for a role, instead of one for GPUs.
_ROLE = {"kind": "role", "role": "team_lead", "pool": None, "unit": "", "amount": None}


def refused(rule: str, change: Any) -> None:
    with pytest.raises(IntegrityError, match=rule), transaction.atomic():
        change()


def test_a_request_names_what_its_kind_changes(company: Company, bob: User) -> None:
    """A guarantee without a pool, a role with an amount, a loan without an end."""
    for changes in (
        {"pool": None},
        {"kind": "role", "role": "team_lead", "pool": None, "unit": ""},
        {**_ROLE, "begin": NOW + timedelta(days=1)},
        {"kind": "loan", "lender": company.vision},
        {"kind": "budget", "pool": None, "unit": "gpu_hours"},
        {"kind": "other"},
    ):
        refused("request_names_what_its_kind_changes", partial(a_request, company, bob, **changes))


def test_a_request_is_for_more_and_ends_later(company: Company, bob: User) -> None:
    """Amounts above 0, an end after the beginning, a reason, two nodes of a loan."""
    until = NOW + timedelta(days=1)
    for rule, changes in (
        ("request_is_for_more", {"amount": 0}),
        ("request_is_for_more", {"amount": None}),
        ("request_ends_after_it_began", {"expires_at": NOW}),
        ("request_ends_after_it_began", {"until": NOW}),
        ("request_ends_after_it_began", {"begin": NOW}),
        ("request_ends_after_it_began", {"begin": until, "until": until}),
        ("request_has_a_reason", {"reason": ""}),
        ("loan_is_between_two_nodes", {"kind": "loan", "lender": company.nlp, "until": until}),
    ):
        refused(rule, partial(a_request, company, bob, **changes))


def test_another_person_decides(company: Company, bob: User, dora: User) -> None:
    """An own decision, one without a person, a withdrawal by another, and a bare status."""
    for changes in (
        {"status": "rejected", "decided_by": bob, "decided_at": NOW, "note": "no"},
        {"status": "rejected", "decided_at": NOW, "note": "no"},
        {"status": "withdrawn", "decided_by": dora, "decided_at": NOW},
        {"status": "expired", "decided_by": dora, "decided_at": NOW},
        {"decided_by": dora},
    ):
        refused(
            "request_is_decided_by_another_person",
            partial(a_request, company, bob, **changes),
        )
    decided = {"status": "rejected", "decided_by": dora, "decided_at": NOW}
    refused("rejected_request_has_a_note", lambda: a_request(company, bob, **decided))
    refused(
        "request_status_is_known|request_is_decided",
        lambda: a_request(company, bob, status="other"),
    )


def test_an_approval_has_its_planned_change(company: Company, bob: User, dora: User) -> None:
    """The person who decided applied it. An open request has no planned change."""
    decided = {"status": "approved", "decided_by": dora, "decided_at": NOW}
    refused("approved_request_has_a_planned_change", lambda: a_request(company, bob, **decided))
    planned = PlannedChange.objects.create(
        node=company.nlp, reason="x", created_by=dora, created_at=NOW, expires_at=NOW
    )
    refused(
        "is applied or scheduled by the person",
        lambda: a_request(company, bob, planned=planned, **decided),
    )
    begin = NOW + timedelta(days=1)
    PlannedChange.objects.update(
        status="scheduled", decided_by=dora, decided_at=NOW, apply_at=begin + timedelta(days=1)
    )
    decided_later = partial(a_request, company, bob, planned=planned, **decided)
    refused("is applied or scheduled by the person", decided_later)
    refused("is applied or scheduled by the person", partial(decided_later, begin=begin))
    PlannedChange.objects.update(apply_at=begin)
    assert decided_later(begin=begin).status == "approved"
    PlannedChange.objects.update(status="applied", decided_by=bob, decided_at=NOW, applied_at=NOW)
    refused(
        "is applied or scheduled by the person",
        lambda: a_request(company, bob, planned=planned, **decided),
    )
    PlannedChange.objects.update(decided_by=dora)
    refused(
        "approved_request_has_a_planned_change",
        lambda: a_request(company, bob, planned=planned, **decided | REJECTED),
    )
    assert a_request(company, bob, planned=planned, **decided).status == "approved"


def test_a_request_is_decided_once_and_stays(company: Company) -> None:
    """Neither its terms nor its decision change, and it is never removed."""
    bob, dora = (
        an_actor(company.nlp, Role.RESEARCHER),
        an_actor(company.research, Role.DEPARTMENT_ADMIN),
    )
    request = asked(bob)
    rows = ChangeRequest.objects.filter(pk=request.pk)
    refused("decided once and stay", lambda: rows.update(amount=5))
    refused("decided once and stay", lambda: rows.update(asked_by=dora.user))
    approved(request, dora, {company.vision.pk: 4_000})
    refused("decided once and stay", lambda: rows.update(note="other"))
    refused("decided once and stay", rows.delete)


def an_offer(request: ChangeRequest, made_by: User, number: int = 1) -> CounterOffer:
    return CounterOffer.objects.create(
        request=request, number=number, amount=1_000, base={}, made_by=made_by, made_at=NOW
    )


def test_counter_offers_come_in_order_to_open_requests(
    company: Company, bob: User, dora: User
) -> None:
    """By another person. The last one waits, and none changes."""
    request = a_request(company, bob)
    rows = ChangeRequest.objects.filter(pk=request.pk)
    refused("next one of an open request", lambda: an_offer(request, bob))
    refused("next one of an open request", lambda: an_offer(request, dora, 2))
    refused("last counter-offer", lambda: rows.update(status="countered", open_offer=1))
    first = an_offer(request, dora)
    refused("next one of an open request", lambda: an_offer(request, dora))
    an_offer(request, dora, 2)
    refused("last counter-offer", lambda: rows.update(status="countered", open_offer=1))
    refused("countered_request_has_an_offer", lambda: rows.update(status="countered"))
    refused("countered_request_has_an_offer", lambda: rows.update(open_offer=2))
    rows.update(status="countered", open_offer=2)
    refused("decided once and stay", lambda: CounterOffer.objects.update(amount=5))
    refused("decided once and stay", first.delete)
    rows.update(status="expired", open_offer=None, decided_at=NOW)
    refused("next one of an open request", lambda: an_offer(request, dora, 3))
    other = a_request(company, bob)
    refused(
        "offer_is_for_more",
        lambda: CounterOffer.objects.create(
            request=other, number=1, amount=0, base={}, made_by=dora, made_at=NOW
        ),
    )


def test_comments_stay(company: Company, bob: User) -> None:
    """A comment has a text, and never changes."""
    request = a_request(company, bob)
    made = RequestComment.objects.create(request=request, author=bob, at=NOW, text="hello")
    refused("decided once and stay", lambda: RequestComment.objects.update(text="other"))
    refused("decided once and stay", made.delete)
    refused(
        "comment_has_a_text",
        lambda: RequestComment.objects.create(request=request, author=bob, at=NOW, text=""),
    )
