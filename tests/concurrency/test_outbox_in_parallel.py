"""What else has messages locked, and what becomes of a connection, while some are delivered."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from threading import Event
from uuid import uuid4

import pytest
from django.db import OperationalError, connection, transaction

from builders.connector_builders import eventually
from builders.parallel import in_thread, somebody_waits_for_a_lock
from builders.portal_builders import NOW
from outbox.delivery import SENT_WITHIN, deliver_due
from outbox.models import Message
from outbox.recording import Intention, intend

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 60


def three_due_in_reverse() -> list[Message]:
    """Messages by their ids, of which the last is due first."""
    intend([Intention("start", uuid4(), "a") for _ in range(3)], now=NOW)
    messages = list(Message.objects.order_by("pk"))
    for place, message in enumerate(messages):
        Message.objects.filter(pk=message.pk).update(due_at=NOW - timedelta(seconds=place))
    return messages


def deliver(
    handler: Callable[[Message], None], monotonic_s: Callable[[], float] = lambda: 0.0
) -> int:
    return deliver_due(
        {"start": handler},
        shard="a",
        clock=lambda: NOW,
        fence=transaction.atomic,
        limit=3,
        at_once=3,
        monotonic_s=monotonic_s,
        pause=lambda seconds: None,
    )


@pytest.mark.parametrize("is_given_back", [False, True])
def test_messages_are_locked_in_the_order_of_their_ids(is_given_back: bool) -> None:
    """Planted: ended, and given back, in the order in which they were claimed: two who had one
    each waited for the other's."""
    first, *others = three_due_in_reverse()
    is_called, is_locked = Event(), Event()
    sent: list[int] = []

    def handler(message: Message) -> None:
        sent.append(message.pk)
        is_called.set()
        assert is_locked.wait(WAIT_S)

    def monotonic_s() -> float:
        return SENT_WITHIN.total_seconds() + 1 if is_given_back and len(sent) == 1 else 0.0

    with ThreadPoolExecutor(1) as pool:
        delivered = in_thread(pool, lambda: deliver(handler, monotonic_s))
        assert is_called.wait(WAIT_S)
        for message in reversed([first, *others]):
            # So they lie in the table, and an update without an order takes them so.
            Message.objects.filter(pk=message.pk).update(error="moved")
        with transaction.atomic():
            Message.objects.select_for_update().get(pk=first.pk)
            is_locked.set()
            eventually(somebody_waits_for_a_lock)
            assert sent[0] == others[-1].pk
            # Whoever has none of them waits for none of them.
            waiting = Message.objects.select_for_update(nowait=True)
            assert len(waiting.filter(pk__in=[one.pk for one in others])) == 2
        assert delivered.result(WAIT_S) == 3
    assert sorted(sent) == sorted([first.pk, *(one.pk for one in others)])
    assert Message.objects.filter(done_at=None).count() == 0


def test_a_connection_that_is_lost_after_a_call_keeps_its_result_from_nobody() -> None:
    """Planted: the dead connection was asked again and again, and the message sent once more when
    its lease was over."""
    intend([Intention("start", uuid4(), "a")], now=NOW)
    sent: list[int] = []

    def end_connection(pid: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 60000)", [pid])

    def handler(message: Message) -> None:
        sent.append(message.sends)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (pid,) = cursor.fetchone()
        with ThreadPoolExecutor(1) as pool:
            in_thread(pool, lambda: end_connection(pid)).result(WAIT_S)
        with suppress(OperationalError), connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    assert deliver(handler) == 1
    assert sent == [1]
    message = Message.objects.get()
    assert (message.done_at, message.sends, message.error) == (NOW, 1, "")
