"""Delivers stored messages: commit the claim of a message, call its handler, record the result.

Each message is delivered at least once. When a deliverer dies in between, its claim ends with the
lease, and the next deliverer sends the message again. So handlers are idempotent. A handler may
return a function. It is called in the transaction that ends the message, so that storing a result
costs no commit of its own.

A deliverer may claim several messages with one commit. It sends them one after the other, and
releases those that it cannot send soon.

The result of a call is recorded even if the database fails at that moment: the write is repeated
until the lease ends. The age of a claim is measured with the machine's monotonic clock, because the
wall clock may be set meanwhile. Code that locks several messages locks them by ascending id, so
that no deadlock is possible. A claim skips messages that are locked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

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

#: Longer than a call may take, so that no other deliverer sends the same message meanwhile.
LEASE = timedelta(seconds=30)
#: Messages claimed together are not sent later than this after their claim. The rest of the lease
#: must be long enough for the call, and the claimer may have lost the leadership.
SENT_WITHIN = timedelta(seconds=2)
#: The part of a lease that remains after a call to record its result.
RECORDED_WITHIN = timedelta(seconds=6)
#: The longest time that a call may take, see `jobs.execution.dispatch`.
CALLED_WITHIN = LEASE - SENT_WITHIN - RECORDED_WITHIN
RETRY_AFTER_MAX = timedelta(seconds=30)
#: Pause between two attempts to record the result of a call.
RECORDED_AGAIN_S = 0.5

#: Stores the result of a handler together with the end of its message. Results of several messages
#: are stored in one transaction, in the order of their subjects. Locks are taken in that order too.
Finish = Callable[[], None]
Handler = Callable[[Message], Finish | None]
Fence = Callable[[], AbstractContextManager[None]]
Written = TypeVar("Written")


@runtime_checkable
class Expecting(Protocol):
    """A handler that can prepare several messages at once."""

    def expect(self, messages: Sequence[Message]) -> None:
        """Prepare `messages`, which are claimed and will be sent next, one after the other.

        Messages at the end may still be released unsent if the first ones take long.
        """
        ...


class NotYet(Exception):
    """Raised by a handler when nothing is known to have happened. The message is sent later."""


def retry_after(sends: int) -> timedelta:
    """Return the pause after `sends` attempts: 1, 2, 4 … at most 30 seconds."""
    return min(timedelta(seconds=2 ** min(sends - 1, 10)), RETRY_AFTER_MAX)


def deliver_due(
    handlers: Mapping[str, Handler],
    *,
    shard: str,
    clock: Callable[[], datetime],
    fence: Fence,
    limit: int = 100,
    at_once: int = 1,
    monotonic_s: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> int:
    """Send up to `limit` due messages of `shard`, one after the other, and return how many.

    `fence` opens a transaction that fails when the caller is no longer the leader. Every write here
    happens inside one. Up to `at_once` messages are claimed together.

    A message whose handler raises NotYet, or fails because of the database, is retried with growing
    pauses. Any other exception is logged, stored in the message, and retried after the longest
    pause. So one bad message never blocks the others.
    """
    if not _is_any_due(shard, clock()):
        return 0
    deliverer = _Deliverer(handlers, shard, clock, fence, monotonic_s, pause)
    while True:
        count = min(at_once, limit - deliverer.delivered)
        if not deliverer.turn(count):
            return deliverer.delivered


#: A message that was sent, and the function that stores its result.
_Done = tuple[Message, Finish | None]


def _is_any_due(shard: str, now: datetime) -> bool:
    """Return whether any message is due. Checked before a transaction, as usually none is due."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT EXISTS (SELECT FROM {_table()} "  # noqa: S608 - the name comes from the model
            "WHERE shard = %s AND done_at IS NULL AND due_at <= %s)",
            [shard, now],
        )
        (is_any,) = cursor.fetchone() or (False,)
    return bool(is_any)


