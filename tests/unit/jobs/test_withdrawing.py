"""What a cluster does not start, or cannot be told: what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from builders.billing_builders import a_grant_of, register_attempt
from builders.held_cluster import AClusterThatHolds
from builders.loop_builders import Fenced, a_job
from builders.portal_builders import (
    NOW,
    Company,
    a_cluster,
    a_user,
)
from builders.sent_attempts import RELEASED, an_attempt, told
from clusters.models import Cluster
from clusters.observation import record_inventory
from connectors.errors import NotPrepared
from connectors.protocol import (
    Inventory,
    Listing,
    NodeCapacity,
    Observation,
    Outcome,
    Workload,
    WorkloadPhase,
)
from jobs.arbitration.snapshots import load_snapshot
from jobs.execution.dispatch import start_attempt
from jobs.execution.observation import apply_listing
from jobs.execution.settling import settle
from jobs.execution.withdrawing import (
    StillHeld,
    withdraw_changed,
    withdraw_stuck,
    withdraw_unacknowledged,
)
from jobs.models import Attempt, Job, JobEvent
from jobs.queue.avoided_clusters import avoided_clusters
from outbox.models import Message
from quotas.models import QuotaPush
from tenants.access import actor_of
from tenants.models import User

pytestmark = pytest.mark.django_db

AT = int(NOW.timestamp())
STUCK = "The cluster does not start it: its partition is down (PartitionDown)."
TAKEN_BACK = f"Withdrawn after 5 minutes. {STUCK}"


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


def seen(attempt: Attempt, **values: Any) -> Observation:
    return Observation(
        **{
            "key": attempt.key,
            "native_id": "7",
            "native_state": "PENDING",
            "phase": WorkloadPhase.STARTING,
            "message": STUCK,
            "is_stuck": True,
            **values,
        }
    )


def look(cluster: Cluster, *observations: Observation, now: datetime = NOW) -> int:
    """Apply a listing and take back what is stuck; returns how many were."""
    listing = Listing(AT, {one.key: one for one in observations})
    observer: Any = Fenced("observer")
    connector: Any = AClusterThatHolds()
    apply_listing(
        cluster, listing, connector=connector, previous_at=None, leadership=observer, now=now
    )
    requeued = withdraw_changed(cluster, listing, leadership=observer, now=now)
    return requeued + withdraw_stuck(cluster, listing, leadership=observer, now=now)


@pytest.mark.parametrize("phase", [WorkloadPhase.STARTING, WorkloadPhase.HELD])
@pytest.mark.parametrize(
    ("is_requeueable", "state", "reason"),
    [(True, "queued", None), (False, "failed", "withdrawn")],
)
def test_what_its_cluster_queues_anew_after_it_ran_is_taken_back_at_once(
    company: Company,
    bob: User,
    phase: WorkloadPhase,
    is_requeueable: bool,
    state: str,
    reason: str | None,
) -> None:
    """Planted: the attempt went on as `starting`, was charged for its wait there, and ran again."""
    attempt = an_attempt(company, bob, state="running", started_at=NOW - timedelta(seconds=60))
    grant = a_grant_of(company.nlp, user=bob, attempt_id=attempt.id, pool=company.pool)
    register_attempt(replace(grant, at=RELEASED), now=NOW)
    Job.objects.update(state="running", is_requeueable=is_requeueable)
    # In the second of its start.
    anew = seen(attempt, phase=phase, is_stuck=False, submitted_at=AT - 60, restarts=1)
    assert look(company.cluster, anew) == 1
    assert look(company.cluster, anew) == 0
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_reason) == ("stopping", "withdrawn")
    assert attempt.message == (
        "The cluster ended this run and requeued it. The job goes on with a new attempt."
    )
    assert [(one.kind, one.subject) for one in Message.objects.all()] == [
        ("stop_attempt", attempt.id)
    ]
    look(company.cluster, gone(attempt))
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.released_at) == ("stopped", NOW)
    job = Job.objects.get()
    assert (job.state, job.end_reason) == (state, reason)
    assert avoided_clusters(NOW) == {}


def test_what_its_controller_forgot_to_have_started_goes_on(company: Company, bob: User) -> None:
    """It begins again by itself in a moment, as the attempt that it was."""
    attempt = an_attempt(company, bob, state="running", started_at=NOW - timedelta(seconds=2))
    Job.objects.update(state="running")
    assert look(company.cluster, seen(attempt, is_stuck=False, submitted_at=AT - 9)) == 0
    attempt.refresh_from_db()
    assert attempt.state == "starting"
    assert not Message.objects.exists()


def test_what_was_queued_anew_before_anybody_saw_it_run_is_taken_back(
    company: Company, bob: User
) -> None:
    """Planted: without a start that was seen it ran on as the same attempt."""
    attempt = an_attempt(company, bob, release_sent_at=NOW - timedelta(seconds=2))
    assert look(company.cluster, seen(attempt, is_stuck=False, restarts=1)) == 1
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_reason) == ("stopping", "withdrawn")


@pytest.mark.parametrize("native_id", ["8", None])
def test_what_was_not_recorded_is_not_taken_back_for_another(
    company: Company, bob: User, native_id: str | None
) -> None:
    attempt = an_attempt(company, bob, native_id=native_id, state="starting")
    other = seen(attempt, native_id="9", is_stuck=False, restarts=1, is_altered=True)
    listing = Listing(AT, {attempt.key: other})
    observer: Any = Fenced("observer")
    assert withdraw_changed(company.cluster, listing, leadership=observer, now=NOW) == 0


ALTERED = "Somebody changed it on the cluster before it began: it asks for 8 a100 now."


@pytest.mark.parametrize("phase", [WorkloadPhase.STARTING, WorkloadPhase.HELD])
def test_what_was_changed_on_the_cluster_is_taken_back_and_not_released(
    company: Company, bob: User, phase: WorkloadPhase
) -> None:
    """Planted: it was let go and held other GPUs than were granted."""
    attempt = an_attempt(company, bob, release_sent_at=None)
    altered = seen(
        attempt,
        phase=phase,
        is_stuck=False,
        is_altered=True,
        message=ALTERED,
        submitted_at=AT - 7,
    )
    cluster = AClusterThatHolds()
    observer: Any = Fenced("observer")
    connector: Any = cluster
    listing = Listing(AT, {attempt.key: altered})
    settle(company.cluster, connector, listing, leadership=observer)
    assert cluster.released == []
    assert look(company.cluster, altered) == 1
    attempt.refresh_from_db()
    assert (attempt.state, attempt.message) == ("stopping", ALTERED)
    look(company.cluster, gone(attempt))
    attempt.refresh_from_db()
    assert (attempt.outcome, Job.objects.get().state) == ("not_started", "queued")
    running = seen(an_attempt(company, bob), phase=WorkloadPhase.RUNNING, is_altered=True)
    assert look(company.cluster, running) == 0


NEVER = (
    "The cluster does not start it: its time limit is longer than its partition allows "
    "(PartitionTimeLimit)."
)


@pytest.mark.parametrize("phase", [WorkloadPhase.STARTING, WorkloadPhase.HELD])
@pytest.mark.parametrize("is_released", [True, False])
def test_what_can_never_start_is_taken_back_soon_and_not_released_again(
    company: Company, bob: User, phase: WorkloadPhase, is_released: bool
) -> None:
    """Planted: it kept its GPUs for five minutes, was released again each second, and for ever
    where its cluster held it before its release."""
    let_go = NOW - timedelta(seconds=30)
    attempt = an_attempt(
        company, bob, release_sent_at=let_go if is_released else None, granted_at=let_go
    )
    never = seen(attempt, phase=phase, never_starts=True, message=NEVER, submitted_at=AT - 60)
    cluster = AClusterThatHolds()
    observer: Any = Fenced("observer")
    connector: Any = cluster
    listing = Listing(AT, {attempt.key: never})
    settle(company.cluster, connector, listing, leadership=observer)
    assert cluster.released == []
    assert look(company.cluster, never, now=NOW - timedelta(seconds=1)) == 0
    assert look(company.cluster, never) == 1
    attempt.refresh_from_db()
    assert attempt.message == f"Withdrawn. {NEVER}"
    look(company.cluster, gone(attempt))
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.stop_reason) == ("not_started", "withdrawn")
    assert avoided_clusters(NOW) == {
        str(attempt.job_id): frozenset({str(company.cluster.pk)}),
    }


def gone(attempt: Attempt) -> Observation:
    return seen(
        attempt,
        native_state="CANCELLED",
        phase=WorkloadPhase.ENDED,
        message="",
        is_stuck=False,
        is_released=True,
        ended_at=AT,
        released_at=AT,
        outcome=Outcome.STOPPED,
    )


def test_what_is_stuck_for_five_minutes_queues_again(company: Company, bob: User) -> None:
    attempt = an_attempt(company, bob)
    assert look(company.cluster, seen(attempt)) == 1
    assert look(company.cluster, seen(attempt)) == 0
    attempt.refresh_from_db()
    assert (attempt.state, attempt.stop_reason) == ("stopping", "withdrawn")
    assert attempt.message == TAKEN_BACK
    assert [(one.kind, one.subject) for one in Message.objects.all()] == [
        ("stop_attempt", attempt.id)
    ]
    look(company.cluster, gone(attempt))
    attempt.refresh_from_db()
    assert (attempt.outcome, attempt.message) == ("not_started", TAKEN_BACK)
    assert attempt.released_at == NOW
    assert Job.objects.get().state == "queued"
    assert list(JobEvent.objects.order_by("id").values_list("event", "detail")) == [
        ("withdrawn", {"attempt": 1}),
        ("requeued", {"attempt": 1, "outcome": "not_started", "reason": "not_started"}),
    ]


def test_only_what_is_taken_back_counts_toward_the_bound(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: so many started attempts were looked at, and what stayed kept others from it."""
    monkeypatch.setattr("jobs.execution.withdrawing.WITHDRAWN_MAX", 1)
    began = NOW - timedelta(seconds=60)
    one, another, third = (
        an_attempt(company, bob, native_id=str(number), started_at=began) for number in (1, 2, 3)
    )
    waits = {"phase": WorkloadPhase.STARTING, "is_stuck": False}
    stays = [seen(one, native_id="1", **waits), seen(one, native_id="9", restarts=1, **waits)]
    anew = [seen(each, native_id=each.native_id, restarts=1, **waits) for each in (another, third)]
    assert look(company.cluster, *stays, *anew) == 1
    assert look(company.cluster, *stays, *anew) == 1
    assert look(company.cluster, *stays, *anew) == 0
    assert set(Attempt.objects.values_list("native_id", "stop_reason")) == {
        ("1", None),
        ("2", "withdrawn"),
        ("3", "withdrawn"),
    }


