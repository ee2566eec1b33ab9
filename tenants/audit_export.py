"""Exports the audit log as CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC

from django.db.models import QuerySet

from audit.models import AuditEvent
from primitives.csv_text import csv_line, plain_text
from primitives.errors import InvalidRequest

#: Most events in one export. An export is always complete, so it is never cut unnoticed.
EXPORT_MAX = 20_000
#: New columns are added at the end. A column never changes its meaning.
COLUMNS = (
    "at",
    "actor",
    "action",
    "subject_kind",
    "subject_id",
    "organization",
    "node",
    "detail",
    "request_id",
    "id",
)


def csv_lines(events: QuerySet[AuditEvent]) -> Iterator[str]:
    """Yield the header, then one line per event, newest first, each ended by CR LF.

    Raises InvalidRequest for more than `EXPORT_MAX` events, before the first line.
    """
    found = list(events.order_by("-pk")[: EXPORT_MAX + 1])
    if len(found) > EXPORT_MAX:
        raise InvalidRequest(
            f"More than {EXPORT_MAX:,} events match. Narrow the time with since and until, and "
            "export one part after the other."
        )
    yield csv_line(COLUMNS)
    for event in found:
        node = event.node_path.rstrip("/")
        texts = (
            event.actor,
            event.action,
            event.subject_kind,
            event.subject_id,
            node.partition("/")[0],
            node,
            json.dumps(event.detail, ensure_ascii=False, sort_keys=True),
            event.request_id,
        )
        yield csv_line(
            (event.at.astimezone(UTC).isoformat(), *map(plain_text, texts), str(event.pk))
        )
