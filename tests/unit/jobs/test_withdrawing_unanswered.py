"""A cluster falls silent before it acknowledges a start: when the job is taken back from it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.conf import settings

from builders.held_cluster import AClusterThatHolds
from builders.loop_builders import Fenced
from builders.portal_builders import NOW, Company, a_cluster, a_cluster_node, a_user
from builders.sent_attempts import an_attempt, told
from clusters.models import Cluster
from connectors.protocol import Listing, Observation, Workload, WorkloadPhase
from jobs.arbitration.snapshots import load_snapshot
from jobs.execution.dispatch import handlers
from jobs.execution.settling import settle
from jobs.execution.withdrawing import withdraw_unanswered
from jobs.intentions import start_intention
from jobs.leadership import NotLeading
from jobs.loops.observer import _Silences
from jobs.models import Attempt, Job, JobEvent, JobState, Leadership
from jobs.queue.avoided_clusters import avoided_clusters
from outbox.models import Message, Quarantine
from outbox.recording import intend
from tenants.access import actor_of
from tenants.models import User

pytestmark = pytest.mark.django_db

AT = int(NOW.timestamp())
TAKEN_BACK = (
    "dead did not answer within 20 s, so the start was withdrawn. Nothing of it runs there."
)


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


@pytest.fixture
def dead(company: Company) -> Cluster:
    """A cluster that holds submissions, silent for as long as its starts wait."""
    return a_cluster("dead", kind="slurm", seen_at=ago(20))


def ago(seconds: int) -> Any:
    return NOW - timedelta(seconds=seconds)


def unanswered(company: Company, user: User, cluster: Cluster, **values: Any) -> Attempt:
    sent: dict[str, Any] = {
        "cluster": cluster,
        "state": "reserved",
        "granted_at": ago(20),
        "native_id": None,
        "native_state": "",
        "release_sent_at": None,
    }
    return an_attempt(company, user, **{**sent, **values})


def take_back(*clusters: Cluster, leadership: Any = None) -> int:
    return withdraw_unanswered(
        [cluster.pk for cluster in clusters],
        leadership=leadership or Fenced("observer"),
        now=NOW,
    )


def test_what_a_dead_cluster_left_unanswered_queues_again_within_20_s(
    company: Company, bob: User, dead: Cluster
) -> None:
    """Planted: no such rule, so that it waited for as long as the cluster was away; its end alone
    told, and not why."""
    attempt = unanswered(company, bob, dead)
    assert take_back(dead) == 1
    attempt.refresh_from_db()
    assert (attempt.state, attempt.outcome, attempt.stop_reason) == (
        "ended",
        "not_started",
        "withdrawn",
    )
    assert (attempt.ended_at, attempt.released_at, attempt.message) == (NOW, NOW, TAKEN_BACK)
    job = Job.objects.get()
    assert (job.state, job.attempt_number, job.end_reason) == ("queued", 1, None)
    assert list(JobEvent.objects.order_by("id").values_list("event", "detail")) == [
        ("withdrawn", {"attempt": 1, "because": TAKEN_BACK}),
        ("requeued", {"attempt": 1, "outcome": "not_started", "reason": "not_started"}),
    ]
    assert take_back(dead) == 0


@pytest.mark.parametrize(
    "values",
    [
        {"granted_at": ago(19)},
        {"native_id": "7"},
        {"state": "starting", "release_sent_at": ago(1)},
        {"state": "running", "native_id": "7", "started_at": ago(5)},
    ],
    ids=["asked 19 s ago", "acknowledged", "released", "running"],
)
def test_what_may_run_or_was_asked_a_moment_ago_stays(
    company: Company, bob: User, dead: Cluster, values: dict[str, Any]
) -> None:
    """Against: without a look at the id; without one at the release; 19 s for 20."""
    attempt = unanswered(company, bob, dead, **values)
    assert take_back(dead) == 0
    attempt.refresh_from_db()
    assert attempt.released_at is None


@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        ({}, 1),
        # It answered since: its starts are only slow.
        ({"seen_at": ago(19)}, 0),
        # What was submitted may run without a release: taken back it could run twice.
        ({"kind": "local"}, 0),
        ({"kind": "kubernetes"}, 1),
    ],
    ids=["slurm", "answered 19 s ago", "local", "kubernetes"],
)
def test_only_a_silent_cluster_that_holds_submissions_loses_its_starts(
    company: Company, bob: User, dead: Cluster, changes: dict[str, Any], taken: int
) -> None:
    """Planted: each of the two conditions left out."""
    Cluster.objects.filter(pk=dead.pk).update(**changes)
    unanswered(company, bob, dead)
    assert take_back(dead) == taken


def test_a_cluster_that_was_not_compared_since_we_lead_keeps_its_starts(
    company: Company, bob: User, dead: Cluster
) -> None:
    """Behind a restore what has no id here may have run. Planted: all clusters."""
    unanswered(company, bob, dead)
    assert take_back(a_cluster("other")) == 0
    assert take_back() == 0


def test_a_job_of_that_cluster_alone_stays(company: Company, bob: User, dead: Cluster) -> None:
    """Planted: pinned jobs too, which nobody else may run."""
    attempt = unanswered(company, bob, dead)
    Job.objects.filter(pk=attempt.job_id).update(cluster=dead)
    assert take_back(dead) == 0


def test_a_deposed_observer_takes_nothing_back(company: Company, bob: User, dead: Cluster) -> None:
    unanswered(company, bob, dead)
    deposed = Fenced("observer")
    Leadership.objects.update(epoch=2)
    with pytest.raises(NotLeading):
        take_back(dead, leadership=deposed)
    assert Attempt.objects.get().state == "reserved"


def test_nothing_is_taken_back_in_quarantine(company: Company, bob: User, dead: Cluster) -> None:
    unanswered(company, bob, dead)
    Quarantine.objects.create(began_at=NOW, since=NOW)
    assert take_back(dead) == 0


def test_where_older_answers_count_it_waits_until_they_do_not(
    company: Company, bob: User, dead: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: 20 s whatever the setting, so that the arbiter placed it there again."""
    monkeypatch.setattr(settings, "STALE_AFTER_S", 25)
    attempt = unanswered(company, bob, dead, granted_at=ago(26))
    Cluster.objects.filter(pk=dead.pk).update(seen_at=ago(25))
    assert take_back(dead) == 0
    Cluster.objects.filter(pk=dead.pk).update(seen_at=ago(26))
    assert take_back(dead) == 1
    attempt.refresh_from_db()
    assert attempt.message.startswith("dead did not answer within 26 s, so ")