@pytest.mark.parametrize(
    ("attempt_values", "seen_values"),
    [
        ({"release_sent_at": RELEASED + timedelta(seconds=1)}, {}),
        ({"release_sent_at": None}, {}),
        ({}, {"is_stuck": False}),
        ({}, {"started_at": AT, "phase": WorkloadPhase.RUNNING, "is_stuck": False}),
        ({"cluster": None}, {}),
        ({"native_id": "8"}, {}),
    ],
    ids=["not yet", "held", "it only waits", "it runs", "another cluster", "a copy"],
)
def test_what_is_left_where_it_is(
    company: Company,
    bob: User,
    attempt_values: dict[str, Any],
    seen_values: dict[str, Any],
) -> None:
    """Planted: no bound, `lt` for `lte`, the oldest copy for the recorded one."""
    if "cluster" in attempt_values:
        attempt_values = {"cluster": a_cluster("another")}
    attempt = an_attempt(company, bob, **attempt_values)
    assert look(company.cluster, seen(attempt, **seen_values)) == 0
    attempt.refresh_from_db()
    assert attempt.stop_reason is None


def test_what_waits_beside_a_stuck_one_stays(company: Company, bob: User) -> None:
    """Planted: one that is stuck made all of them stuck."""
    stuck, waits = an_attempt(company, bob), an_attempt(company, bob)
    assert look(company.cluster, seen(stuck), seen(waits, is_stuck=False)) == 1
    waits.refresh_from_db()
    assert (waits.state, waits.stop_reason) == ("starting", None)


