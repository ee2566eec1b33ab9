"""Intentions are delivered at least once, in order, and one bad one never blocks the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import InterfaceError, OperationalError, connection, transaction

from builders.portal_builders import NOW
from outbox.delivery import (
    LEASE,
    RECORDED_AGAIN_S,
    RETRY_AFTER_MAX,
    Finish,
    NotYet,
    deliver_due,
    drop_delivered,
    retry_after,
)
from outbox.models import Message
from outbox.recording import Intention, intend, withdraw_unsent

pytestmark = pytest.mark.django_db


class Recorder:
    """A handler that remembers subjects and fails as told."""

    def __init__(self, failures: dict[UUID, Exception] | None = None) -> None:
        self.seen: list[UUID] = []
        self.failures = failures or {}

    def __call__(self, message: Message) -> None:
        self.seen.append(message.subject)
        if message.subject in self.failures:
            raise self.failures[message.subject]


def deliver(handler: Recorder, *, shard: str = "a", after_s: int = 0) -> int:
    return deliver_due(
        {"start": handler},
        shard=shard,
        clock=lambda: NOW + timedelta(seconds=after_s),
        fence=transaction.atomic,
    )


def intend_some(count: int, shard: str = "a") -> list[UUID]:
    subjects = [uuid4() for _ in range(count)]
    intend([Intention("start", subject, shard) for subject in subjects], now=NOW)
    return subjects


def test_each_message_of_the_shard_is_delivered_once_in_order() -> None:
    subjects = intend_some(3)
    intend_some(1, shard="b")
    handler = Recorder()
    assert deliver(handler) == 3
    assert handler.seen == subjects
    assert deliver(handler) == 0


def test_the_same_intention_is_stored_once() -> None:
    (subject,) = intend_some(1)
    intend([Intention("start", subject, "a")], now=NOW)
    assert Message.objects.count() == 1


def test_a_message_that_may_not_go_yet_is_sent_again_after_a_growing_pause() -> None:
    (subject,) = intend_some(1)
    handler = Recorder({subject: NotYet("cluster away")})
    assert deliver(handler) == 1
    message = Message.objects.get()
    assert (message.sends, message.error) == (1, "cluster away")
    assert message.due_at == NOW + timedelta(seconds=1)
    assert deliver(handler, after_s=0) == 0
    assert deliver(handler, after_s=1) == 1
    assert Message.objects.get().due_at == NOW + timedelta(seconds=3)


def test_why_a_message_does_not_go_is_logged_once_for_each_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Mutant: it stood on the message only, and a full disk of a cluster in no log."""
    (subject,) = intend_some(1)
    for after_s, reason in ((0, "disk full"), (1, "disk full"), (3, "cluster away")):
        assert deliver(Recorder({subject: NotYet(reason)}), after_s=after_s) == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"start {subject} is sent again: disk full",
        f"start {subject} is sent again: cluster away",
    ]


def test_a_handler_that_breaks_does_not_block_the_others() -> None:
    bad, good = intend_some(2)
    handler = Recorder({bad: RuntimeError("boom")})
    assert deliver(handler) == 2
    assert Message.objects.get(subject=good).done_at == NOW
    broken = Message.objects.get(subject=bad)
    assert (broken.done_at, broken.error) == (None, "RuntimeError('boom')")


def test_a_deliverer_that_dies_leaves_a_lease_after_which_it_is_sent_again() -> None:
    (subject,) = intend_some(1)

    class Killed(BaseException):
        """Not an Exception: nothing catches it, as nothing catches kill -9."""

    def die(message: Message) -> None:
        raise Killed

    with pytest.raises(Killed):
        deliver_due({"start": die}, shard="a", clock=lambda: NOW, fence=transaction.atomic)
    handler = Recorder()
    just_before = int(LEASE.total_seconds()) - 1
    assert deliver(handler, after_s=just_before) == 0
    assert deliver(handler, after_s=just_before + 1) == 1
    assert handler.seen == [subject]


