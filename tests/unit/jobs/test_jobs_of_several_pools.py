"""Jobs that accept several pools: what is read, refused, stored, decided, shown and charged."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from billing.models import MeteredAttempt
from builders.api_callers import by_token
from builders.job_builders import a_body, a_job
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
from jobs.models import Attempt, Job, Reclaim
from jobs.submission.requests import read_job_request
from jobs.submission.submission import resolve, submit_job_here
from jobs.whatif.preview import preview_job
from primitives.errors import InvalidRequest
from tenants.access import Actor
from tenants.models import Node, User
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def company() -> Company:
    """h100: four nodes of 8 GPUs."""
    return a_company(nodes=4)


@pytest.fixture
def a100(company: Company) -> Pool:
    """Two nodes of 8 GPUs, all guaranteed to nlp, on a cluster of their own."""
    pool, cluster = a_pool("a100", weight=400), a_cluster("other")
    for name in ("a-0", "a-1"):
        a_cluster_node(cluster, pool, name)
    for node in (company.organization, company.research, company.nlp):
        a_quota(node, pool, 16)
    return pool


@pytest.fixture
def bob(company: Company) -> Actor:
    return an_actor(company.nlp, Role.RESEARCHER, "bob")


def submit(actor: Actor, **changes: Any) -> Job:
    with transaction.atomic():
        return submit_job_here(read_job_request(a_body(**changes)), actor=actor, now=NOW)


def occupy(cycles: Cycles, company: Company, user: User, *, by: Node | None = None) -> None:
    """A job of inference, or of another team, starts on all of h100; half at least is lent."""
    Cluster.objects.update(seen_at=NOW)
    a_job(company, user, team=by or company.inference, mgpu_per_node=8_000, node_count=4)
    assert cycles.run(NOW).started == 1


@pytest.mark.parametrize(
    ("changes", "pointer", "detail"),
    [
        ({"pool": "h100", "pools": ["a100"]}, "/pools", "give pool, or several in pools, not both"),
        ({"pools": "h100"}, "/pools", "must be a list of names of pools"),
        ({"pools": ["h100", 1]}, "/pools", "must be a list of names of pools"),
        ({"pools": []}, "/pools", "has 0 names; give 1 to 4"),
        ({"pools": list("abcde")}, "/pools", "has 5 names; give 1 to 4"),
        ({"pools": ["h100", "h100"]}, "/pools", "names a pool twice"),
    ],
)
def test_what_is_no_list_of_pools_is_refused(
    changes: dict[str, Any], pointer: str, detail: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        read_job_request(a_body(**changes))
    assert [(error.pointer, error.detail) for error in refusal.value.errors] == [(pointer, detail)]


def test_each_pool_must_be_one_of_the_teams(bob: Actor, a100: Pool) -> None:
    a_pool("tpu")
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, pools=["h100", "tpu"])
    assert [(error.pointer, error.detail) for error in refusal.value.errors] == [
        ("/pools/1", "there is no pool 'tpu' for you; you have a100, h100")
    ]


def test_each_pool_must_be_able_to_run_it_some_day(bob: Actor, a100: Pool) -> None:
    """Its size is laid out on the first pool."""
    with pytest.raises(NeverFits, match="24 GPUs of a100 can never run: the pool a100 has 16 GPUs"):
        submit(bob, pools=["h100", "a100"], gpus=24)
    assert preview(bob, pools=["h100", "a100"], gpus=24).fits is False
    ClusterNode.objects.filter(pool=a100).update(capacity_mgpu=4_000)
    with pytest.raises(NeverFits, match="8 GPUs of a100 can never run: no cluster has 1 node with"):
        submit(bob, pools=["h100", "a100"], gpus=8)
    assert submit(bob, pools=["a100", "h100"], gpus=8).node_count == 2


def test_a_pinned_cluster_must_have_nodes_of_each_pool(bob: Actor, a100: Pool) -> None:
    with pytest.raises(InvalidRequest, match="there is no cluster 'local' with a100"):
        submit(bob, pools=["h100", "a100"], cluster="local")


def test_it_is_stored_and_offered_in_its_order(bob: Actor, company: Company, a100: Pool) -> None:
    job = submit(bob, pools=["a100", "h100"])
    assert (job.pool, job.pools) == (a100, [a100.pk, company.pool.pk])
    one, sole = submit(bob, pools=["a100"]), submit(bob, pool="a100")
    assert (one.pool, one.pools, sole.pool, sole.pools) == (a100, [], a100, [])
    offered = {asked.id: asked for asked in load_snapshot(NOW).queued}
    assert offered[str(job.pk)].pools == (str(a100.pk), str(company.pool.pk))
    assert offered[str(one.pk)].pools == offered[str(sole.pk)].pools == (str(a100.pk),)
    with (
        pytest.raises(IntegrityError, match="job_accepts_a_few_pools_or_one"),
        transaction.atomic(),
    ):
        Job.objects.filter(pk=job.pk).update(pools=[a100.pk])


def test_every_task_of_an_array_accepts_them(bob: Actor, a100: Pool, company: Company) -> None:
    submit(bob, pools=["h100", "a100"], array="0-2")
    assert list(Job.objects.values_list("pools", flat=True)) == [[company.pool.pk, a100.pk]] * 3


@pytest.mark.parametrize(
    ("partition", "changes", "expected", "verdict"),
    [
        ("h100,a100", {}, ["h100", "a100"], "pools = h100, a100"),
        ("a100,h100", {}, ["a100", "h100"], "pools = a100, h100"),
        ("gpu,a100", {}, ["a100"], "pool = a100"),
        ("h100,a100", {"pool": "a100"}, ["a100"], "The request itself says otherwise."),
        (
            "h100",
            {"pools": ["a100", "h100"]},
            ["a100", "h100"],
            "The request itself says otherwise.",
        ),
    ],
)
def test_partitions_of_a_batch_script_are_pools(
    bob: Actor,
    a100: Pool,
    partition: str,
    changes: dict[str, Any],
    expected: list[str],
    verdict: str,
) -> None:
    """As Slurm takes several, in any order; here the order is that of preference."""
    sbatch = f"#SBATCH --partition={partition}\ntrue\n"
    resolved = resolve(read_job_request(a_body(script=..., sbatch=sbatch, **changes)), actor=bob)
    assert [one.pool.name for one in resolved.in_each_pool] == expected
    assert [note.detail for note in resolved.notes if "partition" in note.text] == [verdict]


def test_it_runs_and_is_charged_where_it_starts(
    cycles: Cycles, bob: Actor, company: Company, a100: Pool
) -> None:
    """Its attempt, its meter and its cluster say the pool of the start, and so does the next one
    when it starts in another pool."""
    occupy(cycles, company, bob.user)
    job = submit(bob, pools=["h100", "a100"], gpus=8)
    report = cycles.run(NOW)
    assert report.started == 1
    job.refresh_from_db()
    assert (job.pool, job.pools) == (a100, [company.pool.pk, a100.pk])
    attempt = Attempt.objects.select_related("job__pool", "job__array").get(job=job)
    assert attempt.cluster.name == "other"
    assert MeteredAttempt.objects.get(pk=attempt.pk).pool_id == a100.pk
    work = workload_of(attempt)
    assert (work.pool, work.environment["TIDEGATE_POOL"]) == ("a100", "a100")
    assert {run.pool for run in load_snapshot(NOW).running if run.job == str(job.pk)} == {
        str(a100.pk)
    }
    Attempt.objects.filter(released_at=None).update(state="ended", ended_at=NOW, released_at=NOW)
    Job.objects.exclude(pk=job.pk).update(state="succeeded", ended_at=NOW)
    Job.objects.filter(pk=job.pk).update(state="queued")
    assert cycles.run(NOW).started == 1
    job.refresh_from_db()
    assert (job.pool, job.attempts.count()) == (company.pool, 2)
    metered = MeteredAttempt.objects.filter(job_id=job.pk).order_by("number")
    assert list(metered.values_list("pool__name", flat=True)) == ["a100", "h100"]


def test_a_claim_keeps_its_pool(cycles: Cycles, bob: Actor, company: Company, a100: Pool) -> None:
    occupy(cycles, company, bob.user)
    ClusterNode.objects.filter(pool=a100).update(is_schedulable=False)
    job = submit(bob, pools=["a100", "h100"], gpus=8)
    assert cycles.run(NOW).started == 0
    assert Reclaim.objects.get().pool == company.pool
    (claim,) = load_snapshot(NOW).claims
    assert (claim.job, claim.pool) == (str(job.pk), str(company.pool.pk))
    job.refresh_from_db()
    assert (job.explanation["pool"], job.explanation["elsewhere"]) == ("h100", [])


def test_why_it_waits_is_told_of_each_pool(
    cycles: Cycles, bob: Actor, company: Company, a100: Pool
) -> None:
    occupy(cycles, company, bob.user, by=company.nlp)
    other = submit(bob, pool="a100", gpus=16)
    job = submit(bob, pools=["h100", "a100"], gpus=16)
    cycles.run(NOW)
    other.refresh_from_db()
    assert other.state == "starting"
    body = by_token(bob.user).get(f"jobs/{job.pk}").json()
    assert (body["pool"], body["pools"]) == ("h100", ["h100", "a100"])
    why = body["explanation"]
    (there,) = why["elsewhere"]
    assert (why["pool"], there["pool"]) == ("h100", "a100")
    assert there["code"] == "waiting_for_free_gpus"
    assert there["numbers"]["need_mgpu"] == 16_000
    assert why["sentence"].startswith("h100: ")
    assert why["sentence"].endswith(f" a100: {there['sentence']}")
    rows = by_token(bob.user).get("jobs?pool=a100").json()["items"]
    assert [row["id"] for row in rows] == [str(job.pk), str(other.pk)]


def preview(actor: Actor, **changes: Any) -> Any:
    return preview_job(read_job_request(a_body(**changes)), actor=actor, now=NOW)


@pytest.mark.django_db(transaction=True)
def test_the_preview_says_where_it_would_start(
    cycles: Cycles, bob: Actor, company: Company, a100: Pool
) -> None:
    Cluster.objects.update(seen_at=NOW)
    found = preview(bob, pools=["h100", "a100"], gpus=8)
    assert (found.pool, found.cluster) == ("h100", "local")
    occupy(cycles, company, bob.user)
    found = preview(bob, pools=["h100", "a100"], gpus=8)
    assert (found.would_start_now, found.pool, found.cluster) == (True, "a100", "other")
    assert found.explanation["sentence"] == "It would start now on other in a100."
    assert found.guaranteed_mgpu == 8_000
