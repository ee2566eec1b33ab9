"""How many tasks of an array are offered to the arbiter, and what the others are told.

Mutants that die here: tasks that run do not count against the limit; tasks being stopped do not;
one task more than the limit is offered; the limit holds for all arrays together; a task with GPUs
being freed for it gives way to a lower index.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from datetime import timedelta
from typing import cast
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from builders.api_callers import by_token
from builders.job_builders import a_job, an_array, states_of, tasks_of
from builders.planner import Owner, only_wanted_rows_are_looked_up, rows_of_jobs_read
from builders.portal_builders import NOW, Company
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.snapshots import load_snapshot
from jobs.models import Attempt, Dependency, Job, JobArray, JobType, Reclaim
from jobs.queue.withholding import (
    ARRAY_LIMIT_REACHED,
    Withheld,
    first_tasks,
    withheld_jobs,
    withheld_sentence,
)
from jobs.submission.array_text import ArrayShape
from jobs.submission.job_arrays import insert_array
from tenants.models import User

pytestmark = pytest.mark.django_db

KEPT = {
    "code": ARRAY_LIMIT_REACHED,
    "sentence": "At most 1 task runs at once in its array; 1 runs now.",
    "numbers": {"tasks_at_once_max": 1, "tasks_active": 1, "tasks_first": 0},
    "node": None,
    "jobs_ahead": 0,
    "estimated_start": None,
    "as_of": "2026-11-21T12:00:00Z",
}


def offered(array: JobArray) -> list[int | None]:
    ids = {job.id for job in load_snapshot(NOW).queued}
    return [task.array_index for task in tasks_of(array) if str(task.id) in ids]


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
    claimed = tasks_of(array)[2]
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
        active = [task for task in tasks_of(array) if task.state == "starting"]
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
    assert states_of(array) == ["succeeded"] * 7


def test_the_others_are_told_why(company: Company, bob: User, cycles: Cycles) -> None:
    array = an_array(company, bob, *["queued"] * 3, max_running=1)
    cycles.run(NOW)
    cycles.run(NOW + timedelta(seconds=1))
    first, second, _ = tasks_of(array)
    assert (first.state, second.state) == ("starting", "queued")
    body = by_token(bob).get(f"jobs/{second.id}/explanation").json()
    assert body["code"] == "array_limit_reached"
    assert body["sentence"] == (
        "At most 1 task runs at once in its array; 1 runs now. sweep[0] is being started."
    )
    assert body["numbers"] == {"tasks_at_once_max": 1, "tasks_active": 1, "tasks_first": 0}
    assert (body["jobs_ahead"], body["victims"], body["estimated_start"]) == (0, [], None)


def test_the_others_are_told_what_the_first_waits_for(company: Company, bob: User) -> None:
    """Planted: the lowest index though it waits for jobs; a task that runs though another is to
    start; one that is kept back itself; another array's."""
    limit = {"tasks_at_once_max": 2, "tasks_active": 1, "tasks_first": 1}
    told = "At most 2 tasks run at once in its array; 1 runs now, and 1 other comes first."
    kept = {**KEPT, "sentence": told, "numbers": limit}
    needs = {**kept, "code": "waiting_for_free_gpus", "sentence": "It needs 8 GPUs; 4 are free."}
    array = an_array(
        company, bob, "running", *["queued"] * 4, max_running=2, explanation=kept, name="grid"
    )
    an_array(company, bob, explanation=needs, name="another")
    tasks = Job.objects.filter(array=array)
    tasks.filter(array_index=1).update(explanation={**kept, "code": "dependency"})
    last = tasks_of(array)[4]

    def sentence() -> str:
        return str(by_token(bob).get(f"jobs/{last.id}/explanation").json()["sentence"])

    tasks.filter(array_index=2).update(explanation=needs)
    assert sentence() == (f"{told} grid[2] comes before it and waits: It needs 8 GPUs; 4 are free.")
    listed = by_token(bob).get(f"jobs?array={array.id}").json()["items"]
    (there,) = [one for one in listed if one["id"] == str(last.id)]
    assert there["explanation"]["sentence"] == sentence()
    # That GPUs are being freed for a task brings it to the front.
    tasks.filter(array_index=3).update(explanation={**needs, "sentence": "8 GPUs come back."})
    Reclaim.objects.create(
        job=tasks_of(array)[3], cluster=company.cluster, slots=[], created_at=NOW, grace_until=NOW
    )
    assert sentence() == f"{told} grid[3] comes before it and waits: 8 GPUs come back."
    tasks.filter(array_index=3).update(explanation=None)
    assert sentence() == (
        f"{told} grid[3] comes before it, and the scheduler has not looked at that task yet."
    )
    tasks.filter(array_index__in=[2, 3]).update(state="held")
    assert sentence() == f"{told} grid[0] is running."


