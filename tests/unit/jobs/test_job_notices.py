"""Notices of events of jobs: their recipients and sentences."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from builders.hook_server import a_hook_server
from builders.job_builders import a_job, an_array, an_attempt
from builders.notice_builders import a_webhook, told, told_about
from builders.portal_builders import NOW, Company, a_user, an_actor
from jobs.actions.cancellation import cancel_job
from jobs.execution.ending_soon import give_time_limit_notices
from jobs.models import Job
from jobs.timeline import Happening, record_events
from notices.models import Notice, NoticeEvent
from notices.webhook_delivery import deliver_next_webhook
from tenants.access import actor_of
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

LONG = timedelta(seconds=600)
GRACE_S = 300


def happened(job: Job, event: str, after: timedelta = LONG, **detail: Any) -> None:
    record_events([Happening(job.pk, NOW + after, event, {"attempt": 1, **detail})])


def test_a_start_after_a_long_wait_is_told(company: Company, bob: User) -> None:
    """Planted: only longer waits than ten minutes. Against: every start."""
    happened(a_job(company, bob, name="short"), "started", LONG - timedelta(seconds=1))
    happened(a_job(company, bob), "started", timedelta(hours=2, seconds=10))
    happened(a_job(company, bob), "started", LONG)
    assert told(bob) == [
        ("job_started", "train started 2h after its submission."),
        ("job_started", "train started 10m after its submission."),
    ]


def test_the_success_of_a_long_job_is_told(company: Company, bob: User) -> None:
    """Planted: the time since the submission decides."""
    job = a_job(company, bob, state="running", started_at=NOW, submitted_at=NOW - LONG)
    happened(job, "succeeded", LONG - timedelta(seconds=1))
    assert told(bob) == []
    happened(job, "succeeded", LONG)
    assert told(bob) == [("job_ended", "train succeeded after 10m.")]
    notice = Notice.objects.get()
    assert (notice.subject_kind, notice.subject_id) == ("job", str(job.pk))
    assert notice.link == f"/jobs/{job.pk}"


@pytest.mark.parametrize(
    ("event", "detail", "expected"),
    [
        (
            "failed",
            {"reason": "exit_code"},
            ("job_failed", "train failed with an exit code other than 0."),
        ),
        ("failed", {"reason": "a new one"}, ("job_failed", "train failed.")),
        ("timed_out", {}, ("job_failed", "train was stopped at its time limit.")),
        (
            "requeued",
            {"reason": "node_failed"},
            ("job_requeued", "train lost its node and is queued again."),
        ),
        ("requeued", {"reason": "requeued"}, None),
        ("requeued", {"reason": "not_started"}, None),
        (
            "held",
            {"outcome": "unknown"},
            ("job_held", "train is held. See its page for the reason, then release it."),
        ),
        ("held", {"by": "bob"}, None),
        ("cancelled", {"reason": "cancelled_by_user"}, None),
        (
            "cancelled",
            {"reason": "dependency_never_met"},
            (
                "job_failed",
                "train was cancelled, because a job before it did not end as required.",
            ),
        ),
        ("submitted", {}, None),
    ],
)
def test_each_end_has_its_sentence(
    company: Company,
    bob: User,
    event: str,
    detail: dict[str, Any],
    expected: tuple[str, str] | None,
) -> None:
    happened(a_job(company, bob), event, **detail)
    assert told(bob) == ([] if expected is None else [expected])


def test_each_attempt_is_told_once(company: Company, bob: User) -> None:
    """A repeated observation adds nothing. Planted: a key without the attempt."""
    job = a_job(company, bob)
    for attempt in (1, 1, 2):
        happened(job, "requeued", reason="preempted", attempt=attempt)
    assert told(bob) == [("job_requeued", "train was preempted and is queued again.")] * 2


def test_a_service_account_is_not_told(company: Company, bob: User) -> None:
    User.objects.filter(pk=bob.pk).update(kind="service")
    happened(a_job(company, bob), "failed")
    assert told(bob) == []


def test_a_preempted_job_has_a_deadline(company: Company, bob: User) -> None:
    """Planted: the grace counts from the submission."""
    job = a_job(company, bob, state="running")
    happened(job, "preempting", grace_s=GRACE_S)
    notice = Notice.objects.get()
    assert notice.deadline == NOW + LONG + timedelta(seconds=GRACE_S)
    assert told(bob) == [
        ("job_preempting", "train is being preempted. Save its work before it stops.")
    ]


def test_a_reclaim_is_told_to_the_teams_lead_once_an_hour(company: Company, bob: User) -> None:
    """The administrators above are not told. Planted: a key with the job and the moment."""
    an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice")
    jobs = [a_job(company, bob, state="running") for _ in range(3)]
    detail = {"attempt": 1, "grace_s": GRACE_S, "for_team": str(company.inference.pk)}
    record_events([Happening(job.pk, NOW, "preempting", detail) for job in jobs[:2]])
    record_events([Happening(jobs[2].pk, NOW + timedelta(minutes=59), "preempting", detail)])
    assert told_about(NoticeEvent.TEAM_PREEMPTED) == {
        "lead": "The scheduler reclaims GPUs from ai-company/research/nlp: 2 running jobs will "
        "stop."
    }
    record_events([Happening(jobs[2].pk, NOW + timedelta(hours=1), "preempting", detail)])
    notices = Notice.objects.filter(event=NoticeEvent.TEAM_PREEMPTED)
    assert notices.count() == 2
    assert set(notices.values_list("link", flat=True)) == {
        "/jobs?scope=ai-company/research/nlp&state=preempting"
    }


def test_a_preemption_warns_in_the_channel_of_the_team(
    company: Company, bob: User, settings: Any
) -> None:
    """With its countdown, also of a service account's job; the team beside it hears nothing.

    Against: only jobs of people are posted.
    """
    User.objects.filter(pk=bob.pk).update(kind="service")
    settings.WEBHOOK_NETWORKS = ["127.0.0.1/32"]
    settings.PUBLIC_URL = "https://tidegate.example.org"
    job = a_job(company, bob, state="running")
    events = ["job_preempting", "team_preempted"]
    with a_hook_server() as hooks:
        a_webhook(node=company.nlp, url=hooks.url, kind="slack", events=events)
        a_webhook(node=company.inference, url=hooks.url, kind="slack", events=events)
        happened(job, "preempting", grace_s=GRACE_S, for_team=str(company.inference.pk))
        now = NOW + LONG + timedelta(seconds=10)
        while deliver_next_webhook(lambda: now):
            pass
    texts = {json.loads(request.body)["blocks"][0]["text"]["text"] for request in hooks.received}
    assert texts == {
        "*train is being preempted. Save its work before it stops.*\n"
        "Deadline: in 4m50s, at 2026-11-21 12:15:00 UTC\n"
        f"<https://tidegate.example.org/jobs/{job.pk}|Open in Tidegate>",
        "*The scheduler reclaims GPUs from ai-company/research/nlp: 1 running job will stop.*\n"
        "<https://tidegate.example.org/jobs?scope=ai-company/research/nlp&amp;state=preempting"
        "|Open in Tidegate>",
    }


def test_a_drain_is_no_reclaim(company: Company, bob: User) -> None:
    an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    happened(a_job(company, bob), "preempting", grace_s=GRACE_S, drained_node="n1")
    assert told_about(NoticeEvent.TEAM_PREEMPTED) == {}


def test_an_array_gives_one_notice_of_an_event_a_day(company: Company, bob: User) -> None:
    """Planted: a notice for each task."""
    array = an_array(company, bob, "running", "running", "running")
    tasks = list(array.tasks.order_by("array_index"))
    for task, after in zip(tasks, (0, 11, 12), strict=True):
        happened(task, "failed", timedelta(hours=after))
    assert told(bob) == [("job_failed", "sweep[0] failed."), ("job_failed", "sweep[2] failed.")]
    assert set(Notice.objects.values_list("subject_kind", "link")) == {
        ("job_array", f"/jobs?array={array.pk}")
    }


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_job_that_another_person_cancels_is_told(company: Company, bob: User, state: str) -> None:
    """The owner's own act is not. Planted: it is, too."""
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lead")
    for name, actor in (("own", actor_of(bob)), ("train", lead)):
        job = a_job(company, bob, name=name, state=state)
        if state == "running":
            an_attempt(job, cluster=company.cluster)
        cancel_job(job.pk, actor=actor, now=NOW)
    assert told(bob) == [("job_failed", "train was cancelled by lead.")]