def test_what_starts_as_it_is_taken_back_is_stopped_and_queues_again(
    company: Company, bob: User
) -> None:
    attempt = an_attempt(company, bob)
    look(company.cluster, seen(attempt))
    ran = seen(attempt, started_at=AT, phase=WorkloadPhase.RUNNING, message="", is_stuck=False)
    look(company.cluster, ran)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.message) == ("stopping", TAKEN_BACK)


def test_its_cluster_is_avoided_for_a_quarter_of_an_hour(company: Company, bob: User) -> None:
    other = a_cluster("other")

    attempt = an_attempt(company, bob)
    look(company.cluster, seen(attempt))
    look(company.cluster, gone(attempt))
    job = a_job(company.nlp, bob, company.pool)

    def usable(now: datetime) -> dict[str, frozenset[str] | None]:
        return {one.id: one.clusters for one in load_snapshot(now).queued}

    later = NOW + timedelta(minutes=15)
    assert usable(later - timedelta(seconds=1)) == {
        str(attempt.job_id): frozenset({str(other.pk)}),
        str(job.id): None,
    }
    assert usable(later)[str(attempt.job_id)] is None
    Job.objects.update(explanation={"code": "x", "sentence": "Three jobs are ahead."})
    actor = actor_of(bob)
    again = f"{company.cluster.name} did not start attempt 1. {TAKEN_BACK} "
    assert told(attempt.job, actor) == (
        f"{again}{company.cluster.name} is tried again from 2026-11-21T12:15:00Z on, or once "
        "quotas are pushed to it. Three jobs are ahead."
    )
    assert told(attempt.job, actor, now=later) == "Three jobs are ahead."
    assert told(job, actor) == "Three jobs are ahead."


