"""Reads the audit log, newest first. The caller decides which events a user may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from audit.models import AuditEvent


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A filter of events: from `since` until before `until`. None does not filter."""

    organization_slug: str | None = None
    actor: str | None = None
    action: str | None = None
    subject_kind: str | None = None
    subject_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def matching_events(
    events: QuerySet[AuditEvent], wanted: EventFilter, *, organization_id: UUID | None = None
) -> QuerySet[AuditEvent]:
    """Return those of `events` that match the filter and belong to one organization (None: any)."""
    exact: Mapping[str, object] = {
        "organization_id": organization_id,
        "actor": wanted.actor,
        "action": wanted.action,
        "subject_kind": wanted.subject_kind,
        "subject_id": wanted.subject_id,
        "at__gte": wanted.since,
        "at__lt": wanted.until,
    }
    events = events.filter(**{name: value for name, value in exact.items() if value is not None})
    if wanted.organization_slug is not None:
        # "0" follows "/", so the range is the subtree of the organization.
        events = events.filter(
            node_path__gte=f"{wanted.organization_slug}/",
            node_path__lt=f"{wanted.organization_slug}0",
        )
    return events
