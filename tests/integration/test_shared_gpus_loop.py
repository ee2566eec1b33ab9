"""Parts of GPUs from the options of a cluster to processes: what is granted runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import transaction

from billing.models import UsageSegment
from builders.loop_builders import LoopOn
from builders.portal_builders import Company, a_company, an_actor
from jobs.models import Attempt, Job
from jobs.submission.requests import read_job_request
from jobs.submission.submission import submit_job_here
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def company() -> Company:
    company = a_company(nodes=1)
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def bob(company: Company) -> Actor:
    return an_actor(company.nlp, Role.RESEARCHER, "bob")


@pytest.fixture
def loop(company: Company, bob: Actor, tmp_path: Path) -> LoopOn:
    """One machine with 4 GPUs, which are shared."""
    company.cluster.options = {
        "root": str(tmp_path / "cluster"),
        "nodes": {"count": 1, "gpus": 4, "pool": "h100", "prefix": "s-", "shared": True},
        "use_real_gpus": False,
        # What jobs write, tests look at.
        "isolation": "off",
    }
    return LoopOn(company.cluster)


def submit(loop: LoopOn, actor: Actor, gpus: float, script: str) -> Job:
    body = {"team": "ai-company/research/nlp", "script": script, "gpus": gpus}
    with transaction.atomic():
        return submit_job_here(read_job_request(body), actor=actor, now=loop.clock.now())


def test_no_more_parts_are_granted_than_gpus_hold(loop: LoopOn, bob: Actor, tmp_path: Path) -> None:
    """Planted: GPUs were one sum for each machine; of six jobs with 0.6 of a GPU each all six were
    granted on four GPUs, and two of them were starting until others ended."""
    goes_on = tmp_path / "goes-on"
    script = f'echo "$TIDEGATE_GPU_SLOTS"; while ! [ -e {goes_on} ]; do sleep 0.02; done'
    jobs = [submit(loop, bob, 0.6, script) for _ in range(6)]
    for job in jobs[:4]:
        loop.until(job, "running")
    attempts = Attempt.objects.filter(job__in=jobs)
    assert sorted((one.job_id, one.slots) for one in attempts) == sorted(
        (job.pk, [{"node": f"s-001-gpu{index}", "mgpu": 600}]) for index, job in enumerate(jobs[:4])
    )
    assert {
        loop.connector.read_log(one.key, rank=0, stream="stdout", offset=0, limit=9).data
        for one in attempts
    } == {b"0\n", b"1\n", b"2\n", b"3\n"}
    segments = UsageSegment.objects.filter(end=None)
    assert sorted((one.guaranteed_mgpu, one.borrowed_mgpu) for one in segments) == [
        (200, 400),
        *[(600, 0)] * 3,
    ]
    # What is left of the GPUs is for smaller parts, and together it is no whole one.
    small, whole = submit(loop, bob, 0.4, script), submit(loop, bob, 1, script)
    loop.until(small, "running")
    whole.refresh_from_db()
    assert (whole.state, jobs[4].state) == ("queued", "queued")
    goes_on.touch()
    for job in (*jobs, small, whole):
        loop.until(job, "succeeded", "failed")
    assert set(Job.objects.values_list("state", flat=True)) == {"succeeded"}
