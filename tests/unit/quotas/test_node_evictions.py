"""A drain that evicts: its jobs are preempted, and it is done when nothing is left on the node."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from audit.models import AuditEvent
from builders.api_callers import Caller, by_token
from builders.connector_builders import change_kind
from builders.job_builders import a_job, an_attempt
from builders.loop_builders import Fenced
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_priority_class,
    a_user,
    an_actor,
)
from clusters.models import ClusterNode, NodeRequest
from clusters.node_requests import node_shard
from connectors.errors import ClusterUnavailable, NodeRefused
from connectors.node_control import LeftOnNode
from jobs.execution.dispatch import handlers
from jobs.models import Attempt, Job, JobEvent
from outbox.delivery import deliver_due
from outbox.models import Message
from primitives.clock import SystemClock
from quotas.models import OrganizationPolicy
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@dataclass
class AControl:
    """Has on the node what `left` says, or answers with `refusal`; remembers what it was asked."""

    left: LeftOnNode = field(default_factory=LeftOnNode)
    refusal: Exception | None = None
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def drain(self, node: str, reason: str) -> None:
        self.asked.append(("drain", node, reason))

    def resume(self, node: str) -> None:
        self.asked.append(("resume", node))

    def evict(self, node: str, *, grace_s: int, jobs: Collection[str]) -> LeftOnNode:
        self.asked.append(("evict", node, grace_s, sorted(jobs)))
        if self.refusal is not None:
            raise self.refusal
        return self.left


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> AControl:
    made = AControl()
    change_kind(
        monkeypatch,
        "kubernetes",
        control_nodes=lambda connector: made,
        control_eviction=lambda connector: made,
    )
    return made


@pytest.fixture
def company() -> Company:
    company = a_company()
    company.cluster.kind = "kubernetes"
    company.cluster.save()
    return company


@pytest.fixture
def node(company: Company) -> ClusterNode:
    return ClusterNode.objects.get(name="ai-company-000")


@pytest.fixture
def admin() -> Caller:
    return by_token(an_actor(None, Role.PLATFORM_ADMIN, "root").user)


def a_running(company: Company, native_id: str, **changes: Any) -> Job:
    job = a_job(company, a_user(company.organization), state="running", **changes)
    an_attempt(job, cluster=company.cluster, native_id=native_id, started_at=NOW)
    return job


def drain(admin: Caller, node: ClusterNode, grace_s: int = 300) -> dict[str, Any]:
    answer = admin.post(f"nodes/{node.pk}/drain", {"reason": "fans", "evict_grace_s": grace_s})
    assert answer.status_code == 202
    found: dict[str, Any] = answer.json()["request"]
    return found


def deliver(node: ClusterNode, *, after: timedelta = timedelta(0)) -> int:
    def clock() -> datetime:
        return SystemClock().now() + after

    leader: Any = Fenced("observer")
    return deliver_due(
        handlers(leader, clock, lambda cluster: None),  # type: ignore[arg-type, return-value]
        shard=node_shard(node.cluster_id),
        clock=clock,
        fence=leader.fence,
    )


def request_of(admin: Caller, node: ClusterNode) -> dict[str, Any]:
    found: dict[str, Any] = admin.get(f"nodes/{node.pk}").json()["request"]
    return found


def test_the_jobs_of_the_node_are_preempted_once_and_no_others(
    company: Company, node: ClusterNode, admin: Caller, control: AControl
) -> None:
    """Mutants: the jobs that its slots say to be there (an attempt is where the cluster's own
    scheduler put it); notified again at each look, with a later deadline."""
    there, elsewhere = a_running(company, "uid-1"), a_running(company, "uid-2")
    control.left = LeftOnNode(frozenset({"uid-1"}))
    asked = drain(admin, node)
    assert (asked["state"], asked["evict_grace_s"]) == ("pending", 300)
    assert Attempt.objects.get(job=there).state == "running"

    deliver(node)
    assert control.asked == [
        ("drain", node.name, "fans"),
        ("evict", node.name, 300, ["uid-1", "uid-2"]),
    ]
    attempt = Attempt.objects.get(job=there)
    assert (attempt.state, attempt.stop_reason) == ("stopping", "preempted")
    assert attempt.reclaim is None
    assert attempt.notice_at is not None
    assert attempt.grace_until == attempt.notice_at + timedelta(seconds=300)
    there.refresh_from_db()
    elsewhere.refresh_from_db()
    assert (there.state, elsewhere.state) == ("preempting", "running")
    event = JobEvent.objects.get(job=there)
    assert event.event == "preempting"
    assert event.detail == {"attempt": 1, "grace_s": 300, "drained_node": node.name}

    deliver(node, after=timedelta(minutes=1))
    assert Attempt.objects.get(job=there).grace_until == attempt.grace_until
    assert Message.objects.filter(kind="notify_attempt").count() == 1
    assert JobEvent.objects.count() == 1


@pytest.mark.parametrize(
    ("of_class", "of_organization", "grace_s"),
    [(60, 600, 60), (600, 120, 120), (600, 600, 600), (600, None, 600), (7_200, 7_200, 3_600)],
)
def test_the_notice_is_as_long_as_for_a_reclaim(
    of_class: int,
    of_organization: int | None,
    grace_s: int,
    company: Company,
    node: ClusterNode,
    admin: Caller,
    control: AControl,
) -> None:
    """Mutant: the class alone, which its organization may have cut."""
    if of_organization is None:
        OrganizationPolicy.objects.all().delete()
    else:
        OrganizationPolicy.objects.update(grace_period_s=of_organization)
    slow = a_priority_class(company.organization, "slow", grace_period_s=of_class)
    job = a_running(company, "uid-1", priority_class=slow)
    control.left = LeftOnNode(frozenset({"uid-1"}))
    drain(admin, node, grace_s=5)
    deliver(node)
    attempt = Attempt.objects.get(job=job)
    assert attempt.notice_at is not None
    assert attempt.grace_until == attempt.notice_at + timedelta(seconds=grace_s)


def test_a_native_job_that_was_just_started_is_known_by_its_own_id(
    company: Company, node: ClusterNode, admin: Caller, control: AControl
) -> None:
    """Mutant: by its attempt's, which is recorded a moment after its Pods may be there."""
    job = a_job(
        company,
        a_user(company.organization),
        state="starting",
        origin="native",
        native_id="uid-9",
        cluster=company.cluster,
        script="",
    )
    an_attempt(job, cluster=company.cluster, state="reserved")
    control.left = LeftOnNode(frozenset({"uid-9"}))
    drain(admin, node)
    deliver(node)
    assert control.asked[1] == ("evict", node.name, 300, ["uid-9"])
    assert Attempt.objects.get().stop_reason == "preempted"


