"""Jobs of a range of GPUs and jobs that begin later, by REST, with real processes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from billing.models import UsageSegment
from builders.api_callers import by_token
from builders.connector_builders import eventually
from builders.job_builders import a_body
from builders.loop_builders import LoopOn, a_job
from builders.portal_builders import Company, a_company, a_grant, a_user
from jobs.models import Attempt, Job
from primitives.clock import SystemClock
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
def loop(company: Company, tmp_path: Path) -> Iterator[LoopOn]:
    """On four nodes of two GPUs."""
    company.cluster.options = {
        "root": str(tmp_path / "cluster"),
        "nodes": [{"count": 4, "gpus": 2, "pool": "h100", "prefix": "n-"}],
        "use_real_gpus": False,
        # What jobs write, tests look at.
        "isolation": "off",
    }
    loop = LoopOn(company.cluster)
    loop.turn()
    yield loop
    for attempt in Attempt.objects.filter(released_at=None):
        loop.connector.stop(attempt.key)


def test_as_many_ranks_run_as_were_granted(
    loop: LoopOn, company: Company, bob: User, tmp_path: Path
) -> None:
    """Three of two to four nodes are free when it starts. Each rank finds its place among those
    that there are, and the meter has what was held.

    Mutants that die here: the cluster is sent the least, or the most; the meter has either of them.
    """
    marks = tmp_path / "marks"
    marks.mkdir()
    other = a_job(company.nlp, bob, company.pool, gpus=2, script="sleep 600")
    loop.until(other, "running", "failed")
    script = (
        f'#!/bin/sh\necho "$RANK of $WORLD_SIZE" > {marks}/$RANK.new\n'
        f"mv {marks}/$RANK.new {marks}/$RANK\n"
        f"until [ -e {tmp_path}/go ]; do sleep 0.1; done\n"
    )
    caller = by_token(bob)
    answer = caller.post(
        "jobs", a_body(script=script, gpus=..., gpus_per_node=2, nodes=4, nodes_min=2)
    )
    assert answer.status_code == 201, answer.content
    job = Job.objects.get(pk=answer.json()["id"])
    loop.until(job, "running", "failed")
    shown = caller.get(f"jobs/{job.pk}").json()
    assert (shown["mgpu_min"], shown["mgpu"]) == (4_000, 8_000)
    assert shown["current_attempt"]["mgpu"] == 6_000
    assert len({slot["node"] for slot in shown["current_attempt"]["slots"]}) == 3
    eventually(lambda: len(list(marks.glob("[0-9]"))) == 3 or None)
    held = UsageSegment.objects.get(attempt__job_id=job.pk, end=None)
    assert held.guaranteed_mgpu + held.borrowed_mgpu == 6_000
    (tmp_path / "go").touch()
    loop.until(job, "succeeded", "failed")
    assert job.state == "succeeded"
    told = [(marks / str(rank)).read_text() for rank in range(3)]
    assert told == ["0 of 3\n", "1 of 3\n", "2 of 3\n"]
    assert not (marks / "3").exists()


def test_a_job_begins_at_its_time(loop: LoopOn, bob: User) -> None:
    now = SystemClock().now()
    body = a_body(begin_at=f"{now + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}", script="exit 0")
    job = Job.objects.get(pk=by_token(bob).post("jobs", body).json()["id"])
    loop.turn()
    job.refresh_from_db()
    assert job.explanation is not None
    assert (job.state, job.explanation["code"]) == ("queued", "begin_time")
    # The hour is over.
    Job.objects.filter(pk=job.pk).update(begin_at=now)
    loop.until(job, "succeeded", "failed")
    assert job.state == "succeeded"
