"""Browser sessions of a person: listed, and ended by the person or by an administrator."""

from __future__ import annotations

import re
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from live.publishing import publish_rights
from primitives.errors import NotFound
from tenants.access import Actor, require_session_or_admin_scope
from tenants.audit_trail import record_act
from tenants.managing import manages, require_managed
from tenants.membership import visible_user
from tenants.models import Session, User

#: Words of a User-Agent header and what they mean, the most particular first.
_BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
)


def device_name(user_agent: str) -> str:
    """Return the browser and system in a User-Agent header: "Firefox on Linux"."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), None)
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), None)
    if browser is None:
        browser = re.split(r"[/ ]", user_agent, maxsplit=1)[0][:40] or "Unknown browser"
    return browser if system is None else f"{browser} on {system}"


def sessions_of(actor: Actor, login: str | None, *, now: datetime) -> QuerySet[Session]:
    """Return the live sessions of the user with this login; None: the actor's own.

    Raises NotFound for a user that the actor may not see, and Forbidden for one that the actor
    does not manage.
    """
    return _live_sessions(_owner(actor, login), now)


@transaction.atomic
def end_session(*, actor: Actor, session_id: UUID, now: datetime) -> None:
    """End a session of the actor, or of a user that the actor manages, and close its sockets.

    Raises NotFound for all other sessions, and Forbidden for a token without the scope admin.
    """
    session = (
        Session.objects.select_related("user__organization")
        .filter(pk=session_id, expire_date__gt=now)
        .exclude(user=None)
        .first()
    )
    owner = None if session is None else session.user
    if session is None or owner is None or not (owner.pk == actor.user.pk or manages(actor, owner)):
        raise NotFound("It does not exist, or you may not see it.")
    require_session_or_admin_scope(actor, "Ending a session")
    _end(actor, owner, [session], now)


@transaction.atomic
def end_sessions(*, actor: Actor, login: str | None, besides: UUID | None, now: datetime) -> int:
    """End all sessions of a user but `besides`, close their sockets, and return their number.

    None as `login` is the actor. Raises NotFound and Forbidden as `sessions_of` does, and Forbidden
    for a token without the scope admin.
    """
    owner = _owner(actor, login)
    require_session_or_admin_scope(actor, "Ending a session")
    live = _live_sessions(owner, now)
    ended = list(live if besides is None else live.exclude(pk=besides))
    _end(actor, owner, ended, now)
    return len(ended)


def _owner(actor: Actor, login: str | None) -> User:
    if login is None or login == actor.user.login:
        return actor.user
    owner = visible_user(actor, login)
    require_managed(actor, owner)
    return owner


def _live_sessions(owner: User, now: datetime) -> QuerySet[Session]:
    return Session.objects.select_related("user").filter(user=owner, expire_date__gt=now)


def _end(actor: Actor, owner: User, sessions: list[Session], now: datetime) -> None:
    for session in sessions:
        record_act(
            actor=actor,
            action="session_ended",
            subject_kind="session",
            subject_id=session.pk,
            node=owner.organization,
            now=now,
            detail={
                "user": owner.login,
                "device": device_name(session.user_agent),
                "address": session.address,
            },
        )
    Session.objects.filter(pk__in=[session.pk for session in sessions]).delete()
    if sessions:
        publish_rights(owner.pk)
