"""Store an intention in the transaction of the change that causes it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from bulk.inserting import insert_rows
from outbox.models import Message


@dataclass(frozen=True, slots=True)
class Intention:
    """What is to be done (`kind`) to what (`subject`), served apart by `shard`."""

    kind: str
    subject: UUID
    shard: str


def intend(intentions: Iterable[Intention], *, now: datetime) -> None:
    """Store `intentions`, due at once. One that is stored already stays as it is."""
    insert_rows(
        Message,
        [{"kind": item.kind, "subject": item.subject, "shard": item.shard} for item in intentions],
        same={"created_at": now, "due_at": now},
        ignore_conflicts=True,
        returns_keys=False,
    )


def withdraw_unsent(kind: str, subjects: Collection[UUID], *, now: datetime) -> set[UUID]:
    """Take intentions back that nobody has sent yet, and say which of `subjects` those were of.

    Waits for a deliverer that is claiming one at this moment; must run in a transaction.
    """
    if not subjects:
        return set()
    unsent = {
        message.pk: message.subject
        for message in Message.objects.select_for_update()
        .filter(kind=kind, subject__in=subjects)
        .order_by("pk")
        if message.sends == 0 and message.done_at is None
    }
    Message.objects.filter(pk__in=unsent.keys()).update(done_at=now, error="withdrawn")
    return set(unsent.values())