class _Deliverer:
    """Claims, sends and ends messages in rounds, for one call of `deliver_due`."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        shard: str,
        clock: Callable[[], datetime],
        fence: Fence,
        monotonic_s: Callable[[], float],
        pause: Callable[[float], object],
    ) -> None:
        self.delivered = 0
        self._handlers = handlers
        self._shard = shard
        self._clock = clock
        self._fence = fence
        self._monotonic_s = monotonic_s
        self._pause = pause
        self._done: list[_Done] = []
        #: When the current messages were claimed, by the monotonic clock.
        self._claimed_s = 0.0

    def turn(self, count: int) -> bool:
        """End the sent messages, claim the next `count` and send them. False when none are left."""
        done, self._done = self._done, []
        try:
            claimed, began_s = self._record(
                lambda: self._claim_next(done, count), is_called=bool(done)
            )
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            if not any(finish for _, finish in done):
                raise
            self._end_one_by_one(done)
            return True
        if claimed:
            self._claimed_s = began_s
            self._send(claimed)
        return bool(claimed)

    def _claim_next(self, done: Sequence[_Done], count: int) -> tuple[list[Message], float]:
        """Record the results of `done`, and claim the next `count` messages.

        One commit does both, as thousands of messages may be due. Also returns the time of the
        claim, by the monotonic clock.
        """
        # Read before the claim is written, so that the claim never seems younger than it is.
        now, now_s = self._clock(), self._monotonic_s()
        if not done and not count:
            return [], now_s
        with self._fence():
            _end(done, now)
            return (_claim(self._shard, now=now, count=count) if count else []), now_s

    def _send(self, claimed: Sequence[Message]) -> None:
        """Send the claimed messages. The first is always sent, so each round makes progress."""
        _expect(claimed, self._handlers)
        for place, message in enumerate(claimed):
            if place and self._held_s() > SENT_WITHIN.total_seconds():
                self._record(partial(_give_back, claimed[place:], self._clock(), self._fence))
                return
            self.delivered += 1
            self._send_one(message)

    def _send_one(self, message: Message) -> None:
        what = f"{message.kind} {message.subject}"
        try:
            self._done.append((message, self._handlers[message.kind](message)))
        except NotYet as later:
            if message.error != str(later)[:2000]:
                log.warning("%s is sent again: %s", what, later)
            self._postpone(message, retry_after(message.sends), str(later))
        except (OperationalError, InterfaceError) as error:
            # The database failed, not the message. It is sent again as soon as the database is
            # back.
            log.warning("%s is sent again, as the database failed: %s", what, error)
            self._postpone(message, retry_after(message.sends), repr(error))
        except Exception as error:
            log.exception("message %s failed", what)
            self._postpone(message, RETRY_AFTER_MAX, repr(error))

    def _postpone(self, message: Message, after: timedelta, error: str) -> None:
        def write() -> None:
            with self._fence():
                Message.objects.filter(pk=message.pk, done_at=None).update(
                    due_at=self._clock() + after, error=error[:2000]
                )

        self._record(write)

    def _end_one_by_one(self, done: Sequence[_Done]) -> None:
        """End each message in its own transaction, because one result cannot be stored.

        The message of that result is sent again.
        """
        for message, finish in done:

            def end(one: _Done = (message, finish)) -> None:
                with self._fence():
                    _end([one], self._clock())

            try:
                self._record(end)
            except (OperationalError, InterfaceError):
                raise
            except Exception as error:
                if finish is None:
                    raise
                log.exception(
                    "the result of message %s %s was not stored", message.kind, message.subject
                )
                self._postpone(message, RETRY_AFTER_MAX, repr(error))

    def _record(self, write: Callable[[], Written], *, is_called: bool = True) -> Written:
        """Call `write`, which records the results of calls, and return its value.

        Database errors are retried until the lease ends, because nobody else knows the results
        before that. If a commit failed but was stored all the same, the retry stores the results
        once more.
        """
        while True:
            try:
                return write()
            except (OperationalError, InterfaceError) as error:
                left_s = LEASE.total_seconds() - self._held_s()
                if not is_called or left_s <= RECORDED_AGAIN_S:
                    raise
                log.warning("what was delivered is recorded again: %s", error)
                if not connection.in_atomic_block:
                    # The connection may be dead. After this, the pool gives another one.
                    connection.close()
                self._pause(RECORDED_AGAIN_S)

    def _held_s(self) -> float:
        return self._monotonic_s() - self._claimed_s


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
                # The handler then prepares each message on its own, so that one bad message harms
                # no other.
                log.exception("%d messages %s could not be prepared", len(messages), kind)


def _end(done: Sequence[_Done], now: datetime) -> None:
    if not done:
        return
    for _, finish in sorted(done, key=lambda one: one[0].subject):
        if finish is not None:
            finish()
    open_ids = _locked([message.pk for message, _ in done])
    Message.objects.filter(pk__in=open_ids).update(done_at=now, error="")


def _locked(ids: Collection[int]) -> list[int]:
    """Return those of `ids` that are not done, locked in ascending order.

    An UPDATE on its own would lock them in any order.
    """
    return list(
        Message.objects.select_for_update()
        .filter(pk__in=ids, done_at=None)
        .order_by("pk")
        .values_list("pk", flat=True)
    )


def _claim(shard: str, *, now: datetime, count: int) -> list[Message]:
    """Claim up to `count` due messages and return them in the order in which they are due."""
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
    """Release messages that were claimed and certainly not sent, as if they were never claimed."""
    with fence():
        for message in sorted(claimed, key=lambda one: one.pk):
            Message.objects.filter(
                pk=message.pk, done_at=None, sends=message.sends, due_at=message.due_at
            ).update(sends=F("sends") - 1, due_at=now)


def _table() -> str:
    return connection.ops.quote_name(Message._meta.db_table)


def drop_delivered(*, before: datetime, limit: int = 10_000) -> int:
    """Delete at most `limit` messages that were done before `before`, and return how many.

    Messages locked by others are left for the next time.
    """
    with transaction.atomic():
        old = list(
            Message.objects.select_for_update(skip_locked=True)
            .filter(done_at__lt=before)
            .order_by("pk")
            .values_list("pk", flat=True)[:limit]
        )
        deleted, _ = Message.objects.filter(pk__in=old).delete()
    return deleted
