"""Lists of jobs over REST: pages, filters, and what a bad question is told."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from builders.api_callers import by_token
from builders.job_builders import a_job, an_array, an_attempt
from builders.jobs_world import World, names
from builders.portal_builders import NOW
from builders.schedule_builders import a_schedule
from jobs.models import Reclaim, ScheduleRun
from jobs.reading import job_csv
from jobs.reading.job_csv import COLUMNS
from jobs.reading.job_orders import ORDERS
from webapi.paging import encode_cursor

#: The id of no job. Each test process must name its cases alike.
SOME_ID = "01935000-0000-7000-8000-000000000001"

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


def test_every_order_is_total_over_pages(world: World) -> None:
    """Pages of one job each, whatever the order, have each job once.

    Against: the tie-breaker left out of the condition of a position.
    """
    for number, (name, state, nodes) in enumerate(
        [("b", "queued", 2), ("A", "failed", 1), ("a", "failed", 1), ("b", "running", 2)]
    ):
        started = None if state == "queued" else NOW + timedelta(minutes=number // 2)
        a_job(
            world.company,
            world.bob if number % 2 else world.dana,
            name=name,
            state=state,
            node_count=nodes,
            started_at=started,
        )
    caller = by_token(world.alice)
    jobs = {item["id"]: item for item in caller.get("jobs").json()["items"]}
    assert len(jobs) == 4
    for order in ORDERS:
        path, seen = f"jobs?limit=1&sort={order}", []
        while path:
            answer = caller.get(path).json()
            seen += [item["id"] for item in answer["items"]]
            path = (answer["next"] or "").removeprefix("/api/v1/")
        assert sorted(seen) == sorted(jobs), order
        assert seen == [item["id"] for item in caller.get(f"jobs?sort={order}").json()["items"]]
    assert names(caller.get("jobs?sort=name")) == ["a", "A", "b", "b"]
    assert names(caller.get("jobs?sort=-gpus")) == ["b", "b", "a", "A"]
    by_start = [jobs[pk]["state"] for pk in jobs]
    assert by_start == ["running", "failed", "failed", "queued"]
    by_start = [one["state"] for one in caller.get("jobs?sort=started_at").json()["items"]]
    assert by_start == ["queued", "failed", "failed", "running"]


def test_the_search_finds_users_and_ids_of_clusters(world: World) -> None:
    """Against: a username compared without the scope, which would show a rival's jobs."""
    company = world.company
    job = a_job(company, world.bob, name="alpha", state="running")
    an_attempt(job, cluster=company.cluster, native_id="48213")
    a_job(company, world.dana, name="beta")
    given = {"origin": "native", "script": "", "native_id": "48214", "cluster": company.cluster}
    a_job(company, world.dana, name="given-there", **given)
    a_job(world.rival, world.charlie, team=world.rival.nlp, name="theirs")
    caller = by_token(world.alice)
    for search, expected in (
        ("48213", ["alpha"]),
        ("48214", ["given-there"]),
        ("4821", []),
        ("BO", ["alpha"]),
        ("dan", ["given-there", "beta"]),
        ("ana", []),
        ("charlie", []),
    ):
        assert names(caller.get(f"jobs?q={search}")) == expected, search


def test_the_jobs_of_a_schedule(world: World) -> None:
    """Jobs that a schedule submitted, and all tasks of an array that it submitted."""
    schedule = a_schedule(world.company, world.bob)
    job = a_job(world.company, world.bob, name="nightly")
    array = an_array(world.company, world.bob, name="sweep")
    first = array.tasks.order_by("array_index").first()
    for number, submitted in enumerate((job, first)):
        ScheduleRun.objects.create(
            schedule=schedule,
            scheduled_at=NOW + timedelta(days=number),
            at=NOW,
            outcome="submitted",
            job=submitted,
        )
    a_job(world.company, world.bob, name="other")
    found = by_token(world.bob).get(f"jobs?schedule={schedule.pk}&sort=name")
    assert names(found) == ["nightly", "sweep[0]", "sweep[1]"]


def test_an_export_has_the_filtered_jobs_in_their_order_and_columns(world: World) -> None:
    """Names that a spreadsheet would run are quoted. Against: `plain_text` left out."""
    job = a_job(world.company, world.bob, name="=1+1", state="failed", node_count=2, exit_code=1)
    a_job(world.company, world.bob, name="b", state="failed", mgpu_per_node=500)
    a_job(world.company, world.bob, name="c")
    caller = by_token(world.bob)
    answer = caller.get(
        "jobs?format=csv&state=failed&sort=name&columns=name,gpus,exit_code,ended_at"
    )
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.content.decode().split("\r\n") == [
        "name,gpus,exit_code,ended_at",
        "'=1+1,2.000,1,2026-11-21T12:00:00+00:00",
        "b,0.500,,2026-11-21T12:00:00+00:00",
        "",
    ]
    whole = caller.get("jobs?format=csv").content.decode().split("\r\n")
    assert (whole[0], len(whole)) == (",".join(COLUMNS), 5)
    assert str(job.pk) in whole[3]
    refused = caller.get("jobs?format=csv&columns=name,secret")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    for query in ("format=csv&limit=5", "columns=name"):
        assert caller.get(f"jobs?{query}").status_code == 400, query


def test_the_old_address_of_an_export_answers_the_same(world: World) -> None:
    """Planted: the old address without its headers; a refusal without them."""
    a_job(world.company, world.bob, name="b", state="failed")
    a_job(world.company, world.bob, name="c")
    caller = by_token(world.bob)
    old, new = (
        caller.get(f"{path}state=failed&columns=name,state")
        for path in ("jobs/export?", "jobs?format=csv&")
    )
    assert old.content == new.content == b"name,state\r\nb,failed\r\n"
    refused = caller.get("jobs/export?columns=secret")
    assert refused.status_code == 400
    for answer in (old, refused):
        assert {name: answer[name] for name in ("Deprecation", "Sunset", "Link")} == {
            "Deprecation": "@1796083200",
            "Sunset": "Tue, 01 Jun 2027 00:00:00 GMT",
            "Link": '</api/v1/jobs?format=csv>; rel="successor-version"',
        }
    assert not any(name in new for name in ("Deprecation", "Sunset", "Link"))


def test_an_export_is_never_cut(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: the limit taken without the one job more that shows it was passed."""
    monkeypatch.setattr(job_csv, "EXPORT_MAX", 2)
    for _ in range(2):
        a_job(world.company, world.bob)
    caller = by_token(world.bob)
    assert caller.get("jobs?format=csv").content.count(b"\r\n") == 3
    a_job(world.company, world.bob)
    refused = caller.get("jobs?format=csv")
    assert (refused.status_code, refused.json()["detail"]) == (
        400,
        "More than 2 jobs match. Narrow the list, for example by the time of submission, and "
        "export one part after the other.",
    )


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
        "sort=pool",
        "sort=--name",
        "type=toy",
        "schedule=x",
        "ended_at__gte=yesterday",
        f"sort=gpus&cursor={encode_cursor(['gpus', 'x', SOME_ID])}",
        f"sort=gpus&cursor={encode_cursor(['gpus', '9' * 30, SOME_ID])}",
        f"sort=gpus&cursor={encode_cursor(['gpus', '1', 'x'])}",
        f"sort=ended_at&cursor={encode_cursor(['ended_at', '1', SOME_ID])}",
        f"sort=name&cursor={encode_cursor(['-name', 'A', SOME_ID])}",
        f"sort=name&cursor={encode_cursor([SOME_ID])}",
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
