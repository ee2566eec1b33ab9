"""Whatever the order in which transactions end, the arbiter's leader misses no change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import transaction

from builders.connector_builders import eventually
from builders.loop_builders import a_job
from builders.parallel import in_thread
from builders.portal_builders import NOW, a_company, a_user
from jobs.arbitration.memory import Memory
from jobs.models import Change, Job

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 30


def test_a_change_that_is_committed_after_a_later_one_is_read(settings: Any) -> None:
    """Planted: everything taken for read up to the last transaction that the reading saw; changes
    deleted up to there."""
    settings.CYCLES_COMPARED_EVERY_S = 300
    company = a_company()
    bob = a_user(company.organization, "bob")
    slow = a_job(company.nlp, bob, company.pool, now=NOW)
    quick = a_job(company.nlp, bob, company.pool, now=NOW)
    memory = Memory()

    def read(seconds: int) -> dict[str, int]:
        snapshot = memory.read(NOW + timedelta(seconds=seconds)).snapshot
        return {job.id: job.mgpu for job in snapshot.queued}

    assert read(0) == {str(slow.pk): 1_000, str(quick.pk): 1_000}
    has_changed, has_been_read = Event(), Event()

    def change_slowly() -> None:
        with transaction.atomic():
            Job.objects.filter(pk=slow.pk).update(mgpu_per_node=2_000)
            has_changed.set()
            assert has_been_read.wait(WAIT_S)

    with ThreadPoolExecutor(1) as pool:
        slowly = in_thread(pool, change_slowly)
        assert has_changed.wait(WAIT_S)
        Job.objects.filter(pk=quick.pk).update(mgpu_per_node=4_000)
        assert read(1) == {str(slow.pk): 1_000, str(quick.pk): 4_000}
        memory.forget_changes()
        has_been_read.set()
        slowly.result(WAIT_S)
    assert read(2) == {str(slow.pk): 2_000, str(quick.pk): 4_000}

    def all_are_forgotten() -> bool:
        read(2)
        memory.forget_changes()
        return not Change.objects.exists()

    # A server's transactions are numbered over all its databases: others' tests write too.
    eventually(all_are_forgotten)
