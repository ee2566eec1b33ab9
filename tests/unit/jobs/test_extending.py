"""A longer time limit of a job that waits or runs: its plan, its refusals, and its way (R-116)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from audit.models import AuditEvent
from billing.metering import Grant, record_started, register_attempts
from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.loop_builders import Fenced
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_grant,
    a_user,
    an_actor,
)
from connectors.errors import ClusterUnavailable, NotOffered
from connectors.protocol import Observation, Outcome, WorkloadPhase
from jobs.api import extending as views
from jobs.execution.dispatch import handlers
from jobs.execution.observation import apply_one
from jobs.intentions import stop_shard
from jobs.models import Attempt, Extension, Job, JobEvent, Reclaim
from outbox.delivery import deliver_due
from quotas.models import TimeLimit
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600
DAY = 86_400


class Clock:
    moment = NOW

    def now(self) -> datetime:
        return Clock.moment


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "SystemClock", Clock)
    monkeypatch.setattr(Clock, "moment", NOW)


@pytest.fixture
def company() -> Company:
    return a_company(nodes=1)


@pytest.fixture
def bob(company: Company) -> User:
    user = a_user(company.organization, "bob")
    a_grant(user, Role.RESEARCHER, company.nlp)
    return user


def a_running_job(company: Company, user: User, **changes: Any) -> Attempt:
    """It holds all 8 GPUs for an hour, 2 of them within the guarantee of nlp."""
    job = a_job(
        company,
        user,
        **{
            "state": "running",
            "started_at": NOW,
            "mgpu_per_node": 8_000,
            "time_limit_s": HOUR,
            **changes,
        },
    )
    return an_attempt(
        job, cluster=company.cluster, started_at=NOW, native_id="1", guaranteed_mgpu=2_000
    )


def extend(user: User, job: Job, **body: Any) -> Any:
    return by_token(user).post(f"jobs/{job.pk}/extend", body)


def plan(user: User, job: Job, **body: Any) -> Any:
    return by_token(user).post(f"jobs/{job.pk}/extension-plan", body)


def test_the_plan_has_the_end_and_the_delays_and_changes_nothing(
    company: Company, bob: User
) -> None:
    """Planted: the notice and the end of the old limit."""
    attempt = a_running_job(company, bob)
    own = a_job(company, bob, name="next", mgpu_per_node=8_000)
    answer = plan(bob, attempt.job, by_s=2 * HOUR)
    assert answer.status_code == 200
    body = answer.json()
    (delay,) = body.pop("delays")
    assert body == {
        "job": str(attempt.job_id),
        "before_s": HOUR,
        "time_limit_s": 3 * HOUR,
        "ends_before": "2026-11-21T13:00:00Z",
        "ends_at": "2026-11-21T15:00:00Z",
        "notice_at": "2026-11-21T14:55:00Z",
        "mgpu": 8_000,
        "cost_nano": None,
        "unbilled_nano": None,
        "price_mode": None,
        "currency": None,
        "budgets": [],
        "delayed_jobs": 1,
        "until": "2026-11-22T15:00:00Z",
        "is_cut": False,
        "notes": [],
        "unseen": "",
        "refusal": "",
    }
    assert (delay["job"], delay["name"], delay["user"]) == (str(own.pk), "next", "bob")
    assert delay["before"].startswith("2026-11-21T13:0")
    assert delay["after"].startswith("2026-11-21T15:")
    assert abs(delay["later_s"] - 2 * HOUR) < 1_200
    attempt.job.refresh_from_db()
    assert attempt.job.time_limit_s == HOUR
    assert not Extension.objects.exists()


def test_an_extension_is_stored_noted_and_sent_once(company: Company, bob: User) -> None:
    """Planted: no note for the arbiter's memory; the intention forgotten."""
    attempt = a_running_job(company, bob)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM jobs_change")
    shown = by_token(bob).get(f"jobs/{attempt.job_id}").json()
    assert "extend" in shown["can"]
    answer = extend(bob, attempt.job, by_s=2 * HOUR)
    assert (answer.status_code, answer.json()["time_limit_s"]) == (200, 3 * HOUR)
    with connection.cursor() as cursor:
        cursor.execute("SELECT job_id FROM jobs_change WHERE job_id IS NOT NULL")
        assert [str(job) for (job,) in cursor.fetchall()] == [str(attempt.job_id)]
    made = Extension.objects.get()
    assert (made.attempt_id, made.before_s, made.limit_s) == (attempt.pk, HOUR, 3 * HOUR)
    assert list(JobEvent.objects.values_list("event", "detail")) == [
        ("extended", {"by": "bob", "before_s": HOUR, "time_limit_s": 3 * HOUR})
    ]
    assert AuditEvent.objects.filter(action="job_extended").count() == 1


