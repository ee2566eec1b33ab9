"""Archived clusters: nothing new starts there, what runs is metered, and their capacity is gone."""

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
from builders.portal_builders import NOW, Company, a_cluster, a_cluster_node
from builders.sent_attempts import told
from clusters.models import CapacitySegment, Cluster, ClusterNode
from clusters.observation import record_inventory, store_capacity
from clusters.queries import features_of, healthy_capacity_mgpu
from connectors.protocol import Inventory, NodeCapacity
from jobs.actions.archiving import RunningWork, WaitingWork, archive_cluster
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.memory import Memory
from jobs.loops.observer import _clusters_to_watch
from jobs.models import Attempt, Reclaim
from tenants.access import actor_of
from webapi.problems import render_problem

pytestmark = pytest.mark.django_db
AT = int(NOW.timestamp())


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


def archived(cluster: Cluster, cast: Cast, **choices: Any) -> Cluster:
    chosen = {"waiting": WaitingWork.WAIT, "running": RunningWork.END, **choices}
    return archive_cluster(cluster.pk, actor=actor_of(cast.root), now=NOW, **chosen)


def refused(by: str, act: Any) -> None:
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        act()
    assert refusal.value.__cause__.diag.constraint_name == by  # type: ignore[union-attr]


def watched(after: timedelta = timedelta(0)) -> list[tuple[str, bool]]:
    names = dict(Cluster.objects.values_list("pk", "name"))
    return sorted((names[one.cluster_id], one.looks) for one in _clusters_to_watch(NOW + after))


def test_work_is_shown_and_asked_about_first(company: Company, cast: Cast) -> None:
    """What runs there and what is pinned to it; jobs elsewhere are left alone. Planted: pinned
    jobs left out; jobs whose attempts elsewhere hold GPUs counted."""
    elsewhere = a_cluster("elsewhere")
    running = a_job(company, cast.bob, name="runs", state="running")
    an_attempt(running, cluster=company.cluster)
    other = a_job(company, cast.bob, name="other", state="running")
    an_attempt(other, cluster=elsewhere)
    pinned = a_job(company, cast.bob, name="pinned", cluster=company.cluster)
    free = a_job(company, cast.bob, name="free")
    root, path = by_token(cast.root), f"clusters/{company.cluster.pk}"
    work = root.get(f"{path}/archive").json()
    assert (work["waiting"], work["running"]) == (1, 1)
    assert [job["name"] for job in work["running_jobs"]] == ["runs"]

    answer = root.post(f"{path}/archive", {})
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "local has work. 1 job runs: set running to end or cancel; 1 job waits: set waiting to "
        "wait or cancel.",
    )
    assert Cluster.objects.get(name="local").archived_at is None

    shown = root.post(f"{path}/archive", {"running": "cancel", "waiting": "cancel"}).json()
    assert (shown["is_enabled"], shown["archived_at"] is None) == (False, False)
    for job in (running, other, pinned, free):
        job.refresh_from_db()
    assert (pinned.state, free.state) == ("cancelled", "queued")
    assert running.cancel_requested_at is not None
    assert other.cancel_requested_at is None
    assert list(AuditEvent.objects.order_by("pk").values_list("action", "subject_id")) == [
        ("cluster.archived", str(company.cluster.pk)),
        ("jobs_cancelled", str(company.cluster.pk)),
    ]
    shown = root.post(f"{path}/restore", None).json()
    assert (shown["is_enabled"], shown["archived_at"]) == (True, None)


def test_it_offers_nothing_and_counts_as_no_capacity_whatever_it_answers(
    company: Company, cast: Cast
) -> None:
    """Its capacity segment ends, and stays as it was before. Planted: the segment left open;
    an answer that makes nodes schedulable again."""
    ClusterNode.objects.update(features=["a100"])
    store_capacity(company.cluster, NOW - timedelta(hours=1))
    archived(company.cluster, cast)
    assert healthy_capacity_mgpu([company.pool]) == {company.pool.pk: 0}
    assert features_of([company.pool]) == {company.pool.pk: []}
    snapshot = Memory().read(NOW).snapshot
    assert snapshot.clusters == frozenset()
    assert {device.capacity_mgpu for device in snapshot.devices} == {0}
    segments = list(CapacitySegment.objects.order_by("start").values_list("capacity_mgpu", "end"))
    assert segments == [(32_000, NOW), (0, None)]

    node = NodeCapacity("ai-company-000", "h100", 8_000, True, "idle")
    known = Cluster.objects.get(pk=company.cluster.pk)
    later = NOW + timedelta(seconds=5)
    record_inventory(known, Inventory(AT + 5, (node,)), now=later)
    assert not ClusterNode.objects.filter(is_schedulable=True).exists()

    by_token(cast.root).post(f"clusters/{company.cluster.pk}/restore", None)
    known.refresh_from_db()
    record_inventory(known, Inventory(AT + 6, (node,)), now=later)
    assert healthy_capacity_mgpu([company.pool]) == {company.pool.pk: 8_000}


def test_the_database_keeps_it_closed(company: Company, cast: Cast) -> None:
    """Against: each trigger and constraint without its effect."""
    nodes = ClusterNode.objects.filter(cluster=company.cluster)
    clusters = Cluster.objects.filter(pk=company.cluster.pk)
    job = a_job(company, cast.bob)
    law = "node_of_an_archived_cluster_takes_no_work"
    refused(law, lambda: clusters.update(archived_at=NOW, is_enabled=False))
    archived(company.cluster, cast)
    refused(law, lambda: nodes.update(is_schedulable=True))
    refused("cluster_that_is_archived_is_disabled", lambda: clusters.update(is_enabled=True))
    law = "attempt_is_of_what_may_start"
    refused(law, lambda: an_attempt(job, cluster=company.cluster, state="reserved"))
    law = "job_is_for_a_cluster_that_is_not_archived"
    refused(law, lambda: a_job(company, cast.bob, cluster=company.cluster))
    native = a_job(
        company, cast.bob, origin="native", state="running", script="", cluster=company.cluster
    )
    an_attempt(native, cluster=company.cluster)


