"""What people read of a job that no cluster starts, or that could not be told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from builders.loop_builders import Fenced, a_job
from builders.portal_builders import (
    NOW,
    Company,
    a_cluster,
    a_cluster_node,
    a_grant,
    a_user,
    an_actor,
)
from builders.sent_attempts import an_attempt, told
from clusters.models import Cluster
from clusters.observation import record_inventory
from connectors.errors import ClusterUnavailable, ControllerAway
from connectors.kubernetes.admission.kueue_health import AWAY as KUEUE_AWAY
from connectors.protocol import Inventory, Workload
from jobs.arbitration.snapshots import load_snapshot
from jobs.execution.dispatch import start_attempt
from jobs.models import Attempt, Job
from outbox.delivery import NotYet
from outbox.models import Message
from outbox.quarantine import begin_quarantine
from quotas.models import ClusterUser
from tenants.access import actor_of
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

AT = int(NOW.timestamp())


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


def test_why_names_the_quarantine(company: Company, bob: User) -> None:
    job = a_job(company.nlp, bob, company.pool, cluster=company.cluster)
    told_by_arbiter = "local, where it must run, does not accept jobs now."
    Job.objects.update(explanation={"code": "cluster_unavailable", "sentence": told_by_arbiter})
    assert told(job, actor_of(bob)) == told_by_arbiter
    begin_quarantine("restored", since=NOW, now=NOW)
    assert told(job, actor_of(bob)) == (
        "In quarantine since 2026-11-21 12:00:00 UTC: nothing is started until an administrator of "
        "the platform ends it. What runs goes on."
    )


def test_who_waits_for_a_longer_time_limit_is_told_of_the_limit(
    company: Company, bob: User
) -> None:
    """The limit was lowered behind the submission."""
    job = a_job(company.nlp, bob, company.pool, time_limit_s=36_000)
    Job.objects.update(explanation={"code": "cluster_unavailable", "sentence": "No cluster."})
    record_inventory(
        company.cluster, Inventory(AT, (), time_limits_s={"h100": 7_200, "a100": 60}), now=NOW
    )
    assert told(job, actor_of(bob)) == (
        "No cluster. local lets no job run for longer than 2 h, and this one asks for 10 h."
    )
    (queued,) = load_snapshot(NOW).queued
    assert queued.clusters == frozenset()
    later = NOW + timedelta(seconds=1)
    inventory = Inventory(AT + 1, (), time_limits_s={"h100": 36_000})
    assert record_inventory(company.cluster, inventory, now=later) is True
    assert told(job, actor_of(bob)) == "No cluster."
    (queued,) = load_snapshot(NOW).queued
    assert queued.clusters is None


def test_what_nobody_knows_of_is_told_when_it_is_held(company: Company, bob: User) -> None:
    attempt = an_attempt(company, bob, state="ended", ended_at=NOW, released_at=NOW)
    Attempt.objects.update(outcome="unknown")
    Job.objects.update(state="held")
    assert told(attempt.job, actor_of(bob)).startswith(
        f"{company.cluster.name} has lost track of attempt 1. It is unknown whether it ran."
    )


def test_who_is_mapped_nowhere_learns_where_and_whom_to_ask(company: Company, bob: User) -> None:
    """Mutant: it said that no cluster accepts jobs, and not that a mapping is missing."""
    for name, is_enabled in (("hpc", True), ("old", False)):
        cluster = a_cluster(name, kind="slurm")
        Cluster.objects.filter(pk=cluster.pk).update(is_enabled=is_enabled)
        a_cluster_node(cluster, company.pool)
    a_cluster("without-such-gpus", kind="slurm")
    hpc = Cluster.objects.get(name="hpc")
    said = "No cluster accepts jobs now."
    unavailable = {"code": "cluster_unavailable", "sentence": said}
    whom = "bob has no user on hpc; an administrator of the platform can map one."
    job = a_job(company.nlp, bob, company.pool, explanation=unavailable)
    actor = actor_of(bob)
    assert told(job, actor) == f"{said} {whom}"
    Job.objects.update(cluster=hpc)
    assert told(job, actor) == f"{said} {whom}"
    Job.objects.update(cluster=company.cluster)
    assert told(job, actor) == said
    Job.objects.update(cluster=None, explanation={**unavailable, "code": "x"})
    assert told(job, actor) == said
    Job.objects.update(explanation=unavailable)
    ClusterUser.objects.create(cluster=hpc, user=bob, name="tg-bob")
    assert told(job, actor) == said


def test_what_could_not_be_sent_says_so(company: Company, bob: User) -> None:
    attempt = an_attempt(company, bob, native_id=None, state="reserved", release_sent_at=None)
    Message.objects.create(
        kind="start_attempt",
        subject=attempt.id,
        created_at=NOW,
        due_at=NOW,
        sends=3,
        error="no connection to the cluster: 10.0.0.7 refused",
    )
    name = company.cluster.name
    plain = (
        f"Its GPUs are reserved on {name}, where it waits. It could not be sent there yet "
        "(3 tries since 2026-11-21T12:00:00Z); that is tried again by itself."
    )
    root = an_actor(None, Role.PLATFORM_ADMIN, "root")
    assert told(attempt.job, actor_of(bob)) == plain
    assert told(attempt.job, root) == (
        f"{plain} The last answer: no connection to the cluster: 10.0.0.7 refused."
    )
    Cluster.objects.update(failing_since=NOW, message="no connection")
    assert told(attempt.job, actor_of(bob)) == (
        f"Its GPUs are reserved on {name}, where it waits. {name} has not answered since "
        "2026-11-21T12:00:00Z. It could not be sent there yet (3 tries since "
        "2026-11-21T12:00:00Z); that is tried again by itself."
    )
    Message.objects.update(done_at=NOW)
    Cluster.objects.update(failing_since=None)
    assert told(attempt.job, actor_of(bob)) == (
        f"Its GPUs are reserved and it is being started on {name}."
    )


class AControllerIsAway:
    """Answers, but for a controller whose consent it needs, or not at all."""

    error: ClusterUnavailable = ControllerAway("failed calling webhook at 10.0.0.7", KUEUE_AWAY)

    def submit(self, workload: Workload, *, is_first: bool) -> str:
        raise self.error


def test_a_job_that_a_controller_keeps_from_being_sent_says_so(company: Company, bob: User) -> None:
    """Against: for minutes it read "it is being started". An id that is there by now, or another
    failure, ends it."""
    attempt = an_attempt(company, bob, native_id=None, state="reserved", release_sent_at=None)
    message = Message.objects.create(
        kind="start_attempt", subject=attempt.id, created_at=NOW, due_at=NOW, sends=2, shard="x"
    )
    cluster = AControllerIsAway()
    connect: Any = lambda _: cluster  # noqa: E731
    observer: Any = Fenced("observer")

    def send() -> str:
        with pytest.raises(NotYet):
            start_attempt(message, observer, lambda: NOW, connect)
        return told(attempt.job, actor_of(bob))

    waits = f"Its GPUs are reserved on {company.cluster.name}, where it waits."
    assert send() == f"{waits} {KUEUE_AWAY}"
    cluster.error = ClusterUnavailable("no connection to 10.0.0.7")
    assert send() == (f"Its GPUs are reserved and it is being started on {company.cluster.name}.")


def test_a_running_job_names_its_silent_cluster(company: Company, bob: User) -> None:
    """Against: it was running, as if that had been looked at just now."""
    attempt = an_attempt(company, bob, state="running", started_at=NOW)
    Job.objects.update(state="running")
    name = company.cluster.name
    assert told(attempt.job, actor_of(bob)) == "It does not wait: it is running."
    Cluster.objects.update(failing_since=NOW, message="no connection")
    assert told(attempt.job, actor_of(bob)) == (
        f"It does not wait: it is running. {name} has not answered since 2026-11-21T12:00:00Z. "
        "Its state is as of then."
    )


def test_a_stop_that_could_not_be_told_says_so(company: Company, bob: User) -> None:
    attempt = an_attempt(company, bob, state="stopping", started_at=NOW, grace_until=NOW)
    Job.objects.update(state="running", cancel_requested_at=NOW)
    for kind in ("notify_attempt", "stop_attempt"):
        Message.objects.create(
            kind=kind, subject=attempt.id, created_at=NOW, due_at=NOW, sends=1, error="no"
        )
    lead = a_user(company.organization, "lead")
    a_grant(lead, Role.TEAM_LEAD, company.nlp)
    assert told(attempt.job, actor_of(lead)) == (
        "It is being cancelled. It could not be stopped there yet (1 try since "
        "2026-11-21T12:00:00Z); that is tried again by itself."
    )