def test_a_waiting_job_just_waits_with_the_longer_limit(company: Company, bob: User) -> None:
    job = a_job(company, bob, time_limit_s=90)
    # Ninety seconds are two minutes on Slurm, so a longer limit has three at least.
    answer = extend(bob, job, by_s=1)
    assert (answer.status_code, answer.json()["time_limit_s"]) == (200, 180)
    assert not Extension.objects.exists()
    body = plan(bob, job, time_limit_s=HOUR).json()
    assert (body["ends_at"], body["notice_at"], body["ends_before"]) == (None, None, None)


def test_nobody_delays_jobs_of_others(company: Company, bob: User) -> None:
    """Whoever may manage both jobs decides.

    Planted: every delay allowed; the names of jobs that the person may not see.
    """
    attempt = a_running_job(company, bob)
    dana = a_user(company.organization, "dana")
    a_grant(dana, Role.RESEARCHER, company.vision)
    a_job(company, dana, team=company.vision, name="secret", mgpu_per_node=8_000)
    refusal = plan(bob, attempt.job, by_s=2 * HOUR).json()
    assert refusal["refusal"].startswith("It would delay 1 waiting job that you may not manage")
    assert (refusal["delays"], refusal["delayed_jobs"]) == ([], 1)
    refused = extend(bob, attempt.job, by_s=2 * HOUR)
    assert (refused.status_code, refused.json()["detail"]) == (409, refusal["refusal"])
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lena").user
    assert extend(lead, attempt.job, by_s=2 * HOUR).status_code == 409
    alice = an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice").user
    shown = plan(alice, attempt.job, by_s=2 * HOUR).json()
    assert ([one["name"] for one in shown["delays"]], shown["refusal"]) == (["secret"], "")
    assert extend(alice, attempt.job, by_s=2 * HOUR).json()["time_limit_s"] == 3 * HOUR


UNSEEN = (
    "The look-ahead covers 31 d, and the new end is later. More waiting jobs may be delayed than "
    "it shows."
)


@pytest.mark.parametrize("waits", [True, False])
def test_a_job_whose_new_end_no_look_ahead_sees(company: Company, bob: User, waits: bool) -> None:
    """Whoever may manage all waiting jobs decides.

    Planted: equal futures up to the end of the look-ahead taken for no delay; the start of a
    waiting job taken for now.
    """
    dana = a_user(company.organization, "dana")
    a_grant(dana, Role.RESEARCHER, company.vision)
    if waits:
        a_running_job(company, dana, team=company.vision, time_limit_s=20 * DAY)
        job = a_job(company, bob, mgpu_per_node=8_000, time_limit_s=10 * DAY)
    else:
        job = a_running_job(company, bob, time_limit_s=15 * DAY).job
    by = {"by_s": 30 * DAY} if not waits else {"by_s": 2 * DAY}
    shown = plan(bob, job, **by).json()
    assert (shown["unseen"], shown["refusal"]) == (UNSEEN, "")
    a_job(company, dana, team=company.vision, time_limit_s=HOUR, mgpu_per_node=8_000, node_count=2)
    shown = plan(bob, job, **by).json()
    assert (shown["unseen"], shown["delayed_jobs"]) == (UNSEEN, 0)
    assert shown["refusal"].startswith("It may delay waiting jobs that you may not manage")
    refused = extend(bob, job, **by)
    assert (refused.status_code, refused.json()["detail"]) == (409, shown["refusal"])
    alice = an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice").user
    shown = plan(alice, job, **by).json()
    assert (shown["unseen"], shown["refusal"]) == (UNSEEN, "")
    assert extend(alice, job, **by).status_code == 200


def test_a_look_ahead_sees_delays_after_two_weeks(company: Company, bob: User) -> None:
    """Planted: a look-ahead of 14 days, in which both futures are equal."""
    attempt = a_running_job(company, bob, time_limit_s=15 * DAY)
    dana = a_user(company.organization, "dana")
    a_job(company, dana, team=company.vision, mgpu_per_node=8_000)
    shown = plan(bob, attempt.job, by_s=5 * DAY).json()
    assert (shown["delayed_jobs"], shown["unseen"]) == (1, "")
    assert shown["refusal"].startswith("It would delay 1 waiting job that you may not manage")


