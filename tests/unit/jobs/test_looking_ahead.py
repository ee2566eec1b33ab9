"""When a waiting job is to start, asked over REST."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection

from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import NOW, Company, a_company, a_user, an_organization
from jobs.api import estimates as estimate_views
from jobs.models import Dependency, Job
from jobs.whatif.heavy_answers import FUTURE
from tenants.models import User

pytestmark = pytest.mark.django_db


class Now:
    def now(self) -> datetime:
        return NOW


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate_views, "SystemClock", Now)


@pytest.fixture
def company() -> Company:
    return a_company(nodes=1)


def a_full_node(company: Company, bob: User) -> Job:
    """Bob's job holds all 8 GPUs, for an hour more at most."""
    job = a_job(
        company,
        bob,
        team=company.inference,
        state="running",
        mgpu_per_node=8_000,
        time_limit_s=3_600,
    )
    an_attempt(job, cluster=company.cluster, started_at=NOW, guaranteed_mgpu=4_000)
    return job


def test_a_job_is_told_when_what_it_waits_for_ends(company: Company, bob: User) -> None:
    a_full_node(company, bob)
    waiting = a_job(company, bob, mgpu_per_node=8_000)
    answer = by_token(bob).post(f"jobs/{waiting.pk}/estimate", {"horizon_s": 7_200})
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "as_of": "2026-11-21T12:00:00Z",
            "estimated_start": {
                "earliest": "2026-11-21T13:00:00Z",
                "latest": answer.json()["estimated_start"]["latest"],
                "method": "look_ahead",
            },
            "until": "2026-11-21T14:00:00Z",
            "asked_until": "2026-11-21T14:00:00Z",
            "assumed_ends": 1,
        },
    )
    latest = answer.json()["estimated_start"]["latest"]
    assert "2026-11-21T13:00:00Z" <= latest <= "2026-11-21T13:02:00Z"
    soon = by_token(bob).post(f"jobs/{waiting.pk}/estimate", {"horizon_s": 600}).json()
    assert soon["estimated_start"] == {
        "earliest": "2026-11-21T12:10:00Z",
        "latest": None,
        "method": "look_ahead",
    }


def test_what_waits_for_no_gpus_has_no_start(company: Company, bob: User) -> None:
    running = a_full_node(company, bob)
    held = a_job(company, bob, state="held")
    dependent = a_job(company, bob)
    Dependency.objects.create(job=dependent, predecessor=running, condition="ended")
    for job in (running, held, dependent):
        assert by_token(bob).post(f"jobs/{job.pk}/estimate", {}).status_code == 409


def test_a_stranger_is_told_nothing(company: Company, bob: User) -> None:
    waiting = a_job(company, bob)
    stranger = by_token(a_user(an_organization("rival"), "dave"))
    assert stranger.post(f"jobs/{waiting.pk}/estimate", {}).status_code == 404


def test_one_future_at_a_time(company: Company, bob: User) -> None:
    waiting = a_job(company, bob)
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [FUTURE.slots[0]])
        refused = by_token(bob).post(f"jobs/{waiting.pk}/estimate", {})
        cursor.execute("SELECT pg_advisory_unlock(%s)", [FUTURE.slots[0]])
    other.close()
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
    assert by_token(bob).post(f"jobs/{waiting.pk}/estimate", {}).status_code == 200


@pytest.mark.parametrize("horizon_s", [299, 604_801, "600", None])
def test_how_far_can_be_looked(company: Company, bob: User, horizon_s: object) -> None:
    waiting = a_job(company, bob, submitted_at=NOW - timedelta(seconds=1))
    refused = by_token(bob).post(f"jobs/{waiting.pk}/estimate", {"horizon_s": horizon_s})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/horizon_s")
