"""Jobs that wait for others: what is taken, what the cycle makes of it, and who is told what.

Mutants that die here: a failed predecessor meets `succeeded`; a cancelled one does not meet
`failed`; a job with one of two conditions met is offered; ends do not go on to those that wait for
them; a held job is left behind; what was cancelled by hand keeps its dependencies open; a
predecessor of another organization is taken from an administrator of the platform.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from builders.api_callers import by_token
from builders.job_builders import a_body, a_job
from builders.loop_builders import Fenced
from builders.portal_builders import NOW, Company, a_company, a_grant, a_user
from jobs.actions.cancellation import cancel_job, hold_job, release_job
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.snapshots import load_snapshot
from jobs.leadership import NotLeading
from jobs.models import Dependency, Job, JobEvent
from jobs.queue import dependencies
from jobs.queue.dependencies import fate, settle_dependencies
from jobs.submission import submission
from tenants.access import actor_of
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

NOBODYS = "00000000-0000-7000-8000-000000000000"


def waits(job: Job, predecessor: Job, condition: str = "succeeded") -> Dependency:
    return Dependency.objects.create(job=job, predecessor=predecessor, condition=condition)


def settle(at_s: int = 1) -> int:
    return settle_dependencies(
        Fenced("arbiter"),  # type: ignore[arg-type]
        NOW + timedelta(seconds=at_s),
    )


def end(job: Job, state: str) -> None:
    Job.objects.filter(pk=job.pk).update(state=state, ended_at=NOW)


def state_of(job: Job) -> tuple[str, str | None]:
    job.refresh_from_db()
    return job.state, job.end_reason


def told(user: User, job: Job) -> dict[str, Any]:
    body: dict[str, Any] = by_token(user).get(f"jobs/{job.id}").json()
    return body


def events(job: Job) -> list[tuple[str, dict[str, Any]]]:
    return list(JobEvent.objects.filter(job=job).order_by("pk").values_list("event", "detail"))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("succeeded", {"succeeded": True, "failed": False, "timed_out": False, "cancelled": False}),
        ("ended", {"succeeded": True, "failed": True, "timed_out": True, "cancelled": True}),
        ("failed", {"succeeded": False, "failed": True, "timed_out": True, "cancelled": True}),
    ],
)
def test_what_an_end_means(condition: str, expected: dict[str, bool]) -> None:
    assert {state: fate(condition, state) for state in expected} == expected
    for state in ("held", "queued", "starting", "running", "preempting"):
        assert fate(condition, state) is None


def test_it_is_not_offered_before_all_are_met(company: Company, bob: User, cycles: Cycles) -> None:
    first, second, last = (a_job(company, bob, name=name) for name in ("a", "b", "c"))
    waits(last, first)
    waits(last, second, "ended")
    assert {job.id for job in load_snapshot(NOW).queued} == {str(first.id), str(second.id)}
    end(first, "succeeded")
    cycles.run(NOW)
    assert str(last.id) not in {job.id for job in load_snapshot(NOW).queued}
    last.refresh_from_db()
    assert last.explanation is not None
    assert last.explanation["code"] == "dependency"
    assert last.explanation["numbers"] == {"jobs_waited_for": 1}
    end(second, "failed")
    cycles.run(NOW)
    assert state_of(last) == ("starting", None)
    assert last.submitted_at == NOW
    assert [event for event, _ in events(last)] == ["dependency_met", "dependency_met", "granted"]


def test_one_that_waits_for_jobs_blocks_nobody_and_is_no_demand(
    company: Company, bob: User, cycles: Cycles
) -> None:
    running = a_job(company, bob, state="running")
    big = a_job(company, bob, mgpu_per_node=8_000, node_count=4)
    small = a_job(company, bob, submitted_at=NOW + timedelta(seconds=1))
    waits(big, running)
    cycles.run(NOW)
    assert state_of(small)[0] == "starting"
    assert state_of(big)[0] == "queued"


def test_each_round_is_a_transaction_of_its_own(company: Company, bob: User) -> None:
    """Planted: one fence around all rounds, in which jobs are locked in any order; dies here."""

    class LosesAfterOne(Fenced):
        fences = 0

        def fence(self) -> AbstractContextManager[None]:
            self.fences += 1
            if self.fences > 1:
                raise NotLeading("arbiter epoch 1 is over")
            return super().fence()

    first, second, third = (a_job(company, bob, name=name) for name in "abc")
    waits(second, first)
    waits(third, second)
    end(first, "failed")
    with pytest.raises(NotLeading):
        settle_dependencies(LosesAfterOne("arbiter"), NOW)  # type: ignore[arg-type]
    assert state_of(second) == ("cancelled", "dependency_never_met")
    assert state_of(third) == ("queued", None)
    assert settle() == 1
    assert state_of(third) == ("cancelled", "dependency_never_met")


@pytest.mark.parametrize("state", ["failed", "cancelled", "timed_out"])
def test_what_can_never_start_is_cancelled_and_so_on(
    company: Company, bob: User, state: str
) -> None:
    first, second, third, after = (a_job(company, bob, name=name) for name in "abcd")
    waits(second, first)
    waits(third, second)
    waits(after, third, "failed")
    end(first, state)
    assert settle() == 3
    assert state_of(second) == ("cancelled", "dependency_never_met")
    assert state_of(third) == ("cancelled", "dependency_never_met")
    assert state_of(after) == ("queued", None)
    assert second.ended_at == NOW + timedelta(seconds=1)
    assert events(second) == [
        (
            "cancelled",
            {
                "reason": "dependency_never_met",
                "waited_for": str(first.id),
                "condition": "succeeded",
                "state": state,
            },
        )
    ]
    assert not Dependency.objects.filter(closed_at=None).exists()
    assert Dependency.objects.get(job=after).is_met is True
    assert settle() == 0


def test_waiting_for_the_failure_of_what_succeeds_is_in_vain(company: Company, bob: User) -> None:
    first, second = a_job(company, bob, state="succeeded"), a_job(company, bob)
    waits(second, first, "failed")
    settle()
    assert state_of(second) == ("cancelled", "dependency_never_met")


def test_what_was_not_decided_is_not_called_never(company: Company, bob: User) -> None:
    """Of a job that ends because of another condition."""
    failed, running = a_job(company, bob, state="failed"), a_job(company, bob, state="running")
    job = a_job(company, bob)
    waits(job, failed)
    waits(job, running, "ended")
    settle()
    assert state_of(job)[0] == "cancelled"
    assert [each["is_met"] for each in told(bob, job)["depends_on"]] == [False, None]
    assert not Dependency.objects.filter(closed_at=None).exists()


def test_what_dies_half_way_is_done_by_the_next(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing tells of the end a second time: it is seen in what is stored."""
    failed, done = a_job(company, bob, state="failed"), a_job(company, bob, state="succeeded")
    lost, met = a_job(company, bob), a_job(company, bob)
    waits(lost, failed)
    waits(met, done)

    def die(_: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(dependencies, "record_events", die)
        with pytest.raises(RuntimeError, match="killed"):
            settle()
    assert (state_of(lost)[0], state_of(met)[0]) == ("queued", "queued")
    assert Dependency.objects.filter(closed_at=None).count() == 2
    assert settle(at_s=2) == 2
    assert state_of(lost) == ("cancelled", "dependency_never_met")
    assert Dependency.objects.get(job=met).is_met is True


def test_a_predecessor_that_queues_again_has_not_ended(company: Company, bob: User) -> None:
    first, second = a_job(company, bob, attempt_number=1), a_job(company, bob)
    waits(second, first)
    assert settle() == 0
    assert state_of(second) == ("queued", None)


def test_a_held_job_that_can_never_start_ends_too(company: Company, bob: User) -> None:
    first, second = a_job(company, bob, state="failed"), a_job(company, bob, state="held")
    waits(second, first)
    settle()
    assert state_of(second) == ("cancelled", "dependency_never_met")


def test_met_while_held_it_still_waits_for_its_release(
    company: Company, bob: User, cycles: Cycles
) -> None:
    first, second = a_job(company, bob, state="succeeded"), a_job(company, bob)
    waits(second, first)
    hold_job(second.id, actor=actor_of(bob), now=NOW)
    cycles.run(NOW)
    assert state_of(second) == ("held", None)
    release_job(second.id, actor=actor_of(bob), now=NOW)
    cycles.run(NOW)
    assert state_of(second) == ("starting", None)


def test_what_was_cancelled_by_hand_waits_for_nothing_any_more(company: Company, bob: User) -> None:
    first, second = a_job(company, bob), a_job(company, bob)
    waits(second, first)
    cancel_job(second.id, actor=actor_of(bob), now=NOW)
    closed = Dependency.objects.get()
    assert (closed.closed_at, closed.is_met) == (NOW, None)
    assert state_of(second) == ("cancelled", "cancelled_by_user")
    end(first, "succeeded")
    assert settle() == 0
    assert [event for event, _ in events(second)] == ["cancelled"]


def test_a_step_is_bounded_and_nothing_is_left_behind(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain longer than the rounds, and more of them than a step takes."""
    monkeypatch.setattr(dependencies, "ROUNDS_MAX", 3)
    monkeypatch.setattr(dependencies, "SETTLED_MAX", 2)
    first = a_job(company, bob, state="failed")
    crowd = [a_job(company, bob) for _ in range(3)]
    for job in crowd:
        waits(job, first)
    tail = [a_job(company, bob) for _ in range(8)]
    for before, job in zip([crowd[0], *tail], tail, strict=False):
        waits(job, before)
    steps = 0
    while settle():
        steps += 1
        assert steps < 20
    assert {state_of(job) for job in crowd + tail} == {("cancelled", "dependency_never_met")}


def test_with_nothing_to_settle_it_costs_two_queries(company: Company, bob: User) -> None:
    waits(a_job(company, bob), a_job(company, bob))
    leader = Fenced("arbiter")
    with CaptureQueriesContext(
        connection,
    ) as asked:
        settle_dependencies(leader, NOW)  # type: ignore[arg-type]
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("dependency_is_on_another_job", {"itself": True}),
        ("dependency_named_once_per_job", {"twice": True}),
        ("dependency_condition_is_known", {"condition": "started"}),
        ("dependency_is_met_when_closed", {"is_met": True}),
        ("dependency_is_on_a_job_or_an_array", {"nothing": True}),
        ("a job waits for jobs of its own organization only", {"foreign": True}),
    ],
)
def test_the_database_refuses(
    company: Company, bob: User, name: str, values: dict[str, Any]
) -> None:
    first, second = a_job(company, bob), a_job(company, bob)
    if values.pop("itself", False):
        first = second
    if values.pop("twice", False):
        waits(second, first)
    if values.pop("nothing", False):
        values["predecessor"] = None
    if values.pop("foreign", False):
        rival = a_company("rival")
        first = a_job(rival, a_user(rival.organization))
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        Dependency.objects.create(
            **{"job": second, "predecessor": first, "condition": "ended", **values}
        )


# By REST


def depends(user: User, *wishes: Any, **changes: Any) -> Any:
    return by_token(user).post("jobs", a_body(depends_on=list(wishes), **changes))


def pointers(answer: Any) -> list[tuple[str, str]]:
    return [(error["pointer"], error["detail"]) for error in answer.json()["errors"]]


def test_submitted_and_shown(company: Company, bob: User, cycles: Cycles) -> None:
    first = a_job(company, bob, name="prepare", state="running")
    answer = depends(bob, {"job": str(first.id), "condition": "succeeded"})
    assert answer.status_code == 201, answer.content
    job = Job.objects.get(pk=answer.json()["id"])
    cycles.run(NOW)
    body = told(bob, job)
    assert body["state"] == "queued"
    assert body["explanation"]["code"] == "dependency"
    assert body["explanation"]["sentence"] == (
        "It waits until prepare has succeeded (it is running)."
    )
    assert body["explanation"]["numbers"] == {"jobs_waited_for": 1}
    shown = {
        "job": str(first.id),
        "array": None,
        "name": "prepare",
        "state": "running",
        "condition": "succeeded",
        "is_met": None,
    }
    assert body["depends_on"] == [shown]
    (item,) = [
        item for item in by_token(bob).get("jobs").json()["items"] if item["id"] == str(job.id)
    ]
    assert item["explanation"]["sentence"] == body["explanation"]["sentence"]
    end(first, "failed")
    cycles.run(NOW)
    body = told(bob, job)
    assert (body["state"], body["end_reason"]) == ("cancelled", "dependency_never_met")
    assert body["depends_on"] == [{**shown, "state": "failed", "is_met": False}]
    history = by_token(bob).get(f"jobs/{job.id}/history").json()["items"]
    assert history[-1]["detail"] == {
        "reason": "dependency_never_met",
        "waited_for": str(first.id),
        "waited_for_name": "prepare",
        "condition": "succeeded",
        "state": "failed",
    }


def test_who_may_not_see_the_predecessor_is_not_told_of_it(
    company: Company, bob: User, cycles: Cycles
) -> None:
    """Bob works in two teams; the lead of one sees his job there, and not what it waits for."""
    a_grant(bob, Role.RESEARCHER, company.vision)
    lead = a_user(company.organization, "lead")
    a_grant(lead, Role.TEAM_LEAD, company.nlp)
    secret = a_job(company, bob, team=company.vision, name="secret", state="running")
    open_one = a_job(company, bob, name="open", state="running")
    job = a_job(company, bob)
    waits(job, secret)
    waits(job, open_one, "ended")
    cycles.run(NOW)
    body = told(lead, job)
    assert body["explanation"]["sentence"] == (
        "It waits until open has ended (it is running) and 1 other job is done."
    )
    assert body["depends_on"][0] == {
        "job": None,
        "array": None,
        "name": None,
        "state": None,
        "condition": "succeeded",
        "is_met": None,
    }
    assert body["depends_on"][1]["name"] == "open"
    end(secret, "failed")
    cycles.run(NOW)
    answer = by_token(lead).get(f"jobs/{job.id}/history")
    assert str(secret.id) not in answer.content.decode()
    assert "secret" not in answer.content.decode()
    assert answer.json()["items"][-1]["detail"]["waited_for"] is None


def test_foreign_and_absent_look_the_same(company: Company, bob: User) -> None:
    rival = a_company("rival")
    foreign = a_job(rival, a_user(rival.organization))
    for job_id in (NOBODYS, str(foreign.id)):
        answer = depends(bob, {"job": job_id, "condition": "ended"})
        assert answer.status_code == 400
        assert pointers(answer) == [
            ("/depends_on/0/job", f"there is no job {job_id} that you can see")
        ]
    assert Job.objects.filter(user=bob).count() == 0


def test_a_job_waits_for_its_own_organization_only(company: Company) -> None:
    root = a_user(None, "root")
    a_grant(root, Role.PLATFORM_ADMIN, None)
    rival = a_company("rival")
    foreign = a_job(rival, a_user(rival.organization))
    answer = depends(root, {"job": str(foreign.id), "condition": "ended"})
    assert answer.status_code == 400
    assert pointers(answer) == [
        ("/depends_on/0/job", f"{foreign.id} belongs to another organization than the team")
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x", [("/depends_on", "must be a list of jobs and conditions")]),
        ([1], [("/depends_on/0", "must have job or array, and condition, and nothing else")]),
        (
            [{"job": NOBODYS}],
            [("/depends_on/0", "must have job or array, and condition, and nothing else")],
        ),
        (
            [{"job": "42", "condition": "ended"}, {"job": NOBODYS, "condition": "started"}],
            [
                ("/depends_on/0/job", "must be the id of a job"),
                ("/depends_on/1/condition", "must be one of succeeded, ended, failed"),
            ],
        ),
        (
            [{"job": NOBODYS, "condition": [1]}],
            [("/depends_on/0/condition", "must be one of succeeded, ended, failed")],
        ),
        (
            [{"job": NOBODYS, "condition": "ended"}, {"job": NOBODYS, "condition": "failed"}],
            [("/depends_on/1", "names this job a second time")],
        ),
        (
            [{"job": NOBODYS, "condition": "ended"}] * 101,
            [("/depends_on", "names 101 jobs; at most 100")],
        ),
    ],
)
@pytest.mark.usefixtures("company")
def test_refused_at_the_field(bob: User, value: Any, expected: list[tuple[str, str]]) -> None:
    answer = by_token(bob).post("jobs", a_body(depends_on=value))
    assert answer.status_code == 400
    assert pointers(answer) == expected


def test_by_sbatch(company: Company, bob: User) -> None:
    first, second, third = (a_job(company, bob) for _ in range(3))
    line = f"#SBATCH --dependency=afterok:{first.id}:{second.id},afternotok:{third.id}"
    answer = by_token(bob).post(
        "jobs", a_body(script=..., sbatch=f"#!/bin/bash\n{line}\nsrun train\n")
    )
    assert answer.status_code == 201, answer.content
    assert list(
        Dependency.objects.filter(job=answer.json()["id"])
        .order_by("pk")
        .values_list("predecessor_id", "condition")
    ) == [(first.id, "succeeded"), (second.id, "succeeded"), (third.id, "failed")]
    absent = line.replace(str(second.id), NOBODYS)
    answer = by_token(bob).post(
        "jobs", a_body(script=..., sbatch=f"#!/bin/bash\n{absent}\nsrun train\n")
    )
    assert pointers(answer) == [("/sbatch", f"there is no job {NOBODYS} that you can see")]


def plan(user: User, **changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = by_token(user).post("jobs?dry_run=true", a_body(**changes)).json()
    return body


def test_the_plan_says_what_it_would_wait_for(company: Company, bob: User) -> None:
    first = a_job(company, bob, name="prepare", state="running")
    wish = {"job": str(first.id), "condition": "succeeded"}
    found = plan(bob, depends_on=[wish])
    assert (found["fits"], found["would_start_now"]) == (True, False)
    assert found["explanation"]["code"] == "dependency"
    assert found["explanation"]["sentence"] == (
        "It waits until prepare has succeeded (it is running)."
    )
    end(first, "failed")
    found = plan(bob, depends_on=[wish])
    assert (found["fits"], found["would_start_now"]) == (False, False)
    assert found["explanation"]["sentence"] == (
        "It can never start and is being cancelled: prepare has failed."
    )
    end(first, "succeeded")
    assert plan(bob, depends_on=[wish])["explanation"]["code"] != "dependency"
    assert Job.objects.count() == 1


def test_too_many_that_are_open(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: decided ones count; those of others count for a user; the tasks of an array count
    as one; the request's own are left out."""
    monkeypatch.setattr(submission, "OPEN_DEPENDENCIES_PER_USER_MAX", 4)
    monkeypatch.setattr(submission, "OPEN_DEPENDENCIES_PER_ORGANIZATION_MAX", 6)
    first, second = (a_job(company, bob, state="running") for _ in range(2))
    both = [{"job": str(job.id), "condition": "ended"} for job in (first, second)]
    decided = a_job(company, bob)
    waits(decided, first, "ended")
    Dependency.objects.filter(job=decided).update(closed_at=NOW, is_met=True)
    answer = by_token(bob).post("jobs", a_body(depends_on=both, array="0-2"))
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_dependencies")
    assert by_token(bob).post("jobs", a_body(depends_on=both, array="0-1")).status_code == 201
    answer = by_token(bob).post("jobs", a_body(depends_on=both[:1]))
    assert answer.status_code == 429
    assert answer.json()["detail"] == (
        "Your open jobs have 4 dependencies. With this request they would have 5; at most 4 are "
        "allowed. Wait for some to end, or let one job wait for many and the others for that one."
    )
    assert answer.json()["open_dependencies"] == 4
    assert answer.json()["open_dependencies_max"] == 4
    assert by_token(bob).post("jobs", a_body()).status_code == 201
    dana = a_user(company.organization, "dana")
    a_grant(dana, Role.TEAM_LEAD, company.nlp)
    assert by_token(dana).post("jobs", a_body(depends_on=both)).status_code == 201
    answer = by_token(dana).post("jobs", a_body(depends_on=both[:1]))
    assert (answer.status_code, answer.json()["open_dependencies_max"]) == (429, 6)
    end(first, "succeeded")
    settle()
    assert by_token(bob).post("jobs", a_body(depends_on=both[1:])).status_code == 201
