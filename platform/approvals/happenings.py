"""Audit events, hints and notices of requests."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import CharField, Exists, OuterRef, QuerySet
from django.db.models.functions import Cast

from approvals.deciders import nearest_deciders
from approvals.models import ChangeRequest, CounterOffer, RequestComment, RequestKind
from approvals.reading import visible_requests
from approvals.words import title_of
from audit.recording import record
from live.publishing import publish
from notices.giving import NewNotice, for_node, give_notices
from notices.models import Notice, NoticeEvent
from notices.recipients import active_people
from notices.second_person import Request, tell_people, tell_requester
from tenants.access import Actor, actor_of
from tenants.models import User
from webapi.middleware import current_request_id

_KIND = "request"


def note_asked(request: ChangeRequest, *, actor: Actor, now: datetime) -> None:
    """Record a new request, and tell the nearest people who may decide it."""
    note_act(request, "asked", actor=actor, now=now)
    people = nearest_deciders(request)
    tell_people(_as_notice(request), people, at=now, deadline=request.expires_at)


def note_decided(request: ChangeRequest, *, actor: Actor | None, now: datetime) -> None:
    """Record the end of a request, and tell the person who asked."""
    note_act(request, request.status, actor=actor, now=now, note=request.note)
    by_id = None if actor is None else actor.user.pk
    tell_requester(_as_notice(request), request.status, request.note, by_id=by_id, at=now)


def note_emergency(request: ChangeRequest, *, actor: Actor, now: datetime) -> None:
    """Record a write without its second person, and tell those who could have decided."""
    note_act(request, "overridden", actor=actor, now=now, note=request.note)
    _tell(
        request,
        nearest_deciders(request),
        NoticeEvent.REQUEST_DECIDED,
        "overridden",
        f"{actor.user.login} made a change without a second person ({title_of(request)}): "
        f"{request.note}",
        now,
    )


def note_offer(request: ChangeRequest, offer: CounterOffer, *, actor: Actor, now: datetime) -> None:
    """Record a counter-offer, and tell the person who asked."""
    note_act(request, "countered", actor=actor, now=now, number=offer.number)
    title = title_of(request, amount=offer.amount, until=offer.until)
    _tell(
        request,
        [request.asked_by_id],
        NoticeEvent.DECISION_WAITING,
        f"offer:{offer.number}",
        f"{offer.made_by.login} offers {title}. Accept or decline.",
        now,
        deadline=request.expires_at,
    )


def note_offer_declined(
    request: ChangeRequest, offer: CounterOffer, *, actor: Actor, now: datetime
) -> None:
    """Record that the person who asked declined a counter-offer, and tell its maker."""
    note_act(request, "offer_declined", actor=actor, now=now, number=offer.number)
    _tell(
        request,
        [offer.made_by_id],
        NoticeEvent.DECISION_WAITING,
        f"declined:{offer.number}",
        f"{actor.user.login} declined your counter-offer. {_called(request)} waits again.",
        now,
        deadline=request.expires_at,
    )


def note_comment(
    request: ChangeRequest, comment: RequestComment, *, actor: Actor, now: datetime
) -> None:
    """Record a comment, and tell the person who asked, deciders, and authors who may read it."""
    note_act(request, "commented", actor=actor, now=now)
    written = User.objects.filter(pk__in=request.comments.values("author"))
    authors = {
        author.pk
        for author in written.select_related("organization")
        if visible_requests(actor_of(author)).filter(pk=request.pk).exists()
    }
    people = {request.asked_by_id, *nearest_deciders(request), *authors} - {actor.user.pk}
    _tell(
        request,
        active_people(people),
        NoticeEvent.REQUEST_COMMENTED,
        f"comment:{comment.pk}",
        f"{actor.user.login} commented on {_called(request)}: {comment.text}",
        now,
    )


def without_reminder(requests: QuerySet[ChangeRequest]) -> QuerySet[ChangeRequest]:
    """Return those of the requests whose authors were not told of their expiry yet."""
    reminders = Notice.objects.filter(
        subject_kind=_KIND,
        subject_id=Cast(OuterRef("pk"), CharField()),
        event=NoticeEvent.REQUEST_EXPIRING,
        user=OuterRef("asked_by"),
    )
    return requests.exclude(Exists(reminders))


def tell_of_expiry(request: ChangeRequest, *, now: datetime) -> None:
    """Tell the people who have to act that the request expires."""
    people = {request.asked_by_id}
    if request.open_offer is None:
        people |= set(nearest_deciders(request))
    _tell(
        request,
        people,
        NoticeEvent.REQUEST_EXPIRING,
        "expiring",
        f"{_called(request)} expires undecided at {request.expires_at:%Y-%m-%d %H:%M} UTC.",
        now,
        deadline=request.expires_at,
    )


def note_act(
    request: ChangeRequest, act: str, *, actor: Actor | None, now: datetime, **detail: Any
) -> None:
    """Record an act in the audit log, and send a hint to open pages."""
    record(
        action=f"{_KIND}.{act}",
        subject_kind=_KIND,
        subject_id=request.pk,
        now=now,
        actor_id=None if actor is None else actor.user.pk,
        actor="system" if actor is None else actor.user.login,
        organization_id=request.organization_id,
        node_path=request.node.path,
        detail={
            "title": title_of(request),
            "kind": request.kind,
            "planned": None if request.planned_id is None else str(request.planned_id),
            **detail,
        },
        request_id=current_request_id(),
    )
    publish("requests", organization_id=request.organization_id)


def _called(request: ChangeRequest) -> str:
    return f"The request “{title_of(request)}” of {request.asked_by.login}"


def _as_notice(request: ChangeRequest) -> Request:
    return Request(
        kind=_KIND,
        id=request.pk,
        called=_called(request),
        link=_link(request),
        asked_by_id=request.asked_by_id,
        node_path=_channel_path(request),
    )


def _channel_path(request: ChangeRequest) -> str:
    """Return the path of the node whose webhooks are told; empty for a role.

    People who manage webhooks of a node may not read requests for roles that they cannot give.
    """
    return "" if request.kind == RequestKind.ROLE else request.node.path


def _link(request: ChangeRequest) -> str:
    return f"/requests?request={request.pk}"


def _tell(
    request: ChangeRequest,
    people: Iterable[UUID],
    event: NoticeEvent,
    key: str,
    sentence: str,
    at: datetime,
    *,
    deadline: datetime | None = None,
) -> None:
    notice = NewNotice(
        user_id=None,
        event=event,
        key=f"{_KIND}:{request.pk}:{key}",
        subject_kind=_KIND,
        subject_id=request.pk,
        sentence=sentence,
        link=_link(request),
        at=at,
        deadline=deadline,
        node_path=_channel_path(request),
    )
    give_notices(for_node(notice, people))
