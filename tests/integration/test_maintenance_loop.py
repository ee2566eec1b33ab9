"""A maintenance window on a `local` cluster, from its plan over REST to the processes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from builders.api_callers import by_token
from builders.loop_builders import Loop, a_job
from builders.portal_builders import Company, a_company, a_grant, a_user
from jobs.models import Job
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def company() -> Company:
    company = a_company(nodes=2)
    company.cluster.nodes.all().delete()
    return company


def test_jobs_that_end_in_time_run_before_a_window_and_others_after_it(
    company: Company, tmp_path: Path
) -> None:
    """A running job is listed and goes on. Cancelling the window lets the long job run."""
    loop = Loop(company.cluster, tmp_path / "cluster", nodes=2)
    bob, admin = a_user(company.organization, "bob"), a_user(None, "admin")
    a_grant(admin, Role.PLATFORM_ADMIN, None)
    root = by_token(admin)
    may_end = tmp_path / "may-end"
    waits = f"until test -e {may_end}; do sleep 0.1; done"
    endless = a_job(company.inference, bob, company.pool, name="endless", script=waits)
    loop.until(endless, "running")
    start = loop.clock.now() + timedelta(minutes=10)
    end = start + timedelta(hours=1)
    body = {
        "cluster": company.cluster.name,
        "start": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{end:%Y-%m-%dT%H:%M:%SZ}",
        "reason": "New switches.",
    }
    planned = root.post("maintenance-windows", body)
    assert planned.status_code == 201, planned.content
    path = f"maintenance-windows/{planned.json()['id']}"
    long = a_job(company.nlp, bob, company.pool, name="long", time_limit_s=900)
    short = a_job(company.nlp, bob, company.pool, name="short", time_limit_s=60)
    loop.until(short, "succeeded", "failed")
    assert short.state == "succeeded"
    waiting = Job.objects.get(pk=long.pk)
    assert waiting.state == "queued"
    assert waiting.explanation is not None
    assert waiting.explanation["code"] == "maintenance"
    assert f"Starts resume at {end:%Y-%m-%d %H:%M} UTC." in waiting.explanation["sentence"]
    still = root.get(f"{path}/jobs").json()["items"]
    assert [(one["name"], one["ends_at"]) for one in still] == [("endless", None)]
    may_end.touch()
    loop.until(endless, "succeeded", "failed")
    assert endless.state == "succeeded"
    assert root.post(f"{path}/cancel", {}).json()["state"] == "cancelled"
    loop.until(long, "succeeded", "failed")
    assert long.state == "succeeded"
