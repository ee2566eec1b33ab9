"""Read the audit log, newest first; who may see which events is decided above."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from audit.models import AuditEvent


def matching_events(
    events: QuerySet[AuditEvent],
    *,
    organization_id: UUID | None = None,
    organization_slug: str | None = None,
    action: str | None = None,
    since: datetime | None = None,
) -> QuerySet[AuditEvent]:
    """`events` cut to those of one organization, of one action, and not before `since`."""
    if organization_id is not None:
        events = events.filter(organization_id=organization_id)
    if organization_slug is not None:
        # "0" follows "/": the range is the organization's subtree.
        events = events.filter(
            node_path__gte=f"{organization_slug}/", node_path__lt=f"{organization_slug}0"
        )
    if action is not None:
        events = events.filter(action=action)
    if since is not None:
        events = events.filter(at__gte=since)
    return events
