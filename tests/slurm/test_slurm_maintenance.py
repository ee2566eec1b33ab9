"""A maintenance window of nodes on a real Slurm, planned over REST."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders.api_callers import by_token
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_grant, a_user
from builders.slurm_loop import SlurmLoop
from clusters.models import ClusterNode
from conformance.rigs import SlurmRig
from jobs.models import Job
from maintenance.models import MaintenanceWindow
from tenants.roles import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slurm]

HOUR = timedelta(hours=1)


@pytest.fixture
def company() -> Company:
    company = a_company()
    company.cluster.nodes.all().delete()
    return company


def test_a_window_of_nodes_keeps_long_jobs_off_them_until_its_end(
    company: Company, slurm_rig: SlurmRig
) -> None:
    """All nodes but one are closed. A long job runs on that one, and a short one beside the window.

    Planted: the window reaches the arbiter without its nodes, so that no long job starts.
    """
    loop = SlurmLoop(company.cluster, slurm_rig)
    bob, admin = a_user(company.organization, "bob"), a_user(None, "admin")
    a_grant(admin, Role.PLATFORM_ADMIN, None)
    loop.let_in(bob, company.nlp, company.inference)
    names = sorted(ClusterNode.objects.filter(pool=company.pool).values_list("name", flat=True))
    start = loop.clock.now().replace(microsecond=0) + timedelta(minutes=10)
    body = {
        "cluster": company.cluster.name,
        "nodes": names[:-1],
        "start": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{start + HOUR:%Y-%m-%dT%H:%M:%SZ}",
        "reason": "Cables.",
    }
    planned = by_token(admin).post("maintenance-windows", body)
    assert planned.status_code == 201, planned.content
    assert planned.json()["nodes"] == names[:-1]
    may_end = slurm_rig.scratch / "may-end"
    waits = f"until test -e {may_end}; do sleep 0.1; done"
    first = a_job(company.inference, bob, company.pool, gpus=8, time_limit_s=900, script=waits)
    loop.until(first, "running", "failed")
    assert first.state == "running"
    assert [slot["node"] for slot in first.attempts.get().slots] == names[-1:]
    second = a_job(company.nlp, bob, company.pool, gpus=8, time_limit_s=900, script="true")
    short = a_job(company.inference, bob, company.pool, gpus=8, time_limit_s=60, script="true")
    loop.until(short, "succeeded", "failed")
    assert short.state == "succeeded"
    assert {slot["node"] for slot in short.attempts.get().slots} < set(names[:-1])
    waiting = Job.objects.get(pk=second.pk)
    assert waiting.state == "queued"
    assert waiting.explanation is not None
    assert waiting.explanation["code"] == "maintenance"
    assert waiting.explanation["numbers"]["maintenance_nodes"] == len(names) - 1
    now = loop.clock.now()
    MaintenanceWindow.objects.update(start=now - HOUR, end=now)
    loop.until(second, "succeeded", "failed")
    assert second.state == "succeeded"
    may_end.touch()
    loop.until(first, "succeeded", "failed")
    assert first.state == "succeeded"