def test_who_waits_for_it_learns_why(company: Company, cast: Cast) -> None:
    """A pinned job is withheld; another one is told which cluster could run it. Planted: the reason
    left out of what is withheld; features of the job not asked about."""
    ClusterNode.objects.update(features=["a100"])
    pinned = a_job(company, cast.bob, cluster=company.cluster)
    free = a_job(company, cast.bob, features=["a100"])
    other = a_job(company, cast.bob, features=["v100"])
    memory = Memory()
    assert len(memory.read(NOW).queued) == 3
    archived(company.cluster, cast)
    reading = memory.read(NOW + timedelta(seconds=1))
    assert set(reading.queued) == {str(free.pk), str(other.pk)}
    assert [(one.job, one.code) for one in reading.withheld] == [
        (str(pinned.pk), "cluster_archived")
    ]
    for job in (free, other):
        job.explanation = {"code": "never_fits", "sentence": "No."}
        job.save()
    bob = actor_of(cast.bob)
    assert told(free, bob) == "No. local, which has such nodes, is archived and starts nothing."
    assert told(other, bob) == "No."
    by_token(cast.root).post(f"clusters/{company.cluster.pk}/restore", None)
    assert len(memory.read(NOW + timedelta(seconds=2)).queued) == 3


def test_nobody_names_it_and_nothing_is_submitted_for_it_alone(
    company: Company, cast: Cast
) -> None:
    archived(company.cluster, cast)
    bob = by_token(cast.bob)
    answer = bob.post("jobs", a_body(cluster="local"))
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "cluster: local is archived and takes no jobs; name another cluster, or none",
    )
    a_cluster_node(a_cluster("other"), company.pool, capacity_mgpu=4_000)
    assert bob.post("jobs", a_body(gpus=4)).status_code == 201
    answer = bob.post("jobs", a_body(gpus=8, nodes=1))
    assert (answer.status_code, answer.json()["code"]) == (400, "never_fits")


def test_a_job_that_names_it_as_somebody_archives_it_is_refused_in_words(
    company: Company, cast: Cast
) -> None:
    archived(company.cluster, cast)
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        a_job(company, cast.bob, cluster=company.cluster)
    response = render_problem(refusal.value, {})
    assert response is not None
    assert (response.status_code, response.data["detail"]) == (
        409,
        "The cluster was archived meanwhile and takes no jobs. Name another cluster, or none.",
    )


def test_what_was_decided_before_is_left_out(
    cycles: Cycles, company: Company, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start and a claim that a cycle had planned. Planted: `_refused_by_now` without clusters,
    and not asked about claims."""
    starts, claims = a_job(company, cast.bob), a_job(company, cast.bob)
    victim = an_attempt(
        a_job(company, cast.dave, team=company.inference, state="running"), cluster=company.cluster
    )
    slots = (Slot("ai-company-000", 1_000),)
    cluster = str(company.cluster.pk)
    until = int(NOW.timestamp()) + 300
    plan = Plan(
        0,
        starts=(Start(str(starts.pk), cluster, slots, 1_000),),
        reclaims=(PlannedReclaim(str(claims.pk), cluster, slots, (), until),),
    )
    use_plan(monkeypatch, plan)
    archived(company.cluster, cast)
    report = cycles.run(NOW)
    assert (report.started, report.reclaims) == (0, 0)
    assert list(Attempt.objects.all()) == [victim]
    assert not Reclaim.objects.exists()


def test_it_is_looked_at_until_it_is_empty(company: Company, cast: Cast) -> None:
    """Its accounting is still asked for its last days. Against: looked at for ever; looked at no
    more at once."""
    attempt = an_attempt(a_job(company, cast.bob, state="running"), cluster=company.cluster)
    archived(company.cluster, cast)
    assert watched() == [("local", True)]
    Attempt.objects.filter(pk=attempt.pk).update(released_at=NOW, ended_at=NOW, state="ended")
    assert watched() == [("local", False)]


def test_only_its_accounting_is_asked_for_its_last_days(cast: Cast) -> None:
    """Against: no more asked at once; asked for ever."""
    archived(a_cluster("slurm-a", kind="slurm"), cast)
    assert ("slurm-a", False) in watched()
    assert ("slurm-a", False) in watched(after=timedelta(days=7))
    assert ("slurm-a", False) not in watched(after=timedelta(days=9))


def test_it_is_not_enabled_but_restored(company: Company, cast: Cast) -> None:
    archived(company.cluster, cast)
    path = f"clusters/{company.cluster.pk}"
    answer = by_token(cast.root).patch(path, {"is_enabled": True})
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "local is archived. Restore it instead.",
    )


def test_what_never_answered_is_deleted_and_what_was_used_is_not(
    company: Company, cast: Cast
) -> None:
    root = by_token(cast.root)
    typo = a_cluster("typo", seen_at=None)
    assert root.delete(f"clusters/{typo.pk}").status_code == 204
    assert list(Cluster.objects.values_list("name", flat=True)) == ["local"]
    event = AuditEvent.objects.get(action="cluster.deleted")
    assert (event.actor, event.subject_id, event.detail) == (
        "root",
        str(typo.pk),
        {"name": "typo", "kind": "local"},
    )
    answer = root.delete(f"clusters/{company.cluster.pk}")
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "local has nodes, so deletion is not possible. Archive it instead.",
    )
