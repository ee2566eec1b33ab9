"""Pools of CPU cores from the options of a cluster to processes, use and charges."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import transaction

from billing.models import UsageSegment
from builders.loop_builders import LoopOn
from builders.portal_builders import Company, a_company, a_pool, a_quota, an_actor
from jobs.models import Attempt, Job
from jobs.submission.requests import read_job_request
from jobs.submission.submission import submit_job_here
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)
TELL = 'echo "$RANK $TIDEGATE_CPUS_PER_NODE $TIDEGATE_GPUS_PER_NODE [$CUDA_VISIBLE_DEVICES]"'


@pytest.fixture
def company() -> Company:
    company = a_company(nodes=1)
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def bob(company: Company) -> Actor:
    pool = a_pool("cpu", weight=10, device="cpu")
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, pool, 8)
    return an_actor(company.nlp, Role.RESEARCHER, "bob")


@pytest.fixture
def loop(company: Company, bob: Actor, tmp_path: Path) -> LoopOn:
    """One node with GPUs, and two with 4 cores each."""
    company.cluster.options = {
        "root": str(tmp_path / "cluster"),
        "nodes": [
            {"count": 1, "gpus": 8, "pool": "h100", "prefix": "gpu-"},
            {"count": 2, "cores": 4, "pool": "cpu", "prefix": "cpu-"},
        ],
        "use_real_gpus": False,
        # What jobs write, tests look at.
        "isolation": "off",
    }
    return LoopOn(company.cluster)


def submit(loop: LoopOn, actor: Actor, **changes: object) -> Job:
    body = {"team": "ai-company/research/nlp", "script": TELL, **changes}
    with transaction.atomic():
        return submit_job_here(read_job_request(body), actor=actor, now=loop.clock.now())


def test_cores_are_offered_given_metered_and_told_to_the_ranks(
    loop: LoopOn, bob: Actor, tmp_path: Path
) -> None:
    """Mutant: a node's cores are offered to the first pool, or as GPUs."""
    assert {
        (node.pool.name, node.name, node.capacity_mgpu)
        for node in loop.cluster.nodes.select_related("pool")
    } == {("h100", "gpu-001", 8_000), ("cpu", "cpu-001", 4_000), ("cpu", "cpu-002", 4_000)}

    goes_on = tmp_path / "goes-on"
    script = f"{TELL}; while ! [ -e {goes_on} ]; do sleep 0.02; done"
    job = submit(loop, bob, cpus_per_node=3, nodes=2, script=script)
    loop.until(job, "running")

    attempt = Attempt.objects.get(job=job)
    assert (job.pool.name, attempt.mgpu) == ("cpu", 6_000)
    assert sorted(slot["node"] for slot in attempt.slots) == ["cpu-001", "cpu-002"]
    segment = UsageSegment.objects.select_related("attempt").get(attempt_id=attempt.pk, end=None)
    assert (segment.guaranteed_mgpu, segment.borrowed_mgpu) == (6_000, 0)
    assert segment.attempt.pool_id == job.pool_id
    goes_on.touch()
    loop.until(job, "succeeded", "failed")
    logs = [
        loop.connector.read_log(attempt.key, rank=rank, stream="stdout", offset=0, limit=100)
        for rank in range(2)
    ]
    assert [log.data for log in logs] == [b"0 3 0 []\n", b"1 3 0 []\n"]


def test_what_finds_no_free_core_waits_and_says_so(loop: LoopOn, bob: Actor) -> None:
    first = submit(loop, bob, cpus_per_node=3, nodes=2, script="sleep 600")
    loop.until(first, "running")
    second = submit(loop, bob, cpus_per_node=2)
    loop.turn()
    second.refresh_from_db()
    assert second.explanation["sentence"] == (
        "2 cores are free on one cluster, but scattered: it needs 1 node with 2 free, and none "
        "has. 1 job without a time limit holds 6 cores; it has to end first, so no latest start "
        "is known."
    )
    loop.connector.stop(Attempt.objects.get(job=first).key)
    loop.until(second, "succeeded", "failed")
    assert second.state == "succeeded"
