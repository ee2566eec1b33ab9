"""What an older database makes of a cluster that knows more, and what is frozen meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from audit.models import AuditEvent
from billing.models import UsageSegment
from builders.api_callers import by_token
from builders.held_cluster import AClusterThatHolds
from builders.loop_builders import Fenced, a_job
from builders.portal_builders import (
    NOW,
    Company,
    a_cluster_node,
    a_company,
    a_grant,
    a_pool,
    a_user,
)
from connectors.errors import ClusterUnavailable
from connectors.protocol import Listing, Observation, Outcome, RankSlot, WorkloadPhase
from jobs.arbitration.snapshots import load_snapshot
from jobs.execution.dispatch import start_attempt
from jobs.execution.observation import apply_listing
from jobs.execution.restoring import ClusterMemory, _register, end_quarantine, freeze
from jobs.execution.settling import settle
from jobs.models import Attempt, Job, JobState, attempt_id
from outbox.delivery import NotYet
from outbox.models import Message
from outbox.quarantine import is_quarantined, open_quarantine
from primitives.errors import Conflict
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

AT = int(NOW.timestamp())
OBSERVER: Any = None


@pytest.fixture
def company() -> Company:
    company = a_company()
    company.cluster.observed_at = NOW
    company.cluster.save()
    return company


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


def a_run(
    key: str,
    *,
    native_id: str = "7",
    at: int = AT,
    slots: tuple[RankSlot, ...] | None = None,
) -> Observation:
    """It ran for ten seconds, by the accounting, which may name its nodes."""
    return Observation(
        key,
        native_id,
        "COMPLETED",
        WorkloadPhase.ENDED,
        started_at=at,
        ended_at=at + 10,
        released_at=at + 10,
        is_released=True,
        outcome=Outcome.SUCCEEDED,
        submitted_at=at - 5,
        slots=slots,
    )


class Accounting:
    """Answers `runs`, or fails, and counts how often it was asked."""

    def __init__(self, *runs: Observation, fails: bool = False) -> None:
        self.runs = runs
        self.fails = fails
        self.asked: list[int] = []

    def __call__(
        self, since: int, listed: Collection[str]
    ) -> Mapping[str, tuple[Observation, ...]]:
        self.asked.append(since)
        if self.fails:
            raise ClusterUnavailable("the accounting is away")
        return {one.key: (one,) for one in self.runs}


def compare(
    company: Company,
    ask: Accounting,
    *listed: Observation,
    memory: ClusterMemory | None = None,
    silent_s: int = 1,
) -> ClusterMemory:
    memory = memory or ClusterMemory()
    memory.compare(
        company.cluster,
        Listing(AT + silent_s, {one.key: one for one in listed}),
        ask=ask,
        leadership=Fenced("observer"),  # type: ignore[arg-type]
        now=NOW + timedelta(seconds=silent_s),
    )
    return memory


def key_of(job: Job, number: int = 1) -> str:
    return f"tg-{attempt_id(job.id, number)}"


def test_the_id_of_an_attempt_follows_from_its_job_and_number() -> None:
    job = UUID("01234567-89ab-7def-8123-456789abcdef")
    assert attempt_id(job, 1) == UUID("012c7fb4-3873-573b-b232-17f221b778d0")
    assert len({attempt_id(job, 1), attempt_id(job, 2), attempt_id(uuid4(), 1)}) == 3


def test_the_accounting_is_asked_only_after_a_silence_of_ours(company: Company) -> None:
    ask = Accounting()
    assert compare(company, ask, silent_s=15).is_compared
    assert ask.asked == []
    memory = compare(company, ask, silent_s=16)
    assert ask.asked == [AT - 60]
    compare(company, ask, memory=memory, silent_s=17)
    assert ask.asked == [AT - 60]


def test_nothing_may_start_before_the_accounting_has_answered(company: Company) -> None:
    memory = ClusterMemory()
    with pytest.raises(ClusterUnavailable):
        compare(company, Accounting(fails=True), memory=memory, silent_s=16)
    assert not memory.is_compared


def test_a_run_that_was_forgotten_is_taken_over_and_freezes_starts(
    company: Company, bob: User
) -> None:
    job = a_job(company.nlp, bob, company.pool, now=NOW)
    compare(company, Accounting(a_run(key_of(job))), silent_s=16)
    quarantine = open_quarantine()
    assert quarantine is not None
    assert quarantine.answers == {str(company.cluster.pk): {"adopted": 1, "strangers": 0}}
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == ("succeeded", 1)
    attempt = job.attempts.get()
    assert (attempt.id, attempt.native_id) == (attempt_id(job.id, 1), "7")
    segment = UsageSegment.objects.get()
    assert (segment.start, segment.end) == (NOW, NOW + timedelta(seconds=10))
    assert AuditEvent.objects.get().action == "quarantine.began"


def test_an_end_that_was_missed_is_no_restore(
    company: Company, bob: User, caplog: pytest.LogCaptureFixture
) -> None:
    """Against: after each crash of the database the log told of attempts taken over and workloads
    that belong to no job, as after a restore from a backup."""
    attempt = a_starting_attempt(company, bob, native_id="7")
    _register(attempt.job, attempt, NOW)
    with caplog.at_level("INFO", "jobs.execution.restoring"):
        compare(company, Accounting(a_run(attempt.key)), silent_s=16)
    attempt.job.refresh_from_db()
    assert attempt.job.state == "succeeded"
    assert not is_quarantined()
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("INFO", "local: 1 attempts ended while nobody looked")
    ]


def test_a_forgotten_run_is_in_the_pool_of_its_nodes(company: Company, bob: User) -> None:
    other = a_pool("a100")
    job = a_job(company.nlp, bob, other, now=NOW, pools=[other.pk, company.pool.pk])
    a_cluster_node(company.cluster, other, "elsewhere")
    seen = a_run(key_of(job), slots=(RankSlot("ai-company-000", 1_000),))
    compare(company, Accounting(seen), silent_s=16)
    job.refresh_from_db()
    assert (job.pool, job.attempt_number) == (company.pool, 1)
    assert UsageSegment.objects.get().attempt.pool == company.pool


def test_the_second_attempt_is_found_after_the_first(company: Company, bob: User) -> None:
    job = a_job(company.nlp, bob, company.pool, now=NOW)
    failed = Observation(
        **{
            **{name: getattr(a_run(key_of(job)), name) for name in Observation.__slots__},
            "outcome": Outcome.NODE_FAILED,
        }
    )
    again = a_run(key_of(job, 2), native_id="8", at=AT + 12)
    compare(company, Accounting(failed, again), silent_s=30)
    assert list(
        Attempt.objects.order_by("number").values_list("number", "native_id", "outcome")
    ) == [(1, "7", "node_failed"), (2, "8", "succeeded")]
    job.refresh_from_db()
    assert job.state == "succeeded"


def test_what_belongs_to_no_job_is_counted_and_strange_only_once(company: Company) -> None:
    """Planted: strangers from before the end of a quarantine begin the next one."""
    stranger = a_run(f"tg-{uuid4()}")
    memory = compare(company, Accounting(), stranger)
    quarantine = open_quarantine()
    assert quarantine is not None
    assert quarantine.answers == {str(company.cluster.pk): {"adopted": 0, "strangers": 1}}
    ended = end_quarantine(actor_id=None, actor="operator", now=NOW + timedelta(seconds=20))
    assert (ended.adopted, ended.strangers, ended.held) == (0, 1, 0)
    compare(company, Accounting(), stranger, memory=memory, silent_s=21)
    compare(company, Accounting(), stranger, silent_s=22)
    assert not is_quarantined()
    assert not Attempt.objects.exists()


def a_starting_attempt(company: Company, bob: User, **values: Any) -> Attempt:
    job = a_job(company.nlp, bob, company.pool, state=JobState.STARTING, attempt_number=1)
    return Attempt.objects.create(
        **{
            "id": attempt_id(job.id, 1),
            "job": job,
            "number": 1,
            "cluster": company.cluster,
            "slots": [{"node": "n", "mgpu": 1000}],
            "mgpu": 1000,
            "guaranteed_mgpu": 1000,
            "state": "starting",
            "epoch": 1,
            "granted_at": NOW,
            **values,
        }
    )


def frozen() -> None:
    freeze("for a test", since=NOW, now=NOW)


def test_in_quarantine_nothing_is_submitted(company: Company, bob: User) -> None:
    attempt = a_starting_attempt(company, bob, state="reserved")
    frozen()
    message = Message(kind="start_attempt", subject=attempt.id, sends=1)
    with pytest.raises(NotYet, match="quarantine"):
        start_attempt(message, OBSERVER, lambda: NOW, OBSERVER)


def test_in_quarantine_nothing_is_released(company: Company, bob: User) -> None:
    attempt = a_starting_attempt(company, bob, native_id="7")
    frozen()
    cluster: Any = AClusterThatHolds()
    held = Observation(attempt.key, "7", "PENDING", WorkloadPhase.HELD, submitted_at=AT - 60)
    observer: Any = Fenced("observer")
    listing = Listing(AT, {attempt.key: held})
    assert settle(company.cluster, cluster, listing, leadership=observer) == (0, 0)
    assert cluster.released == []


def test_in_quarantine_nothing_is_called_lost(company: Company, bob: User) -> None:
    attempt = a_starting_attempt(company, bob, native_id="7", missed_listings=2)
    frozen()
    observer: Any = Fenced("observer")
    cluster: Any = AClusterThatHolds()
    apply_listing(
        company.cluster,
        Listing(AT, {}),
        connector=cluster,
        previous_at=NOW,
        leadership=observer,
        now=NOW,
    )
    attempt.refresh_from_db()
    assert (attempt.released_at, attempt.missed_listings) == (None, 2)


def test_in_quarantine_no_cluster_accepts_starts(company: Company) -> None:
    assert load_snapshot(NOW).clusters == {str(company.cluster.pk)}
    frozen()
    assert load_snapshot(NOW).clusters == frozenset()


def test_ending_holds_what_may_have_run_on_a_silent_cluster(company: Company, bob: User) -> None:
    queued = a_job(company.nlp, bob, company.pool, now=NOW)
    starting = a_starting_attempt(company, bob, native_id="7").job
    frozen()
    ended = end_quarantine(actor_id=bob.pk, actor=bob.login, now=NOW)
    assert ended.held == 2
    for job in (queued, starting):
        job.refresh_from_db()
        assert (job.state, job.attempts.get().outcome) == ("held", "unknown")
    assert list(AuditEvent.objects.order_by("id").values_list("action", "actor")) == [
        ("quarantine.began", "system"),
        ("quarantine.ended", bob.login),
    ]
    with pytest.raises(Conflict):
        end_quarantine(actor_id=bob.pk, actor=bob.login, now=NOW)


def test_ending_holds_what_may_have_run_in_any_of_its_pools(company: Company, bob: User) -> None:
    other = a_pool("a100")
    a_job(company.nlp, bob, other, now=NOW)
    a_job(company.nlp, bob, other, now=NOW, pools=[other.pk, company.pool.pk])
    frozen()
    assert end_quarantine(actor_id=bob.pk, actor=bob.login, now=NOW).held == 1


def test_everybody_is_told_and_administrators_are_told_more(company: Company, bob: User) -> None:
    root = a_user(None, "root")
    a_grant(root, Role.PLATFORM_ADMIN, None)
    assert by_token(bob).get("quarantine").json()["is_quarantined"] is False
    frozen()
    sentence = (
        "In quarantine since 2026-11-21 12:00:00 UTC: nothing is started until an administrator "
        "of the platform ends it. What runs goes on."
    )
    told = by_token(bob).get("quarantine").json()
    assert (told["sentence"], told["reason"], told["silent_clusters"]) == (sentence, None, None)
    told = by_token(root).get("quarantine").json()
    assert (told["reason"], told["silent_clusters"]) == ("for a test", ["local"])
    assert by_token(bob).get("clusters").json()["items"][0]["message"] == sentence
    assert by_token(bob).delete("quarantine").status_code == 403
    answer = by_token(root).delete("quarantine")
    assert (answer.status_code, answer.json()) == (200, {"adopted": 0, "strangers": 0, "held": 0})
    assert by_token(root).delete("quarantine").status_code == 409
