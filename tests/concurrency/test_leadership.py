"""One leader at a time; what an old one still believes does no harm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from threading import Barrier, Thread

import pytest
from django.db import connection, transaction

from builders.connector_builders import eventually
from builders.parallel import somebody_waits_for_a_lock
from jobs.leadership import Leadership, NotLeading, fence
from jobs.models import Heartbeat
from jobs.models import Leadership as Row

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def bids() -> Iterator[list[Leadership]]:
    """Two bidders for one role, with a time to live that no test waits for."""
    both = [Leadership("arbiter", ttl_s=60), Leadership("arbiter", ttl_s=60)]
    yield both
    for bid in both:
        bid.resign()


def test_only_one_of_two_bidders_leads(bids: list[Leadership]) -> None:
    first, second = bids
    assert first.campaign()
    assert not second.campaign()
    assert (first.is_leading, second.is_leading) == (True, False)


def test_each_leader_has_an_epoch_of_its_own(bids: list[Leadership]) -> None:
    first, second = bids
    assert first.campaign()
    first.resign()
    assert not first.is_leading
    # The server frees the lock a moment after the connection is closed.
    eventually(second.campaign)
    assert second.epoch == first.epoch + 1


def test_only_the_leader_of_now_notes_its_work(bids: list[Leadership]) -> None:
    """A deposed leader that wakes up must not make it look as if somebody decided."""
    first, second = bids
    assert first.campaign()
    stale = first.epoch
    first.note_work()
    at = Heartbeat.objects.get(role="arbiter").worked_at
    assert at is not None
    first.resign()
    eventually(second.campaign)
    assert Heartbeat.objects.get(role="arbiter").worked_at == at
    late = Leadership("arbiter", ttl_s=60)
    late.epoch = stale
    late.note_work()
    assert Heartbeat.objects.get(role="arbiter").worked_at == at
    second.note_work()
    assert Heartbeat.objects.get(role="arbiter").worked_at > at


def test_a_write_of_an_old_epoch_is_refused_and_undone(bids: list[Leadership]) -> None:
    """Without the check in `fence` the stale write lands (planted: dies here)."""
    first, second = bids
    assert first.campaign()
    stale = first.epoch
    first.resign()
    # The server frees the lock a moment after the connection is closed.
    eventually(second.campaign)
    with pytest.raises(NotLeading), fence("arbiter", stale):
        Row.objects.update(holder="stale")
    assert Row.objects.get(role="arbiter").holder != "stale"


def test_a_new_leader_waits_for_the_write_under_way(bids: list[Leadership]) -> None:
    """FOR SHARE in `fence`: the old leader's transaction commits before the epoch moves on
    (planted: plain SELECT lets the epoch move first and the order below is reversed)."""
    first = bids[0]
    assert first.campaign()
    order: list[str] = []
    inside = Barrier(2, timeout=30)
    moved = Thread(target=lambda: (inside.wait(), take_over()))

    def take_over() -> None:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("UPDATE jobs_leadership SET epoch = epoch + 1")
                order.append("epoch moved")
        finally:
            connection.close()

    moved.start()
    with fence("arbiter", first.epoch):
        inside.wait()
        # The other transaction is now waiting for our share lock, and is seen to wait.
        eventually(somebody_waits_for_a_lock)
        order.append("old leader wrote")
    moved.join(timeout=30)
    assert order == ["old leader wrote", "epoch moved"]


_LEAD = """
import django, sys, time
django.setup()
from jobs.leadership import Leadership
leadership = Leadership("arbiter", ttl_s=float(sys.argv[1]))
assert leadership.campaign()
print(leadership.epoch, flush=True)
time.sleep(600)
"""


def _leading_process(ttl_s: float) -> tuple[subprocess.Popen[str], int]:
    settings = connection.settings_dict
    url = (
        f"postgresql://{settings['USER']}:{settings['PASSWORD']}@{settings['HOST']}:"
        f"{settings['PORT']}/{settings['NAME']}"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", _LEAD, str(ttl_s)],
        env={
            **os.environ,
            "TIDEGATE_DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "portal.settings",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_a_killed_leader_is_followed_at_once(bids: list[Leadership]) -> None:
    process, epoch = _leading_process(ttl_s=600)
    try:
        assert not bids[0].campaign()
        process.kill()
        process.wait(timeout=30)
        eventually(bids[0].campaign)
        assert bids[0].epoch == epoch + 1
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_a_leader_that_hangs_is_deposed_after_its_time_to_live() -> None:
    """A stopped process keeps its lock for ever; only ending its connection frees it."""
    process, epoch = _leading_process(ttl_s=1)
    bid = Leadership("arbiter", ttl_s=1)
    try:
        process.send_signal(signal.SIGSTOP)
        eventually(bid.campaign)
        assert bid.epoch == epoch + 1
    finally:
        bid.resign()
        process.kill()
        process.communicate(timeout=30)
