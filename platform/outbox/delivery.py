"""Deliver stored intentions: commit that it is sent, then send, then record the result.

At least once: a deliverer that dies in between leaves the message claimed until its lease
ends, and the next one sends it again. Handlers are idempotent. What one returns is called in the
transaction that ends its message, so that a result costs no commit of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from django.db import InterfaceError, OperationalError, connection, transaction

from outbox.models import Message

log = logging.getLogger(__name__)

#: Longer than any handler's own time-out, so that nobody else sends the same meanwhile.
LEASE = timedelta(seconds=30)
RETRY_AFTER_MAX = timedelta(seconds=30)

#: What a handler leaves to be stored together with its message's end.
Finish = Callable[[], None]
Handler = Callable[[Message], Finish | None]
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
    finish: Finish | None = None
    while True:
        is_last = delivered >= limit
        try:
            message = _claim_next(shard, done, finish, clock=clock, fence=fence, is_last=is_last)
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:
            if done is None or finish is None:
                raise
            log.exception("the result of message %s %s was not stored", done.kind, done.subject)
            _postpone(done, clock() + RETRY_AFTER_MAX, repr(error), fence)
            done = finish = None
            continue
        if message is None:
            return delivered
        done = finish = None
        delivered += 1
        try:
            finish = handlers[message.kind](message)
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
    shard: str,
    done: Message | None,
    finish: Finish | None,
    *,
    clock: Callable[[], datetime],
    fence: Fence,
    is_last: bool,
) -> Message | None:
    """Record that `done` is delivered with what `finish` stores and, unless it was the last, claim
    the next: one commit for all, as thousands may be due."""
    if done is None and is_last:
        return None
    now = clock()
    with fence():
        if finish is not None:
            finish()
        if done is not None:
            Message.objects.filter(pk=done.pk, done_at=None).update(done_at=now, error="")
        return None if is_last else _claim(shard, now=now)


def _claim(shard: str, *, now: datetime) -> Message | None:
    table = connection.ops.quote_name(Message._meta.db_table)
    return next(
        iter(
            Message.objects.raw(
                f"""
                UPDATE {table} SET sends = sends + 1, sent_at = %s, due_at = %s
                WHERE id = (
                    SELECT id FROM {table}
                    WHERE shard = %s AND done_at IS NULL AND due_at <= %s
                    ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
                RETURNING *
                """,  # noqa: S608 - the name comes from the model
                [now, now + LEASE, shard, now],
            )
        ),
        None,
    )


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
