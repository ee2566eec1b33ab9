"""Store an intention in the transaction of the change that causes it."""

from __future__ import annotations

from collections.abc import Iterable
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
        [
            {
                "kind": item.kind,
                "subject": item.subject,
                "shard": item.shard,
                "created_at": now,
                "due_at": now,
            }
            for item in intentions
        ],
        ignore_conflicts=True,
    )


def withdraw_unsent(kind: str, subject: UUID, *, now: datetime) -> bool:
    """Take an intention back if nobody has sent it yet, and say whether that was so.

    Waits for a deliverer that is claiming it at this moment; must run in a transaction.
    """
    message = Message.objects.select_for_update().filter(kind=kind, subject=subject).first()
    if message is None or message.sends > 0 or message.done_at is not None:
        return False
    message.done_at = now
    message.error = "withdrawn"
    message.save(update_fields=["done_at", "error"])
    return True