def test_a_held_job_is_in_no_look_ahead(company: Company, bob: User) -> None:
    """Planted: refused, because its start is not known."""
    dana = a_user(company.organization, "dana")
    a_job(company, dana, team=company.vision)
    job = a_job(company, bob, state="held", time_limit_s=HOUR)
    assert extend(bob, job, by_s=60 * DAY).status_code == 200


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "Give by_s or time_limit_s, and not both."),
        ({"by_s": 60, "time_limit_s": 7_200}, "Give by_s or time_limit_s, and not both."),
        ({"time_limit_s": HOUR}, "time_limit_s: the time limit is 1 h already"),
        ({"time_limit_s": 60}, "a limit can only be made longer"),
        ({"by_s": 31_536_000}, "by_s: a time limit is at most 365 d"),
        ({"by_s": 8 * HOUR}, "by_s: 9 h is longer than 8 h, the longest time limit of pool h100"),
        ({"by_s": 6 * HOUR}, "by_s: 7 h is longer than 6 h, the longest time limit on local"),
    ],
)
def test_limits_bound_an_extension(
    company: Company, bob: User, body: dict[str, Any], told: str
) -> None:
    """Planted: the longest limit of the pool, or of the cluster, left out."""
    TimeLimit.objects.create(pool=company.pool, longest_s=8 * HOUR)
    company.cluster.time_limits = {"h100": 6 * HOUR}
    company.cluster.save()
    attempt = a_running_job(company, bob)
    refused = extend(bob, attempt.job, **body)
    assert refused.status_code == 400
    assert told in refused.json()["detail"]
    attempt.job.refresh_from_db()
    assert attempt.job.time_limit_s == HOUR
    assert extend(bob, attempt.job, by_s=5 * HOUR).status_code == 200


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"time_limit_s": None}, "The job has no time limit"),
        ({"state": "starting"}, "Ask again when it runs."),
        ({"state": "preempting"}, "Only a waiting or running job can be extended"),
        ({"cancel_requested_at": NOW}, "Only a waiting or running job can be extended"),
        ({"origin": "native", "script": ""}, "extend it there"),
        ({"launch": "manifest"}, "A Kubernetes manifest that runs keeps its time limit"),
    ],
)
def test_jobs_that_cannot_be_extended(
    company: Company, bob: User, changes: dict[str, Any], told: str
) -> None:
    attempt = a_running_job(company, bob, **changes)
    refused = plan(bob, attempt.job, by_s=HOUR)
    assert refused.status_code == 409
    assert told in refused.json()["detail"]


def test_a_job_that_was_given_its_notice_ends(company: Company, bob: User) -> None:
    """Planted: the end of the limit in place of its notice."""
    attempt = a_running_job(company, bob)
    Clock.moment = NOW + timedelta(seconds=HOUR - 300)
    refused = extend(bob, attempt.job, by_s=HOUR)
    assert refused.status_code == 409
    assert "has had the notice of its time limit" in refused.json()["detail"]
    Clock.moment = NOW + timedelta(seconds=HOUR - 301)
    assert extend(bob, attempt.job, by_s=HOUR).status_code == 200


@pytest.mark.parametrize(
    ("kind", "label", "delay_s", "said"),
    [("kubernetes", "Kubernetes", 120, "2 min"), ("slurm", "Slurm", 30, "30 s")],
)
def test_a_kind_whose_jobs_learn_late_needs_an_earlier_extension(
    company: Company, bob: User, kind: str, label: str, delay_s: int, said: str
) -> None:
    """Planted: the delay of the kind left out, so the job ended at a limit that was "extended"."""
    company.cluster.kind = kind
    company.cluster.save()
    attempt = a_running_job(company, bob)
    Clock.moment = NOW + timedelta(seconds=HOUR - 300 - delay_s + 1)
    refused = plan(bob, attempt.job, by_s=HOUR)
    assert refused.status_code == 409
    assert refused.json()["detail"] == (
        f"The notice of its time limit is near: a job on {label} needs up to {said} to learn of a "
        "longer one. Extend a job earlier, or let it requeue itself with requeue_on = time_limit."
    )
    Clock.moment = NOW + timedelta(seconds=HOUR - 300 - delay_s)
    assert extend(bob, attempt.job, by_s=HOUR).status_code == 200


