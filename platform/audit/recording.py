"""Appends to the audit log, in the transaction of the act itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from audit.models import AuditEvent
from bulk.inserting import columns_of, insert_rows


def record(
    *,
    action: str,
    subject_kind: str,
    subject_id: object,
    now: datetime,
    actor_id: UUID | None = None,
    actor: str = "system",
    organization_id: UUID | None = None,
    node_path: str = "",
    detail: Mapping[str, Any] | None = None,
    request_id: str = "",
) -> AuditEvent:
    """Store one act. `detail` must be JSON and must not hold a secret, script or environment."""
    event = event_of(
        action=action,
        subject_kind=subject_kind,
        subject_id=subject_id,
        now=now,
        actor_id=actor_id,
        actor=actor,
        organization_id=organization_id,
        node_path=node_path,
        detail=detail,
        request_id=request_id,
    )
    record_all([event])
    return event


def event_of(
    *,
    action: str,
    subject_kind: str,
    subject_id: object,
    now: datetime,
    actor_id: UUID | None = None,
    actor: str = "system",
    organization_id: UUID | None = None,
    node_path: str = "",
    detail: Mapping[str, Any] | None = None,
    request_id: str = "",
) -> AuditEvent:
    """Return the event of one act, as `record` stores it."""
    return AuditEvent(
        at=now,
        actor_id=actor_id,
        actor=actor,
        action=action,
        organization_id=organization_id,
        node_path=node_path,
        subject_kind=subject_kind,
        subject_id=str(subject_id),
        detail=dict(detail or {}),
        request_id=request_id,
    )


def record_all(events: Sequence[AuditEvent]) -> None:
    """Store many acts of `event_of` in one statement, in their order."""
    insert_rows(AuditEvent, [columns_of(event) for event in events], returns_keys=False)
