"""Jobs of one name and user that run one after the other: offered, told, previewed."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction

from builders.api_callers import by_token
from builders.job_builders import a_body, a_job
from builders.portal_builders import NOW, Company, a_user, an_actor
from jobs.arbitration.arbitration import Cycles
from jobs.models import Dependency, Job
from jobs.queue.withholding import SINGLETON, withheld_jobs
from jobs.submission.requests import read_job_request
from jobs.submission.submission import submit_job_here
from jobs.whatif.preview import preview_job
from tenants.access import Actor
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def ana(company: Company) -> Actor:
    return an_actor(company.nlp, Role.RESEARCHER, "ana")


def submit(actor: Actor, **changes: Any) -> Job:
    with transaction.atomic():
        request = read_job_request(a_body(**{"is_singleton": True, "name": "bert", **changes}))
        return submit_job_here(request, actor=actor, now=NOW)


def waiting() -> set[str]:
    return {item.job for item in withheld_jobs(NOW) if item.code == SINGLETON}


def put(job: Job, state: str) -> None:
    ended_at = NOW if state == "succeeded" else None
    Job.objects.filter(pk=job.pk).update(state=state, ended_at=ended_at)


def test_the_first_goes_and_the_others_follow_one_by_one(ana: Actor) -> None:
    """Planted: later jobs that block earlier ones, a running job that blocks nobody."""
    first, second, third = (submit(ana) for _ in range(3))
    assert waiting() == {str(second.id), str(third.id)}
    for state in ("starting", "running", "preempting"):
        put(first, state)
        assert waiting() == {str(second.id), str(third.id)}
    put(first, "succeeded")
    assert waiting() == {str(third.id)}
    # One that is queued again goes before those behind it.
    put(first, "queued")
    assert waiting() == {str(second.id), str(third.id)}


def test_a_later_job_that_runs_blocks_an_earlier_one(ana: Actor) -> None:
    """Planted: earlier jobs only."""
    single, other = submit(ana), submit(ana, is_singleton=False)
    assert waiting() == set()
    put(other, "running")
    assert waiting() == {str(single.id)}


def test_only_the_same_name_of_the_same_user_counts(company: Company, ana: Actor) -> None:
    """Planted: names of all users, all names of a user."""
    submit(ana, name="other")
    submit(an_actor(company.nlp, Role.RESEARCHER, "leo"))
    submit(ana)
    assert waiting() == set()


def test_tasks_of_an_array_run_one_at_a_time(ana: Actor) -> None:
    """Planted: the tasks' own names, which have an index."""
    tasks = submit(ana, array="0-2").array
    assert tasks is not None
    ids = [str(pk) for pk in tasks.tasks.order_by("pk").values_list("pk", flat=True)]
    assert waiting() == set(ids[1:])
    later = submit(ana)
    assert waiting() == {*ids[1:], str(later.id)}


def test_ten_thousand_of_one_name_are_told_apart_at_once(ana: Actor) -> None:
    """Planted: every job compared with all others of its name, which took more than 30 s."""
    first = submit(ana)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO jobs_job SELECT (jsonb_populate_record(j, jsonb_build_object(
                'id', 'f0000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0')))).*
            FROM jobs_job j, generate_series(1, 9999) n
            """
        )
        # The window takes 0.05 s.
        cursor.execute("SET LOCAL statement_timeout = '5s'")
    found = waiting()
    assert len(found) == 9_999
    assert str(first.id) not in found


def test_dependencies_come_first(company: Company, ana: Actor) -> None:
    bob = a_user(company.organization, "bob")
    submit(ana)
    job = submit(ana)
    Dependency.objects.create(job=job, predecessor=a_job(company, bob), condition="ended")
    assert waiting() == set()


def test_the_reason_names_the_job_that_it_waits_for(ana: Actor, cycles: Cycles) -> None:
    """Against: a singleton that the scheduler is offered, a reason without the name."""
    first, second = submit(ana), submit(ana)
    cycles.run(NOW)
    first.refresh_from_db()
    assert first.state == "starting"
    user = User.objects.get(pk=ana.user.pk)
    body = by_token(user).get(f"jobs/{second.id}").json()
    assert (body["state"], body["is_singleton"]) == ("queued", True)
    assert body["explanation"]["code"] == "singleton"
    assert body["explanation"]["sentence"] == (
        "It waits until bert has ended (it is being started)."
    )
    put(first, "succeeded")
    cycles.run(NOW)
    second.refresh_from_db()
    assert second.explanation is None or second.explanation["code"] != "singleton"


def test_a_plan_names_it_too(ana: Actor) -> None:
    """Against: a plan that would start now."""
    request = read_job_request(a_body(name="bert", is_singleton=True))
    assert preview_job(request, actor=ana, now=NOW).would_start_now is True
    put(submit(ana), "running")
    found = preview_job(request, actor=ana, now=NOW)
    assert (found.would_start_now, found.explanation["code"]) == (False, "singleton")
    assert found.explanation["sentence"] == "It waits until bert has ended (it is running)."


def test_the_line_of_a_file_means_it(ana: Actor) -> None:
    first = submit(ana)
    text = f"#!/bin/sh\n#SBATCH -J bert -G 1\n#SBATCH -d singleton,afterany:{first.id}\ntrue\n"
    request = read_job_request(a_body(script=..., gpus=..., name=..., sbatch=text))
    assert (request.is_singleton, [wish.id for wish in request.depends_on]) == (True, [first.id])
    assert request.notes[-1].detail == (
        "depends_on = 1 job; is_singleton = true: your jobs of this name run one after the other"
    )
