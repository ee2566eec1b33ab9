"""Jobs and maintenance windows: cycles, plans before submission, and jobs that still run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from arbiter.api.plan import Code
from builders.api_callers import by_token
from builders.job_builders import a_body, a_job, an_attempt
from builders.loop_builders import Fenced
from builders.maintenance_builders import a_window
from builders.portal_builders import NOW, Company, a_company, a_pool, a_user
from clusters.models import Cluster
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.recording import unpack
from jobs.models import Cycle, Job
from primitives.clock import SystemClock
from tenants.models import User

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def company() -> Company:
    return a_company()


def test_jobs_wait_from_the_announcement_to_the_end_of_a_window(
    company: Company, bob: User
) -> None:
    """A leader sees the window come and go. The record of a cycle has it.

    Against: the leader reads windows once, when it becomes the leader.
    """
    cycles = Cycles(Fenced("arbiter"))  # type: ignore[arg-type]
    long = a_job(company, bob, time_limit_s=2 * 3_600)
    Cluster.objects.update(seen_at=NOW + 10 * HOUR)
    window = a_window(company.cluster, start=NOW + HOUR, hours=3)
    assert cycles.run(NOW).started == 0
    short = a_job(company, bob, time_limit_s=1_800)
    assert cycles.run(NOW + timedelta(seconds=1)).started == 1
    assert Job.objects.get(pk=short.pk).state == "starting"
    waiting = Job.objects.get(pk=long.pk)
    assert waiting.explanation is not None
    assert waiting.explanation["code"] == Code.MAINTENANCE
    record = unpack(bytes(Cycle.objects.get().body))
    assert [one.cluster for one in record.snapshot.maintenance] == [str(company.cluster.pk)]
    assert cycles.run(window.end - timedelta(seconds=1)).started == 0
    assert cycles.run(window.end).started == 1


def test_the_plan_of_a_job_says_that_it_would_run_into_a_window(
    company: Company, bob: User
) -> None:
    """A shorter time limit starts at once. Against: the plan of the job leaves windows out."""
    now = SystemClock().now()
    Cluster.objects.update(seen_at=now)
    window = a_window(company.cluster, start=now + HOUR, hours=2)
    caller = by_token(bob)
    told = caller.post("jobs?dry_run=true", a_body(time_limit_s=7_200)).json()
    assert (told["fits"], told["would_start_now"]) == (True, False)
    assert told["explanation"]["code"] == "maintenance"
    assert told["explanation"]["numbers"]["maintenance_end_at"] == int(window.end.timestamp())
    assert f"Starts resume at {window.end:%Y-%m-%d %H:%M} UTC." in told["explanation"]["sentence"]
    assert caller.post("jobs?dry_run=true", a_body(time_limit_s=1_800)).json()["would_start_now"]


def test_jobs_that_would_still_run_are_listed_to_people_who_may_see_them(
    company: Company, bob: User
) -> None:
    """A job without a limit counts, and a job that ends at the start does not.

    Against: jobs of other pools; jobs that have left the cluster; jobs of other organizations.
    """
    other = a_pool("a10")
    limits = {"ends": 3_600, "over": 3_601, "endless": None, "gone": None, "other": None}
    for name, limit_s in limits.items():
        job = a_job(company, bob, name=name, state="running", time_limit_s=limit_s)
        if name == "other":
            Job.objects.filter(pk=job.pk).update(pool=other)
        gone = {"released_at": NOW, "ended_at": NOW, "state": "ended"} if name == "gone" else {}
        an_attempt(job, cluster=company.cluster, started_at=NOW, **gone)
    window = a_window(company.cluster, start=NOW + HOUR, pool=company.pool)
    path = f"maintenance-windows/{window.pk}/jobs"
    found = by_token(bob).get(f"{path}?limit=1").json()
    assert [(each["name"], each["ends_at"]) for each in found["items"]] == [
        ("over", "2026-11-21T13:00:01Z")
    ]
    following = by_token(bob).get(f"{path}?cursor={found['next'].split('cursor=')[1]}").json()
    assert [(each["name"], each["ends_at"]) for each in following["items"]] == [("endless", None)]
    assert by_token(a_user(None)).get(path).json()["items"] == []
    whole = a_window(company.cluster, start=NOW + HOUR)
    names = by_token(bob).get(f"maintenance-windows/{whole.pk}/jobs").json()["items"]
    assert [each["name"] for each in names] == ["over", "endless", "other"]
