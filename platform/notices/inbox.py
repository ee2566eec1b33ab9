"""The inbox of a person: lists notices, counts unread ones, and marks them as read."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from live.publishing import publish_to_people
from notices.models import Notice
from primitives.errors import Forbidden, NotFound
from tenants.access import Actor
from tenants.roles import Permission


def own_notices(actor: Actor) -> QuerySet[Notice]:
    """Return the notices that the actor sees in the portal; none if the token may not read."""
    if not actor.permits(Permission.VIEW_TREE):
        return Notice.objects.none()
    return Notice.objects.filter(user=actor.user, is_shown=True)


def unread_count(actor: Actor) -> int:
    """Return how many of the actor's notices are unread."""
    return own_notices(actor).filter(read_at=None).count()


def mark_read(notice_id: UUID, *, actor: Actor, now: datetime) -> Notice:
    """Mark one of the actor's notices as read. Repeating it changes nothing. Raises NotFound."""
    require_writing(actor)
    if own_notices(actor).filter(pk=notice_id, read_at=None).update(read_at=now):
        publish_to_people("notices", [actor.user.pk])
    notice = own_notices(actor).filter(pk=notice_id).first()
    if notice is None:
        raise NotFound("You have no such notice. It may be older than the inbox keeps.")
    return notice


def mark_all_read(through: UUID | None, *, actor: Actor, now: datetime) -> None:
    """Mark the actor's notices as read, up to the notice `through`, or all without it.

    Notices that arrive while a person reads the list so stay unread.
    """
    require_writing(actor)
    unread = own_notices(actor).filter(read_at=None)
    if through is not None:
        unread = unread.filter(pk__lte=through)
    if unread.update(read_at=now):
        publish_to_people("notices", [actor.user.pk])


def require_writing(actor: Actor) -> None:
    """Raise Forbidden for a token that may only read."""
    if not (actor.permits(Permission.VIEW_TREE) and actor.permits(Permission.SUBMIT_JOBS)):
        raise Forbidden(
            "This token may only read. Use a token of the scope jobs for your notices.",
            permission=Permission.SUBMIT_JOBS.value,
        )
