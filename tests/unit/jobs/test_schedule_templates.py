"""Schedules from templates: each run takes the template as it is then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from builders.api_callers import by_token
from builders.portal_builders import Company
from builders.schedule_builders import FIRST, a_schedule, a_template
from jobs.models import Job, JobTemplate, Schedule, ScheduleRun
from jobs.recurring.runs import submit_due_runs
from notices.models import Notice
from tenants.models import User

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
NLP = "ai-company/research/nlp"


def a_schedule_from(
    company: Company, user: User, template: JobTemplate, **members: Any
) -> Schedule:
    request = {"template": str(template.pk), "name": "hourly", **members}
    return a_schedule(company, user, request=request)


def refusals() -> list[str]:
    found = ScheduleRun.objects.filter(outcome="refused").order_by("scheduled_at")
    return list(found.values_list("reason", flat=True))


def test_a_change_of_the_template_is_in_the_next_run(company: Company, bob: User) -> None:
    """Planted: the members of the template are stored when the schedule is created."""
    template = a_template(company)
    body = {
        "cron": "0 * * * *",
        "time_zone": "UTC",
        "request": {"template": str(template.pk), "name": "sweep", "time_limit": "2h"},
    }
    made = by_token(bob).post("schedules", body)
    assert made.status_code == 201, made.content
    path = f"schedules/{made.json()['id']}"
    shown = by_token(bob).get(path).json()
    assert shown["template"] == {"id": str(template.pk), "name": "train"}
    assert shown["request"] == {"team": NLP, **body["request"]}
    Schedule.objects.update(next_at=FIRST)
    submit_due_runs(now=FIRST)
    JobTemplate.objects.update(request={**template.request, "gpus": 3, "time_limit": "9h"})
    submit_due_runs(now=FIRST + HOUR)
    found = [(job.name, job.mgpu, job.time_limit_s) for job in Job.objects.order_by("pk")]
    assert found == [("sweep", 2_000, 7_200), ("sweep", 3_000, 7_200)]
    assert refusals() == []


def test_a_member_that_the_template_locks_meanwhile_refuses_the_run(
    company: Company, bob: User
) -> None:
    """The owner gets one notice a day, and the schedule goes on.

    Planted: a notice for each run; the value of the schedule wins over the locked one.
    """
    template = a_template(company, locked=[])
    schedule = a_schedule_from(company, bob, template, gpus=1)
    submit_due_runs(now=FIRST)
    JobTemplate.objects.update(locked=["gpus"])
    for hours in (1, 2):
        submit_due_runs(now=FIRST + hours * HOUR)
    assert [job.mgpu for job in Job.objects.all()] == [1_000]
    reason = "gpus is set by the template train, which locks gpus; leave it out"
    assert refusals() == [reason, reason]
    notice = Notice.objects.get(user=bob)
    assert (notice.event, notice.subject_kind, notice.link) == (
        "job_failed",
        "schedule",
        f"/schedules/{schedule.pk}",
    )
    assert notice.sentence == f"hourly was not submitted by its schedule: {reason}"
    schedule.refresh_from_db()
    assert (schedule.is_suspended, schedule.next_at) == (False, FIRST + 3 * HOUR)


def test_a_deleted_template_refuses_the_run(company: Company, bob: User) -> None:
    template = a_template(company)
    schedule = a_schedule_from(company, bob, template)
    template.delete()
    submit_due_runs(now=FIRST)
    assert not Job.objects.exists()
    (reason,) = refusals()
    assert reason == "template: there is no such template that you may use, or it was deleted."
    shown = by_token(bob).get(f"schedules/{schedule.pk}").json()["template"]
    assert shown["name"] is None


def test_a_schedule_is_refused_as_a_submission_from_its_template(
    company: Company, bob: User
) -> None:
    """Planted: pointers without the request; a template beside a CronJob is ignored."""
    template = a_template(company)
    request = {"template": str(template.pk), "name": "x"}

    def refused(**changes: Any) -> tuple[str, str]:
        body = {"cron": "@daily", "request": {**request, **changes}}
        if "manifest" in changes:
            del body["cron"]
        answer = by_token(bob).post("schedules", body)
        assert answer.status_code == 400, answer.content
        error = answer.json()["errors"][-1]
        return error["pointer"], error["detail"]

    assert refused(gpus=4) == (
        "/request/gpus",
        "is set by the template train, which locks gpus; leave it out",
    )
    assert refused(template="x")[0] == "/request/template"
    assert refused(manifest=CRON_JOB) == (
        "/request/template",
        "is not given beside a CronJob; leave it out",
    )


CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - {name: main, image: busybox, command: ["true"]}
"""