def test_pauses_grow_to_half_a_minute() -> None:
    assert [retry_after(n).total_seconds() for n in (1, 2, 3, 5, 6, 100)] == [1, 2, 4, 16, 30, 30]


def test_an_unsent_intention_can_be_withdrawn_and_a_sent_one_cannot() -> None:
    first, second, third = intend_some(3)
    assert withdraw_unsent("start", [first], now=NOW) == {first}
    assert withdraw_unsent("start", [first], now=NOW) == set()
    handler = Recorder({second: NotYet("away"), third: NotYet("away")})
    deliver(handler)
    assert handler.seen == [second, third]
    (fourth,) = intend_some(1)
    assert withdraw_unsent("start", [first, second, third, fourth], now=NOW) == {fourth}
    assert withdraw_unsent("stop", [second], now=NOW) == set()


def test_a_deliverer_that_no_longer_leads_sends_nothing() -> None:
    intend_some(1)

    class Over(Exception):
        """What a fence raises."""

    def fence() -> nullcontext[None]:
        raise Over

    handler = Recorder()
    with pytest.raises(Over):
        deliver_due({"start": handler}, shard="a", clock=lambda: NOW, fence=fence)
    assert handler.seen == []


def test_only_what_is_done_is_dropped() -> None:
    intend_some(2)
    handler = Recorder({Message.objects.first().subject: NotYet("away")})  # type: ignore[union-attr]
    deliver(handler)
    assert drop_delivered(before=NOW + timedelta(days=1)) == 1
    assert Message.objects.get().done_at is None


def test_what_a_handler_leaves_is_stored_with_the_end_of_its_message() -> None:
    """Planted: called before the transaction; called after the message's end."""
    subjects = intend_some(2)
    seen: list[tuple[UUID, int, bool]] = []

    def handler(message: Message) -> Finish:
        def finish() -> None:
            done = Message.objects.exclude(done_at=None).count()
            seen.append((message.subject, done, connection.in_atomic_block))

        return finish

    delivered = deliver_due(
        {"start": handler}, shard="a", clock=lambda: NOW, fence=transaction.atomic
    )
    assert delivered == 2
    assert seen == [(subjects[0], 0, True), (subjects[1], 1, True)]
    assert Message.objects.filter(done_at=None).count() == 0


def test_a_result_that_cannot_be_stored_blocks_no_other() -> None:
    """Planted: given up as done; the other never sent."""
    bad, good = intend_some(2)
    sent: list[UUID] = []

    def handler(message: Message) -> Finish:
        sent.append(message.subject)

        def finish() -> None:
            if message.subject == bad:
                Message.objects.filter(pk=message.pk).update(error="half")
                raise ValueError("too long")

        return finish

    delivered = deliver_due(
        {"start": handler}, shard="a", clock=lambda: NOW, fence=transaction.atomic
    )
    assert (delivered, sent) == (2, [bad, good])
    left = Message.objects.get(done_at=None)
    assert (left.subject, left.error, left.sends) == (bad, "ValueError('too long')", 1)
    assert left.due_at == NOW + RETRY_AFTER_MAX


class Several:
    """A handler that prepares for several messages at once, and takes `seconds` for each."""

    def __init__(self, seconds: int = 0) -> None:
        self.expected: list[list[UUID]] = []
        self.sent: list[tuple[UUID, int]] = []
        self.now = NOW
        self.commits = 0
        self.seconds = seconds

    def expect(self, messages: Sequence[Message]) -> None:
        self.expected.append([message.subject for message in messages])

    def __call__(self, message: Message) -> Finish | None:
        self.sent.append((message.subject, message.sends))
        self.now += timedelta(seconds=self.seconds)
        return None

    @contextmanager
    def fence(self) -> Iterator[None]:
        self.commits += 1
        with transaction.atomic():
            yield

    def deliver(self, limit: int = 100) -> int:
        return deliver_due(
            {"start": self},
            shard="a",
            clock=lambda: self.now,
            fence=self.fence,
            limit=limit,
            at_once=3,
            monotonic_s=lambda: (self.now - NOW).total_seconds(),
        )


