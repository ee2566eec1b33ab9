"""Plans deliveries of events to the webhooks of nodes and people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, Q
from uuid_utils.compat import uuid7

from bulk.inserting import insert_rows
from live.publishing import prefixes_of
from notices.webhook_models import WebhookDelivery, WebhookState, WebhookTarget

#: A delivery that did not succeed by then is given up.
GIVEN_UP_AFTER = timedelta(hours=24)
#: A target with as many deliveries that wait gets no further ones.
WAITING_MAX = 1_000


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """An event for the targets at and above a node's path, or for those of a person."""

    event: str
    key: str
    subject_kind: str
    subject_id: str
    sentence: str
    link: str
    at: datetime
    deadline: datetime | None
    node_path: str = ""
    user_id: UUID | None = None


def plan_webhooks(events: Sequence[WebhookEvent]) -> int:
    """Store a delivery for each event and target; return how many are new.

    Must run in the transaction of the cause. A target gets each key once.
    """
    prefixes = {prefix for item in events for prefix in prefixes_of(item.node_path)[1:]}
    people = {item.user_id for item in events if item.user_id is not None}
    wanted = Q()
    if prefixes:
        wanted |= Q(node__path__in=prefixes)
    if people:
        wanted |= Q(user__in=people, user__is_active=True)
    if not wanted:
        return 0
    targets = WebhookTarget.objects.filter(wanted, disabled_at=None)
    found = list(targets.values_list("pk", "node__path", "user", "events"))
    if not found:
        return 0
    full = _full([pk for pk, *_ in found])
    rows = [
        _row(pk, item)
        for pk, path, user_id, names in found
        if pk not in full
        for item in events
        if item.event in names
        if (item.user_id == user_id if path is None else item.node_path.startswith(path))
    ]
    return len(insert_rows(WebhookDelivery, rows, ignore_conflicts=True))


def _full(targets: Iterable[UUID]) -> set[UUID]:
    waiting = WebhookDelivery.objects.filter(
        target__in=targets, state__in=[WebhookState.PENDING, WebhookState.SENDING]
    )
    counts = waiting.values("target").annotate(count=Count("pk")).order_by()
    return set(counts.filter(count__gte=WAITING_MAX).values_list("target", flat=True))


def data_of(item: WebhookEvent) -> dict[str, Any]:
    """Return what a delivery keeps of an event."""
    return {
        "event": item.event,
        "sentence": item.sentence,
        "link": item.link,
        "node": item.node_path.rstrip("/"),
        "subject_kind": item.subject_kind,
        "subject_id": item.subject_id,
        "at": _text(item.at),
        "deadline": None if item.deadline is None else _text(item.deadline),
    }


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _row(target_id: UUID, item: WebhookEvent) -> dict[str, object]:
    return {
        "id": uuid7(),
        "target_id": target_id,
        "event": item.event,
        "key": item.key,
        "data": data_of(item),
        "created_at": item.at,
        "next_at": item.at,
        "expires_at": item.at + GIVEN_UP_AFTER,
    }
