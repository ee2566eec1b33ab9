"""What the arbiter's leader has read is put together later, and never with what was read since."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from builders.loop_builders import a_job
from builders.portal_builders import NOW, Company
from jobs.arbitration.memory import Memory
from jobs.arbitration.snapshots import read_queue
from jobs.models import Change
from tenants.models import User

pytestmark = pytest.mark.django_db
LATER = NOW + timedelta(seconds=2)


def test_what_was_read_is_put_together_without_reading(company: Company, bob: User) -> None:
    """Planted: a snapshot as of the epoch; the queued jobs by their teams."""
    job = a_job(company.nlp, bob, company.pool, now=NOW)
    told = read_queue(NOW)
    read = Memory().read(NOW)
    a_job(company.nlp, bob, company.pool, now=NOW)
    with CaptureQueriesContext(connection) as captured:
        assert read.snapshot == told.snapshot
        assert read.queued == {str(job.pk): told.snapshot.queued[0]}
        assert (read.policy, read.withheld) == (told.policy, ())
    assert len(captured) == 0


@pytest.mark.parametrize("again", [lambda memory: memory.read(LATER), Memory.catch_up])
def test_what_was_read_is_told_no_more_once_more_is_read(
    company: Company, bob: User, again: Callable[[Memory], object]
) -> None:
    """Planted: the number of the reading stays; the queued jobs told all the same."""
    memory = Memory()
    read = memory.read(NOW)
    Change.objects.all().delete()
    a_job(company.nlp, bob, company.pool, now=NOW)
    again(memory)
    with pytest.raises(RuntimeError, match="remembered no more"):
        _ = read.snapshot
    with pytest.raises(RuntimeError, match="remembered no more"):
        _ = read.queued