def test_several_are_claimed_and_ended_in_one_commit() -> None:
    """Planted: claimed one by one; claimed beyond the limit; what was due first sent last."""
    subjects = intend_some(5)
    Message.objects.filter(subject=subjects[4]).update(due_at=NOW - timedelta(seconds=1))
    handler = Several()
    assert handler.deliver(limit=4) == 4
    assert handler.expected == [[subjects[4], *subjects[:2]], [subjects[2]]]
    assert [subject for subject, _ in handler.sent] == [subjects[4], *subjects[:3]]
    # Claim, end and claim, end.
    assert handler.commits == 3
    assert Message.objects.get(done_at=None).subject == subjects[3]
    assert handler.deliver() == 1
    assert handler.deliver() == 0
    # Claim, end and claim none; nothing was due then, and no transaction begun.
    assert handler.commits == 5


def test_what_is_not_sent_soon_is_given_back_as_if_it_had_not_been_claimed() -> None:
    """Planted: sent all the same, when the lease may be over; given back as sent, so that the
    cluster was searched for a copy of it."""
    subjects = intend_some(3)
    handler = Several(seconds=3)
    assert handler.deliver() == 3
    assert handler.sent == [(subject, 1) for subject in subjects]
    assert handler.expected == [subjects, subjects[1:], subjects[2:]]
    assert Message.objects.filter(done_at=None).count() == 0


def test_what_somebody_else_has_claimed_since_is_not_given_back() -> None:
    """Planted: given back whoever has it, so that it was sent a third time meanwhile."""
    subjects = intend_some(2)
    other_until = NOW + 2 * LEASE

    class Slow(Several):
        def __call__(self, message: Message) -> Finish | None:
            Message.objects.filter(subject=subjects[1]).update(sends=2, due_at=other_until)
            return super().__call__(message)

    handler = Slow(seconds=31)
    assert handler.deliver() == 1
    assert handler.sent == [(subjects[0], 1)]
    left = Message.objects.get(done_at=None)
    assert (left.subject, left.sends, left.due_at) == (subjects[1], 2, other_until)


def test_of_several_results_only_what_cannot_be_stored_is_sent_again() -> None:
    """Planted: all of them sent again; a half of the bad one's stored; subjects out of order."""
    subjects = intend_some(3)
    stored: list[UUID] = []

    class Storing(Several):
        def __call__(self, message: Message) -> Finish | None:
            super().__call__(message)

            def finish() -> None:
                stored.append(message.subject)
                Message.objects.filter(pk=message.pk).update(error="half")
                if message.subject == subjects[1]:
                    raise ValueError("too long")

            return finish

    handler = Storing()
    assert handler.deliver() == 3
    in_order = sorted(subjects)
    assert stored[: in_order.index(subjects[1]) + 1] == in_order[: in_order.index(subjects[1]) + 1]
    left = Message.objects.get(done_at=None)
    assert (left.subject, left.error, left.sends) == (subjects[1], "ValueError('too long')", 1)
    assert [subject for subject, _ in handler.sent] == subjects


def test_what_cannot_be_prepared_together_is_sent_all_the_same() -> None:
    """Planted: one bad message kept those beside it from being sent."""
    subjects = intend_some(2)

    class Unprepared(Several):
        def expect(self, messages: Sequence[Message]) -> None:
            raise ValueError("one of them is gone")

    handler = Unprepared()
    assert handler.deliver() == 2
    assert handler.sent == [(subject, 1) for subject in subjects]


