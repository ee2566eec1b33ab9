"""A schedule on the local cluster: two runs become two jobs, which end."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from builders.api_callers import by_token
from builders.loop_builders import LoopOn
from builders.portal_builders import Company, a_company, a_grant, a_user
from jobs.models import Job, Schedule
from jobs.recurring.runs import submit_due_runs
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)


def test_two_runs_become_two_jobs(tmp_path: Path) -> None:
    """Against: both runs at one moment, which the database refuses."""
    company: Company = a_company()
    company.cluster.nodes.all().delete()
    company.cluster.options = {
        "root": str(tmp_path / "cluster"),
        "nodes": [{"count": 1, "gpus": 8, "pool": "h100", "prefix": "node-"}],
        "use_real_gpus": False,
        "isolation": "off",
    }
    loop = LoopOn(company.cluster)
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    caller = by_token(bob)
    body = {
        "cron": "*/10 * * * *",
        "concurrency_policy": "forbid",
        "request": {
            "team": "ai-company/research/nlp",
            "name": "tick",
            "gpus": 1,
            "script": "#!/bin/sh\nexit 0\n",
        },
    }
    answer = caller.post("schedules", body)
    assert answer.status_code == 201, answer.content
    schedule = Schedule.objects.get()
    moments = []
    for _ in range(2):
        assert schedule.next_at is not None
        moments.append(schedule.next_at)
        assert submit_due_runs(now=schedule.next_at) == 1
        job = Job.objects.latest("pk")
        # The test does not wait for the moment: for the loop the job is submitted now.
        Job.objects.filter(pk=job.pk).update(submitted_at=loop.clock.now())
        loop.until(job, "succeeded", "failed")
        assert (job.name, job.state) == ("tick", "succeeded")
        schedule.refresh_from_db()
    assert moments[1] - moments[0] == timedelta(minutes=10)
    found = caller.get(f"schedules/{schedule.pk}/runs").json()["items"]
    assert [(run["outcome"], run["job"]["state"]) for run in found] == [
        ("submitted", "succeeded"),
        ("submitted", "succeeded"),
    ]
    assert len({run["job"]["id"] for run in found}) == 2
