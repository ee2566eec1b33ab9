"""Waits before the first start, and preemptions with the work that they cost."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta

import pytest

from builders.api_callers import by_token
from builders.billing_builders import LATER, a_metered_attempt, at
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import (
    Company,
    a_cluster,
    a_company,
    a_priority_class,
    a_team,
    a_user,
    an_actor,
    an_organization,
)
from chargeback.reports import Asked
from history.preemptions import Preempted, preemptions_of
from history.waits import WaitGroup, Waits, waits_of
from jobs.models import Job, Reclaim
from tenants.models import Node, User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

GPU_H = 3_600_000
GUARANTEED, BORROWED = "guaranteed", "borrowed"


@pytest.fixture
def company() -> Company:
    return a_company()


def started(
    company: Company,
    user: User,
    *starts: int,
    team: Node | None = None,
    submitted: int = 0,
    guaranteed_mgpu: int = 4_000,
    **values: datetime,
) -> Job:
    """A job of 4 GPUs that was submitted then, and whose attempts of a minute began then."""
    job = a_job(company, user, team=team, mgpu_per_node=4_000, submitted_at=at(submitted), **values)
    for number, start in enumerate(starts, 1):
        a_metered_attempt(
            job.team,
            start,
            start + 60,
            job_id=job.pk,
            number=number,
            mgpu=4_000,
            guaranteed_mgpu=guaranteed_mgpu,
        )
    return job


def groups_of(
    company: Company, path: str = "ai-company/research", days: int = 3
) -> list[WaitGroup]:
    found = waits_of(
        "ai-company/research",
        company.pool,
        actor=an_actor(company.nlp, Role.RESEARCHER),
        asked=Asked(at(0), at(3 * 86_400)),
        now=LATER,
    )
    return list(found.groups)


def test_each_job_counts_once_by_its_first_start(company: Company) -> None:
    """Against: each attempt counts; the wait before the begin time counts; other teams count; a
    job that borrowed a part counts as guaranteed."""
    user = a_user(company.organization)
    for wait in (10, 20, 300):
        started(company, user, wait, 5_000)
    started(company, user, 90, begin_at=at(60))
    started(company, user, 86_400 + 7_200, submitted=86_400, guaranteed_mgpu=1_000)
    started(company, user, 70, team=company.vision)
    started(company, user, 70, team=company.inference)
    nlp, vision = "ai-company/research/nlp", "ai-company/research/vision"
    assert groups_of(company) == [
        WaitGroup(GUARANTEED, None, None, Waits(5, 30, 300)),
        WaitGroup(GUARANTEED, None, 0, Waits(5, 30, 300)),
        WaitGroup(GUARANTEED, nlp, None, Waits(4, 20, 300)),
        WaitGroup(GUARANTEED, vision, None, Waits(1, 70, 70)),
        WaitGroup(BORROWED, None, None, Waits(1, 7_200, 7_200)),
        WaitGroup(BORROWED, None, 1, Waits(1, 7_200, 7_200)),
        WaitGroup(BORROWED, nlp, None, Waits(1, 7_200, 7_200)),
    ]


def test_a_job_that_started_before_the_period_does_not_count_again(company: Company) -> None:
    """Against: the first start inside of the period counts."""
    user = a_user(company.organization)
    started(company, user, -100, 500, submitted=-200)
    assert groups_of(company) == []


def preempted(
    victim: Job,
    beneficiary: Job,
    *,
    notice: int,
    started_at: int,
    number: int = 1,
    **values: datetime,
) -> None:
    """An attempt that got its notice then, and ended 100 seconds later."""
    reclaim = Reclaim.objects.create(
        job=beneficiary,
        cluster=a_cluster(),
        slots=[],
        created_at=at(notice),
        grace_until=at(notice + 300),
        closed_at=at(notice + 300),
    )
    an_attempt(
        victim,
        cluster=reclaim.cluster,
        number=number,
        state="ended",
        reclaim=reclaim,
        stop_reason="preempted",
        notice_at=at(notice),
        grace_until=at(notice + 300),
        granted_at=at(started_at),
        started_at=at(started_at),
        ended_at=at(notice + 100),
        released_at=at(notice + 100),
        **values,
    )


def test_preemptions_count_with_the_work_since_the_last_checkpoint(company: Company) -> None:
    """nlp loses 1 hour of 4 GPUs, then, after a checkpoint, 15 minutes; vision loses for nlp.

    Against: work since the start counts despite a checkpoint; a notice before the period counts.
    """
    user = a_user(company.organization)
    mine = a_job(company, user, mgpu_per_node=4_000, state="running")
    other = a_job(company, user, team=company.inference, name="serve")
    vision = a_job(company, user, team=company.vision, mgpu_per_node=1_000, state="running")
    preempted(mine, other, notice=3_500, started_at=0)
    preempted(mine, other, notice=9_900, started_at=5_000, number=2, checkpoint_at=at(9_100))
    preempted(mine, other, notice=-500, started_at=-900, number=3)
    foreign = an_organization("rival")
    theirs = a_job(
        company,
        user,
        team=a_team(foreign),
        priority_class=a_priority_class(foreign),
        name="theirs",
    )
    preempted(vision, theirs, notice=1_700, started_at=0)
    actor = an_actor(company.nlp, Role.RESEARCHER)
    day = Asked(at(0), at(86_400))
    found = preemptions_of("research", company.pool, actor=actor, asked=day, now=LATER)
    nlp, seer = "ai-company/research/nlp", "ai-company/research/vision"
    assert list(found.rows) == [
        Preempted(nlp, "ai-company/production/inference", 2, 1, 5 * GPU_H),
        Preempted(seer, "(outside)", 1, 1, GPU_H // 2),
    ]
    assert (found.preemptions, found.lost_mgpu_s) == (3, 5 * GPU_H + GPU_H // 2)
    production = preemptions_of("production", company.pool, actor=actor, asked=day, now=LATER)
    assert list(production.rows) == [found.rows[0]]
    assert (production.preemptions, production.lost_mgpu_s) == (0, 0)


def test_the_api_shows_waits_and_preemptions(company: Company) -> None:
    user = a_user(company.organization)
    started(company, user, 40)
    lead = by_token(an_actor(company.nlp, Role.RESEARCHER).user)
    query = "node=research&pool=h100&start=2026-11-01&end=2026-11-02"
    waits = lead.get(f"history/waits?{query}").json()
    only = {"usage_class": "guaranteed", "jobs": 1, "p50_s": 40, "p95_s": 40}
    assert waits["totals"] == [only]
    assert waits["teams"] == [{**only, "team": "ai-company/research/nlp"}]
    assert (waits["step"], waits["steps"]) == ("hour", [{**only, "step": 0}])
    found = lead.get(f"history/preemptions?{query}").json()
    assert (found["preemptions"], found["lost_mgpu_s"], found["rows"]) == (0, 0, [])
    assert datetime.fromisoformat(found["end"]) - at(0) == timedelta(days=1)


def test_the_csv_of_waits_and_preemptions(company: Company) -> None:
    """Against: lines of a step have the times of the period; a formula in a name is kept."""
    user = a_user(company.organization)
    started(company, user, 40)
    preempted(
        a_job(company, user, mgpu_per_node=2_000),
        a_job(company, user, team=company.inference),
        notice=7_200,
        started_at=3_600,
    )
    lead = by_token(an_actor(company.nlp, Role.RESEARCHER).user)
    query = "node=research&pool=h100&start=2026-11-01&end=2026-11-02&format=csv"
    answer = lead.get(f"history/waits?{query}")
    assert answer["Content-Disposition"] == (
        'attachment; filename="waits-research-h100-20261101-20261102.csv"'
    )
    rows = list(csv.DictReader(answer.content.decode().splitlines()))
    hour = ("2026-11-01T00:00:00+00:00", "2026-11-01T01:00:00+00:00")
    assert [(row["team"], row["start"], row["end"], row["p95_seconds"]) for row in rows] == [
        ("", hour[0], "2026-11-02T00:00:00+00:00", "40"),
        ("", *hour, "40"),
        ("ai-company/research/nlp", hour[0], "2026-11-02T00:00:00+00:00", "40"),
    ]
    rows = list(
        csv.DictReader(lead.get(f"history/preemptions?{query}").content.decode().splitlines())
    )
    assert [(row["team"], row["for_team"], row["lost_gpu_hours"]) for row in rows] == [
        ("ai-company/research/nlp", "ai-company/production/inference", "2.055556")
    ]