class RecordsFirst(Fenced):
    """Its cluster's answer is recorded between the choice of an attempt and its fence."""

    def fence(self) -> AbstractContextManager[None]:
        Attempt.objects.update(native_id="7")
        return super().fence()


def test_an_answer_in_the_last_moment_counts(company: Company, bob: User, dead: Cluster) -> None:
    """Planted: not read again under its lock. `tests/dispatch_model` has two copies of that."""
    unanswered(company, bob, dead)
    assert take_back(dead, leadership=RecordsFirst("observer")) == 0
    assert Attempt.objects.get().state == "reserved"


def test_a_time_in_which_the_observer_stood_still_is_no_silence(
    company: Company, bob: User, dead: Cluster
) -> None:
    """Planted: asked for by `seen_at` alone, so that an observer that was stopped took starts back
    from clusters that it had not asked; a stop that is not noticed."""
    unanswered(company, bob, dead)
    passed, clock = [0.0], cast(Any, SimpleNamespace(now=lambda: NOW))
    silences = _Silences(cast(Any, Fenced("observer")), clock, lambda: passed[0])

    def turns(first: int, last: int) -> list[int]:
        found = []
        for passed[0] in range(first, last + 1, 2):
            found.append(silences.withdraw([dead.pk]))
        return found

    assert turns(2, 18) == [0] * 9
    # Stopped for 30 s: it asks for another 20 s.
    assert turns(48, 66) == [0] * 10
    assert turns(68, 70) == [1, 0]