def test_a_job_for_which_gpus_are_being_freed_waits(company: Company, bob: User) -> None:
    job = a_job(company, bob, time_limit_s=HOUR)
    Reclaim.objects.create(
        job=job, cluster=company.cluster, slots=[], created_at=NOW, grace_until=NOW
    )
    refused = extend(bob, job, by_s=HOUR)
    assert refused.json()["detail"] == "GPUs are being freed for the job. Extend it when it runs."


def test_a_job_that_changed_since_its_plan_is_left_alone(company: Company, bob: User) -> None:
    """Planted: the plan's limit was written over another extension."""
    from jobs.actions.extending import extend_job
    from primitives.errors import Conflict
    from tenants.access import actor_of

    attempt = a_running_job(company, bob)
    actor = actor_of(bob)
    extend_job(attempt.job_id, 2 * HOUR, before_s=HOUR, actor=actor, now=NOW)
    extend_job(attempt.job_id, 2 * HOUR, before_s=HOUR, actor=actor, now=NOW)
    with pytest.raises(Conflict, match="changed meanwhile"):
        extend_job(attempt.job_id, 3 * HOUR, before_s=HOUR, actor=actor, now=NOW)
    assert Extension.objects.count() == 1


@dataclass
class ACluster:
    """Remembers the limits that it was given, and fails as it is told."""

    fails: Exception | None = None
    given: list[tuple[str, int, str | None]] = field(default_factory=list)

    def set_time_limit(self, key: str, time_limit_s: int, *, native_id: str | None = None) -> None:
        if self.fails is not None:
            raise self.fails
        self.given.append((key, time_limit_s, native_id))


class RefusesOnce(ACluster):
    def set_time_limit(self, key: str, time_limit_s: int, *, native_id: str | None = None) -> None:
        try:
            super().set_time_limit(key, time_limit_s, native_id=native_id)
        finally:
            self.fails = None


def deliver(company: Company, cluster: ACluster, at: datetime) -> None:
    leader = Fenced("observer")
    deliver_due(
        handlers(leader, lambda: at, lambda _: cluster),  # type: ignore[arg-type, return-value]
        shard=stop_shard(company.cluster.pk),
        clock=lambda: at,
        fence=leader.fence,
    )


def test_a_cluster_gets_the_latest_limit_as_soon_as_it_answers(company: Company, bob: User) -> None:
    """Planted: each message sent its own limit; the confirmation dropped."""
    attempt = a_running_job(company, bob)
    assert extend(bob, attempt.job, by_s=HOUR).status_code == 200
    away = ACluster(ClusterUnavailable("it is away"))
    deliver(company, away, NOW)
    assert Extension.objects.get().confirmed_at is None
    assert extend(bob, attempt.job, by_s=HOUR).status_code == 200
    back = ACluster()
    later = NOW + timedelta(minutes=1)
    deliver(company, back, later)
    assert back.given == [(attempt.key, 3 * HOUR, "1")] * 2
    assert set(Extension.objects.values_list("confirmed_at", flat=True)) == {later}
    events = list(JobEvent.objects.order_by("id").values_list("event", flat=True))
    assert events == ["extended", "extended", "extension_confirmed", "extension_confirmed"]


def test_a_cluster_that_cannot_leaves_the_earlier_limit(company: Company, bob: User) -> None:
    """Planted: the job kept a limit that its cluster does not keep."""
    attempt = a_running_job(company, bob)
    assert extend(bob, attempt.job, by_s=HOUR).status_code == 200
    deliver(company, ACluster(NotOffered("it has no clock")), NOW)
    attempt.job.refresh_from_db()
    assert attempt.job.time_limit_s == HOUR
    assert Extension.objects.get().refusal == "it has no clock"
    assert JobEvent.objects.latest("id").detail == {"time_limit_s": HOUR, "why": "it has no clock"}