def test_what_is_being_stopped_already_keeps_its_deadline_and_its_reason(
    company: Company, node: ClusterNode, admin: Caller, control: AControl
) -> None:
    """Mutant: a cancelled job became a preempted one, and queued again."""
    job = a_job(company, a_user(company.organization), state="running", cancel_requested_at=NOW)
    an_attempt(
        job,
        cluster=company.cluster,
        native_id="uid-1",
        state="stopping",
        stop_reason="cancelled",
        notice_at=NOW,
        grace_until=NOW,
    )
    control.left = LeftOnNode(frozenset({"uid-1"}))
    drain(admin, node)
    deliver(node)
    attempt = Attempt.objects.get()
    assert (attempt.stop_reason, attempt.grace_until) == ("cancelled", NOW)
    assert not JobEvent.objects.exists()


def test_it_is_done_when_nothing_is_left_and_tells_what_it_waits_for(
    company: Company, node: ClusterNode, admin: Caller, control: AControl
) -> None:
    """Mutant: it was done when the evictions were asked for, with everything still running."""
    a_running(company, "uid-1")
    a_running(company, "uid-2")
    why = "team/web-1: Cannot evict pod"
    control.left = LeftOnNode(frozenset({"uid-1", "uid-2"}), 3, (why,))
    drain(admin, node)
    deliver(node)
    waits = request_of(admin, node)
    assert (waits["state"], waits["message"]) == (
        "pending",
        f"Still there: 2 jobs that are being stopped and 3 other workloads. Not evicted yet: {why}",
    )
    control.left = LeftOnNode(frozenset({"uid-1"}))
    deliver(node, after=timedelta(minutes=1))
    assert request_of(admin, node)["message"] == "Still there: 1 job that is being stopped."
    control.left = LeftOnNode(others=1)
    deliver(node, after=timedelta(minutes=2))
    assert request_of(admin, node)["message"] == "Still there: 1 other workload."
    control.left = LeftOnNode()
    deliver(node, after=timedelta(minutes=3))
    done = request_of(admin, node)
    assert (done["state"], done["message"]) == ("done", "")
    assert deliver(node, after=timedelta(hours=1)) == 0


def test_what_does_not_go_is_given_up_after_two_hours(
    node: ClusterNode, admin: Caller, control: AControl
) -> None:
    """Planted: the patience for a cluster that is silent ended it after a quarter of an hour."""
    control.left = LeftOnNode(others=1, refusals=("team/web-1: Cannot evict pod",))
    drain(admin, node)
    for after in (0, 16, 119):
        deliver(node, after=timedelta(minutes=after))
        assert request_of(admin, node)["state"] == "pending"
    asked = len(control.asked)
    deliver(node, after=timedelta(minutes=121))
    found = request_of(admin, node)
    assert (found["state"], len(control.asked)) == ("given_up", asked)
    assert found["message"] == (
        "It is drained, and not empty after 2 hours. Still there: 1 other workload. "
        "Not evicted yet: team/web-1: Cannot evict pod"
    )


def test_silence_from_the_start_is_waited_out_for_a_quarter_of_an_hour(
    company: Company, node: ClusterNode, admin: Caller, control: AControl
) -> None:
    """Mutant: with the patience of an eviction, a node was emptied that nobody thought of any
    more."""
    control.refusal = ClusterUnavailable("away")
    drain(admin, node)
    deliver(node)
    deliver(node, after=timedelta(minutes=16))
    found = request_of(admin, node)
    assert (found["state"], found["message"]) == (
        "given_up",
        f"{company.cluster.name} did not answer for 15 minutes; ask again.",
    )


