"""Archived pools: nothing new starts in them, jobs use their others, and their capacity is gone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from arbiter.api.plan import Plan, Start
from arbiter.api.plan import Reclaim as PlannedReclaim
from arbiter.api.snapshot import Slot
from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.cast import Cast, a_cast
from builders.job_builders import a_body, a_job, an_attempt
from builders.planned_cycles import use_plan
from builders.portal_builders import (
    NOW,
    Company,
    a_cluster_node,
    a_pool,
    a_quota,
)
from clusters.models import CapacitySegment, Cluster, ClusterNode, Pool
from clusters.observation import record_inventory, store_capacity
from clusters.queries import healthy_capacity_mgpu
from connectors.protocol import Inventory, NodeCapacity
from jobs.actions.archiving import RunningWork, WaitingWork, archive_pool
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.memory import Memory
from jobs.models import Attempt, Job, Reclaim
from quotas.models import Quota
from tenants.access import actor_of

pytestmark = pytest.mark.django_db
AT = int(NOW.timestamp())


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


@pytest.fixture
def other(company: Company) -> Pool:
    """A second pool, with a node of 8 and a quota of the organization and of bob's team."""
    pool = a_pool("a100")
    a_cluster_node(company.cluster, pool, "other-000")
    team = company.nlp
    above = []
    node = team
    while node is not None:
        above.append(node)
        node = node.parent
    for each in reversed(above):
        a_quota(each, pool, 8)
    return pool


def archived(pool: Pool, cast: Cast, **choices: Any) -> Pool:
    chosen = {"waiting": WaitingWork.WAIT, "running": RunningWork.END, **choices}
    return archive_pool(pool.pk, actor=actor_of(cast.root), now=NOW, **chosen)


def refused(by: str, act: Any) -> None:
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        act()
    assert refusal.value.__cause__.diag.constraint_name == by  # type: ignore[union-attr]


def test_work_is_shown_and_asked_about_first(company: Company, cast: Cast, other: Pool) -> None:
    """What runs in it and what accepts nothing else; jobs that accept another pool, or run in one,
    are left alone. Planted: jobs with another pool asked about; running ones by what they accept.
    """
    both = [company.pool.pk, other.pk]
    running = a_job(company, cast.bob, name="runs", state="running")
    an_attempt(running, cluster=company.cluster)
    elsewhere = a_job(company, cast.bob, name="elsewhere", state="running", pools=both)
    Job.objects.filter(pk=elsewhere.pk).update(pool=other)
    an_attempt(elsewhere, cluster=company.cluster)
    bound = a_job(company, cast.bob, name="bound")
    free = a_job(company, cast.bob, name="free", pools=both)
    root, path = by_token(cast.root), f"pools/{company.pool.pk}"
    work = root.get(f"{path}/archive").json()
    assert (work["waiting"], work["running"]) == (1, 1)
    assert [job["name"] for job in work["running_jobs"]] == ["runs"]

    answer = root.post(f"{path}/archive", {})
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "h100 has work. 1 job runs: set running to end or cancel; 1 job waits: set waiting to "
        "wait or cancel.",
    )
    assert Pool.objects.get(name="h100").archived_at is None

    shown = root.post(f"{path}/archive", {"running": "cancel", "waiting": "cancel"}).json()
    assert (shown["name"], shown["archived_at"] is None) == ("h100", False)
    for job in (running, elsewhere, bound, free):
        job.refresh_from_db()
    assert (bound.state, free.state) == ("cancelled", "queued")
    assert running.cancel_requested_at is not None
    assert elsewhere.cancel_requested_at is None
    # With its last pool the job that accepts both is asked about, too.
    work = root.get(f"pools/{other.pk}/archive").json()
    assert (work["waiting"], work["running"]) == (1, 1)
    root.post(f"{path}/restore", None)
    assert root.get(path).json()["archived_at"] is None
    assert list(AuditEvent.objects.order_by("pk").values_list("action", "subject_id")) == [
        ("pool.archived", str(company.pool.pk)),
        ("jobs_cancelled", str(company.pool.pk)),
        ("pool.restored", str(company.pool.pk)),
    ]


