"""Metrics of jobs over REST, and the list of jobs that use little."""

from __future__ import annotations

from copy import copy
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from builders.api_callers import by_token
from builders.billing_builders import (
    a_grant_of,
    a_rate_card,
    at,
    record_started,
    register_attempt,
)
from builders.clocks import ClockAt
from builders.connector_builders import change_kind
from builders.job_builders import a_job, an_attempt
from builders.jobs_world import World, a_world
from builders.planner import only_wanted_rows_are_looked_up, rows_read
from builders.portal_builders import NOW, a_pool
from jobs.api import metrics as metric_views
from jobs.api import unused as unused_views
from jobs.models import Attempt, AttemptMetrics, MetricPoint

pytestmark = pytest.mark.django_db

MIB = 1 << 20
GIB = 1 << 30
LATER = NOW + timedelta(hours=1)
NLP = "ai-company/research/nlp"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    for views in (metric_views, unused_views):
        monkeypatch.setattr(views, "SystemClock", lambda: ClockAt(LATER))
    return a_world()


def metered(
    world: World, *, sampled_s: int = 1_000, job: dict[str, Any] | None = None, **figures: Any
) -> Attempt:
    """Bob's running attempt since NOW, with figures up to `sampled_s` later."""
    stored = a_job(world.company, world.bob, state="running", **(job or {}))
    attempt = an_attempt(stored, cluster=world.company.cluster, started_at=NOW)
    AttemptMetrics.objects.create(
        attempt=attempt,
        interval_s=30,
        sampled_at=NOW + timedelta(seconds=sampled_s),
        **figures,
    )
    return attempt


def metrics_of(world: World, attempt: Attempt) -> Any:
    return by_token(world.bob).get(f"jobs/{attempt.job_id}/metrics").json()


def test_efficiencies_are_use_in_parts_of_what_was_asked_for(world: World) -> None:
    """4 cores for 1000 s, of which one worked; 512 MiB of 2 GiB. Against: the time until now."""
    attempt = metered(
        world,
        job={"cpus_per_node": 4, "memory_mib_per_node": 2_048},
        cpu_time_ms=1_000_000,
        memory_peak_bytes=512 * MIB,
        gpu_known_s=1_000,
        gpu_idle_s=400,
        gpu_measured_s=1_000,
        gpu_percent_s=35_900,
    )
    MetricPoint.objects.create(attempt=attempt, at=NOW, cpu_time_ms=5, memory_bytes=MIB)
    found = metrics_of(world, attempt)
    assert found["points"] == [
        {
            "at": "2026-11-21T12:00:00Z",
            "cpu_time_ms": 5,
            "cpu_rate_milli": None,
            "memory_bytes": MIB,
            "processes": None,
            "gpus": None,
        }
    ]
    assert (found["attempt"], found["cluster"], found["is_supported"]) == (1, "local", True)
    summary = found["summary"]
    assert summary == summary | {
        "elapsed_s": 1_000,
        "cpu_rate_milli": None,
        "cpu_milli": 4_000,
        "cpu_efficiency_permille": 250,
        "memory_asked_bytes": 2 * GIB,
        "memory_efficiency_permille": 250,
        "gpu_utilisation_percent": 35,
        "gpu_idle_permille": 400,
        "gpu_memory_peak_bytes": None,
    }


def test_without_a_cpu_time_the_mean_rate_counts(world: World) -> None:
    """A core of 4 was busy in the 500 s that were sampled, of 1000 s.

    Against: half of the efficiency, because the time without a sample counted as idle.
    """
    attempt = metered(world, job={"cpus_per_node": 4}, cpu_measured_s=500, cpu_rate_milli_s=500_499)
    MetricPoint.objects.create(attempt=attempt, at=NOW, cpu_rate_milli=1_250)
    found = metrics_of(world, attempt)
    summary = found["summary"]
    assert (summary["cpu_time_ms"], summary["cpu_rate_milli"]) == (None, 1_000)
    assert summary["cpu_efficiency_permille"] == 250
    assert [point["cpu_rate_milli"] for point in found["points"]] == [1_250]