def test_what_a_cluster_is_not_set_up_for_goes_elsewhere_until_quotas_are_pushed(
    company: Company, bob: User
) -> None:
    """Mutant: the first push after it changed nothing for a quarter of an hour."""

    class NotSetUp:
        def submit(self, workload: Workload, *, is_first: bool) -> str:
            raise NotPrepared("there is no such account")

    other = a_cluster("other")
    attempt = an_attempt(company, bob, native_id=None, state="reserved", release_sent_at=None)
    observer: Any = Fenced("observer")
    connect: Any = lambda cluster: NotSetUp()  # noqa: E731
    message = Message(kind="start_attempt", subject=attempt.id, sends=1)
    assert start_attempt(message, observer, lambda: NOW, connect) is None
    attempt.refresh_from_db()
    job = attempt.job
    job.refresh_from_db()
    assert (job.state, job.end_reason) == ("queued", None)
    assert (attempt.outcome, attempt.released_at, attempt.message) == (
        "not_started",
        NOW,
        "there is no such account",
    )

    def usable() -> frozenset[str] | None:
        (one,) = load_snapshot(NOW + timedelta(minutes=2)).queued
        return one.clusters

    elsewhere = frozenset({str(other.pk)})
    assert usable() == elsewhere
    for cluster, kind, status, minutes in (
        (company.cluster, "push", "done", 0),
        (company.cluster, "check", "done", 1),
        (company.cluster, "push", "failed", 1),
        (other, "push", "done", 1),
    ):
        a_push(cluster, kind, status, NOW + timedelta(minutes=minutes))
    assert usable() == elsewhere
    a_push(company.cluster, "push", "done", NOW + timedelta(minutes=1))
    assert usable() is None


