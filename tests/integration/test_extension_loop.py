"""A running job gets a longer time limit, with real processes: from the request to its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.api_callers import by_token
from builders.loop_builders import Loop, a_job
from builders.portal_builders import Company, a_company, a_grant, a_user
from jobs.models import Attempt, Extension, JobEvent
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def company() -> Company:
    company = a_company(nodes=4)
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def bob(company: Company) -> User:
    user = a_user(company.organization, "bob")
    a_grant(user, Role.RESEARCHER, company.nlp)
    return user


@pytest.fixture
def loop(company: Company, tmp_path: Path) -> Iterator[Loop]:
    loop = Loop(company.cluster, tmp_path / "cluster")
    yield loop
    for attempt in Attempt.objects.filter(released_at=None):
        loop.connector.stop(attempt.key)


def test_a_job_runs_on_past_its_earlier_limit(loop: Loop, company: Company, bob: User) -> None:
    """Planted: the handler of the message left out of the observer's."""
    job = a_job(company.nlp, bob, company.pool, script="sleep 14", time_limit_s=12)
    loop.until(job, "running")
    answer = by_token(bob).post(f"jobs/{job.pk}/extend", {"by_s": 1})
    assert (answer.status_code, answer.json()["time_limit_s"]) == (200, 120)
    done = loop.until(job, "succeeded", "timed_out")
    assert (done.state, done.time_limit_s) == ("succeeded", 120)
    assert Extension.objects.get().confirmed_at is not None
    events = list(JobEvent.objects.order_by("id").values_list("event", flat=True))
    assert events.count("extension_confirmed") == 1
