"""Records acts in the audit log, with actor, request and node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from audit.models import AuditEvent
from audit.recording import event_of, record, record_all
from tenants.access import Actor
from tenants.models import Node, User
from webapi.middleware import current_request_id


@dataclass(frozen=True, slots=True)
class Author:
    """The author of an act in the audit log: a user, or a program with a credential of its own."""

    id: UUID
    name: str

    @classmethod
    def of_user(cls, user: User) -> Author:
        """Return the user as an author."""
        return cls(user.pk, user.login)


def record_act(
    *,
    actor: Actor | Author,
    action: str,
    subject_kind: str,
    subject_id: object,
    node: Node | None,
    now: datetime,
    detail: Mapping[str, Any] | None = None,
) -> AuditEvent:
    """Store an act of `actor` below `node` (None: on the platform itself).

    Users who may see the audit log of `node` see the event. `detail` must be JSON and must not hold
    a secret, script or environment.
    """
    event = act_of(
        actor=actor,
        action=action,
        subject_kind=subject_kind,
        subject_id=subject_id,
        node=node,
        now=now,
        detail=detail,
    )
    record_all([event])
    return event


def act_of(
    *,
    actor: Actor | Author,
    action: str,
    subject_kind: str,
    subject_id: object,
    node: Node | None,
    now: datetime,
    detail: Mapping[str, Any] | None = None,
) -> AuditEvent:
    """Return the event of an act, as `record_act` stores it. `audit.recording` stores many."""
    author = actor if isinstance(actor, Author) else Author.of_user(actor.user)
    return event_of(
        action=action,
        subject_kind=subject_kind,
        subject_id=subject_id,
        now=now,
        actor_id=author.id,
        actor=author.name,
        organization_id=node.organization_id if node is not None else None,
        node_path=node.path if node is not None else "",
        detail=detail,
        request_id=current_request_id(),
    )


def record_attempt(
    *,
    action: str,
    user: User | None,
    now: datetime,
    detail: Mapping[str, Any],
    organization_id: UUID | None,
    node_path: str,
) -> AuditEvent:
    """Store an act of an unauthenticated caller, on `user` if that user exists."""
    return record(
        action=action,
        subject_kind="user",
        subject_id=user.pk if user is not None else "",
        now=now,
        actor="anonymous",
        organization_id=organization_id,
        node_path=node_path,
        detail=detail,
        request_id=current_request_id(),
    )
