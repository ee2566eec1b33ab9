"""Records acts in the audit log, with actor, request and node."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from audit.models import AuditEvent
from audit.recording import record
from tenants.access import Actor
from tenants.models import Node, User
from webapi.middleware import current_request_id


def record_act(
    *,
    actor: Actor,
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
    return record(
        action=action,
        subject_kind=subject_kind,
        subject_id=subject_id,
        now=now,
        actor_id=actor.user.pk,
        actor=actor.user.login,
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
