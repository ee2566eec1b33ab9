"""Deliver stored intentions: commit that it is sent, then send, then record the result.

At least once: a deliverer that dies in between leaves the message claimed until its lease
ends, and the next one sends it again. Handlers are idempotent. What one returns is called in the
transaction that ends its message, so that a result costs no commit of its own. Several messages
may be claimed at once, which costs one commit for all; they are sent one after the other, and what
is not sent soon is given back.

What has been called is recorded even though the database fails at that moment: the writes behind a
call are repeated as long as its lease lasts. How long a claim has been held is told by the
machine's monotonic clock, as the other one may be set meanwhile. Whoever locks several messages
does so in the order of their ids, so that no two wait for each other; a claim waits for nobody.
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

#: Longer than a call may take, so that nobody sends the same meanwhile.
LEASE = timedelta(seconds=30)
#: What was claimed with others is not sent so long after its claim any more: the rest of the lease
#: must be enough for the call, and who claimed it may lead no longer.
SENT_WITHIN = timedelta(seconds=2)
#: What is left of a lease after a call, so that its result can be recorded while it lasts.
RECORDED_WITHIN = timedelta(seconds=6)
#: The longest that such a call may take, see `jobs.execution.dispatch`.
CALLED_WITHIN = LEASE - SENT_WITHIN - RECORDED_WITHIN
RETRY_AFTER_MAX = timedelta(seconds=30)
#: Between two tries to record what a call came to.
RECORDED_AGAIN_S = 0.5

#: What a handler leaves to be stored together with its message's end. Those of several messages
#: are stored in one transaction, in the order of their subjects, which is that of their locks.
Finish = Callable[[], None]
Handler = Callable[[Message], Finish | None]
Fence = Callable[[], AbstractContextManager[None]]
Written = TypeVar("Written")


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
    monotonic_s: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> int:
    """Send up to `limit` due messages of `shard`, one after the other; returns how many.

    `fence` opens a transaction that fails when the caller no longer leads; every write here
    happens inside one. A handler that raises NotYet is retried with growing pauses; any other
    exception is logged, kept on the message and retried at the longest pause, so that one
    bad message never blocks the rest. Up to `at_once` are claimed together.
    """
    if not _is_any_due(shard, clock()):
        return 0
    deliverer = _Deliverer(handlers, shard, clock, fence, monotonic_s, pause)
    while True:
        count = min(at_once, limit - deliverer.delivered)
        if not deliverer.turn(count):
            return deliverer.delivered


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


class _Deliverer:
    """Claims, sends and ends, turn by turn, for one call of `deliver_due`."""

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
        #: When what was called last was claimed, monotonic.
        self._claimed_s = 0.0

    def turn(self, count: int) -> bool:
        """End what was sent, claim the next `count` and send them; False when there are none."""
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
        """Record that `done` are delivered with what their handlers left, and claim the next
        `count`, with the monotonic time of the claim: one commit for all, as thousands may be
        due."""
        # Before the claim is written, so that it never seems shorter than it is.
        now, now_s = self._clock(), self._monotonic_s()
        if not done and not count:
            return [], now_s
        with self._fence():
            _end(done, now)
            return (_claim(self._shard, now=now, count=count) if count else []), now_s

    def _send(self, claimed: Sequence[Message]) -> None:
        """Send what was claimed. The first is sent in any case, so that there is no end of
        claiming."""
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
            # The database's fault and not the message's: it goes as soon as that is there again.
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
        """End each by itself, as what one of them left cannot be stored: that one is sent again."""
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
        """What `write` returns, which records what calls came to: repeated while their lease lasts
        where the database fails, as otherwise nobody would know of it before the lease is over.
        What a failed commit has stored all the same is stored by the repeat once more.
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
                    # It may be dead: the pool gives one that is not.
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
                # Each will be prepared by itself, so that one bad message harms no other.
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
    """Those of `ids` that are not done, locked in their order: an update goes by none."""
    return list(
        Message.objects.select_for_update()
        .filter(pk__in=ids, done_at=None)
        .order_by("pk")
        .values_list("pk", flat=True)
    )


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
        for message in sorted(claimed, key=lambda one: one.pk):
            Message.objects.filter(
                pk=message.pk, done_at=None, sends=message.sends, due_at=message.due_at
            ).update(sends=F("sends") - 1, due_at=now)


def _table() -> str:
    return connection.ops.quote_name(Message._meta.db_table)


def drop_delivered(*, before: datetime, limit: int = 10_000) -> int:
    """Delete at most `limit` messages that were done before `before`; returns how many. What
    somebody has locked stays for the next time."""
    with transaction.atomic():
        old = list(
            Message.objects.select_for_update(skip_locked=True)
            .filter(done_at__lt=before)
            .order_by("pk")
            .values_list("pk", flat=True)[:limit]
        )
        deleted, _ = Message.objects.filter(pk__in=old).delete()
    return deleted