def test_a_resume_ends_it(node: ClusterNode, admin: Caller, control: AControl) -> None:
    """Mutant: the node was drained and emptied again after somebody had let it in."""
    control.left = LeftOnNode(others=1)
    drain(admin, node)
    deliver(node)
    admin.post(f"nodes/{node.pk}/resume", {})
    control.asked = []
    deliver(node, after=timedelta(minutes=5))
    assert control.asked == [("resume", node.name)]
    assert not Message.objects.filter(done_at=None).exists()


def test_missing_rights_are_told_and_not_asked_again(
    node: ClusterNode, admin: Caller, control: AControl
) -> None:
    control.refusal = NodeRefused("no right")
    drain(admin, node)
    deliver(node)
    found = request_of(admin, node)
    assert (found["state"], found["message"]) == ("refused", "no right")
    assert deliver(node, after=timedelta(hours=1)) == 0


def test_without_the_wish_nothing_is_evicted(
    company: Company, node: ClusterNode, admin: Caller, control: AControl
) -> None:
    job = a_running(company, "uid-1")
    control.left = LeftOnNode(frozenset({"uid-1"}))
    for body in ({"reason": "fans"}, {"reason": "fans", "evict_grace_s": None}):
        answer = admin.post(f"nodes/{node.pk}/drain", body)
        assert answer.json()["request"]["evict_grace_s"] is None
        deliver(node)
    assert control.asked == [("drain", node.name, "fans")] * 2
    job.refresh_from_db()
    assert job.state == "running"
    for event in AuditEvent.objects.filter(action="cluster_node.drain"):
        assert set(event.detail) == {"cluster", "node", "reason"}


def test_the_audit_log_says_that_it_evicts(
    company: Company, node: ClusterNode, admin: Caller
) -> None:
    drain(admin, node, grace_s=60)
    event = AuditEvent.objects.get(action="cluster_node.drain")
    assert event.detail == {
        "cluster": company.cluster.name,
        "node": node.name,
        "reason": "fans",
        "evict_grace_s": 60,
    }


@pytest.mark.parametrize("grace_s", [0, -1, 3_601, "x", 1.5])
def test_a_grace_is_at_most_an_hour(grace_s: Any, node: ClusterNode, admin: Caller) -> None:
    body = {"reason": "fans", "evict_grace_s": grace_s}
    assert admin.post(f"nodes/{node.pk}/drain", body).status_code == 400
    assert not NodeRequest.objects.exists()


@pytest.mark.parametrize("kind", ["slurm", "local"])
def test_where_it_cannot_be_done_it_is_said_at_once(
    kind: str, company: Company, node: ClusterNode, admin: Caller
) -> None:
    """A drain without it is still taken."""
    company.cluster.kind = kind
    company.cluster.save()
    shown = admin.get(f"clusters/{company.cluster.pk}").json()
    refusal = f"on clusters of kind {kind} what runs on a drained node goes on to its end"
    assert (shown["nodes_refusal"], shown["eviction_refusal"]) == ("", refusal)
    answer = admin.post(f"nodes/{node.pk}/drain", {"reason": "fans", "evict_grace_s": 60})
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        f"O{refusal[1:]}; drain it without evicting.",
    )
    assert not NodeRequest.objects.exists()
    assert admin.post(f"nodes/{node.pk}/drain", {"reason": "fans"}).status_code == 202


def test_the_database_lets_only_a_drain_evict_and_within_an_hour(node: ClusterNode) -> None:
    for bad in (
        {"action": "resume", "evict_grace_s": 60},
        {"action": "drain", "evict_grace_s": 0},
        {"action": "drain", "evict_grace_s": 3_601},
    ):
        with (
            pytest.raises(IntegrityError, match="only_a_drain_evicts_within_an_hour"),
            transaction.atomic(),
        ):
            NodeRequest.objects.create(
                cluster=node.cluster,
                node=node.name,
                requested_by="root",
                requested_at=NOW,
                **bad,
            )


def test_what_began_elsewhere_while_the_jobs_were_locked_goes_on(
    company: Company, node: ClusterNode, admin: Caller, control: AControl
) -> None:
    """Mutant: of a job that was on the node every attempt was stopped that it had by then."""
    job = a_running(company, "uid-1")
    control.left = LeftOnNode(frozenset({"uid-1"}))
    drain(admin, node)

    def moved(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        answer = execute(sql, params, many, context)
        if "FOR UPDATE" in sql and sql.startswith('SELECT "jobs_job"'):
            Attempt.objects.filter(native_id="uid-1").update(
                state="ended", ended_at=NOW, released_at=NOW, outcome="node_failed"
            )
            an_attempt(job, cluster=company.cluster, number=2, native_id="uid-2", started_at=NOW)
        return answer

    with connection.execute_wrapper(moved):
        deliver(node)
    assert [one.state for one in Attempt.objects.order_by("number")] == ["ended", "running"]
    job.refresh_from_db()
    assert job.state == "running"
    assert not JobEvent.objects.exists()