@pytest.mark.parametrize(
    ("first", "active", "comes_first", "told"),
    [
        ("queued", 0, 1, "; 0 run now, and 1 other comes first. sweep[0] comes before it and"),
        # It has started since the cycle that counted.
        ("running", 0, 1, ". sweep[0] is running."),
        ("running", 1, 0, "; 1 runs now. sweep[0] is running."),
        # What ran has ended since.
        ("queued", 1, 0, ". sweep[0] comes before it and"),
    ],
)
def test_counts_that_the_first_task_contradicts_are_left_out(
    first: str, active: int, comes_first: int, told: str, company: Company, bob: User
) -> None:
    """Planted: what was counted is told whatever the first task does now."""
    limit = {"tasks_at_once_max": 1, "tasks_active": active, "tasks_first": comes_first}
    array = an_array(company, bob, first, "queued", max_running=1, explanation=KEPT)
    tasks = Job.objects.filter(array=array)
    tasks.filter(array_index=0).update(explanation={**KEPT, "code": "waiting_for_free_gpus"})
    tasks.filter(array_index=1).update(explanation={**KEPT, "numbers": limit})
    last = tasks_of(array)[1]
    sentence = by_token(bob).get(f"jobs/{last.id}/explanation").json()["sentence"]
    assert sentence.startswith(f"At most 1 task runs at once in its array{told}")


def large_arrays(company: Company, user: User, tasks: int) -> list[UUID]:
    """Of 20 arrays, whose tasks are kept back, the first task runs, or is to start."""
    alone = a_job(company, user)
    found: list[UUID] = []
    for number in range(20):
        first = copy(alone)
        first.type, first.explanation = JobType.ARRAY, KEPT
        shape = ArrayShape(tuple(range(tasks)), f"0-{tasks - 1}", max_running=1)
        insert_array(first, shape)
        found.append(cast(UUID, first.array_id))
        state = "running" if number % 2 else "queued"
        Job.objects.filter(pk=first.pk).update(state=state, explanation=None)
    return found


@pytest.mark.usefixtures("statistics")
@pytest.mark.parametrize("tasks", [30, 300])
def test_a_page_does_not_read_the_tasks_that_are_kept_back(
    company: Company, bob: User, tasks: int
) -> None:
    """For each array the first one that is queued, behind one that runs, and what is told of it.
    Planted: what has started is looked for though the next to start is known; all tasks read, and
    the first of them taken."""
    arrays = large_arrays(company, bob, tasks)
    before = rows_of_jobs_read()
    with CaptureQueriesContext(connection) as queries:
        first = first_tasks(arrays)
    assert Counter(task.state for task in first.values()) == {"queued": 10, "running": 10}
    assert (len(queries), rows_of_jobs_read() - before) == (1, 10 * 2 + 10 * 4)
    only_wanted_rows_are_looked_up()
    caller = by_token(bob)
    before = rows_of_jobs_read()
    with CaptureQueriesContext(connection) as queries:
        listed = caller.get("jobs?limit=5").json()["items"]
    assert [one["array"]["index"] for one in listed] == list(range(tasks))[:-6:-1]
    assert (len(queries), rows_of_jobs_read() - before) == (5, 15)


def test_nor_does_what_comes_first_where_statistics_are_of_an_empty_table(
    statistics: Owner, company: Company, bob: User
) -> None:
    """Planted: the planner may join the whole table first."""
    arrays = large_arrays(company, bob, 300)
    # Nobody else sees a row of this transaction, so that the planner takes the table for empty.
    statistics.execute("ANALYZE jobs_job")
    before = rows_of_jobs_read()
    first = first_tasks(arrays)
    assert Counter(task.state for task in first.values()) == {"queued": 10, "running": 10}
    assert rows_of_jobs_read() - before == 10 * 2 + 10 * 4


@pytest.mark.parametrize(
    ("most", "active", "first", "sentence"),
    [
        (1, 0, 1, "At most 1 task runs at once in its array; 0 run now, and 1 other comes first."),
        (3, 1, 2, "At most 3 tasks run at once in its array; 1 runs now, and 2 others come first."),
        (3, 4, 0, "At most 3 tasks run at once in its array; 4 run now."),
    ],
)
def test_the_sentence(most: int, active: int, first: int, sentence: str) -> None:
    numbers = {"tasks_at_once_max": most, "tasks_active": active, "tasks_first": first}
    assert withheld_sentence(Withheld("x", "array_limit_reached", numbers)) == sentence


def test_a_task_that_waits_for_jobs_says_that(company: Company, bob: User) -> None:
    """And nothing else: it counts against no limit."""
    array = an_array(company, bob, *["queued"] * 3, max_running=1)
    first = a_job(company, bob)
    waiting = tasks_of(array)[0]
    Dependency.objects.create(job=waiting, predecessor=first, condition="ended")
    assert offered(array) == [1]
    assert {(item.job, item.code) for item in withheld_jobs(NOW)} == {
        (str(waiting.id), "dependency"),
        (str(tasks_of(array)[2].id), "array_limit_reached"),
    }