def a_push(cluster: Cluster, kind: str, status: str, at: datetime) -> None:
    QuotaPush.objects.create(cluster=cluster, kind=kind, status=status, requested_at=at, done_at=at)


@pytest.mark.parametrize(("silences", "state"), [(0, "held"), (1, "queued")])
def test_after_ten_times_it_is_held_for_a_person(
    company: Company, bob: User, silences: int, state: str
) -> None:
    """Against: a cluster that had fallen silent counted as one that did not start the job."""
    attempt = an_attempt(company, bob)
    Attempt.objects.filter(pk=attempt.pk).update(number=11)
    Job.objects.update(attempt_number=11)
    for number in range(1, 11):
        Attempt.objects.create(
            job=attempt.job,
            number=number,
            cluster=company.cluster,
            slots=[],
            mgpu=1000,
            guaranteed_mgpu=1000,
            state="ended",
            epoch=1,
            granted_at=NOW,
            ended_at=NOW,
            released_at=NOW,
            notice_at=None if number <= silences else NOW,
            outcome="not_started",
        )
    look(company.cluster, seen(attempt))
    look(company.cluster, gone(attempt))
    assert Job.objects.get().state == state
    if state == "queued":
        return
    assert told(attempt.job, actor_of(bob)) == (
        f"The job was not started 11 times, most recently by {company.cluster.name}: {TAKEN_BACK} "
        "Release it to try again, or cancel it."
    )


def test_a_message_that_changes_alone_is_stored(company: Company, bob: User) -> None:
    """Planted: only the cluster's state was compared."""
    attempt = an_attempt(company, bob, message="It waits.")
    look(company.cluster, seen(attempt, is_stuck=False))
    attempt.refresh_from_db()
    assert attempt.message == STUCK
    assert told(attempt.job, actor_of(bob)) == (
        f"Its GPUs are reserved on {company.cluster.name}, where it waits. {STUCK}"
    )


def test_what_a_cluster_will_not_release_is_told_on_its_page(company: Company, bob: User) -> None:
    attempt = an_attempt(company, bob, release_sent_at=None)
    held = seen(attempt, phase=WorkloadPhase.HELD, submitted_at=AT - 7)
    complaints: list[str] = []
    observer: Any = Fenced("observer")
    connector: Any = AClusterThatHolds(away=True)
    settle(
        company.cluster,
        connector,
        Listing(AT, {attempt.key: held}),
        leadership=observer,
        complain=complaints.append,
    )
    assert complaints == ["away"]
    nodes = tuple(
        NodeCapacity(node.name, "h100", node.capacity_mgpu, True, node.state)
        for node in company.cluster.nodes.all()
    )
    record_inventory(company.cluster, Inventory(AT, nodes), now=NOW, complaints=complaints)
    company.cluster.refresh_from_db()
    assert (company.cluster.message, company.cluster.failing_since) == ("away", None)
    record_inventory(company.cluster, Inventory(AT, nodes), now=NOW)
    company.cluster.refresh_from_db()
    assert company.cluster.message == ""


@pytest.mark.parametrize("silent_s", [299, 300])
def test_what_a_silent_cluster_had_not_taken_queues_again(
    silent_s: int, company: Company, bob: User
) -> None:
    """Planted: the bound forgotten; what was recorded given up too."""
    Cluster.objects.update(failing_since=NOW - timedelta(seconds=silent_s))
    company.cluster.refresh_from_db()
    attempt = an_attempt(company, bob, native_id=None, state="reserved", release_sent_at=None)
    taken = an_attempt(company, a_user(company.organization, "eve"), release_sent_at=None)
    observer: Any = Fenced("observer")
    given_up = withdraw_unacknowledged(company.cluster, leadership=observer, now=NOW)
    assert given_up == (1 if silent_s == 300 else 0)
    taken.refresh_from_db()
    assert (taken.state, taken.released_at) == ("starting", None)
    attempt.refresh_from_db()
    if not given_up:
        assert (attempt.state, attempt.released_at) == ("reserved", None)
        return
    assert (attempt.outcome, attempt.released_at) == ("not_started", NOW)
    assert Job.objects.get(pk=attempt.job_id).state == "queued"
    assert avoided_clusters(NOW) == {}
    Job.objects.update(explanation={"code": "x", "sentence": "One job is ahead."})
    assert told(attempt.job, actor_of(bob)) == (
        f"{company.cluster.name} has not answered since 2026-11-21 11:55:00 UTC, so the start "
        "was withdrawn. Nothing of it runs there. One job is ahead."
    )
    # A late answer is recorded by whoever waited for it; its held copy is removed.
    Attempt.objects.filter(pk=attempt.pk).update(native_id="7")
    connector = AClusterThatHolds()
    held = seen(attempt, phase=WorkloadPhase.HELD, submitted_at=AT - 7)
    settle(
        company.cluster,
        connector,  # type: ignore[arg-type]
        Listing(AT, {attempt.key: held}),
        leadership=observer,
    )
    assert (connector.released, connector.removed) == ([], [(attempt.key, "7")])