def test_refusals_leave_the_limit_that_the_cluster_has(company: Company, bob: User) -> None:
    """Planted: the limit before the last extension, which the cluster never had."""
    attempt = a_running_job(company, bob)
    assert extend(bob, attempt.job, by_s=HOUR).status_code == 200
    deliver(company, ACluster(), NOW)
    for _ in range(2):
        assert extend(bob, attempt.job, by_s=HOUR).status_code == 200
    deliver(company, ACluster(NotOffered("it has no clock")), NOW + timedelta(minutes=1))
    attempt.job.refresh_from_db()
    assert attempt.job.time_limit_s == 2 * HOUR
    extensions = Extension.objects.order_by("limit_s").values_list("limit_s", "refusal")
    refused = [(3 * HOUR, "it has no clock"), (4 * HOUR, "it has no clock")]
    assert list(extensions) == [(2 * HOUR, ""), *refused]
    events = list(JobEvent.objects.order_by("id").values_list("event", flat=True))
    assert events[-2:] == ["extended", "extension_refused"]


def test_two_refused_extensions_leave_the_first_limit(company: Company, bob: User) -> None:
    """Planted: the limit before the last extension; a refused extension sent again."""
    attempt = a_running_job(company, bob)
    for _ in range(2):
        assert extend(bob, attempt.job, by_s=HOUR).status_code == 200
    deliver(company, cluster := RefusesOnce(NotOffered("it has no clock")), NOW)
    attempt.job.refresh_from_db()
    assert attempt.job.time_limit_s == HOUR
    assert cluster.given == []
    assert not Extension.objects.filter(refusal="").exists()


def end_at_limit(company: Company, attempt: Attempt, after_s: int) -> Job:
    job = attempt.job
    grant = Grant(
        attempt_id=attempt.id,
        job_id=job.id,
        job_name=job.name,
        number=1,
        organization_id=company.nlp.organization_id,
        team_id=company.nlp.pk,
        user_id=job.user_id,
        pool_id=company.pool.id,
        cluster_id=company.cluster.id,
        priority_class="normal",
        multiplier_ppm=1_000_000,
        job_type=job.type,
        mgpu=attempt.mgpu,
        guaranteed_mgpu=attempt.mgpu,
        at=NOW,
    )
    register_attempts([grant], now=NOW)
    record_started(attempt.id, at=NOW, now=NOW)
    ended = int(NOW.timestamp()) + after_s
    told = Observation(
        key=attempt.key,
        native_id="1",
        native_state="ended",
        phase=WorkloadPhase.ENDED,
        started_at=int(NOW.timestamp()),
        ended_at=ended,
        released_at=ended,
        is_released=True,
        outcome=Outcome.TIMED_OUT,
        exit_codes={0: 1},
    )
    with transaction.atomic():
        apply_one(attempt.pk, attempt.job_id, told, None, NOW + timedelta(seconds=after_s))
    return Job.objects.get(pk=job.pk)


def test_a_job_that_an_extension_did_not_reach_says_so(company: Company, bob: User) -> None:
    """Planted: no word of it, as if the longer limit had ended the job."""
    attempt = a_running_job(company, bob)
    assert extend(bob, attempt.job, by_s=HOUR).status_code == 200
    job = end_at_limit(company, attempt, HOUR - 299)
    attempt.refresh_from_db()
    assert (job.state, job.end_reason) == ("timed_out", "time_limit")
    assert attempt.message == (
        "The extension to 2 h did not reach the cluster before the notice of the earlier time "
        "limit, so the job ended at that."
    )
    assert JobEvent.objects.latest("id").detail["extension"] == "missed"
    deliver(company, late := ACluster(), NOW + timedelta(hours=1))
    assert late.given == []


def test_a_job_that_ends_at_its_longer_limit_says_nothing(company: Company, bob: User) -> None:
    attempt = a_running_job(company, bob)
    assert extend(bob, attempt.job, by_s=HOUR).status_code == 200
    end_at_limit(company, attempt, 2 * HOUR - 300)
    attempt.refresh_from_db()
    assert attempt.message == ""
    assert "extension" not in JobEvent.objects.latest("id").detail


@pytest.mark.parametrize(
    "values",
    [{"limit_s": HOUR}, {"before_s": 0}, {"confirmed_at": NOW, "refusal": "no"}],
)
def test_the_database_keeps_extensions_longer(
    company: Company, bob: User, values: dict[str, Any]
) -> None:
    attempt = a_running_job(company, bob)
    row = {"before_s": HOUR, "limit_s": 2 * HOUR, "asked_at": NOW, **values}
    with pytest.raises(IntegrityError), transaction.atomic():
        Extension.objects.create(attempt=attempt, **row)
