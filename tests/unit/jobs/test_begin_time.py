"""Jobs that begin later: what is read, refused, offered to the arbiter, told and previewed.

Mutants that die here: a job is offered a second before its time; it is never offered again; a held
one is told its time; the preview says that it would start.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction
from uuid_utils.compat import uuid7

from builders.api_callers import by_token
from builders.job_builders import a_body, a_job
from builders.planner import (
    Owner,
    nothing_is_queued,
    only_wanted_rows_are_looked_up,
    rows_of_jobs_read,
)
from builders.portal_builders import NOW, Company, an_actor
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.snapshots import load_snapshot
from jobs.models import Attempt, Dependency, Job
from jobs.queue.withholding import withheld_jobs
from jobs.submission.requests import read_job_request
from jobs.submission.submission import submit_job_here
from jobs.whatif.preview import preview_job
from primitives.errors import InvalidRequest
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db
LATER = NOW + timedelta(seconds=9)
LATER_TEXT = f"{LATER:%Y-%m-%dT%H:%M:%SZ}"


def test_it_is_offered_when_its_time_has_come(company: Company, bob: User, cycles: Cycles) -> None:
    actor = an_actor(company.nlp, Role.RESEARCHER)
    with transaction.atomic():
        request = read_job_request(a_body(begin_at=LATER_TEXT))
        job = submit_job_here(request, actor=actor, now=NOW)
    assert (job.state, job.begin_at) == ("queued", LATER)
    cycles.run(NOW)
    told = Job.objects.get(pk=job.pk).explanation
    assert told is not None
    assert (told["code"], told["sentence"], told["numbers"]) == (
        "begin_time",
        "It begins at 2026-11-21 12:00:09 UTC at the earliest.",
        {"begin_at": int(LATER.timestamp())},
    )
    body = by_token(actor.user).get(f"jobs/{job.pk}").json()
    assert (body["begin_at"], body["explanation"]["code"]) == (LATER_TEXT, "begin_time")
    assert load_snapshot(LATER - timedelta(seconds=1)).queued == ()
    cycles.run(LATER - timedelta(seconds=1))
    assert not Attempt.objects.exists()
    cycles.run(LATER)
    assert Attempt.objects.get().job_id == job.pk


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"begin_at": "2020-01-01T00:00:00Z"},
            ["The time to begin, 2020-01-01 00:00:00 UTC, has passed: it may start at once."],
        ),
        ({"array": "0,0"}, ["The index 0 is named twice and counts once: the array has 1 task."]),
        (
            {"array": "3,0-9"},
            ["The index 3 is named twice and counts once: the array has 10 tasks."],
        ),
        ({"array": "0-9"}, []),
    ],
)
def test_what_may_not_have_been_meant_is_told(
    changes: dict[str, str], told: list[str], company: Company, bob: User
) -> None:
    """By the answer to a submission and by its dry run. Planted: nothing is told by the dry run."""
    caller = by_token(bob)
    made = caller.post("jobs", a_body(**changes), key="1").json()
    assert [note["detail"] for note in made["notes"]] == told
    plan = caller.post("jobs?dry_run=true", a_body(**changes)).json()
    assert [note["detail"] for note in plan["notes"]] == told


@pytest.mark.parametrize(("passed_s", "notes"), [(30, 0), (59, 0), (60, 1)])
def test_a_begin_that_has_just_passed_is_not_worth_a_word(
    passed_s: int, notes: int, company: Company, bob: User
) -> None:
    """Clocks differ, and requests take their time."""
    begin = NOW - timedelta(seconds=passed_s)
    request = read_job_request(a_body(begin_at=f"{begin:%Y-%m-%dT%H:%M:%SZ}"))
    with transaction.atomic():
        job = submit_job_here(request, actor=an_actor(company.nlp, Role.RESEARCHER), now=NOW)
    assert len(job.notes) == notes


def test_it_keeps_nobody_waiting_meanwhile(company: Company, bob: User, cycles: Cycles) -> None:
    """One of the same team that came later starts, though the first would not leave it room."""
    first = a_job(company, bob, mgpu_per_node=8_000, node_count=4, begin_at=LATER)
    second = a_job(company, bob, submitted_at=NOW + timedelta(seconds=1))
    cycles.run(NOW)
    assert Attempt.objects.get().job_id == second.pk
    assert [(item.job, item.code) for item in withheld_jobs(NOW)] == [(str(first.pk), "begin_time")]


def test_those_that_begin_later_are_found_by_their_times_alone(
    statistics: Owner, company: Company, bob: User
) -> None:
    """However much is queued, also where the planner takes it for nothing, as after a burst of
    submissions. Planted: what is queued asked for in one query with the time."""
    later = a_job(company, bob, begin_at=LATER)
    values = Job.objects.filter(pk=later.pk).values().get() | {"begin_at": None}
    Job.objects.bulk_create(Job(**values | {"id": uuid7()}) for _ in range(300))
    nothing_is_queued(statistics)
    only_wanted_rows_are_looked_up()
    before = rows_of_jobs_read()
    assert [item.job for item in withheld_jobs(NOW)] == [str(later.pk)]
    assert rows_of_jobs_read() - before == 1


def test_a_held_one_and_one_that_waits_for_jobs_need_more_than_their_time(
    company: Company, bob: User, cycles: Cycles
) -> None:
    a_job(company, bob, state="held", begin_at=LATER)
    assert withheld_jobs(NOW) == ()
    other = a_job(company, bob, state="running")
    waits = a_job(company, bob, begin_at=LATER)
    Dependency.objects.create(job=waits, predecessor=other, condition="succeeded")
    assert [item.code for item in withheld_jobs(NOW)] == ["dependency", "begin_time"]
    cycles.run(NOW)
    told = Job.objects.get(pk=waits.pk).explanation
    assert told is not None
    assert told["code"] == "begin_time"
    cycles.run(LATER)
    told = Job.objects.get(pk=waits.pk).explanation
    assert told is not None
    assert told["code"] == "dependency"
    assert not Attempt.objects.exists()


@pytest.mark.parametrize("text", ["2027-01-20", "2027-01-20T08:00:00", "tomorrow", "9" * 99, ""])
def test_a_time_without_its_zone_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        read_job_request(a_body(begin_at=text))
    assert [(error.pointer, error.detail) for error in refusal.value.errors] == [
        ("/begin_at", "must be a time with its zone, such as 2027-01-20T08:00:00Z")
    ]


def test_a_begin_more_than_a_year_ahead_is_refused(company: Company) -> None:
    actor = an_actor(company.nlp, Role.RESEARCHER)
    for days, is_refused in ((366, False), (367, True)):
        begin = NOW + timedelta(days=days)
        request = read_job_request(a_body(begin_at=f"{begin:%Y-%m-%dT%H:%M:%SZ}"))
        if not is_refused:
            assert preview_job(request, actor=actor, now=NOW).fits
            continue
        with pytest.raises(InvalidRequest, match="must be at most 366 days ahead"):
            preview_job(request, actor=actor, now=NOW)
        with pytest.raises(InvalidRequest, match="must be at most 366 days ahead"):
            submit_job_here(request, actor=actor, now=NOW)


def test_a_preview_says_when_it_begins(company: Company) -> None:
    actor = an_actor(company.nlp, Role.RESEARCHER)
    would = preview_job(read_job_request(a_body(begin_at=LATER_TEXT)), actor=actor, now=NOW)
    assert (would.fits, would.would_start_now, would.explanation["code"]) == (
        True,
        False,
        "begin_time",
    )
    assert would.explanation["sentence"] == "It begins at 2026-11-21 12:00:09 UTC at the earliest."
    assert preview_job(
        read_job_request(a_body(begin_at=LATER_TEXT)), actor=actor, now=LATER
    ).would_start_now
