"""Notices of requests that wait for a second person, and of their decisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from live.publishing import publish_to_people
from notices.giving import NewNotice, for_node, give_notices
from notices.models import Notice, NoticeEvent
from notices.recipients import nearest_people, platform_administrators
from tenants.roles import Permission

_OUTCOMES = {"expired": "has expired", "failed": "could not be applied"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a person. `called` is the subject of a sentence, such as "The adjustment".

    Webhooks at and above `node_path` get its notices, too.
    """

    kind: str
    id: UUID
    called: str
    link: str
    asked_by_id: UUID
    node_path: str


def tell_deciders(
    request: Request,
    permission: Permission,
    path: str,
    *,
    at: datetime,
    deadline: datetime | None,
) -> None:
    """Tell those who may decide the request: the nearest with `permission` at or above `path`.

    Where the organization has nobody else, administrators of the platform decide.
    """
    people = nearest_people(permission, path, without=request.asked_by_id)
    tell_people(request, people or platform_administrators(), at=at, deadline=deadline)


def tell_people(
    request: Request, people: Iterable[UUID], *, at: datetime, deadline: datetime | None
) -> None:
    """Tell these people, and webhooks of the node, that the request waits for a decision."""
    notice = NewNotice(
        user_id=None,
        event=NoticeEvent.DECISION_WAITING,
        key=f"{request.kind}:{request.id}:asked",
        subject_kind=request.kind,
        subject_id=request.id,
        sentence=f"{request.called} waits for a decision.",
        link=request.link,
        at=at,
        deadline=deadline,
        node_path=request.node_path,
    )
    give_notices(for_node(notice, people))


def tell_requester(
    request: Request, status: str, note: str, *, by_id: UUID | None, at: datetime
) -> None:
    """Tell the person who asked what became of the request, unless they decided it themselves.

    Notices that asked for this decision are read by now: nobody has to decide any more.
    """
    waiting = Notice.objects.filter(
        subject_kind=request.kind,
        subject_id=str(request.id),
        event=NoticeEvent.DECISION_WAITING,
        read_at=None,
    )
    people = list(waiting.values_list("user", flat=True))
    if people:
        waiting.update(read_at=at)
        publish_to_people("notices", people)
    if by_id == request.asked_by_id:
        return
    outcome = _OUTCOMES.get(status, f"was {status}")
    reason = f": {note}" if note else "."
    notice = NewNotice(
        user_id=None,
        event=NoticeEvent.REQUEST_DECIDED,
        key=f"{request.kind}:{request.id}:{status}",
        subject_kind=request.kind,
        subject_id=request.id,
        sentence=f"{request.called} {outcome}{reason}",
        link=request.link,
        at=at,
        node_path=request.node_path,
    )
    give_notices(for_node(notice, [request.asked_by_id]))
