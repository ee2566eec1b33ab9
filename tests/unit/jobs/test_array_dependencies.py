"""Jobs that wait for an array.

Mutants that die here: `failed` is met before the last task has ended.
"""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from builders.api_callers import by_token
from builders.job_builders import a_body, a_job, an_array, states_of, tasks_of
from builders.loop_builders import Fenced
from builders.portal_builders import NOW, Company, a_company, a_user
from jobs.arbitration.arbitration import Cycles
from jobs.models import Dependency, Job
from jobs.queue.dependencies import settle_dependencies
from tenants.models import User

pytestmark = pytest.mark.django_db


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
    for task in tasks_of(array):
        Dependency.objects.create(job=task, predecessor=first, condition="succeeded")
    last = a_job(company, bob)
    Dependency.objects.create(job=last, array=array, condition="succeeded")
    assert settled(last) == NEVER
    assert states_of(array) == ["cancelled", "cancelled"]


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
