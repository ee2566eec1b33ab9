"""Decisions: approve, reject, counter-offer, and the answers of the person who asked.

Rights are checked at the decision. The change is made in its transaction, or the decision is
refused. An accepted counter-offer is made with the present rights of the person who offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Max

from approvals.changes import (
    Terms,
    base_of,
    edits_of_request,
    lock_quotas_of,
    made_at,
    make_change,
    reverted_after_s,
    state_tag,
    terms_as_asked,
    terms_of_offer,
)
from approvals.deciders import may_decide, refuse_closed, require_decider, require_permitted
from approvals.guarded_writes import approve_write
from approvals.happenings import note_decided, note_offer, note_offer_declined
from approvals.models import (
    AMOUNT_MAX,
    OF_QUOTAS,
    ChangeRequest,
    CounterOffer,
    RequestKind,
    RequestStatus,
)
from approvals.operations import add_operation
from approvals.reading import locked_request, open_loans, request_by_id
from primitives.errors import (
    Conflict,
    FieldError,
    Forbidden,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
)
from quotas.administration import named_refusals
from quotas.guarding import Write, guarded
from quotas.models import PlannedChange
from quotas.planned_changes import check_scheduled
from tenants.access import Actor, actor_of
from tenants.models import User

#: The most counter-offers on one request.
OFFERS_MAX = 50


def approve(
    request_id: UUID,
    sources: Mapping[UUID, int],
    *,
    note: str,
    if_match: str,
    actor: Actor,
    now: datetime,
) -> ChangeRequest:
    """Approve a request as asked, and make its change. Repeating it changes nothing.

    `sources` are the siblings that give GPUs, in milli-GPUs by id; the parent's reserve gives the
    rest. Open offers of these siblings are approved with it. Raises NotFound, Forbidden, Conflict
    for a closed request, PreconditionFailed unless `if_match` is current, and what the change
    raises, also SecondPersonNeeded.
    """
    if request_by_id(actor, request_id).kind == RequestKind.WRITE:
        _refuse_sources_of_write(sources)
        return approve_write(request_id, note=note, if_match=if_match, actor=actor, now=now)
    with named_refusals(), transaction.atomic():
        request = locked_request(request_id, actor)
        require_decider(actor, request)
        if _was_made(request, RequestStatus.APPROVED, actor):
            return request
        refuse_closed(request, now)
        lock_quotas_of(request)
        _refuse_stale(request, if_match)
        terms = terms_as_asked(request, sources)
        given = {str(node): mgpu for node, mgpu in sources.items()}
        arguments = {"request": str(request.pk), "sources": given, "note": note}
        write = Write("request.approve", arguments, request.reason)
        begins_at = made_at(request, now)
        with guarded(
            request.organization, write, actor=actor, now=now, begins_at=begins_at
        ) as guard:
            planned = make_change(request, terms, actor=actor, now=now)
            check_scheduled(guard, planned, actor=actor, now=now)
            _close(request, RequestStatus.APPROVED, note, planned, actor=actor, now=now)
            _use_offers(request, terms, planned, actor=actor, now=now)
    return request


def _refuse_sources_of_write(sources: Mapping[UUID, int]) -> None:
    if sources:
        raise InvalidRequest(
            "A change that waits for a second person has no sources. Leave them out.",
            errors=[FieldError("/sources", "do not belong here")],
        )


def _approve_again(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    sources = {UUID(node): int(mgpu) for node, mgpu in given["sources"].items()}
    tag = state_tag(request_by_id(actor, UUID(given["request"])))
    return approve(
        UUID(given["request"]), sources, note=given["note"], if_match=tag, actor=actor, now=now
    )


def _accept_again(given: Mapping[str, Any], actor: Actor, now: datetime) -> object:
    """Accept as the person who asked, with the rights of the person who offered.

    `actor` needs the right to decide, too.
    """
    request = request_by_id(actor, UUID(given["request"]))
    if actor.user.pk != request.asked_by_id:
        require_decider(actor, request)
    asker = User.objects.select_related("organization").get(pk=request.asked_by_id)
    return accept_offer(request.pk, given["number"], actor=actor_of(asker), now=now)


def register() -> None:
    """Add the decisions that make a change to those that a second person may approve."""
    add_operation("request.approve", _approve_again)
    add_operation("offer.accept", _accept_again)


@transaction.atomic
def reject(request_id: UUID, *, note: str, actor: Actor, now: datetime) -> ChangeRequest:
    """Reject a request with a note. Repeating it changes nothing.

    Raises NotFound, Forbidden, InvalidRequest without a note, and Conflict for a closed request.
    """
    request = locked_request(request_id, actor)
    require_decider(actor, request)
    if not note.strip():
        raise InvalidRequest(
            "Say in note why you reject it: the person who asked reads that.",
            errors=[FieldError("/note", "is needed")],
        )
    if _was_made(request, RequestStatus.REJECTED, actor):
        return request
    refuse_closed(request, now)
    _close(request, RequestStatus.REJECTED, note, None, actor=actor, now=now)
    return request


@transaction.atomic
def withdraw(request_id: UUID, *, actor: Actor, now: datetime) -> ChangeRequest:
    """Withdraw the actor's own request. Repeating it changes nothing.

    Raises NotFound, Forbidden for the request of another person, and Conflict for a closed one.
    """
    request = locked_request(request_id, actor)
    _require_asker(actor, request)
    if request.status == RequestStatus.WITHDRAWN:
        return request
    refuse_closed(request, now)
    _close(request, RequestStatus.WITHDRAWN, "", None, actor=actor, now=now)
    return request


@transaction.atomic
def counter(
    request_id: UUID, terms: Terms, *, note: str, if_match: str, actor: Actor, now: datetime
) -> ChangeRequest:
    """Offer other terms to the person who asked. A later counter-offer replaces an open one.

    Raises NotFound, Forbidden, Conflict for a closed request or terms that cannot be,
    PreconditionFailed unless `if_match` is current, and InvalidRequest for a role.
    """
    request = locked_request(request_id, actor)
    require_decider(actor, request)
    refuse_closed(request, now)
    lock_quotas_of(request)
    _refuse_stale(request, if_match)
    _refuse_odd_terms(request, terms, now)
    last = request.offers.aggregate(last=Max("number"))["last"] or 0
    if last >= OFFERS_MAX:
        raise Conflict(f"A request has at most {OFFERS_MAX} counter-offers. Reject it instead.")
    offer = CounterOffer.objects.create(
        request=request,
        number=last + 1,
        amount=terms.amount,
        until=terms.until,
        sources=[{"node": str(node), "amount_mgpu": mgpu} for node, mgpu in terms.sources.items()],
        base=base_of(request, terms),
        note=note,
        made_by=actor.user,
        made_at=now,
    )
    request.status, request.open_offer = RequestStatus.COUNTERED, offer.number
    _save(request)
    note_offer(request, offer, actor=actor, now=now)
    return request


def accept_offer(request_id: UUID, number: int, *, actor: Actor, now: datetime) -> ChangeRequest:
    """Accept a counter-offer: it is the approval, by the person who made it.

    Repeating it changes nothing. Raises NotFound, and Forbidden for others than the person who
    asked. Raises Conflict where the offer does not wait any more, where its quotas have changed
    since, and where its maker may no longer decide.
    """
    with named_refusals(), transaction.atomic():
        request = locked_request(request_id, actor)
        _require_asker(actor, request)
        offer = _offer(request, number)
        if request.status == RequestStatus.APPROVED and request.decided_by_id == offer.made_by_id:
            return request
        refuse_closed(request, now)
        _refuse_other_offer(request, offer)
        lock_quotas_of(request)
        terms = terms_of_offer(offer)
        maker = actor_of(User.objects.select_related("organization").get(pk=offer.made_by_id))
        if not may_decide(maker, request):
            raise Conflict(
                f"{maker.user.login}, who made this offer, may no longer decide. Decline it, and "
                "another person decides."
            )
        if base_of(request, terms) != offer.base:
            raise Conflict(
                "The quotas of this offer have changed since it was made. Decline it, and ask "
                f"{maker.user.login} for a new one."
            )
        arguments = {"request": str(request.pk), "number": number}
        write = Write("offer.accept", arguments, request.reason)
        begins_at = made_at(request, now)
        with guarded(
            request.organization, write, actor=maker, now=now, begins_at=begins_at
        ) as guard:
            planned = make_change(request, terms, actor=maker, now=now)
            check_scheduled(guard, planned, actor=maker, now=now)
            _close(request, RequestStatus.APPROVED, offer.note, planned, actor=maker, now=now)
            _use_offers(request, terms, planned, actor=maker, now=now)
    return request


@transaction.atomic
def decline_offer(request_id: UUID, number: int, *, actor: Actor, now: datetime) -> ChangeRequest:
    """Decline a counter-offer. The request waits for a decision again.

    Raises NotFound, Forbidden for others than the person who asked, and Conflict where the offer
    does not wait any more.
    """
    request = locked_request(request_id, actor)
    _require_asker(actor, request)
    offer = _offer(request, number)
    refuse_closed(request, now)
    _refuse_other_offer(request, offer)
    request.status, request.open_offer = RequestStatus.PENDING, None
    _save(request)
    note_offer_declined(request, offer, actor=actor, now=now)
    return request


# -- refusals and rows ----------------------------------------------------------------------


def _require_asker(actor: Actor, request: ChangeRequest) -> None:
    if request.asked_by_id != actor.user.pk:
        raise Forbidden(f"Only {request.asked_by.login}, who asked, may do this.")
    require_permitted(actor, request)


def _refuse_stale(request: ChangeRequest, if_match: str) -> None:
    if if_match != state_tag(request):
        raise PreconditionFailed(
            "The request or a related quota has changed since you looked. Preview it again, and "
            "send the new ETag."
        )


def _refuse_odd_terms(request: ChangeRequest, terms: Terms, now: datetime) -> None:
    if request.kind in (RequestKind.ROLE, RequestKind.LOAN, RequestKind.WRITE):
        raise InvalidRequest("This request is approved as asked, or rejected.")
    if not 1 <= terms.amount <= AMOUNT_MAX:
        raise InvalidRequest(
            "Offer an amount above 0.", errors=[FieldError("/amount", "is out of range")]
        )
    if request.kind in OF_QUOTAS:
        edits_of_request(request, terms)
        reverted_after_s(terms, made_at(request, now))
    elif terms.until is not None or terms.sources:
        raise InvalidRequest(
            "Only changes of quotas have an end and sources.",
            errors=[FieldError("/until", "does not belong here")],
        )


def _refuse_other_offer(request: ChangeRequest, offer: CounterOffer) -> None:
    if request.open_offer != offer.number:
        raise Conflict("This counter-offer was replaced or declined. Look at the request again.")


def _was_made(request: ChangeRequest, status: RequestStatus, actor: Actor) -> bool:
    return request.status == status and request.decided_by_id == actor.user.pk


def _offer(request: ChangeRequest, number: int) -> CounterOffer:
    offer = request.offers.select_related("made_by").filter(number=number).first()
    if offer is None:
        raise NotFound("There is no such counter-offer.")
    return offer


def _close(
    request: ChangeRequest,
    status: RequestStatus,
    note: str,
    planned: PlannedChange | None,
    *,
    actor: Actor,
    now: datetime,
) -> None:
    request.status, request.note, request.open_offer = status, note.strip(), None
    request.decided_by, request.decided_at, request.planned = actor.user, now, planned
    _save(request)
    note_decided(request, actor=actor, now=now)


def _use_offers(
    request: ChangeRequest,
    terms: Terms,
    planned: PlannedChange | None,
    *,
    actor: Actor,
    now: datetime,
) -> None:
    """Approve the open offers of the siblings that gave GPUs: the same change used them."""
    if planned is None or request.kind != RequestKind.GUARANTEE:
        return
    loans = open_loans(request, terms.until).filter(expires_at__gt=now)
    rows = loans.filter(lender__in=terms.sources).exclude(asked_by=actor.user)
    related = rows.select_related("node", "organization", "pool", "lender", "asked_by")
    for loan in related.select_for_update(of=("self",)).order_by("pk"):
        if loan.lender_id and (loan.amount or 0) >= terms.sources[loan.lender_id]:
            note = f"Used for the request of {request.asked_by.login}."
            _close(loan, RequestStatus.APPROVED, note, planned, actor=actor, now=now)


def _save(request: ChangeRequest) -> None:
    request.version += 1
    request.save()
