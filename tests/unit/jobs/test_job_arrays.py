"""An array as a whole is shown and cancelled.

Mutants that die here: cancelling leaves the held ones; an array has succeeded with one task
cancelled.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.job_builders import a_body, a_job, an_array, an_attempt, states_of, tasks_of
from builders.portal_builders import NOW, Company, a_company, a_grant, a_pool, a_user
from jobs.intentions import start_intention
from jobs.models import Attempt, Job, JobEvent
from jobs.submission.job_arrays import cancel_array, get_array
from outbox.models import Message
from outbox.recording import intend
from primitives.errors import Forbidden, NotFound
from tenants.access import actor_of
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db


NOBODYS = "00000000-0000-7000-8000-000000000000"


def test_an_array_tells_all_pools_that_its_tasks_accept(company: Company, bob: User) -> None:
    """Planted: the first of them alone."""
    array = an_array(company, bob)
    pools = [a_pool("a100"), company.pool]
    Job.objects.filter(array=array).update(pools=[pool.pk for pool in pools], pool=pools[0])
    assert by_token(bob).get(f"job-arrays/{array.pk}").json()["pools"] == ["a100", "h100"]


def test_the_array_counts_its_tasks(company: Company, bob: User) -> None:
    array = an_array(company, bob, "queued", "running", "succeeded", "failed", max_running=2)
    later = NOW + timedelta(minutes=5)
    Job.objects.filter(array=array, state="failed").update(ended_at=later)
    Job.objects.filter(array=array, state="running").update(started_at=NOW)
    body = by_token(bob).get(f"job-arrays/{array.id}").json()
    assert body == {
        "id": str(array.id),
        "name": "sweep",
        "team": "ai-company/research/nlp",
        "user": "bob",
        "organization": "ai-company",
        "pools": ["h100"],
        "indices": "0-3",
        "size": 4,
        "max_running": 2,
        "submitted_at": "2026-11-21T12:00:00Z",
        "counts": {
            "held": 0,
            "queued": 1,
            "starting": 0,
            "running": 1,
            "preempting": 0,
            "succeeded": 1,
            "failed": 1,
            "cancelled": 0,
            "timed_out": 0,
        },
        "first_started_at": "2026-11-21T12:00:00Z",
        "first_ended_at": "2026-11-21T12:00:00Z",
        "last_ended_at": "2026-11-21T12:05:00Z",
        "can": ["cancel"],
    }


def test_jobs_are_filtered_by_their_array(company: Company, bob: User) -> None:
    array = an_array(company, bob)
    an_array(company, bob, name="other")
    a_job(company, bob)
    caller = by_token(bob)
    found = caller.get(f"jobs?array={array.id}&sort=submitted_at").json()["items"]
    assert [(job["name"], job["array"]) for job in found] == [
        ("sweep[0]", {"id": str(array.id), "index": 0, "size": 2}),
        ("sweep[1]", {"id": str(array.id), "index": 1, "size": 2}),
    ]
    assert caller.get(f"jobs?array={NOBODYS}").json()["items"] == []
    assert caller.get("jobs?array=x").status_code == 400


def test_strangers_see_nothing_and_change_nothing(company: Company, bob: User) -> None:
    array = an_array(company, bob)
    rival = a_company("rival")
    charlie = a_user(rival.organization, "charlie")
    a_grant(charlie, Role.ORGANIZATION_ADMIN, rival.organization)
    caller = by_token(charlie)
    for path in (f"job-arrays/{array.id}", f"job-arrays/{NOBODYS}"):
        assert caller.get(path).status_code == 404
        assert caller.post(f"{path}/cancel", {}).status_code == 404
        assert caller.get(path).json()["detail"] == "There is no such array that you can see."
    assert caller.get(f"jobs?array={array.id}").json()["items"] == []
    body = a_body("rival/research/nlp", depends_on=[{"array": str(array.id), "condition": "ended"}])
    answer = caller.post("jobs", body)
    assert answer.json()["errors"][0]["detail"] == f"there is no array {array.id} that you can see"
    assert states_of(array) == ["queued", "queued"]


def test_cancelling_ends_what_waits_and_stops_what_runs(company: Company, bob: User) -> None:
    array = an_array(company, bob, "queued", "held", "running", "starting", "succeeded", "failed")
    running, reserved = tasks_of(array)[2:4]
    an_attempt(running, cluster=company.cluster, native_id="1", started_at=NOW)
    an_attempt(reserved, cluster=company.cluster, state="starting", native_id="2")
    actor = actor_of(bob)
    cancel_array(array.id, actor=actor, now=NOW)
    assert states_of(array) == [
        "cancelled",
        "cancelled",
        "running",
        "starting",
        "succeeded",
        "failed",
    ]
    first = tasks_of(array)[0]
    assert (first.end_reason, first.ended_at, first.cancel_requested_at) == (
        "cancelled_by_user",
        NOW,
        NOW,
    )
    assert {task.cancel_requested_at for task in tasks_of(array)[2:4]} == {NOW}
    assert set(Attempt.objects.values_list("state", "stop_reason", "grace_until").distinct()) == {
        ("stopping", "cancelled", NOW + timedelta(seconds=30))
    }
    assert Message.objects.filter(kind="notify_attempt").count() == 2
    (event,) = AuditEvent.objects.filter(action="job_array_cancelled")
    assert event.detail == {"tasks": 4}
    events = JobEvent.objects.count()
    cancel_array(array.id, actor=actor, now=NOW)
    assert (AuditEvent.objects.filter(action="job_array_cancelled").count()) == 1
    assert JobEvent.objects.count() == events
    assert get_array(array.id, actor=actor).counts["cancelled"] == 2


def test_cancelling_many_takes_as_many_statements_as_a_few(company: Company, bob: User) -> None:
    """Planted: some statements for each task that runs; one that is being stopped gets more time;
    what was sent is called unsent; dies here."""
    counts = []
    for many in (1, 20):
        Message.objects.all().delete()
        array = an_array(company, bob, *["queued", "starting", "starting", "preempting"] * many)
        found = tasks_of(array)
        unsent, sent, preempted = found[1::4], found[2::4], found[3::4]
        attempts = [an_attempt(task, cluster=company.cluster) for task in (*unsent, *sent)]
        Attempt.objects.filter(job__in=[*unsent, *sent]).update(state="reserved")
        intend([start_intention(attempt) for attempt in attempts], now=NOW)
        Message.objects.filter(subject__in=[a.id for a in attempts if a.job in sent]).update(
            sends=1
        )
        for task in preempted:
            an_attempt(task, cluster=company.cluster, native_id="1", started_at=NOW)
        soon = NOW + timedelta(seconds=7)
        Attempt.objects.filter(job__in=preempted).update(
            state="stopping", stop_reason="preempted", notice_at=NOW, grace_until=soon
        )
        with CaptureQueriesContext(connection) as asked:
            cancel_array(array.id, actor=actor_of(bob), now=NOW)
        counts.append(len(asked))
        assert states_of(array) == ["cancelled", "cancelled", "starting", "preempting"] * many
        assert set(
            Attempt.objects.filter(job__array=array).values_list(
                "state", "stop_reason", "grace_until", "released_at", "job__cancel_requested_at"
            )
        ) == {
            ("ended", "cancelled", None, NOW, NOW),
            ("stopping", "cancelled", NOW + timedelta(seconds=30), None, NOW),
            ("stopping", "preempted", soon, None, NOW),
        }
        assert Message.objects.filter(kind="notify_attempt").count() == 2 * many
        assert Message.objects.filter(kind="start_attempt", error="withdrawn").count() == many
    assert counts[0] == counts[1]


def test_who_may_see_but_not_change_is_told_so(company: Company, bob: User) -> None:
    array = an_array(company, bob)
    auditor = a_user(company.organization, "auditor")
    a_grant(auditor, Role.AUDITOR, company.organization)
    with pytest.raises(Forbidden):
        cancel_array(array.id, actor=actor_of(auditor), now=NOW)
    nobody = a_user(company.organization, "nobody")
    with pytest.raises(NotFound):
        cancel_array(array.id, actor=actor_of(nobody), now=NOW)
    assert by_token(auditor).get(f"job-arrays/{array.id}").json()["can"] == []
    assert states_of(array) == ["queued", "queued"]
