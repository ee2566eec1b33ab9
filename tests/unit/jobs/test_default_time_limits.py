"""The default and longest time limits of pools, teams and classes at a submission (R-114)."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from builders.api_callers import by_token
from builders.job_builders import a_body
from builders.portal_builders import NOW, Company, a_priority_class, an_actor
from jobs.models import Job
from jobs.submission.requests import read_job_request
from jobs.submission.submission import submit_job_here
from primitives.errors import InvalidRequest
from quotas.models import PriorityClass, TimeLimit
from tenants.access import Actor
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR, DAY = 3_600, 86_400


@pytest.fixture
def bob(company: Company) -> Actor:
    return an_actor(company.nlp, Role.RESEARCHER, "bob")


def submit(actor: Actor, **changes: Any) -> Job:
    with transaction.atomic():
        return submit_job_here(read_job_request(a_body(**changes)), actor=actor, now=NOW)


def test_a_job_without_a_limit_gets_the_nearest_default(company: Company, bob: Actor) -> None:
    """Class before team, team before those above it, those before the pool.

    Against: the order of the owners turned around in the statement; a node's limits left out.
    """
    normal = PriorityClass.objects.get(name="normal")
    given = []
    for owner, default_s, told in (
        ({"pool": company.pool}, 5 * DAY, "pool h100 applies (5 d)"),
        ({"node": company.organization}, 4 * DAY, "organization ai-company applies (4 d)"),
        ({"node": company.nlp}, DAY, "team ai-company/research/nlp applies (1 d)"),
        ({"priority_class": normal}, 2 * HOUR, "class normal applies (2 h)"),
    ):
        TimeLimit.objects.create(**owner, default_s=default_s)
        job = submit(bob)
        given.append(job.time_limit_s)
        assert [note["detail"] for note in job.notes] == [
            f"No time limit given: the default of {told}."
        ]
    assert given == [5 * DAY, 4 * DAY, DAY, 2 * HOUR]
    assert submit(bob, time_limit_s=60).time_limit_s == 60


def test_limits_of_others_do_not_count(company: Company, bob: Actor) -> None:
    """Against: the filter by class and by path left out."""
    TimeLimit.objects.create(node=company.vision, default_s=HOUR, longest_s=HOUR)
    TimeLimit.objects.create(
        priority_class=a_priority_class(company.organization, "low"), default_s=HOUR, longest_s=HOUR
    )
    assert (submit(bob).time_limit_s, submit(bob, time_limit_s=DAY).time_limit_s) == (None, DAY)


def test_a_limit_above_the_strictest_longest_is_refused(company: Company, bob: Actor) -> None:
    """Against: the longest of the nearest owner."""
    TimeLimit.objects.create(node=company.nlp, longest_s=2 * DAY)
    TimeLimit.objects.create(pool=company.pool, longest_s=DAY)
    assert submit(bob, time_limit_s=DAY).time_limit_s == DAY
    with pytest.raises(InvalidRequest) as refusal:
        submit(bob, time_limit_s=DAY + HOUR)
    assert refusal.value.detail == (
        "time_limit_s: 1 d 1 h is longer than 1 d, the longest time limit of pool h100; ask for at "
        "most that"
    )
    assert [(error.pointer, error.code) for error in refusal.value.errors] == [
        ("/time_limit_s", "out_of_range")
    ]
    job = submit(bob)
    assert (job.time_limit_s, job.notes[0]["detail"]) == (
        DAY,
        "No time limit given: the longest of pool h100 applies (1 d).",
    )


def test_the_plan_says_which_default_applies(company: Company, bob: Actor) -> None:
    """Against: the plan of the request as it was given."""
    TimeLimit.objects.create(pool=company.pool, default_s=DAY)
    plan = by_token(bob.user).post("jobs?dry_run=true", a_body())
    assert plan.status_code == 200
    assert [note["detail"] for note in plan.json()["notes"]] == [
        "No time limit given: the default of pool h100 applies (1 d)."
    ]
