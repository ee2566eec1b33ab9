"""Job arrays: what is read, stored, offered to the arbiter, shown and cancelled.

Mutants that die here: tasks that run do not count against the limit; tasks being stopped do not;
one task more than the limit is offered; the limit holds for all arrays together; a task with GPUs
being freed for it gives way to a lower index; tasks are stored without the dependencies; cancelling
leaves the held ones; an array has succeeded with one task cancelled; `failed` is met before the
last task has ended.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.job_builders import a_body, a_job, an_array, an_attempt
from builders.loop_builders import Fenced
from builders.portal_builders import NOW, Company, a_company, a_grant, a_user
from connectors.errors import WorkloadRejected
from connectors.workload_checks import check_workload
from jobs import arrays, submission
from jobs.arbitration import Cycles
from jobs.arrays import parse_array
from jobs.dependencies import settle_dependencies
from jobs.dispatch import workload_of
from jobs.intentions import start_intention
from jobs.job_arrays import cancel_array, get_array
from jobs.models import Attempt, Dependency, Job, JobArray, JobEvent, Reclaim
from jobs.snapshots import load_snapshot
from jobs.withholding import Withheld, withheld_jobs, withheld_sentence
from outbox.models import Message
from outbox.recording import intend
from primitives.errors import Forbidden, NotFound
from tenants.access import actor_of
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NOBODYS = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def bob(company: Company) -> User:
    user = a_user(company.organization, "bob")
    a_grant(user, Role.RESEARCHER, company.nlp)
    return user


@pytest.fixture
def cycles() -> Cycles:
    return Cycles(Fenced("arbiter"))  # type: ignore[arg-type]


def tasks(array: JobArray) -> list[Job]:
    return list(Job.objects.filter(array=array).order_by("array_index"))


def states(array: JobArray) -> list[str]:
    return [task.state for task in tasks(array)]


def offered(array: JobArray) -> list[int | None]:
    ids = {job.id for job in load_snapshot(NOW).queued}
    return [task.array_index for task in tasks(array) if str(task.id) in ids]


# The text


@pytest.mark.parametrize(
    ("text", "indices", "limit"),
    [
        ("0", (0,), None),
        ("0-3", (0, 1, 2, 3), None),
        ("1,3,5-7", (1, 3, 5, 6, 7), None),
        ("0-31:4", tuple(range(0, 32, 4)), None),
        ("0-9:4%3", (0, 4, 8), 3),
        ("7,1,7", (1, 7), None),
        ("5-5:9", (5,), None),
        ("1000000", (1_000_000,), None),
        ("0-999%1000000", tuple(range(1_000)), 1_000_000),
    ],
)
def test_the_text_is_read_as_slurm_reads_it(
    text: str, indices: tuple[int, ...], limit: int | None
) -> None:
    shape = parse_array(text)
    assert (shape.indices, shape.max_running) == (indices, limit)
    assert shape.text == text.partition("%")[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must be indices such as"),
        ("a", "must be indices such as"),
        ("-1", "must be indices such as"),
        ("0-", "must be indices such as"),
        ("0,,1", "must be indices such as"),
        ("0 - 3", "must be indices such as"),
        ("٤", "must be indices such as"),
        ("0-3\n", "must be indices such as"),
        ("[0-3]", "must be indices such as"),
        ("3-0", "has the empty range '3-0'"),
        ("0-3:0", "has the empty range '0-3:0'"),
        ("1000001", "has the index 1,000,001; the largest is 1,000,000"),
        ("0-1000", "has more than 1,000 tasks"),
        ("0-999,2000", "has more than 1,000 tasks"),
        ("0-999999999", "has the index 999,999,999"),
        ("0-9%", "must have after %"),
        ("0-9%0", "must have after %"),
        ("0-9%3%4", "must have after %"),
        ("0-9%-1", "must have after %"),
        ("1," * 4_001, "must have at most 8,000 characters"),
    ],
)
def test_what_is_no_array_is_refused_in_a_sentence(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^(must|has) ") as refusal:
        parse_array(text)
    assert str(refusal.value).startswith(reason)


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
    found = tasks(array)
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
            "16 MiB. Put what is large into files",
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


# Who is offered to the arbiter


def test_no_more_than_the_limit_are_offered(company: Company, bob: User) -> None:
    array = an_array(company, bob, *["queued"] * 5, max_running=2)
    other = an_array(company, bob, *["queued"] * 3, name="other", max_running=1)
    free = an_array(company, bob, *["queued"] * 3, name="free")
    assert (offered(array), offered(other), offered(free)) == ([0, 1], [0], [0, 1, 2])
    for state in ("starting", "running", "preempting"):
        Job.objects.filter(array=array, array_index=3).update(state=state)
        assert offered(array) == [0]
    Job.objects.filter(array=array, array_index__in=[3, 4]).update(state="running")
    assert offered(array) == []
    Job.objects.filter(array=array, array_index=3).update(state="succeeded", ended_at=NOW)
    assert offered(array) == [0]
    Job.objects.filter(array=array, array_index=0).update(state="held")
    assert offered(array) == [1]


def test_a_task_for_which_gpus_are_being_freed_keeps_its_place(company: Company, bob: User) -> None:
    array = an_array(company, bob, "queued", "queued", "queued", max_running=1)
    claimed = tasks(array)[2]
    Reclaim.objects.create(
        job=claimed, cluster=company.cluster, slots=[], created_at=NOW, grace_until=NOW
    )
    assert offered(array) == [2]


def test_more_than_the_limit_never_run_and_all_do_in_the_end(
    company: Company, bob: User, cycles: Cycles
) -> None:
    array = an_array(company, bob, *["queued"] * 7, max_running=3)
    done = 0
    for second in range(1, 20):
        cycles.run(NOW + timedelta(seconds=second))
        active = [task for task in tasks(array) if task.state == "starting"]
        assert len(active) <= 3
        if not active:
            break
        one = active[0]
        Attempt.objects.filter(job=one).update(
            state="ended", outcome="succeeded", ended_at=NOW, released_at=NOW
        )
        Job.objects.filter(pk=one.pk).update(state="succeeded", ended_at=NOW)
        done += 1
    assert done == 7
    assert states(array) == ["succeeded"] * 7


def test_the_others_are_told_why(company: Company, bob: User, cycles: Cycles) -> None:
    array = an_array(company, bob, *["queued"] * 3, max_running=1)
    cycles.run(NOW)
    cycles.run(NOW + timedelta(seconds=1))
    first, second, _ = tasks(array)
    assert (first.state, second.state) == ("starting", "queued")
    body = by_token(bob).get(f"jobs/{second.id}/explanation").json()
    assert body["code"] == "array_limit_reached"
    assert body["sentence"] == "At most 1 task runs at once of its array; 1 is now."
    assert body["numbers"] == {"tasks_at_once_max": 1, "tasks_active": 1, "tasks_first": 0}
    assert (body["jobs_ahead"], body["victims"], body["estimated_start"]) == (0, [], None)


@pytest.mark.parametrize(
    ("most", "active", "first", "sentence"),
    [
        (1, 0, 1, "At most 1 task runs at once of its array; 0 are now, and 1 other comes first."),
        (3, 1, 2, "At most 3 tasks run at once of its array; 1 is now, and 2 others come first."),
        (3, 4, 0, "At most 3 tasks run at once of its array; 4 are now."),
    ],
)
def test_the_sentence(most: int, active: int, first: int, sentence: str) -> None:
    numbers = {"tasks_at_once_max": most, "tasks_active": active, "tasks_first": first}
    assert withheld_sentence(Withheld("x", "array_limit_reached", numbers)) == sentence


def test_a_task_that_waits_for_jobs_says_that(company: Company, bob: User) -> None:
    """And nothing else: it counts against no limit."""
    array = an_array(company, bob, *["queued"] * 3, max_running=1)
    first = a_job(company, bob)
    waiting = tasks(array)[0]
    Dependency.objects.create(job=waiting, predecessor=first, condition="ended")
    assert offered(array) == [1]
    assert {(item.job, item.code) for item in withheld_jobs()} == {
        (str(waiting.id), "dependency"),
        (str(tasks(array)[2].id), "array_limit_reached"),
    }


# What a task sees


def test_the_environment_of_a_task(company: Company, bob: User) -> None:
    array = an_array(company, bob, "queued", "queued", "running")
    attempt = an_attempt(tasks(array)[2], cluster=company.cluster)
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


# Reading and cancelling


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
        "pool": "h100",
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
    assert states(array) == ["queued", "queued"]


def test_cancelling_ends_what_waits_and_stops_what_runs(company: Company, bob: User) -> None:
    array = an_array(company, bob, "queued", "held", "running", "starting", "succeeded", "failed")
    running, reserved = tasks(array)[2:4]
    an_attempt(running, cluster=company.cluster, native_id="1", started_at=NOW)
    an_attempt(reserved, cluster=company.cluster, state="starting", native_id="2")
    actor = actor_of(bob)
    cancel_array(array.id, actor=actor, now=NOW)
    assert states(array) == [
        "cancelled",
        "cancelled",
        "running",
        "starting",
        "succeeded",
        "failed",
    ]
    first = tasks(array)[0]
    assert (first.end_reason, first.ended_at, first.cancel_requested_at) == (
        "cancelled_by_user",
        NOW,
        NOW,
    )
    assert {task.cancel_requested_at for task in tasks(array)[2:4]} == {NOW}
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
        found = tasks(array)
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
        assert states(array) == ["cancelled", "cancelled", "starting", "preempting"] * many
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
    assert states(array) == ["queued", "queued"]


# Waiting for an array


def settled(job: Job) -> tuple[str, str | None, list[tuple[bool, bool | None]]]:
    for _ in range(3):
        settle_dependencies(Fenced("arbiter"), NOW)  # type: ignore[arg-type]
    job.refresh_from_db()
    known = Dependency.objects.filter(job=job).values_list("closed_at", "is_met")
    return job.state, job.end_reason, [(at is not None, is_met) for at, is_met in known]


OPEN = ("queued", None, [(False, None)])
MET = ("queued", None, [(True, True)])
NEVER = ("cancelled", "dependency_never_met", [(True, False)])


@pytest.mark.parametrize(
    ("condition", "task_states", "expected"),
    [
        ("succeeded", ["succeeded", "running"], OPEN),
        ("succeeded", ["succeeded", "succeeded"], MET),
        ("succeeded", ["failed", "running"], NEVER),
        ("succeeded", ["succeeded", "cancelled"], NEVER),
        ("ended", ["failed", "queued"], OPEN),
        ("ended", ["failed", "cancelled"], MET),
        ("failed", ["failed", "running"], OPEN),
        ("failed", ["failed", "succeeded"], MET),
        ("failed", ["succeeded", "succeeded"], NEVER),
    ],
)
def test_waiting_for_an_array(
    company: Company,
    bob: User,
    condition: str,
    task_states: list[str],
    expected: tuple[str, str | None, list[tuple[bool, bool | None]]],
) -> None:
    array = an_array(company, bob, *task_states)
    job = a_job(company, bob)
    Dependency.objects.create(job=job, array=array, condition=condition)
    assert settled(job) == expected


def test_an_end_goes_on_through_an_array(company: Company, bob: User) -> None:
    first = a_job(company, bob, state="failed")
    array = an_array(company, bob)
    for task in tasks(array):
        Dependency.objects.create(job=task, predecessor=first, condition="succeeded")
    last = a_job(company, bob)
    Dependency.objects.create(job=last, array=array, condition="succeeded")
    assert settled(last) == NEVER
    assert states(array) == ["cancelled", "cancelled"]


def test_waiting_for_an_array_by_rest_and_by_sbatch(
    company: Company, bob: User, cycles: Cycles
) -> None:
    array = an_array(company, bob)
    caller = by_token(bob)
    wish = {"array": str(array.id), "condition": "succeeded"}
    answer = caller.post("jobs", a_body(depends_on=[wish]))
    assert answer.status_code == 201, answer.content
    line = f"#SBATCH --dependency=afterok:{array.id}\ntrue\n"
    assert caller.post("jobs", a_body(script=..., sbatch=line)).status_code == 201
    assert list(Dependency.objects.values_list("array_id", "predecessor_id")) == [
        (array.id, None),
        (array.id, None),
    ]
    cycles.run(NOW)
    body = caller.get(f"jobs/{answer.json()['id']}").json()
    assert body["explanation"]["sentence"] == (
        "It waits until array sweep has succeeded (it is running)."
    )
    assert body["depends_on"] == [
        {
            "job": None,
            "array": str(array.id),
            "name": "sweep",
            "state": "running",
            "condition": "succeeded",
            "is_met": None,
        }
    ]
    Job.objects.filter(array=array).update(state="failed", ended_at=NOW)
    cycles.run(NOW)
    (shown,) = caller.get(f"jobs/{body['id']}").json()["depends_on"]
    assert (shown["state"], shown["is_met"]) == ("failed", False)
    history = caller.get(f"jobs/{body['id']}/history").json()["items"]
    assert history[-1]["detail"] == {
        "reason": "dependency_never_met",
        "waited_for_array": str(array.id),
        "waited_for_name": "sweep",
        "condition": "succeeded",
        "state": "failed",
    }


def test_an_array_is_named_once_and_is_of_the_organization(company: Company, bob: User) -> None:
    array, job = an_array(company, bob), a_job(company, bob)
    Dependency.objects.create(job=job, array=array, condition="ended")
    with (
        pytest.raises(IntegrityError, match="dependency_array_named_once_per_job"),
        transaction.atomic(),
    ):
        Dependency.objects.create(job=job, array=array, condition="failed")
    rival = a_company("rival")
    foreign = an_array(rival, a_user(rival.organization))
    with (
        pytest.raises(IntegrityError, match="a job waits for jobs of its own organization only"),
        transaction.atomic(),
    ):
        Dependency.objects.create(job=job, array=foreign, condition="ended")


def test_the_limits_are_those_of_the_database() -> None:
    assert (arrays.TASKS_MAX, arrays.INDEX_MAX) == (1_000, 1_000_000)
