"""Pools of CPU cores: what is read, refused, stored, told to the arbiter and shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from builders.api_callers import by_token
from builders.job_builders import a_body
from builders.portal_builders import (
    NOW,
    Company,
    a_cluster,
    a_cluster_node,
    a_company,
    a_pool,
    a_quota,
    an_actor,
)
from clusters.models import Cluster, ClusterNode, Pool
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.snapshots import load_snapshot
from jobs.errors import NeverFits
from jobs.execution.workloads import workload_of
from jobs.models import Attempt, Job
from jobs.submission.requests import read_job_request
from jobs.submission.submission import submit_job_here
from jobs.whatif.preview import preview_job
from primitives.errors import InvalidRequest
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def company() -> Company:
    """h100: four nodes of 8 GPUs."""
    return a_company(nodes=4)


@pytest.fixture
def cores(company: Company) -> Pool:
    """Two nodes of 16 cores and 64,000 MiB, of which nlp is guaranteed 16 cores."""
    pool, cluster = a_pool("cpu", weight=10, device="cpu"), a_cluster("batch")
    for name in ("c-0", "c-1"):
        a_cluster_node(cluster, pool, name, capacity_mgpu=16_000)
    ClusterNode.objects.filter(pool=pool).update(memory_mib=64_000, memory_mib_per_gpu=1_000)
    for node, count in ((company.organization, 32), (company.research, 16), (company.nlp, 16)):
        a_quota(node, pool, count)
    return pool


@pytest.fixture
def bob(company: Company, cores: Pool) -> Actor:
    return an_actor(company.nlp, Role.RESEARCHER, "bob")


def submit(actor: Actor, **changes: Any) -> Job:
    with transaction.atomic():
        body = a_body(**{"gpus": ..., **changes})
        return submit_job_here(read_job_request(body), actor=actor, now=NOW)


def test_a_job_asks_for_nodes_and_cores_on_each(bob: Actor) -> None:
    """The cores are its size and nothing beside it. Mutants: they are stored as CPUs beside GPUs
    too, so that the arbiter counts them twice; a core is one thousandth."""
    job = submit(bob, pool="cpu", cpus_per_node=6, nodes=2, nodes_min=1, memory_mib_per_node=9_000)
    assert (job.mgpu_per_node, job.node_count, job.node_count_min) == (6_000, 2, 1)
    assert (job.cpus_per_node, job.memory_mib_per_node) == (None, 9_000)
    (queued,) = load_snapshot(NOW).queued
    assert (queued.mgpu_per_node, queued.cpu_milli, queued.memory_mib) == (6_000, None, 9_000)


def test_without_a_pool_the_only_one_of_the_kind_is_meant(bob: Actor) -> None:
    """A pool of cores beside that of GPUs breaks nobody's script. Mutant: the first of all."""
    assert submit(bob, cpus_per_node=1).pool.name == "cpu"
    assert submit(bob, gpus=1).pool.name == "h100"
    assert submit(bob, gpus=1, cpus_per_node=3).cpus_per_node == 3


def test_a_batch_script_of_a_partition_of_cores_is_understood(bob: Actor) -> None:
    text = "#!/bin/bash\n#SBATCH -p cpu\n#SBATCH -c 8\n#SBATCH -N 2\n#SBATCH --mem=4G\nhostname\n"
    job = submit(bob, script=..., sbatch=text)
    assert (job.pool.name, job.mgpu_per_node, job.node_count) == ("cpu", 8_000, 2)
    assert (job.cpus_per_node, job.memory_mib_per_node) == (None, 4_096)


