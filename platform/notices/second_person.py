"""Notices of requests that wait for a second person, and of their decisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from live.publishing import publish_to_people
from notices.giving import NewNotice, give_notices
from notices.models import Notice, NoticeEvent
from notices.recipients import nearest_people, platform_administrators
from tenants.roles import Permission

_OUTCOMES = {"expired": "has expired", "failed": "could not be applied"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a person. `called` is the subject of a sentence, such as "The adjustment"."""

    kind: str
    id: UUID
    called: str
    link: str
    asked_by_id: UUID


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
    give_notices(
        NewNotice(
            user_id=user_id,
            event=NoticeEvent.DECISION_WAITING,
            key=f"{request.kind}:{request.id}:asked",
            subject_kind=request.kind,
            subject_id=request.id,
            sentence=f"{request.called} waits for your decision.",
            link=request.link,
            at=at,
            deadline=deadline,
        )
        for user_id in people or platform_administrators()
    )


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
    give_notices(
        [
            NewNotice(
                user_id=request.asked_by_id,
                event=NoticeEvent.REQUEST_DECIDED,
                key=f"{request.kind}:{request.id}:{status}",
                subject_kind=request.kind,
                subject_id=request.id,
                sentence=f"{request.called} {outcome}{reason}",
                link=request.link,
                at=at,
            )
        ]
    )
