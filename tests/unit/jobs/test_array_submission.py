"""An array is submitted and stored, and what its tasks see.

Mutants that die here: tasks are stored without the dependencies.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.job_builders import a_body, a_job, an_array, an_attempt, tasks_of
from builders.portal_builders import Company, a_company, a_user
from connectors.errors import WorkloadRejected
from connectors.workload_checks import check_workload
from jobs.execution.workloads import workload_of
from jobs.models import Dependency, Job, JobArray, JobEvent
from jobs.submission import submission
from tenants.models import User

pytestmark = pytest.mark.django_db


# Submission


def submitted(user: User, **changes: Any) -> Any:
    return by_token(user).post("jobs", a_body(**{"array": "0-3%2", "name": "sweep", **changes}))


def test_one_request_makes_all_tasks(company: Company, bob: User) -> None:
    first = a_job(company, bob, state="running")
    wish = {"job": str(first.id), "condition": "ended"}
    answer = submitted(bob, array="1,3,5-9:4%2", depends_on=[wish], environment={"A": "1"})
    assert answer.status_code == 201, answer.content
    body = answer.json()
    array = JobArray.objects.get()
    assert (array.name, array.indices, array.size, array.max_running) == (
        "sweep",
        "1,3,5-9:4",
        4,
        2,
    )
    assert (array.first_index, array.last_index, array.submitted_at) == (
        1,
        9,
        Job.objects.get(pk=body["id"]).submitted_at,
    )
    assert (array.organization_id, array.team_id, array.user_id) == (
        company.organization.pk,
        company.nlp.pk,
        bob.pk,
    )
    found = tasks_of(array)
    assert [(task.name, task.array_index) for task in found] == [
        ("sweep[1]", 1),
        ("sweep[3]", 3),
        ("sweep[5]", 5),
        ("sweep[9]", 9),
    ]
    assert [task.pk for task in found] == sorted(task.pk for task in found)
    for task in found:
        assert (task.type, task.state, task.environment) == ("array", "queued", {"A": "1"})
        assert task.script == found[0].script
        assert list(JobEvent.objects.filter(job=task).values_list("event", "detail")) == [
            ("submitted", {"by": "bob"})
        ]
        assert Dependency.objects.get(job=task).predecessor_id == first.id
    assert body["id"] == str(found[0].pk)
    assert body["array"] == {"id": str(array.pk), "index": 1, "size": 4}
    assert answer["Location"] == f"/api/v1/job-arrays/{array.pk}"
    event = AuditEvent.objects.get(action="job_array_submitted")
    assert (event.subject_kind, event.subject_id) == ("job_array", str(array.pk))
    assert event.detail == {"name": "sweep", "pool": "h100", "mgpu": 1_000, "tasks": 4}


def test_the_same_key_makes_one_array(company: Company, bob: User) -> None:
    caller, body = by_token(bob), a_body(array="0-3")
    first = caller.post("jobs", body, Idempotency_Key="once")
    again = caller.post("jobs", body, Idempotency_Key="once")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again["Location"] == first["Location"]
    assert again["Idempotency-Replayed"] == "true"
    assert (JobArray.objects.count(), Job.objects.count()) == (1, 4)


def test_a_single_job_has_no_location(company: Company, bob: User) -> None:
    answer = by_token(bob).post("jobs", a_body())
    assert answer.json()["array"] is None
    assert "Location" not in answer


def test_by_sbatch(company: Company, bob: User) -> None:
    text = "#!/bin/bash\n#SBATCH -a 0-31:4%3\n#SBATCH -J sweep\nsrun train\n"
    answer = by_token(bob).post("jobs", a_body(script=..., sbatch=text))
    assert answer.status_code == 201, answer.content
    assert answer.json()["notes"][0]["detail"].startswith("array = 0-31:4%3: 8 tasks. ")
    array = JobArray.objects.get()
    assert (array.size, array.max_running) == (8, 3)


def test_a_thousand_tasks_take_as_many_statements_as_two(company: Company, bob: User) -> None:
    counts = []
    for text in ("0-1", "0-999"):
        with CaptureQueriesContext(connection) as asked:
            assert submitted(bob, array=text).status_code == 201
        counts.append(len(asked))
    assert counts[0] == counts[1]
    assert Job.objects.count() == 1_002


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({"array": 3}, ["/array"]),
        ({"array": "3-1"}, ["/array"]),
        ({"type": "training"}, ["/type"]),
        ({"array": ..., "type": "array"}, ["/type"]),
        ({"name": "x" * 198}, ["/name"]),
        ({"array": "0-999", "script": "x" * 17_000}, ["/array"]),
        ({"array": "0-999", "script": "é" * 8_500}, ["/array"]),
        ({"array": "0-999", "environment": {"A": "é" * 8_500}}, ["/array"]),
        ({"array": "0-999", "script": "#SBATCH --exclusive\n" * 200}, ["/array"]),
    ],
)
def test_refused_at_the_field(
    company: Company, bob: User, changes: dict[str, Any], pointers: list[str]
) -> None:
    answer = submitted(bob, **changes)
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == pointers
    assert not Job.objects.exists()
    assert not JobArray.objects.exists()


def test_what_is_stored_with_each_task_is_told(company: Company, bob: User) -> None:
    script = "x" * 16_750
    answer = submitted(bob, array="0-999", script=script + "xxxxxxxxxx" * 3)
    assert answer.json()["errors"] == [
        {
            "pointer": "/array",
            "detail": "has 1,000 tasks, which with this script and environment is 17 MiB; at most "
            "16 MiB. Put large content into files",
            "code": "too_large",
        }
    ]
    assert submitted(bob, array="0-999", script=script).status_code == 201


def test_a_name_of_exactly_the_room_is_taken(company: Company, bob: User) -> None:
    assert submitted(bob, name="x" * 197).status_code == 201
    assert {len(name) for name in Job.objects.values_list("name", flat=True)} == {200}


def test_the_limit_of_open_jobs_counts_every_task(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "OPEN_JOBS_PER_USER_MAX", 5)
    a_job(company, bob)
    assert submitted(bob, array="0-4").status_code == 429
    assert submitted(bob, array="0-3").status_code == 201


def test_tasks_times_dependencies_are_bounded(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "TASK_DEPENDENCIES_MAX", 8)
    wishes = [{"job": str(a_job(company, bob).id), "condition": "ended"} for _ in range(3)]
    answer = submitted(bob, depends_on=wishes)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["detail"].startswith("each of the 4 tasks of this array may")
    assert submitted(bob, depends_on=wishes[:2]).status_code == 201


def test_the_plan_counts_the_tasks(company: Company, bob: User) -> None:
    answer = by_token(bob).post("jobs?dry_run=true", a_body(array="0-9"))
    assert (answer.json()["job"]["tasks"], answer.json()["job"]["type"]) == (10, "array")
    assert answer.json()["job"]["tasks_at_once"] is None
    job = by_token(bob).post("jobs?dry_run=true", a_body(array="0-9%3")).json()["job"]
    assert (job["tasks"], job["tasks_at_once"]) == (10, 3)
    job = by_token(bob).post("jobs?dry_run=true", a_body()).json()["job"]
    assert (job["tasks"], job["tasks_at_once"]) == (1, None)
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("array_has_tasks", {"size": 0}),
        ("array_has_tasks", {"size": 1_001}),
        ("array_indices_are_in_range", {"first_index": -1}),
        ("array_indices_are_in_range", {"first_index": 3}),
        ("array_indices_are_in_range", {"last_index": 1_000_001}),
        ("array_lets_a_task_run", {"max_running": 0}),
    ],
)
def test_the_database_refuses_such_an_array(
    company: Company, bob: User, name: str, values: dict[str, Any]
) -> None:
    array = an_array(company, bob)
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        JobArray.objects.filter(pk=array.pk).update(**values)


def test_the_database_refuses_such_a_task(company: Company, bob: User) -> None:
    array = an_array(company, bob)
    rival = a_company("rival")
    for name, values in (
        ("job_of_an_array_has_an_index", {"array_index": None}),
        ("job_of_an_array_has_an_index", {"type": "training"}),
        ("job_of_an_array_has_an_index", {"array": None}),
        ("job_is_one_task_of_its_array", {"array_index": 1}),
        ("the tasks of an array are of its team", {"array_index": 2}),
        ("the tasks of an array are of its team", {"user": a_user(rival.organization)}),
        ("the tasks of an array are of its team", {"team": company.vision}),
    ):
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            Job.objects.filter(array=array, array_index=0).update(**values)


# What a task sees


def test_the_environment_of_a_task(company: Company, bob: User) -> None:
    array = an_array(company, bob, "queued", "queued", "running")
    attempt = an_attempt(tasks_of(array)[2], cluster=company.cluster)
    workload = workload_of(attempt)
    check_workload(workload)
    added = {
        name: value
        for name, value in workload.environment.items()
        if "ARRAY" in name or name == "TIDEGATE_JOB_NAME"
    }
    assert added == {
        "TIDEGATE_ARRAY_ID": str(array.id),
        "TIDEGATE_ARRAY_INDEX": "2",
        "TIDEGATE_JOB_NAME": "sweep[2]",
        "SLURM_ARRAY_TASK_ID": "2",
        "SLURM_ARRAY_TASK_COUNT": "3",
        "SLURM_ARRAY_TASK_MIN": "0",
        "SLURM_ARRAY_TASK_MAX": "2",
    }
    single = workload_of(an_attempt(a_job(company, bob), cluster=company.cluster))
    assert not [name for name in single.environment if "ARRAY" in name]


def test_nobody_sets_these_variables_by_hand(company: Company, bob: User) -> None:
    for name in ("SLURM_ARRAY_TASK_ID", "TIDEGATE_ARRAY_ID"):
        answer = by_token(bob).post("jobs", a_body(environment={name: "1"}))
        assert answer.json()["errors"][0]["pointer"] == f"/environment/{name}"
    attempt = an_attempt(a_job(company, bob), cluster=company.cluster)
    attempt.job.environment = {"SLURM_ARRAY_JOB_ID": "7"}
    with pytest.raises(WorkloadRejected, match="SLURM_ARRAY_JOB_ID may not be set"):
        check_workload(workload_of(attempt))
