"""Jobs and maintenance windows: cycles, plans before submission, and jobs that still run."""

from __future__ import annotations

from datetime import timedelta

import pytest

from arbiter.api.plan import Code
from builders.api_callers import by_token
from builders.job_builders import a_body, a_job, an_attempt
from builders.loop_builders import Fenced
from builders.maintenance_builders import a_window
from builders.portal_builders import NOW, Company, a_company, a_grant, a_pool, a_user
from clusters.models import Cluster
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.recording import unpack
from jobs.models import Attempt, Cycle, Job
from jobs.reading.maintenance_jobs import quietest_nodes
from primitives.clock import SystemClock
from tenants.models import User
from tenants.roles import Role

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


def test_a_number_of_nodes_is_those_with_the_least_work(company: Company, bob: User) -> None:
    """A drained node comes first, then idle ones, then one whose job ends before the start.

    Planted: nodes by name; the job that ends in time counts as one that stays.
    """
    names = sorted(company.cluster.nodes.values_list("name", flat=True))
    start = SystemClock().now() + HOUR
    for name, limit_s in ((names[0], 8 * 3_600), (names[1], 60)):
        job = a_job(company, bob, state="running", time_limit_s=limit_s, mgpu_per_node=8_000)
        slots = [{"node": name, "mgpu": 8_000}]
        an_attempt(job, cluster=company.cluster, started_at=start - HOUR, slots=slots)
    company.cluster.nodes.filter(name=names[3]).update(is_schedulable=False, state="drained")
    assert quietest_nodes(company.cluster, None, start) == [
        names[3],
        names[2],
        names[1],
        names[0],
    ]
    admin = a_user(None, "admin")
    a_grant(admin, Role.PLATFORM_ADMIN, None)
    body = {
        "cluster": company.cluster.name,
        "node_count": 3,
        "start": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{start + HOUR:%Y-%m-%dT%H:%M:%SZ}",
        "reason": "Cables.",
    }
    made = by_token(admin).post("maintenance-windows", body)
    assert (made.status_code, made.json()["nodes"]) == (201, names[1:])
    path = f"maintenance-windows/{made.json()['id']}/jobs"
    assert by_token(admin).get(path).json()["items"] == []


def test_only_jobs_on_the_nodes_of_a_window_are_listed(company: Company, bob: User) -> None:
    """Planted: jobs on other nodes of the cluster."""
    for name in ("a", "b"):
        job = a_job(company, bob, name=name, state="running")
        slots = [{"node": "other", "mgpu": 1_000}, {"node": f"node-{name}", "mgpu": 1_000}]
        an_attempt(job, cluster=company.cluster, started_at=NOW, slots=slots)
    window = a_window(company.cluster, start=NOW + HOUR, nodes=["node-b", "node-c"])
    found = by_token(bob).get(f"maintenance-windows/{window.pk}/jobs").json()["items"]
    assert [each["name"] for each in found] == ["b"]


def test_a_long_job_starts_beside_the_nodes_of_a_window(company: Company, bob: User) -> None:
    """Of the nodes one is closed. After the end of the window the second long job starts.

    Planted: the window reaches the arbiter without its nodes.
    """
    cycles = Cycles(Fenced("arbiter"))  # type: ignore[arg-type]
    names = sorted(company.cluster.nodes.values_list("name", flat=True))
    for _ in names:
        a_job(company, bob, mgpu_per_node=8_000, time_limit_s=2 * 3_600)
    Cluster.objects.update(seen_at=NOW + 10 * HOUR)
    window = a_window(company.cluster, start=NOW + HOUR, hours=3, nodes=names[:1])
    assert cycles.run(NOW).started == len(names) - 1
    used = {slot["node"] for each in Attempt.objects.all() for slot in each.slots}
    assert used == set(names[1:])
    waiting = Job.objects.get(state="queued")
    assert waiting.explanation is not None
    assert waiting.explanation["code"] == Code.MAINTENANCE
    assert waiting.explanation["numbers"]["maintenance_nodes"] == 1
    assert "begins at" in waiting.explanation["sentence"]
    assert cycles.run(window.end).started == 1