class Failing(Several):
    """Its database fails at each of the fences in `failures`, counted from 0."""

    def __init__(self, *failures: int, error: type[Exception] = OperationalError) -> None:
        super().__init__()
        self.failures = failures
        self.error = error
        self.paused_s: list[float] = []

    @contextmanager
    def fence(self) -> Iterator[None]:
        self.commits += 1
        with transaction.atomic():
            yield
            if self.commits - 1 in self.failures:
                raise self.error("server closed the connection unexpectedly")

    def wait(self, seconds: float) -> None:
        self.paused_s.append(seconds)
        self.now += timedelta(seconds=seconds)

    def deliver(self, limit: int = 100) -> int:
        return deliver_due(
            {"start": self},
            shard="a",
            clock=lambda: self.now,
            fence=self.fence,
            limit=limit,
            at_once=3,
            monotonic_s=lambda: (self.now - NOW).total_seconds(),
            pause=self.wait,
        )


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_what_was_called_is_ended_though_the_database_fails_at_that_moment(
    error: type[Exception],
) -> None:
    """Planted: raised at once, so that it was sent again when its lease was over; called again."""
    subjects = intend_some(2)
    # Of claim, end and claim, end: the second, twice.
    handler = Failing(1, 2, error=error)
    assert handler.deliver() == 2
    assert handler.sent == [(subject, 1) for subject in subjects]
    assert handler.paused_s == [RECORDED_AGAIN_S] * 2
    assert list(Message.objects.values_list("done_at", "sends")) == [
        (NOW + timedelta(seconds=1), 1),
        (NOW + timedelta(seconds=1), 1),
    ]


def test_what_is_to_be_sent_again_keeps_no_result_of_others_from_being_recorded() -> None:
    """Planted: the database failed while one was put off, and what was called before was never
    ended."""
    subjects = intend_some(2)

    class PutOff(Failing):
        def __call__(self, message: Message) -> Finish | None:
            super().__call__(message)
            if message.subject == subjects[1]:
                raise NotYet("cluster away")
            return None

    handler = PutOff(1)
    assert handler.deliver() == 2
    assert [subject for subject, _ in handler.sent] == subjects
    left = Message.objects.get(done_at=None)
    assert (left.subject, left.error, left.sends) == (subjects[1], "cluster away", 1)


def test_a_database_that_stays_away_is_waited_for_as_long_as_the_lease_lasts() -> None:
    """Planted: waited for without end, when somebody else may have it."""
    intend_some(1)
    handler = Failing(*range(1, 1000))
    with pytest.raises(OperationalError):
        handler.deliver()
    assert sum(handler.paused_s) == LEASE.total_seconds() - RECORDED_AGAIN_S
    left = Message.objects.get(done_at=None)
    assert (left.sends, left.due_at) == (1, NOW + LEASE)


def test_a_claim_is_not_waited_for_where_nothing_was_called() -> None:
    """Planted: a deliverer that had called nothing hung on a database that is away."""
    intend_some(1)
    handler = Failing(0)
    with pytest.raises(OperationalError):
        handler.deliver()
    assert (handler.sent, handler.paused_s) == ([], [])


def test_a_handler_whose_database_failed_is_not_put_off_for_long() -> None:
    """Planted: taken for a bad message, which waits for half a minute."""
    (subject,) = intend_some(1)
    assert deliver(Recorder({subject: OperationalError("gone")})) == 1
    assert Message.objects.get().due_at == NOW + retry_after(1)


def test_how_long_a_claim_is_held_is_not_told_by_the_wall_clock() -> None:
    """Planted: a clock that was set an hour ahead had every claim given back but one."""
    subjects = intend_some(3)

    class Set(Several):
        def __call__(self, message: Message) -> Finish | None:
            super().__call__(message)
            self.now += timedelta(hours=1)
            return None

        def deliver(self, limit: int = 100) -> int:
            return deliver_due(
                {"start": self},
                shard="a",
                clock=lambda: self.now,
                fence=self.fence,
                at_once=3,
                monotonic_s=lambda: 7.0,
            )

    handler = Set()
    assert handler.deliver() == 3
    assert handler.expected == [subjects]
