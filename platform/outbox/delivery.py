"""Deliver stored intentions: commit that it is sent, then send, then record the result.

At least once: a deliverer that dies in between leaves the message claimed until its lease
ends, and the next one sends it again. Handlers are idempotent. What one returns is called in the
transaction that ends its message, so that a result costs no commit of its own. Several messages
may be claimed at once, which costs one commit for all; they are sent one after the other, and what
is not sent soon is given back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from django.db import (
    DEFAULT_DB_ALIAS,
    InterfaceError,
    OperationalError,
    connection,
    transaction,
)
from django.db.models import F

from outbox.models import Message

log = logging.getLogger(__name__)

#: Longer than any handler's own time-out, so that nobody else sends the same meanwhile.
LEASE = timedelta(seconds=30)
#: What was claimed with others is not sent so long after its claim any more: the rest of the lease
#: must be enough for the call, and who claimed it may lead no longer.
SENT_WITHIN = timedelta(seconds=2)
RETRY_AFTER_MAX = timedelta(seconds=30)

#: What a handler leaves to be stored together with its message's end. Those of several messages
#: are stored in one transaction, in the order of their subjects, which is that of their locks.
Finish = Callable[[], None]
Handler = Callable[[Message], Finish | None]
Fence = Callable[[], AbstractContextManager[None]]


@runtime_checkable
class Expecting(Protocol):
    """A handler that can prepare for several messages at once."""

    def expect(self, messages: Sequence[Message]) -> None:
        """These are claimed and will be sent now, one after the other, unless it takes long."""
        ...


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
    at_once: int = 1,
) -> int:
    """Send up to `limit` due messages of `shard`, one after the other; returns how many.

    `fence` opens a transaction that fails when the caller no longer leads; every write here
    happens inside one. A handler that raises NotYet is retried with growing pauses; any other
    exception is logged, kept on the message and retried at the longest pause, so that one
    bad message never blocks the rest. Up to `at_once` are claimed together.
    """
    delivered = 0
    done: list[_Done] = []
    if not _is_any_due(shard, clock()):
        return 0
    while True:
        count = min(at_once, limit - delivered)
        try:
            claimed = _claim_next(shard, done, clock=clock, fence=fence, count=count)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            if not any(finish for _, finish in done):
                raise
            _end_one_by_one(done, clock, fence)
            done = []
            continue
        if not claimed:
            return delivered
        done, sent = _send(claimed, handlers, clock, fence)
        delivered += sent


#: A message that was sent, and what is to be stored with its end.
_Done = tuple[Message, Finish | None]


def _is_any_due(shard: str, now: datetime) -> bool:
    """Asked before a transaction is begun: most of the time nothing is."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT EXISTS (SELECT FROM {_table()} "  # noqa: S608 - the name comes from the model
            "WHERE shard = %s AND done_at IS NULL AND due_at <= %s)",
            [shard, now],
        )
        (is_any,) = cursor.fetchone() or (False,)
    return bool(is_any)


def _send(
    claimed: Sequence[Message],
    handlers: Mapping[str, Handler],
    clock: Callable[[], datetime],
    fence: Fence,
) -> tuple[list[_Done], int]:
    """Send what was claimed; returns what is done, and how many were sent. The first is sent in
    any case, so that there is no end of claiming."""
    _expect(claimed, handlers)
    done: list[_Done] = []
    for place, message in enumerate(claimed):
        if place and clock() > message.due_at - LEASE + SENT_WITHIN:
            _give_back(claimed[place:], clock(), fence)
            return done, place
        try:
            done.append((message, handlers[message.kind](message)))
        except NotYet as later:
            if message.error != str(later)[:2000]:
                log.warning("%s %s is sent again: %s", message.kind, message.subject, later)
            _postpone(message, clock() + retry_after(message.sends), str(later), fence)
        except Exception as error:
            log.exception("message %s %s failed", message.kind, message.subject)
            _postpone(message, clock() + RETRY_AFTER_MAX, repr(error), fence)
    return done, len(claimed)


def _expect(claimed: Sequence[Message], handlers: Mapping[str, Handler]) -> None:
    by_kind: dict[str, list[Message]] = {}
    for message in claimed:
        by_kind.setdefault(message.kind, []).append(message)
    for kind, messages in by_kind.items():
        handler = handlers.get(kind)
        if isinstance(handler, Expecting):
            try:
                handler.expect(messages)
            except Exception:
                # Each will be prepared by itself, so that one bad message harms no other.
                log.exception("%d messages %s could not be prepared", len(messages), kind)


def _claim_next(
    shard: str,
    done: Sequence[_Done],
    *,
    clock: Callable[[], datetime],
    fence: Fence,
    count: int,
) -> list[Message]:
    """Record that `done` are delivered with what their handlers left, and claim the next `count`:
    one commit for all, as thousands may be due."""
    if not done and not count:
        return []
    now = clock()
    with fence():
        _end(done, now)
        return _claim(shard, now=now, count=count) if count else []


def _end(done: Sequence[_Done], now: datetime) -> None:
    if not done:
        return
    for _, finish in sorted(done, key=lambda one: one[0].subject):
        if finish is not None:
            finish()
    Message.objects.filter(pk__in=[message.pk for message, _ in done], done_at=None).update(
        done_at=now, error=""
    )


def _end_one_by_one(done: Sequence[_Done], clock: Callable[[], datetime], fence: Fence) -> None:
    """End each by itself, as what one of them left cannot be stored: that one is sent again."""
    for message, finish in done:
        try:
            with fence():
                _end([(message, finish)], clock())
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:
            if finish is None:
                raise
            log.exception(
                "the result of message %s %s was not stored", message.kind, message.subject
            )
            _postpone(message, clock() + RETRY_AFTER_MAX, repr(error), fence)


def _claim(shard: str, *, now: datetime, count: int) -> list[Message]:
    """The next messages in the order in which they are due."""
    names = [field.attname for field in Message._meta.concrete_fields]
    columns = ", ".join(f"message.{connection.ops.quote_name(name)}" for name in names)
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH due AS (
                SELECT id, due_at FROM {_table()}
                WHERE shard = %s AND done_at IS NULL AND due_at <= %s
                ORDER BY due_at, id LIMIT %s FOR UPDATE SKIP LOCKED)
            UPDATE {_table()} message SET sends = sends + 1, sent_at = %s, due_at = %s
            FROM due WHERE message.id = due.id
            RETURNING due.due_at, {columns}
            """,  # noqa: S608 - the names come from the model
            [shard, now, count, now, now + LEASE],
        )
        rows = sorted(cursor.fetchall(), key=lambda row: row[:2])
    return [Message.from_db(DEFAULT_DB_ALIAS, names, row[1:]) for row in rows]


def _give_back(claimed: Sequence[Message], now: datetime, fence: Fence) -> None:
    """Let anybody send what was claimed and certainly not sent, as if it had not been claimed."""
    with fence():
        for message in claimed:
            Message.objects.filter(
                pk=message.pk, done_at=None, sends=message.sends, due_at=message.due_at
            ).update(sends=F("sends") - 1, due_at=now)


def _table() -> str:
    return connection.ops.quote_name(Message._meta.db_table)


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