@pytest.mark.parametrize(
    ("changes", "pointer", "told"),
    [
        (
            {"pool": "cpu", "gpus": 1},
            "/gpus",
            "cpu has CPU cores and no GPUs; ask for cpus_per_node and nodes instead",
        ),
        (
            {"pool": "cpu", "gpus_per_node": 1, "cpus_per_node": 2},
            "/gpus_per_node",
            "cpu has CPU cores and no GPUs; ask for cpus_per_node and nodes instead",
        ),
        (
            {"pool": "h100", "cpus_per_node": 2},
            "/gpus",
            "is required in h100, a pool of GPUs (or gpus_per_node and nodes); cpus_per_node "
            "without GPUs is for a pool of CPU cores",
        ),
        (
            {"pools": ["cpu", "h100"], "cpus_per_node": 2},
            "/gpus",
            "is required in h100, a pool of GPUs (or gpus_per_node and nodes); cpus_per_node "
            "without GPUs is for a pool of CPU cores",
        ),
        (
            {"pool": "cpu"},
            "/gpus",
            "is required (or gpus_per_node and nodes; in a pool of CPU cores cpus_per_node)",
        ),
        (
            {"pool": "cpu", "cpus_per_node": 2, "gpus_min": 1},
            "/gpus_min",
            "goes with gpus; beside cpus_per_node and nodes say nodes_min",
        ),
        (
            {"pool": "cpu", "cpus_per_node": 2, "required_topology": "rack"},
            "/required_topology",
            "cpu is a pool of CPU cores, which has no topology; remove it",
        ),
        (
            {"pool": "cpu", "cpus_per_node": 2, "preferred_topology": "node"},
            "/preferred_topology",
            "cpu is a pool of CPU cores, which has no topology; remove it",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_do(
    bob: Actor, changes: dict[str, Any], pointer: str, told: str
) -> None:
    """Mutant: GPUs that are asked for in a pool of cores become cores."""
    with pytest.raises(InvalidRequest) as refused:
        submit(bob, **changes)
    assert [(one.pointer, one.detail) for one in refused.value.errors] == [(pointer, told)]
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("changes", "pointer", "told"),
    [
        (
            {"cpus_per_node": 17},
            "/cpus_per_node",
            "17 cores of cpu can never run: no cluster has 1 node with 17 cores each. The largest "
            "node has 16 cores.",
        ),
        (
            {"cpus_per_node": 1, "memory_mib_per_node": 64_001},
            "/memory_mib_per_node",
            "1 core of cpu can never run: no node of pool cpu has 1 core and 64,001 MiB of memory.",
        ),
    ],
)
def test_what_can_never_run_is_told_in_cores(
    bob: Actor, changes: dict[str, Any], pointer: str, told: str
) -> None:
    with pytest.raises(NeverFits) as refused:
        submit(bob, pool="cpu", **changes)
    assert str(refused.value) == told
    assert [one.pointer for one in refused.value.errors] == [pointer]


def test_cores_are_decided_as_gpus_are_and_memory_beside_them(bob: Actor, cycles: Cycles) -> None:
    """Two nodes have 64,000 MiB each: a job that wants 60,000 leaves no room for another with
    5,000 there, though 30 cores are free. Mutants: memory is not counted in a pool of cores; the
    sentence says GPUs."""
    Cluster.objects.update(seen_at=NOW)
    first = submit(bob, pool="cpu", cpus_per_node=1, nodes=2, memory_mib_per_node=60_000)
    second = submit(bob, pool="cpu", cpus_per_node=2, memory_mib_per_node=5_000)
    cycles.run(NOW)
    attempt = Attempt.objects.get()
    assert (attempt.job_id, attempt.mgpu, attempt.guaranteed_mgpu) == (first.pk, 2_000, 2_000)
    workload = workload_of(attempt)
    assert (workload.pool, workload.cpus_per_node) == ("cpu", None)
    assert [slot.mgpu for slot in workload.slots] == [1_000, 1_000]
    second.refresh_from_db()
    assert second.explanation["sentence"] == (
        "30 cores are free on one cluster, but without enough CPU or memory: it needs 1 node with "
        "2 cores and 5,000 MiB of memory free, and none has; 2 have the cores free."
    )


def test_it_is_shown_with_its_cores(bob: Actor) -> None:
    job = submit(bob, pool="cpu", cpus_per_node=6, nodes=2)
    shown = by_token(bob.user).get(f"jobs/{job.pk}").json()
    assert (shown["device"], shown["cpus_per_node"], shown["mgpu"]) == ("cpu", 6, 12_000)
    planned = by_token(bob.user).post(
        "jobs?dry_run=true", a_body(gpus=..., pool="cpu", cpus_per_node=6, nodes=2)
    )
    assert planned.status_code == 200, planned.json()
    told = planned.json()["job"]
    assert (told["device"], told["cpus_per_node"], told["mgpu"]) == ("cpu", 6, 12_000)
    gpu_job = submit(bob, gpus=1)
    shown = by_token(bob.user).get(f"jobs/{gpu_job.pk}").json()
    assert (shown["device"], shown["cpus_per_node"]) == ("gpu", None)


def test_a_preview_tells_cores_of_an_elastic_job(bob: Actor) -> None:
    Cluster.objects.update(seen_at=NOW)
    body = a_body(gpus=..., pool="cpu", cpus_per_node=4, nodes=2, nodes_min=1)
    preview = preview_job(read_job_request(body), actor=bob, now=NOW)
    assert preview.explanation["sentence"] == "It would start now on batch with 8 cores."


def told(job: Job, actor: Actor) -> str:
    return str(by_token(actor.user).get(f"jobs/{job.pk}/explanation").json()["sentence"])


def test_it_is_started_and_stopped_with_cores(bob: Actor, cycles: Cycles) -> None:
    """Mutants: either sentence says GPUs."""
    Cluster.objects.update(seen_at=NOW)
    job = submit(bob, pool="cpu", cpus_per_node=16)
    cycles.run(NOW)
    assert told(job, bob) == "Its cores are reserved and it is being started on batch."
    Attempt.objects.update(state="stopping", notice_at=NOW, grace_until=NOW)
    Job.objects.update(state="preempting")
    assert told(job, bob) == (
        "Its cores are taken back: it is being stopped, by force at 2026-11-21T12:00:00Z. It got "
        "its notice at 2026-11-21T12:00:00Z. It queues again at its old place, unless it was "
        "submitted without requeue."
    )


def test_every_row_of_such_a_pool_says_that_it_is_of_cores(
    company: Company, bob: Actor, cycles: Cycles
) -> None:
    """Mutant: a row says gpu, or nothing."""
    Cluster.objects.update(seen_at=NOW)
    submit(bob, pool="cpu", cpus_per_node=1)
    submit(bob, gpus=1)
    cycles.run(NOW)
    root = by_token(an_actor(company.organization, Role.ORGANIZATION_ADMIN, "olga").user)

    def kinds(path: str) -> set[tuple[str, str]]:
        return {(row["pool"], row["device"]) for row in root.get(path).json()["items"]}

    both = {("cpu", "cpu"), ("h100", "gpu")}
    for path in ("quotas?limit=100", "nodes?limit=100", "decisions", "jobs"):
        assert kinds(path) == both, path
    shares = [row for each in root.get("clusters").json()["items"] for row in each["pools"]]
    assert {(row["pool"], row["device"]) for row in shares} == both