def test_a_time_limit_is_told_half_an_hour_before(company: Company, bob: User) -> None:
    """Once, and again for a longer limit. Planted: a key without the limit."""
    four_hours = timedelta(hours=4)
    job = a_job(
        company, bob, state="running", started_at=NOW, time_limit_s=4 * 3600, attempt_number=1
    )
    a_job(company, bob, name="short", state="running", started_at=NOW, time_limit_s=4 * 3600 - 1)
    a_job(company, bob, name="queued", state="queued", time_limit_s=4 * 3600)
    half_an_hour_before = NOW + four_hours - timedelta(minutes=30)
    assert give_time_limit_notices(half_an_hour_before - timedelta(seconds=1)) == 0
    assert give_time_limit_notices(half_an_hour_before) == 1
    assert give_time_limit_notices(half_an_hour_before + timedelta(minutes=1)) == 0
    Job.objects.filter(pk=job.pk).update(time_limit_s=5 * 3600)
    assert give_time_limit_notices(half_an_hour_before + timedelta(hours=1)) == 1
    assert (
        told(bob)
        == [
            (
                "time_limit_near",
                "train reaches its time limit soon. Extend the limit or save its work.",
            )
        ]
        * 2
    )
    assert Notice.objects.latest("pk").deadline == NOW + timedelta(hours=5)


def test_the_time_limits_of_an_array_are_told_once_a_day(company: Company, bob: User) -> None:
    """Three tasks end in the first 20 minutes of a day, and one on the day after.

    Planted: the timer's clock in the key, which gives 30 notices in 30 minutes. Against: the day of
    the clock, which gives a second notice of a task after midnight.
    """
    array = an_array(company, bob, "running", "running", "running", "running")
    four_hours, midnight = timedelta(hours=4), NOW + timedelta(hours=12)
    for task, end in zip(
        array.tasks.order_by("array_index"),
        (midnight, midnight + LONG, midnight + 2 * LONG, midnight + timedelta(hours=25)),
        strict=True,
    ):
        Job.objects.filter(pk=task.pk).update(
            started_at=end - four_hours, time_limit_s=4 * 3600, attempt_number=1
        )
    given = [
        give_time_limit_notices(midnight + timedelta(minutes=minute)) for minute in range(-30, 30)
    ]
    assert (given[0], sum(given)) == (1, 1)
    assert give_time_limit_notices(midnight + timedelta(hours=24, minutes=45)) == 1
    assert set(Notice.objects.values_list("user", "link")) == {(bob.pk, f"/jobs?array={array.pk}")}


def test_a_deactivated_owner_is_not_told(company: Company) -> None:
    gone = a_user(company.organization, "gone")
    job = a_job(company, gone)
    User.objects.filter(pk=gone.pk).update(is_active=False)
    happened(job, "failed")
    assert told(gone) == []