def test_what_the_cluster_gave_counts_before_what_was_asked_for(world: World) -> None:
    attempt = metered(
        world,
        job={"cpus_per_node": 4, "memory_mib_per_node": 2_048},
        cpu_milli=2_000,
        memory_given_bytes=GIB,
        cpu_time_ms=1_000_000,
        memory_peak_bytes=512 * MIB,
    )
    summary = metrics_of(world, attempt)["summary"]
    assert summary["cpu_efficiency_permille"] == 500
    assert summary["memory_efficiency_permille"] == 500


def test_without_a_request_there_is_no_efficiency(world: World) -> None:
    """Against: an efficiency of 0."""
    summary = metrics_of(world, metered(world, cpu_time_ms=7, memory_peak_bytes=8))["summary"]
    assert summary["cpu_efficiency_permille"] is None
    assert summary["memory_efficiency_permille"] is None
    assert summary["gpu_idle_permille"] is None


def test_a_job_on_cores_was_given_its_cores(world: World) -> None:
    pool = a_pool("cpu", device="cpu")
    attempt = metered(world, job={"pool": pool, "mgpu_per_node": 2_000}, cpu_time_ms=1_500_000)
    assert metrics_of(world, attempt)["summary"]["cpu_efficiency_permille"] == 750


def test_jobs_without_figures_say_why(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not started; started without figures; on a kind of cluster that reports none."""
    queued = a_job(world.company, world.bob)
    path = f"jobs/{queued.pk}/metrics"
    none = {
        **{"attempt": None, "cluster": None, "is_supported": True, "is_final": False},
        **{"summary": None, "points": []},
    }
    assert by_token(world.bob).get(path).json() == none
    an_attempt(queued, cluster=world.company.cluster, started_at=NOW)
    some = {**none, "attempt": 1, "cluster": "local"}
    assert by_token(world.bob).get(path).json() == some
    change_kind(monkeypatch, "local", open_metrics=None)
    assert by_token(world.bob).get(path).json() == {**some, "is_supported": False}


def test_figures_are_final_once_the_cluster_was_asked_after_the_end(world: World) -> None:
    """Also where it had none. Planted: those of each ended attempt are final."""
    attempt = metered(world, cpu_time_ms=1)
    Attempt.objects.filter(pk=attempt.pk).update(state="ended", ended_at=NOW, released_at=NOW)
    assert metrics_of(world, attempt)["is_final"] is False
    AttemptMetrics.objects.filter(pk=attempt.pk).update(
        final_at=LATER, sampled_at=None, cpu_time_ms=None
    )
    found = metrics_of(world, attempt)
    assert (found["is_final"], found["summary"]) == (True, None)


def test_an_attempt_is_chosen_by_its_number(world: World) -> None:
    """Against: always the latest."""
    first = metered(world, cpu_time_ms=1)
    Attempt.objects.filter(pk=first.pk).update(state="ended", ended_at=NOW, released_at=NOW)
    an_attempt(first.job, cluster=world.company.cluster, number=2, started_at=NOW)
    caller, path = by_token(world.bob), f"jobs/{first.job_id}/metrics"
    assert caller.get(path).json()["attempt"] == 2
    assert caller.get(f"{path}?attempt=1").json()["summary"]["cpu_time_ms"] == 1
    assert caller.get(f"{path}?attempt=3").json()["detail"] == "The job has no attempt 3."
    assert caller.get(f"{path}?attempt=0").status_code == 400


def test_csv_has_a_line_for_each_gpu(world: World) -> None:
    """Against: the job's figures on each line, so that sums were wrong."""
    attempt = metered(world)
    gpus = [
        {
            "node": "n1",
            "index": index,
            "utilisation_percent": 40,
            "memory_bytes": None,
            "memory_total_bytes": 9,
            "has_process": index == 0,
        }
        for index in range(2)
    ]
    at = NOW + timedelta(seconds=30)
    MetricPoint.objects.create(attempt=attempt, at=at, cpu_time_ms=5, processes=2, gpus=gpus)
    later = at + timedelta(seconds=30)
    MetricPoint.objects.create(attempt=attempt, at=later, memory_bytes=3, cpu_rate_milli=1_250)
    answer = by_token(world.bob).get(f"jobs/{attempt.job_id}/metrics?format=csv")
    assert answer.headers["Content-Disposition"] == (
        f'attachment; filename="metrics-{attempt.job_id}-1.csv"'
    )
    assert answer.content.decode().split("\r\n") == [
        "at,cpu_time_ms,memory_bytes,processes,node,gpu,gpu_utilisation_percent,gpu_memory_bytes,"
        "gpu_memory_total_bytes,gpu_has_process,cpu_rate_milli",
        "2026-11-21T12:00:30+00:00,5,,2,n1,0,40,,9,true,",
        "2026-11-21T12:00:30+00:00,,,,n1,1,40,,9,false,",
        "2026-11-21T12:01:00+00:00,,3,,,,,,,,1250",
        "",
    ]


def test_nobody_sees_the_metrics_of_jobs_that_they_do_not_see(world: World) -> None:
    attempt = metered(world)
    for stranger in (world.dana, world.charlie):
        assert by_token(stranger).get(f"jobs/{attempt.job_id}/metrics").status_code == 404


def unused(world: World, user: Any = None) -> Any:
    answer = by_token(user or world.alice).get(f"unused-resources?node={NLP}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def ids(rows: Any) -> list[str]:
    return [row["job"] for row in rows]


def test_gpus_that_are_idle_for_ten_minutes_are_listed_the_longest_first(world: World) -> None:
    """Against: GPUs that are idle since a minute ago. Against: attempts that ended.

    Against: attempts without a sample in the latest three minutes.
    """

    def idle(minutes: int, *, sampled_s: int = 3_420) -> Attempt:
        since = LATER - timedelta(minutes=minutes)
        return metered(world, sampled_s=sampled_s, gpus_idle_since=since, gpus_are_held=False)

    idle(50, sampled_s=3_419)
    short, long, just = idle(10), idle(40), idle(9)
    ended = idle(50)
    Attempt.objects.filter(pk=ended.pk).update(state="ended", ended_at=NOW, released_at=NOW)
    found = unused(world)
    assert ids(found["idle_gpus"]) == [str(long.job_id), str(short.job_id)]
    assert str(just.job_id) not in ids(found["idle_gpus"])
    assert found["reports_gpus"] is True
    row = found["idle_gpus"][0]
    assert (row["team"], row["user"], row["mgpu"], row["state"]) == (NLP, "bob", 1_000, "running")


def test_idle_gpus_have_the_cost_of_their_idle_time(world: World) -> None:
    """A GPU idle for 45 minutes at 2 EUR, for those who see the cost of the job.

    Against: the cost of the whole run.
    Against: a cost without the right.
    """
    since = LATER - timedelta(minutes=45)
    attempt = metered(world, sampled_s=3_420, gpus_idle_since=since, gpus_are_held=False)
    job = attempt.job
    grant = a_grant_of(
        job.team, attempt_id=attempt.pk, job_id=job.pk, user=job.user, pool=job.pool, mgpu=1_000,
        granted=int((NOW - at(0)).total_seconds()),
    )  # fmt: skip
    register_attempt(grant, now=LATER)
    record_started(attempt.pk, NOW, LATER)
    (row,) = unused(world)["idle_gpus"]
    assert (row["idle_mgpu_s"], row["cost"]) == (1_000 * 45 * 60, None)
    a_rate_card(world.company.organization, pool=job.pool)
    (row,) = unused(world)["idle_gpus"]
    assert row["cost"] == {
        "cost_nano": 1_500_000_000,
        "unbilled_nano": 0,
        "price_mode": "pay_per_use",
        "currency": "EUR",
    }
    answer = by_token(world.alice, ["jobs"]).get(f"unused-resources?node={NLP}").json()
    assert answer["idle_gpus"][0]["cost"] is None


def test_jobs_that_used_a_quarter_of_their_memory_are_not_listed(world: World) -> None:
    """And not those that left little unused, or ran for a few minutes. Against: each of them."""

    def using(peak_bytes: int, mib: int, **changes: Any) -> str:
        job = {"memory_mib_per_node": mib}
        return str(metered(world, job=job, memory_peak_bytes=peak_bytes, **changes).job_id)

    little, less = using(GIB, 8_192), using(GIB, 65_536)
    using(2 * GIB, 8_192)
    using(1, 1_023)
    using(GIB, 8_192, sampled_s=599)
    assert ids(unused(world)["memory"]) == [less, little]


def test_jobs_that_used_a_quarter_of_their_cores_are_not_listed(world: World) -> None:
    """Nor those that left less than a core unused. Against: each of them."""

    def using(cpu_s: int, cores: int) -> str:
        job = {"cpus_per_node": cores}
        return str(metered(world, job=job, cpu_time_ms=1_000 * cpu_s).job_id)

    listed = using(999, 4)
    using(1_000, 4)
    using(1, 1)
    assert ids(unused(world)["cpus"]) == [listed]


def test_jobs_of_which_only_a_cpu_rate_is_known_are_judged_by_it(world: World) -> None:
    """Less than a core of four, in the mean over what was sampled.

    A job without any sample of its rate is not judged. Against: a rate that is unknown was 0.
    """

    def using(rate_milli: int, measured_s: int) -> str:
        rates = {"cpu_measured_s": measured_s, "cpu_rate_milli_s": rate_milli * measured_s}
        return str(metered(world, job={"cpus_per_node": 4}, **rates).job_id)

    listed = using(999, 400)
    using(1_000, 400)
    using(0, 0)
    assert ids(unused(world)["cpus"]) == [listed]


def test_jobs_that_ended_are_listed_for_a_week(world: World) -> None:
    """Against: for ever."""
    found = []
    for days in (1, 8):
        ended_at = LATER - timedelta(days=days)
        job = a_job(
            world.company,
            world.bob,
            state="succeeded",
            ended_at=ended_at,
            submitted_at=ended_at - timedelta(hours=2),
            memory_mib_per_node=8_192,
        )
        attempt = an_attempt(
            job,
            cluster=world.company.cluster,
            state="ended",
            started_at=ended_at - timedelta(hours=1),
            ended_at=ended_at,
            released_at=ended_at,
        )
        AttemptMetrics.objects.create(
            attempt=attempt, interval_s=30, memory_peak_bytes=GIB, final_at=ended_at
        )
        found.append(str(job.pk))
    rows = unused(world)["memory"]
    assert ids(rows) == found[:1]
    assert rows[0]["summary"]["elapsed_s"] == 3_600


def test_attempts_that_ended_long_ago_are_not_read(world: World) -> None:
    """An attempt runs, and 300 ended ten days ago. Planted: both conditions in one OR."""
    runs = metered(world, job={"memory_mib_per_node": 8_192}, memory_peak_bytes=GIB)
    long_ago = LATER - timedelta(days=10)
    job = a_job(world.company, world.bob, state="succeeded", ended_at=long_ago)
    old = an_attempt(job, cluster=world.company.cluster, state="ended", ended_at=long_ago)
    old.started_at = old.released_at = long_ago
    many = [copy(old) for _ in range(300)]
    for number, each in enumerate(many):
        each.pk, each.number = uuid7(), number + 2
    Attempt.objects.bulk_create(many)
    AttemptMetrics.objects.bulk_create(
        AttemptMetrics(attempt=each, interval_s=30, memory_peak_bytes=1) for each in many
    )
    only_wanted_rows_are_looked_up()
    with CaptureQueriesContext(connection) as queries:
        assert ids(unused(world)["memory"]) == [str(runs.job_id)]
    statements = [each["sql"] for each in queries if "jobs_attemptmetrics" in each["sql"]]
    assert len(statements) == 4
    for statement in statements:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}")
            plan = cursor.fetchone()[0][0]["Plan"]
        assert rows_read(plan, "jobs_attempt") <= 3


def test_cores_of_thousands_of_nodes_are_counted(world: World) -> None:
    """65,536 cores on each of 2,000 nodes. Planted: a product of 32 bits, which is too large."""
    attempt = metered(world, job={"cpus_per_node": 65_536}, cpu_time_ms=1)
    Attempt.objects.filter(pk=attempt.pk).update(slots=[{"node": "n", "mgpu": 1_000}] * 2_000)
    assert ids(unused(world)["cpus"]) == [str(attempt.job_id)]


def test_people_see_their_own_jobs_alone(world: World) -> None:
    """Against: the jobs of the whole team."""
    metered(world, job={"memory_mib_per_node": 8_192}, memory_peak_bytes=GIB)
    assert len(unused(world, world.bob)["memory"]) == 1
    nothing = unused(world, world.dana)
    assert (nothing["memory"], nothing["reports_gpus"]) == ([], False)
    stranger = by_token(world.charlie).get(f"unused-resources?node={NLP}")
    assert stranger.status_code == 404