class AnswersTooLate(AClusterThatHolds):
    """Takes a submission, and answers once the job was taken back."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.cluster = cluster
        self.submitted: list[str] = []

    def submit(self, workload: Workload, *, is_first: bool) -> str:
        self.submitted.append(workload.key)
        assert take_back(self.cluster) == 1
        return "7"


def test_a_submission_that_arrives_later_is_removed_and_never_released(
    company: Company, bob: User, dead: Cluster
) -> None:
    """Planted: the attempt left open, so that its late id was released beside its successor."""
    attempt = unanswered(company, bob, dead, cluster_user="bob")
    intend([start_intention(attempt)], now=NOW)
    message = Message.objects.get()
    message.sends = 1
    observer: Any = Fenced("observer")
    late = AnswersTooLate(dead)
    connect: Any = lambda cluster: late  # noqa: E731
    start = handlers(observer, lambda: NOW, connect)["start_attempt"]
    finish = start(message)
    assert finish is not None
    finish()
    attempt.refresh_from_db()
    assert (attempt.native_id, attempt.state) == ("7", "ended")
    held = Observation(attempt.key, "7", "PENDING", WorkloadPhase.HELD, submitted_at=AT - 7)
    connector: Any = late
    settle(dead, connector, Listing(AT, {attempt.key: held}), leadership=observer)
    assert (late.released, late.removed) == ([], [(attempt.key, "7")])
    # And what was not sent by then is sent no more.
    assert start(message) is None
    assert late.submitted == [attempt.key]


def test_it_goes_elsewhere_until_its_cluster_answers_again(
    company: Company, bob: User, dead: Cluster
) -> None:
    """Planted: avoided for a quarter of an hour, as what a cluster did not start."""
    a_cluster_node(company.cluster, company.pool)
    attempt = unanswered(company, bob, dead)
    take_back(dead)
    assert avoided_clusters(NOW) == {}
    snapshot = load_snapshot(NOW)
    assert snapshot.clusters == {str(company.cluster.pk)}
    assert [(one.id, one.clusters) for one in snapshot.queued] == [
        (str(attempt.job_id), frozenset({str(company.cluster.pk)}))
    ]
    Cluster.objects.filter(pk=dead.pk).update(seen_at=NOW)
    assert load_snapshot(NOW).clusters == {str(company.cluster.pk), str(dead.pk)}


def test_what_people_read_of_it(company: Company, bob: User, dead: Cluster) -> None:
    """Against: nothing was said of it once the job was placed again."""
    attempt = unanswered(company, bob, dead)
    take_back(dead)
    job, actor = attempt.job, actor_of(bob)
    Job.objects.update(explanation={"code": "x", "sentence": "One job is ahead."})
    assert told(job, actor) == f"{TAKEN_BACK} One job is ahead."
    job.refresh_from_db()
    again = an_attempt(company, bob, number=2, native_id=None, release_sent_at=None)
    Attempt.objects.filter(pk=again.pk).update(job=job)
    Job.objects.filter(pk=job.pk).update(attempt_number=2, state=JobState.STARTING)
    assert told(job, actor) == (
        f"{TAKEN_BACK} Its GPUs are reserved and it is being started on {company.cluster.name}."
    )
    Attempt.objects.filter(pk=again.pk).update(state="running", started_at=NOW)
    Job.objects.filter(pk=job.pk).update(state=JobState.RUNNING)
    assert told(job, actor) == f"It does not wait: it is running. {TAKEN_BACK}"


def test_ten_silent_clusters_hold_no_job_for_a_person(
    company: Company, bob: User, dead: Cluster
) -> None:
    """Against: each silence counted as a cluster that did not start the job."""
    attempt = unanswered(company, bob, dead, number=11)
    for number in range(1, 11):
        Attempt.objects.create(
            job=attempt.job,
            number=number,
            cluster=dead,
            slots=[],
            mgpu=1000,
            guaranteed_mgpu=1000,
            state="ended",
            epoch=1,
            granted_at=NOW,
            ended_at=NOW,
            released_at=NOW,
            outcome="not_started",
            stop_reason="withdrawn",
        )
    assert take_back(dead) == 1
    assert Job.objects.get().state == "queued"
