"""Actions on many jobs over REST: their preview, their results, and who may do what."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.jobs_world import World
from builders.portal_builders import NOW, a_grant
from jobs.actions import bulk
from jobs.api import job_actions
from jobs.models import Job, JobEvent
from tenants.roles import Role

pytestmark = pytest.mark.django_db


def a_running_job(world: World, **changes: Any) -> Job:
    """A stored job of Bob that runs."""
    job = a_job(world.company, world.bob, state="running", **changes)
    an_attempt(job, cluster=world.company.cluster, native_id="1", started_at=NOW)
    return job


def test_a_preview_counts_and_changes_nothing(world: World) -> None:
    """Bob may change his own jobs. As an auditor he sees those of Dana, too.

    Against: jobs that may not be changed counted among the others. Against: jobs that are being
    cancelled already counted among those to change.
    """
    a_grant(world.bob, Role.AUDITOR, world.company.nlp)
    mine = [a_job(world.company, world.bob, name="a"), a_running_job(world)]
    a_job(world.company, world.dana)
    a_job(world.company, world.bob, state="failed")
    a_job(world.company, world.bob, cancel_requested_at=NOW)
    a_job(world.rival, world.charlie, team=world.rival.nlp)
    caller = by_token(world.bob)
    answer = caller.post("job-actions/preview", {"action": "cancel"})
    assert answer.json() == {
        "jobs": [str(job.pk) for job in mine],
        "states": {"queued": 1, "running": 1},
        "users": {"bob": 2},
        "own": 2,
        "forbidden": 1,
        "unsuited": {"queued": 1},
    }
    assert caller.post("job-actions/preview?state=running", {"action": "hold"}).json()["jobs"] == []
    chosen = [str(job.pk) for job in Job.objects.all()]
    answer = caller.post("job-actions/preview", {"action": "hold", "jobs": chosen}).json()
    assert (answer["jobs"], answer["forbidden"]) == ([str(mine[0].pk)], 1)
    assert answer["unsuited"] == {"failed": 1, "queued": 1, "running": 1}
    assert not JobEvent.objects.exists()


def test_a_lead_sees_whose_jobs_are_changed(world: World) -> None:
    """The preview of a filter has the jobs of all users of the team."""
    lead = world.dana
    a_grant(lead, Role.TEAM_LEAD, world.company.nlp)
    for user in (world.bob, world.bob, lead):
        a_job(world.company, user)
    query = "?team=ai-company/research/nlp&state=queued,running"
    answer = by_token(lead).post(f"job-actions/preview{query}", {"action": "cancel"}).json()
    assert (answer["own"], answer["users"], answer["states"]) == (
        1,
        {"bob": 2, "dana": 1},
        {"queued": 3},
    )


def test_each_job_has_its_result(world: World) -> None:
    """A refusal of one job leaves the others changed, each with an audit event.

    Against: no savepoint around a job's action.
    """
    a_grant(world.bob, Role.AUDITOR, world.company.nlp)
    waiting, running = a_job(world.company, world.bob), a_running_job(world)
    ended = a_job(world.company, world.bob, state="failed")
    foreign = a_job(world.company, world.dana)
    unseen = a_job(world.rival, world.charlie, team=world.rival.nlp)
    jobs = [waiting, running, ended, foreign, unseen]
    answer = by_token(world.bob).post(
        "job-actions", {"action": "cancel", "jobs": [str(job.pk) for job in jobs]}
    )
    assert answer.status_code == 200
    body = answer.json()
    assert (body["changed"], body["refused"]) == (2, 3)
    assert [(one["state"], one["problem"] and one["problem"]["code"]) for one in body["items"]] == [
        ("cancelled", None),
        ("running", None),
        (None, "conflict"),
        (None, "forbidden"),
        (None, "not_found"),
    ]
    assert [UUID(one["job"]) for one in body["items"]] == [job.pk for job in jobs]
    running.refresh_from_db()
    assert running.cancel_requested_at is not None
    events = AuditEvent.objects.filter(action="job_cancelled")
    assert {event.subject_id for event in events} == {str(waiting.pk), str(running.pk)}


def test_hold_release_and_requeue(world: World) -> None:
    """The other three actions do what they do to one job."""
    jobs = [a_job(world.company, world.bob) for _ in range(2)]
    running = a_running_job(world)
    caller = by_token(world.bob)
    ids = [str(job.pk) for job in jobs]

    def states(action: str, ids: list[str]) -> list[str]:
        answer = caller.post("job-actions", {"action": action, "jobs": ids}).json()
        return [one["state"] for one in answer["items"]]

    assert states("hold", ids) == ["held", "held"]
    assert states("release", ids) == ["queued", "queued"]
    assert states("requeue", [str(running.pk)]) == ["running"]
    assert running.attempts.get().stop_reason == "requeued"


def test_the_same_key_changes_jobs_once(world: World) -> None:
    """A repeat has the first answer, also for a job that changed since."""
    job = a_job(world.company, world.bob)
    caller = by_token(world.bob)
    body = {"action": "hold", "jobs": [str(job.pk)]}
    key = {"Idempotency-Key": "once"}
    first = caller.post("job-actions", body, **key)
    caller.post(f"jobs/{job.pk}/release", None)
    again = caller.post("job-actions", body, **key)
    assert (again.json(), again["Idempotency-Replayed"]) == (first.json(), "true")
    job.refresh_from_db()
    assert job.state == "queued"


@pytest.mark.parametrize(
    "body",
    [
        {"action": "delete", "jobs": [str(uuid7())]},
        {"action": "cancel", "jobs": []},
        {"action": "cancel"},
        {"action": "cancel", "jobs": ["x"]},
        {"action": "cancel", "jobs": [str(uuid7())] * 1_001},
        {"action": "cancel", "jobs": [str(uuid7())], "team": "x"},
    ],
)
def test_bad_actions_are_refused(world: World, body: dict[str, Any]) -> None:
    """Actions without jobs, with too many, and with unknown members."""
    answer = by_token(world.bob).post("job-actions", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


def test_too_many_matching_jobs_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: the first jobs taken, and the others left out unnoticed."""
    monkeypatch.setattr(job_actions, "JOBS_MAX", 2)
    assert bulk.JOBS_MAX == 1_000
    for _ in range(3):
        a_job(world.company, world.bob)
    answer = by_token(world.bob).post("job-actions/preview", {"action": "cancel"})
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "More than 2 jobs match. Narrow the list, and change one part after the other.",
    )


@pytest.mark.parametrize("action", ["cancel", "hold", "release", "requeue"])
def test_many_jobs_cost_as_many_statements_as_two(world: World, action: str) -> None:
    """Planted: a statement for the audit event of each job; one for each attempt.

    A thousand jobs took 20 s, longer than the command waits for an answer.
    """
    caller = by_token(world.bob)

    def statements(count: int) -> int:
        jobs = [
            a_running_job(world)
            if action == "requeue"
            else a_job(world.company, world.bob, state="held" if action == "release" else "queued")
            for _ in range(count)
        ]
        ids = [str(job.pk) for job in jobs]
        with CaptureQueriesContext(connection) as captured:
            answer = caller.post("job-actions", {"action": action, "jobs": ids})
        assert answer.json()["changed"] == count
        assert AuditEvent.objects.filter(subject_id__in=ids).count() == count
        return len(captured)

    statements(2)
    assert statements(20) == statements(2)
