"""A job of real processes reaches its cost cap (R-112)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.cost_cap_story import stopped_at_its_cap
from builders.loop_builders import Loop
from builders.portal_builders import Company, a_company, a_user
from jobs.models import Attempt

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def company() -> Company:
    company = a_company(nodes=4)
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def loop(company: Company, tmp_path: Path) -> Iterator[Loop]:
    loop = Loop(company.cluster, tmp_path / "cluster")
    yield loop
    for attempt in Attempt.objects.filter(released_at=None):
        loop.connector.stop(attempt.key)


def test_a_job_gets_its_notice_and_ends_at_its_cap(loop: Loop, company: Company) -> None:
    """Against: a job that ends well after its notice has succeeded."""
    job = stopped_at_its_cap(loop, company, a_user(company.organization, "bob"))
    log = loop.connector.read_log(
        job.attempts.get().key, rank=0, stream="stdout", offset=0, limit=100
    )
    assert log.data == b"began\nnoticed\n"