def held(attempt: Attempt, **values: Any) -> Observation:
    return seen(attempt, phase=WorkloadPhase.HELD, is_stuck=False, message="held", **values)


def watch(cluster: Cluster, still: StillHeld, one: Observation, after_s: int) -> int:
    return withdraw_stuck(
        cluster,
        Listing(AT, {one.key: one}),
        leadership=Fenced("observer"),  # type: ignore[arg-type]
        now=NOW + timedelta(seconds=after_s),
        still_held=still,
    )


def test_what_is_held_in_spite_of_its_release_is_taken_back(company: Company, bob: User) -> None:
    """Planted: no such rule; the time in which nobody was heard counted."""
    attempt = an_attempt(company, bob)
    still = StillHeld()
    took = [watch(company.cluster, still, held(attempt), at_s) for at_s in range(0, 301, 30)]
    assert took == [0] * 10 + [1]
    attempt.refresh_from_db()
    assert attempt.message == (
        "Withdrawn after 5 minutes. The cluster kept it held after it was asked to release it."
    )


def test_what_is_held_for_a_reason_is_taken_back_with_that_reason(
    company: Company, bob: User
) -> None:
    """Mutant: of whatever was held it said that the cluster had not let go of it."""
    attempt = an_attempt(company, bob)
    stuck = replace(held(attempt), is_stuck=True, message=STUCK)
    assert watch(company.cluster, StillHeld(), stuck, 0) == 1
    attempt.refresh_from_db()
    assert attempt.message == TAKEN_BACK


def test_of_a_time_without_listings_nothing_counts(company: Company, bob: User) -> None:
    attempt = an_attempt(company, bob)
    still = StillHeld()
    assert [watch(company.cluster, still, held(attempt), at_s) for at_s in (0, 30, 600)] == [0] * 3


def test_what_was_let_go_in_between_is_held_anew(company: Company, bob: User) -> None:
    attempt = an_attempt(company, bob)
    still = StillHeld()
    for at_s in range(0, 300, 30):
        watch(company.cluster, still, held(attempt), at_s)
    assert watch(company.cluster, still, seen(attempt, is_stuck=False), 300) == 0
    assert watch(company.cluster, still, held(attempt), 330) == 0


@pytest.mark.parametrize("released", [True, False])
def test_what_somebody_holds_there_is_taken_back(
    company: Company, bob: User, released: bool
) -> None:
    values: dict[str, Any] = {} if released else {"release_sent_at": None}
    attempt = an_attempt(company, bob, **values)
    by_others = held(attempt, is_held_by_others=True)
    by_others = replace(by_others, is_stuck=True, message="Somebody holds it.")
    assert look(company.cluster, by_others) == 1
    attempt.refresh_from_db()
    assert attempt.message == "Withdrawn after 5 minutes. Somebody holds it."


def test_what_waits_to_be_released_is_not_taken_back(company: Company, bob: User) -> None:
    attempt = an_attempt(company, bob, release_sent_at=None)
    assert look(company.cluster, held(attempt)) == 0