def test_it_counts_as_no_capacity_whatever_its_clusters_answer(
    company: Company, cast: Cast, other: Pool
) -> None:
    """Its capacity segments end; those of other pools of the cluster do not. Planted: the segments
    left open. Against: an answer that makes nodes schedulable again."""
    store_capacity(company.cluster, NOW - timedelta(hours=1))
    archived(company.pool, cast)
    assert healthy_capacity_mgpu([company.pool, other]) == {company.pool.pk: 0, other.pk: 8_000}
    shown = by_token(cast.root).get(f"pools/{company.pool.pk}").json()
    assert (shown["capacity_mgpu"], shown["is_overcommitted"]) == (0, False)
    devices = Memory().read(NOW).snapshot.devices
    assert {(one.pool, one.capacity_mgpu) for one in devices} == {
        (str(company.pool.pk), 0),
        (str(other.pk), 8_000),
    }
    segments = CapacitySegment.objects.order_by("pool__name", "start")
    assert list(segments.values_list("pool__name", "capacity_mgpu", "end")) == [
        ("a100", 8_000, None),
        ("h100", 32_000, NOW),
        ("h100", 0, None),
    ]
    node = NodeCapacity("ai-company-000", "h100", 8_000, True, "idle")
    known = Cluster.objects.get(pk=company.cluster.pk)
    record_inventory(known, Inventory(AT + 5, (node,)), now=NOW + timedelta(seconds=5))
    assert not ClusterNode.objects.filter(is_schedulable=True).exists()

    by_token(cast.root).post(f"pools/{company.pool.pk}/restore", None)
    known.refresh_from_db()
    record_inventory(known, Inventory(AT + 6, (node,)), now=NOW + timedelta(seconds=6))
    assert healthy_capacity_mgpu([company.pool]) == {company.pool.pk: 8_000}


def test_the_database_keeps_it_closed(company: Company, cast: Cast, other: Pool) -> None:
    """Against: the pool left out of the trigger on attempts; `pools` left out of that on jobs."""
    pools = Pool.objects.filter(pk=company.pool.pk)
    job = a_job(company, cast.bob)
    law = "node_of_an_archived_pool_takes_no_work"
    refused(law, lambda: pools.update(archived_at=NOW))
    archived(company.pool, cast)
    nodes = ClusterNode.objects.filter(pool=company.pool)
    refused(law, lambda: nodes.update(is_schedulable=True))
    law = "attempt_is_of_what_may_start"
    refused(law, lambda: an_attempt(job, cluster=company.cluster, state="reserved"))
    law = "job_is_for_pools_that_are_not_archived"
    refused(law, lambda: a_job(company, cast.bob))
    both = [other.pk, company.pool.pk]
    refused(law, lambda: a_job(company, cast.bob, pool=other, pools=both))
    native = a_job(company, cast.bob, origin="native", state="running", script="")
    an_attempt(native, cluster=company.cluster)


def test_who_waits_for_it_learns_why(company: Company, cast: Cast, other: Pool) -> None:
    """A job of which all pools are archived is withheld, others are offered. Against: the reason
    left out of what is withheld; jobs with another pool withheld."""
    bound = a_job(company, cast.bob)
    free = a_job(company, cast.bob, pools=[company.pool.pk, other.pk])
    memory = Memory()
    assert set(memory.read(NOW).queued) == {str(bound.pk), str(free.pk)}
    archived(company.pool, cast)
    reading = memory.read(NOW + timedelta(seconds=1))
    assert set(reading.queued) == {str(free.pk)}
    assert [(one.job, one.code) for one in reading.withheld] == [(str(bound.pk), "pool_archived")]
    archived(other, cast)
    assert memory.read(NOW + timedelta(seconds=2)).queued == {}
    by_token(cast.root).post(f"pools/{company.pool.pk}/restore", None)
    assert len(memory.read(NOW + timedelta(seconds=3)).queued) == 2


def test_the_reason_is_told_and_jobs_use_their_other_pools(
    cycles: Cycles, company: Company, cast: Cast, other: Pool
) -> None:
    """The attempt of a job whose first pool is archived starts in its second one. Planted: jobs
    moved to their pools after their attempts."""
    bound = a_job(company, cast.bob)
    free = a_job(company, cast.bob, pools=[company.pool.pk, other.pk])
    archived(company.pool, cast)
    assert cycles.run(NOW).started == 1
    for job in (bound, free):
        job.refresh_from_db()
    assert (free.state, free.pool_id) == ("starting", other.pk)
    told = by_token(cast.bob).get(f"jobs/{bound.pk}/explanation").json()
    assert (told["code"], told["sentence"]) == (
        "pool_archived",
        "Its pool is archived. It waits until an administrator restores the pool.",
    )


