"""Deliver stored intentions: commit that it is sent, then send, then record the result.

At least once: a deliverer that dies in between leaves the message claimed until its lease
ends, and the next one sends it again. Handlers are idempotent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from django.db import transaction

from outbox.models import Message

log = logging.getLogger(__name__)

#: Longer than any handler's own time-out, so that nobody else sends the same meanwhile.
LEASE = timedelta(seconds=30)
RETRY_AFTER_MAX = timedelta(seconds=30)

Handler = Callable[[Message], None]
Fence = Callable[[], AbstractContextManager[None]]


class NotYet(Exception):
    """Raised by a handler: nothing is known to have happened, send again later."""


def retry_after(sends: int) -> timedelta:
    """Pause before the next send after `sends` of them: 1, 2, 4 … at most 30 seconds."""
    return min(timedelta(seconds=2 ** min(sends - 1, 10)), RETRY_AFTER_MAX)


def deliver_due(
    handlers: Mapping[str, Handler],
    *,
    shard: str,
    clock: Callable[[], datetime],
    fence: Fence,
    limit: int = 100,
) -> int:
    """Send up to `limit` due messages of `shard`, one after the other; returns how many.

    `fence` opens a transaction that fails when the caller no longer leads; every write here
    happens inside one. A handler that raises NotYet is retried with growing pauses; any other
    exception is logged, kept on the message and retried at the longest pause, so that one
    bad message never blocks the rest.
    """
    delivered = 0
    done: Message | None = None
    while True:
        message = _claim_next(shard, done, clock=clock, fence=fence, is_last=delivered >= limit)
        if message is None:
            return delivered
        done = None
        delivered += 1
        try:
            handlers[message.kind](message)
        except NotYet as later:
            if message.error != str(later)[:2000]:
                log.warning("%s %s is sent again: %s", message.kind, message.subject, later)
            _postpone(message, clock() + retry_after(message.sends), str(later), fence)
        except Exception as error:
            log.exception("message %s %s failed", message.kind, message.subject)
            _postpone(message, clock() + RETRY_AFTER_MAX, repr(error), fence)
        else:
            done = message


def _claim_next(
    shard: str, done: Message | None, *, clock: Callable[[], datetime], fence: Fence, is_last: bool
) -> Message | None:
    """Record that `done` is delivered and, unless it was the last, claim the next: one commit for
    both, as thousands may be due."""
    if done is None and is_last:
        return None
    now = clock()
    with fence():
        if done is not None:
            Message.objects.filter(pk=done.pk, done_at=None).update(done_at=now, error="")
        return None if is_last else _claim(shard, now=now)


def _claim(shard: str, *, now: datetime) -> Message | None:
    message = (
        Message.objects.select_for_update(skip_locked=True)
        .filter(shard=shard, done_at=None, due_at__lte=now)
        .order_by("due_at", "id")
        .first()
    )
    if message is not None:
        message.sends += 1
        message.sent_at = now
        message.due_at = now + LEASE
        message.save(update_fields=["sends", "sent_at", "due_at"])
    return message


def _postpone(message: Message, due_at: datetime, error: str, fence: Fence) -> None:
    with fence():
        Message.objects.filter(pk=message.pk, done_at=None).update(
            due_at=due_at, error=error[:2000]
        )


def drop_delivered(*, before: datetime, limit: int = 10_000) -> int:
    """Delete at most `limit` messages that were done before `before`; returns how many."""
    with transaction.atomic():
        old = list(Message.objects.filter(done_at__lt=before).values_list("pk", flat=True)[:limit])
        deleted, _ = Message.objects.filter(pk__in=old).delete()
    return deleted
