"""Lists of jobs over REST: pages, filters, and what a bad question is told."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.jobs_world import World, names
from builders.portal_builders import (
    NOW,
)
from jobs.models import Reclaim

pytestmark = pytest.mark.django_db


def test_pages_in_both_orders(world: World) -> None:
    for number in range(5):
        a_job(world.company, world.bob, name=f"job-{number}")
    caller = by_token(world.bob)
    for sort, expected in (
        ("-submitted_at", ["job-4", "job-3", "job-2", "job-1", "job-0"]),
        ("submitted_at", ["job-0", "job-1", "job-2", "job-3", "job-4"]),
    ):
        path, seen, pages = f"jobs?limit=2&sort={sort}", [], 0
        while path:
            answer = caller.get(path)
            seen += names(answer)
            pages += 1
            path = (answer.json()["next"] or "").removeprefix("/api/v1/")
        assert (seen, pages) == (expected, 3)


def test_filters(world: World) -> None:
    company = world.company
    vision_job = {"team": company.vision}
    hour = timedelta(hours=1)
    a_job(company, world.bob, name="alpha_1", state="queued")
    a_job(company, world.dana, name="Beta%", state="running", submitted_at=NOW + hour)
    a_job(company, world.bob, name="gamma", state="failed", submitted_at=NOW + 2 * hour)
    a_job(company, world.alice, name="delta", submitted_at=NOW + 3 * hour, **vision_job)
    caller = by_token(world.alice)
    for query, expected in (
        ("state=queued", ["delta", "alpha_1"]),
        ("state=queued,failed", ["delta", "gamma", "alpha_1"]),
        ("team=ai-company/research/nlp", ["gamma", "Beta%", "alpha_1"]),
        ("team=ai-company/research/nlp/", ["gamma", "Beta%", "alpha_1"]),
        ("team=ai-company/research", ["delta", "gamma", "Beta%", "alpha_1"]),
        ("team=ai-company/production", []),
        ("user=bob", ["gamma", "alpha_1"]),
        ("user=nobody", []),
        ("pool=h100", ["delta", "gamma", "Beta%", "alpha_1"]),
        ("pool=none", []),
        ("q=beta", ["Beta%"]),
        ("q=%25", ["Beta%"]),
        ("q=_", ["alpha_1"]),
        ("submitted_at__gte=2026-11-21T14:00:00Z", ["delta", "gamma"]),
        ("submitted_at__lt=2026-11-21T13:00:00Z", ["alpha_1"]),
        ("submitted_at__lt=2026-11-21T14:00:00%2B01:00", ["alpha_1"]),
        ("user=bob&state=failed", ["gamma"]),
    ):
        assert names(caller.get(f"jobs?{query}")) == expected, query


def test_filter_by_usage_class(world: World) -> None:
    for name, guaranteed, state in (
        ("inside", 1_000, "running"),
        ("part", 400, "running"),
        ("outside", 0, "running"),
    ):
        job = a_job(world.company, world.bob, name=name, state=state)
        an_attempt(job, cluster=world.company.cluster, guaranteed_mgpu=guaranteed)
    gone = a_job(world.company, world.bob, name="gone", state="succeeded")
    an_attempt(gone, cluster=world.company.cluster, state="ended", ended_at=NOW, released_at=NOW)
    a_job(world.company, world.bob, name="waits")
    caller = by_token(world.bob)
    assert names(caller.get("jobs?usage_class=guaranteed")) == ["inside"]
    assert names(caller.get("jobs?usage_class=borrowed")) == ["outside", "part"]


def test_native_jobs_are_marked_and_found(world: World) -> None:
    """No log, and nothing to hold or release; its lead may cancel it."""
    a_job(world.company, world.bob, name="ours")
    native = a_job(
        world.company, world.bob, name="theirs", state="running", origin="native", script=""
    )
    native.attempt_number = 1
    native.save()
    an_attempt(native, cluster=world.company.cluster)
    caller = by_token(world.bob)
    assert names(caller.get("jobs?origin=native")) == ["theirs"]
    assert names(caller.get("jobs?origin=portal")) == ["ours"]
    body = caller.get(f"jobs/{native.pk}").json()
    assert (body["origin"], body["can"], body["script"]) == ("native", ["cancel"], "")
    log = caller.get(f"jobs/{native.pk}/logs")
    assert (log.status_code, log.json()["detail"]) == (
        404,
        "The log is not available here: the job was submitted directly to its cluster. "
        "Its user finds it where they had it written.",
    )


@pytest.mark.parametrize(
    "query",
    [
        "state=busy",
        "state=",
        "state=queued,,running",
        "state=queued&state=running",
        "team=rival",
        "team=rival/research/nlp",
        "team=nowhere",
        "team=",
        "user=",
        "q=",
        f"q={'x' * 1001}",
        "q=%00",
        "user=a%00b",
        "usage_class=free",
        "origin=slurm",
        "origin=",
        "sort=name",
        "limit=0",
        "limit=501",
        "limit=abc",
        "limit=99999999999999999999",
        "limit=-1",
        "cursor=abc",
        "cursor=WyJ4Il0",
        "cursor=%00",
        "submitted_at__gte=yesterday",
        "submitted_at__lt=2026-11-21T12:00:00",
        "submitted_at__lt=0001-01-01T00:00:00%2B14:00",
        "statee=queued",
        "page=2",
    ],
)
def test_bad_queries_are_refused(world: World, query: str) -> None:
    answer = by_token(world.bob).get(f"jobs?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert answer.json()["errors"]


def test_a_page_costs_the_same_queries_whatever_its_size(world: World) -> None:
    reclaimer = a_job(
        world.company,
        world.alice,
        name="reclaimer",
        explanation={"code": "waiting_for_reclaim"},
        explained_at=NOW,
    )
    claim = Reclaim.objects.create(
        job=reclaimer,
        cluster=world.company.cluster,
        slots=[],
        created_at=NOW,
        grace_until=NOW,
    )
    caller = by_token(world.alice)

    def count() -> int:
        caller.get("jobs")
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert caller.get("jobs?limit=500").status_code == 200
        assert not any("COUNT(" in query["sql"].upper() for query in queries)
        assert not any('"script"' in query["sql"] for query in queries)
        return len(queries)

    def add(number: int) -> None:
        for index in range(number):
            job = a_job(world.company, world.bob, state="preempting", name=f"job-{index}")
            an_attempt(job, cluster=world.company.cluster, reclaim=claim)

    add(1)
    few = count()
    add(20)
    assert count() == few == 4