def test_nothing_is_submitted_into_it(company: Company, cast: Cast, other: Pool) -> None:
    """Planted: archived pools offered."""
    archived(company.pool, cast)
    bob = by_token(cast.bob)
    detail = "h100 is archived and takes no jobs; name another pool: you have a100"
    answer = bob.post("jobs", a_body(pool="h100"))
    assert (answer.status_code, answer.json()["detail"]) == (400, f"pool: {detail}")
    assert answer.json()["errors"][0]["code"] == "archived"
    body = {**a_body(), "pools": ["a100", "h100"]}
    body.pop("pool", None)
    answer = bob.post("jobs", body)
    assert (answer.status_code, answer.json()["detail"]) == (400, f"pools/1: {detail}")
    assert bob.post("jobs", a_body(pool="a100")).status_code == 201


def test_what_was_decided_before_is_left_out(
    cycles: Cycles, company: Company, cast: Cast, other: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start and a claim that a cycle had planned, in the archived pool of two. Planted:
    `_refused_by_now` without pools, and with the job's first pool only."""
    both = [other.pk, company.pool.pk]
    starts = a_job(company, cast.bob, pool=other, pools=both)
    claims = a_job(company, cast.bob, pool=other, pools=both)
    victim = an_attempt(
        a_job(company, cast.dave, team=company.inference, state="running"), cluster=company.cluster
    )
    slots, cluster, pool = (
        (Slot("ai-company-000", 1_000),),
        str(company.cluster.pk),
        str(company.pool.pk),
    )
    plan = Plan(
        0,
        starts=(Start(str(starts.pk), cluster, slots, 1_000, pool=pool),),
        reclaims=(PlannedReclaim(str(claims.pk), cluster, slots, (), AT + 300, pool=pool),),
    )
    use_plan(monkeypatch, plan)
    archived(company.pool, cast)
    report = cycles.run(NOW)
    assert (report.started, report.reclaims) == (0, 0)
    assert list(Attempt.objects.all()) == [victim]
    assert not Reclaim.objects.exists()


def test_its_quotas_stay_and_may_only_be_lowered(company: Company, cast: Cast, other: Pool) -> None:
    """Against: raised guarantees let through; limits that are cleared let through."""
    quota = Quota.objects.get(node=company.nlp, pool=other)
    Quota.objects.filter(pk=quota.pk).update(borrow_limit_mgpu=2_000, guaranteed_mgpu=4_000)
    archived(other, cast)
    root = by_token(cast.root)

    def edit(**change: Any) -> Any:
        return root.patch(
            f"quotas/{quota.pk}",
            {**change, "reason": "r"},
            if_match=root.get(f"quotas/{quota.pk}").headers["ETag"],
        )

    detail = "a100 is archived, so its quotas may only be lowered. Restore it first."
    for change in ({"guaranteed_mgpu": 5_000}, {"borrow_limit_mgpu": None}):
        answer = edit(**change)
        assert (answer.status_code, answer.json()["detail"]) == (409, detail)
    assert edit(guaranteed_mgpu=3_000, borrow_limit_mgpu=1_000).status_code == 200
    quota.refresh_from_db()
    assert (quota.guaranteed_mgpu, quota.borrow_limit_mgpu) == (3_000, 1_000)
    answer = root.post(
        "quotas",
        {
            "node": "ai-company/production",
            "pool": "a100",
            "guaranteed_mgpu": 0,
            "reason": "r",
        },
    )
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "a100 is archived, so no new quotas can be created in it. Restore it first, or choose "
        "another pool.",
    )


def test_what_was_never_used_is_deleted_and_what_was_used_is_not(
    company: Company, cast: Cast
) -> None:
    root = by_token(cast.root)
    typo = a_pool("typo")
    assert root.delete(f"pools/{typo.pk}").status_code == 204
    assert list(Pool.objects.values_list("name", flat=True)) == ["h100"]
    event = AuditEvent.objects.get(action="pool.deleted")
    assert (event.actor, event.subject_id, event.detail) == (
        "root",
        str(typo.pk),
        {"name": "typo", "device": "gpu"},
    )
    a_job(company, cast.bob)
    store_capacity(company.cluster, NOW)
    answer = root.delete(f"pools/{company.pool.pk}")
    assert (answer.status_code, answer.json()["used_by"]) == (
        409,
        ["a history of its capacity", "jobs", "nodes", "quotas"],
    )
    assert answer.json()["detail"].endswith("Archive it instead.")
