"""Stores messages in the transaction of the change that causes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from bulk.inserting import insert_rows
from outbox.models import Message


@dataclass(frozen=True, slots=True)
class Intention:
    """A thing to do (`kind`) to a `subject`. Each `shard` is delivered on its own."""

    kind: str
    subject: UUID
    shard: str


def intend(intentions: Iterable[Intention], *, now: datetime) -> None:
    """Store `intentions`, due at once. An intention that is stored already stays unchanged."""
    insert_rows(
        Message,
        [{"kind": item.kind, "subject": item.subject, "shard": item.shard} for item in intentions],
        same={"created_at": now, "due_at": now},
        ignore_conflicts=True,
        returns_keys=False,
    )


def withdraw_unsent(kind: str, subjects: Collection[UUID], *, now: datetime) -> set[UUID]:
    """Withdraw the messages for `subjects` that were never sent, and return their subjects.

    Waits for a deliverer that claims one of them at this moment. Must run in a transaction.
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
