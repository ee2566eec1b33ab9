"""Jobs that say how many CPUs and how much memory they want of each node: what is refused, stored,
told to the arbiter and handed on."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from builders.job_builders import a_body, a_job, an_attempt
from builders.portal_builders import NOW, Company, a_company, a_pool, an_actor
from clusters.models import ClusterNode
from clusters.queries import read_fleet
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.snapshots import load_snapshot
from jobs.errors import NeverFits
from jobs.execution.workloads import workload_of
from jobs.models import Attempt, Job
from jobs.submission.requests import read_job_request
from jobs.submission.sbatch import parse_sbatch
from jobs.submission.submission import submit_job_here
from primitives.errors import InvalidRequest
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db
MIB_OF_NODE = 1_000_000


@pytest.fixture
def company() -> Company:
    """Two nodes of 8 GPUs, 64 CPUs and a million MiB, of which 8 CPUs come with a GPU, and one of
    which neither is known."""
    company = a_company(nodes=3)
    known = company.cluster.nodes.order_by("name")[:2]
    ClusterNode.objects.filter(pk__in=[node.pk for node in known]).update(
        cpu_milli=64_000, memory_mib=MIB_OF_NODE, cpu_milli_per_gpu=8_000
    )
    return company


@pytest.fixture
def bob(company: Company) -> Actor:
    return an_actor(company.nlp, Role.RESEARCHER, "bob")


def submit(actor: Actor, **changes: Any) -> Job:
    with transaction.atomic():
        return submit_job_here(read_job_request(a_body(**changes)), actor=actor, now=NOW)


def test_the_arbiter_is_told_what_nodes_have_and_what_jobs_want(bob: Actor) -> None:
    """Mutants: CPUs told in whole ones; what runs forgets what its job asked for."""
    asked = submit(bob, gpus=1, cpus_per_node=40, memory_mib_per_node=9_000)
    plain = submit(bob, gpus=1)
    assert (asked.cpus_per_node, asked.memory_mib_per_node) == (40, 9_000)
    waiting = {job.id: (job.cpu_milli, job.memory_mib) for job in load_snapshot(NOW).queued}
    assert waiting == {str(asked.pk): (40_000, 9_000), str(plain.pk): (None, None)}
    fleet = read_fleet().devices
    assert [(one.cpu_milli, one.memory_mib, one.cpu_milli_per_gpu) for one in fleet] == [
        (64_000, MIB_OF_NODE, 8_000),
        (64_000, MIB_OF_NODE, 8_000),
        (None, None, 0),
    ]


def test_cpu_and_memory_that_pools_share_count_in_none(company: Company) -> None:
    """Each pool is decided on its own. Mutant: they counted whole in each."""
    first = company.cluster.nodes.order_by("name").first()
    assert first is not None
    ClusterNode.objects.create(
        cluster=company.cluster,
        name=first.name,
        pool=a_pool("mig"),
        capacity_mgpu=1_000,
        is_schedulable=True,
        state="up",
        cpu_milli=64_000,
        memory_mib=MIB_OF_NODE,
        seen_at=NOW,
    )
    fleet = read_fleet().devices
    assert [one.cpu_milli for one in fleet] == [None, None, 64_000, None]


@pytest.mark.parametrize(
    ("changes", "told", "pointer"),
    [
        (
            {"gpus_per_node": 1, "nodes": 2, "cpus_per_node": 65, "cluster": "site-a"},
            "2 GPUs of h100 can never run: of pool h100 on site-a at most 1 node of one cluster "
            "has 1 GPU and 65 CPUs, and it needs 2.",
            "/cpus_per_node",
        ),
        (
            {"gpus_per_node": 2, "nodes": 3, "memory_mib_per_node": MIB_OF_NODE + 1},
            "6 GPUs of h100 can never run: of pool h100 at most 1 node of one cluster has 2 GPUs "
            "and 1,000,001 MiB of memory, and it needs 3.",
            "/memory_mib_per_node",
        ),
    ],
)
def test_more_than_nodes_have_is_refused(
    company: Company, bob: Actor, changes: dict[str, Any], told: str, pointer: str
) -> None:
    """Mutants: only GPUs are looked at; nodes of which nothing is known have nothing."""
    if "cluster" in changes:
        changes = {**changes, "cluster": company.cluster.name}
        told = told.replace("site-a", company.cluster.name)
    with pytest.raises(NeverFits) as refused:
        submit(bob, gpus=..., **changes)
    assert str(refused.value) == told
    assert [error.pointer for error in refused.value.errors] == [pointer]
    assert refused.value.data["numbers"]["nodes_large_enough"] == 1
    assert submit(bob, gpus=..., gpus_per_node=1, nodes=3, cpus_per_node=64).pk


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"cpus_per_node": 0}, "/cpus_per_node"),
        ({"cpus_per_node": 1.5}, "/cpus_per_node"),
        ({"cpus_per_node": 65_537}, "/cpus_per_node"),
        ({"memory_mib_per_node": 0}, "/memory_mib_per_node"),
        ({"memory_mib_per_node": "64G"}, "/memory_mib_per_node"),
        ({"memory_mib_per_node": (1 << 30) + 1}, "/memory_mib_per_node"),
    ],
)
def test_what_is_no_amount_is_refused(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_job_request(a_body(**changes))
    assert [error.pointer for error in refused.value.errors] == [pointer]


def test_the_database_keeps_amounts_possible(bob: Actor) -> None:
    job = submit(bob, gpus=1)
    for impossible in ({"cpus_per_node": 0}, {"memory_mib_per_node": 0}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Job.objects.filter(pk=job.pk).update(**impossible)


def test_a_job_waits_for_cpus_and_its_cluster_is_told_how_many(
    company: Company, bob: Actor, cycles: Cycles
) -> None:
    """Mutant: what runs holds no more than what comes with its GPUs."""
    holder = a_job(company, bob.user, state="running", mgpu_per_node=1_000, cpus_per_node=30)
    node = company.cluster.nodes.order_by("name")[0].name
    attempt = an_attempt(holder, cluster=company.cluster, nodes=(node,))
    workload = workload_of(attempt)
    assert (workload.cpus_per_node, workload.memory_mib_per_node) == (30, None)
    other = a_job(company, bob.user, state="running", mgpu_per_node=1_000, cpus_per_node=40)
    names = [one.name for one in company.cluster.nodes.order_by("name")]
    an_attempt(other, cluster=company.cluster, nodes=(names[1],))
    wide = submit(bob, gpus_per_node=1, nodes=2, gpus=..., cpus_per_node=35)
    ClusterNode.objects.filter(name=names[2]).update(is_schedulable=False, capacity_mgpu=0)
    cycles.run(NOW)
    wide.refresh_from_db()
    assert wide.state == "queued"
    assert wide.explanation["code"] == "topology_fragmented"
    assert wide.explanation["numbers"]["nodes_fitting_by_gpus"] == 2
    assert wide.explanation["numbers"]["cpu_milli_per_node"] == 35_000
    narrow = submit(bob, gpus=1, cpus_per_node=34)
    cycles.run(NOW)
    assert [slot["node"] for slot in Attempt.objects.get(job=narrow).slots] == [names[0]]


@pytest.mark.parametrize(
    ("lines", "fields", "verdict"),
    [
        ("-c 8", {"cpus_per_node": 8, "cpus_per_task": 8}, "understood"),
        (
            "--cpus-per-task=8\n#SBATCH --ntasks-per-node=4",
            {"cpus_per_node": 32, "cpus_per_task": 8, "ntasks_per_node": 4},
            "understood",
        ),
        (
            "-c 8\n#SBATCH -N 2\n#SBATCH -n 2",
            {"cpus_per_node": 8, "nodes": 2, "cpus_per_task": 8, "ntasks": 2},
            "understood",
        ),
        (
            "-c 8\n#SBATCH -N 2\n#SBATCH -n 16",
            {"cpus_per_node": 64, "nodes": 2, "cpus_per_task": 8, "ntasks": 16},
            "understood",
        ),
        ("--mem=64G", {"memory_mib_per_node": 65_536}, "understood"),
        ("--mem=2t", {"memory_mib_per_node": 2 << 20}, "understood"),
        ("--mem=4000", {"memory_mib_per_node": 4_000}, "understood"),
        ("--mem=1025K", {"memory_mib_per_node": 2}, "understood"),
        ("--mem=0", {}, "ignored"),
        ("--mem=much", {}, "refused"),
        ("-c many", {}, "refused"),
        ("--mem-per-cpu=4G", {"memory_mib_per_node": 4_096}, "understood"),
        (
            "--mem-per-cpu=4G\n#SBATCH -c 8",
            {"cpus_per_node": 8, "memory_mib_per_node": 32_768, "cpus_per_task": 8},
            "understood",
        ),
        ("--mem-per-cpu=4G\n#SBATCH -G 8 -n 8", {"gpus": 8, "ntasks": 8}, "ignored"),
        (
            "--mem-per-gpu=4G\n#SBATCH -G 8 -N 2",
            {"gpus": 8, "nodes": 2, "memory_mib_per_node": 16_384},
            "understood",
        ),
        (
            "--cpus-per-gpu=4\n#SBATCH --gres=gpu:2",
            {"gpus_per_node": 2, "cpus_per_node": 8},
            "understood",
        ),
        ("--cpus-per-gpu=4\n#SBATCH -G 2", {"gpus": 2}, "ignored"),
    ],
)
def test_the_lines_of_a_batch_script(lines: str, fields: dict[str, int], verdict: str) -> None:
    reading = parse_sbatch(f"#!/bin/sh\n#SBATCH {lines}\ntrue\n")
    assert reading.fields == fields
    assert reading.notes[0].verdict.value == verdict
