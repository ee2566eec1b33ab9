"""Samples of running attempts: their figures, their points, and the ends of attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from builders.job_builders import a_job, an_attempt
from builders.loop_builders import Fenced
from builders.portal_builders import NOW, Company
from connectors.errors import ClusterUnavailable
from connectors.metrics import FinalMetrics, GpuSample, MetricSample
from jobs.execution import sampling
from jobs.execution.retention import METRIC_POINT_RETENTION, forget_old_metric_points
from jobs.execution.sampling import FinalFigures, sample_running
from jobs.models import Attempt, AttemptMetrics, MetricPoint
from tenants.models import User

pytestmark = pytest.mark.django_db

START_S = int(NOW.timestamp())
MIB = 1 << 20


@dataclass
class AReader:
    """Reports these samples and ends. An end of None has no answer yet; an error is raised."""

    samples: list[MetricSample] = field(default_factory=list)
    ends: dict[str, FinalMetrics | Exception | None] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def running(self, keys: Sequence[str]) -> Sequence[MetricSample]:
        return [each for each in self.samples if each.key in keys]

    def ended(self, key: str, native_id: str) -> FinalMetrics | None:
        self.asked.append(key)
        found = self.ends[key]
        if found is None:
            raise ClusterUnavailable("not yet")
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture(autouse=True)
def open_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's transaction is on it."""

    class Open:
        def __getattr__(self, name: str) -> Any:
            return getattr(_real, name)

        def close(self) -> None:
            pass

    _real = sampling.connection
    monkeypatch.setattr(sampling, "connection", Open())


def running_attempt(company: Company, bob: User, **changes: Any) -> Attempt:
    job = a_job(company, bob, state="running", **changes)
    return an_attempt(job, cluster=company.cluster, started_at=NOW, native_id="7")


def ended_attempt(company: Company, bob: User, number: int) -> Attempt:
    """An attempt that ended `number` seconds after NOW, and had no sample."""
    at = NOW + timedelta(seconds=number)
    job = a_job(company, bob, state="succeeded", ended_at=at)
    return an_attempt(
        job,
        cluster=company.cluster,
        state="ended",
        started_at=NOW,
        ended_at=at,
        released_at=at,
        native_id=str(number),
    )


def a_sample(attempt: Attempt, at_s: int, **figures: Any) -> MetricSample:
    return MetricSample(attempt.key, START_S + at_s, **figures)


def sample(company: Company, *samples: MetricSample) -> int:
    reader = AReader(list(samples))
    return sample_running(company.cluster, reader, leadership=Fenced("observer"))  # type: ignore[arg-type]


def test_a_sample_is_stored_with_its_point(company: Company, bob: User) -> None:
    attempt = running_attempt(company, bob)
    gpu = GpuSample("n1", 3, 40, 5 * MIB, 80 * MIB, has_process=True)
    told = a_sample(
        attempt, 20, cpu_time_ms=19_500, memory_bytes=200 * MIB, processes=4, gpus=(gpu,)
    )
    assert sample(company, told) == 1
    point = MetricPoint.objects.get(attempt=attempt)
    assert (point.cpu_time_ms, point.memory_bytes, point.processes) == (19_500, 200 * MIB, 4)
    assert point.gpus == [
        {
            "node": "n1",
            "index": 3,
            "utilisation_percent": 40,
            "memory_bytes": 5 * MIB,
            "memory_total_bytes": 80 * MIB,
            "has_process": True,
        }
    ]
    row = AttemptMetrics.objects.get(attempt=attempt)
    assert (row.sampled_at, row.pointed_at) == (NOW + timedelta(seconds=20),) * 2
    assert (row.gpu_known_s, row.gpu_idle_s, row.gpu_measured_s, row.gpu_percent_s) == (
        *(20, 0),
        *(20, 800),
    )


def test_a_peak_and_cpu_time_never_go_back(company: Company, bob: User) -> None:
    """Against: the latest figure was the peak."""
    attempt = running_attempt(company, bob)
    sample(company, a_sample(attempt, 10, cpu_time_ms=9_000, memory_bytes=300))
    sample(company, a_sample(attempt, 40, cpu_time_ms=8_990, memory_bytes=100))
    row = AttemptMetrics.objects.get(attempt=attempt)
    assert (row.cpu_time_ms, row.memory_bytes, row.memory_peak_bytes) == (9_000, 100, 300)


def test_a_cpu_rate_counts_for_the_time_before_its_sample(company: Company, bob: User) -> None:
    """Two cores for 20 s, and half a core for 30 s. There is no CPU time: nobody measured one.

    The same figures once more, as a cluster lists them until its next window, change nothing.
    Against: the mean of the samples, whatever their distances. Against: a CPU time of its own.
    """
    attempt = running_attempt(company, bob)
    for at_s, rate_milli in ((20, 2_000), (50, 500), (50, 500)):
        sample(company, a_sample(attempt, at_s, cpu_rate_milli=rate_milli, memory_bytes=MIB))
    row = AttemptMetrics.objects.get(attempt=attempt)
    assert (row.cpu_measured_s, row.cpu_rate_milli_s, row.cpu_time_ms) == (50, 55_000, None)
    points = MetricPoint.objects.filter(attempt=attempt).order_by("at")
    assert list(points.values_list("cpu_rate_milli", "cpu_time_ms")) == [(2_000, None), (500, None)]


def test_what_a_cluster_does_not_report_stays_unknown(company: Company, bob: User) -> None:
    """Against: unknown GPUs were idle."""
    attempt = running_attempt(company, bob)
    sample(company, a_sample(attempt, 10))
    row = AttemptMetrics.objects.get(attempt=attempt)
    assert (row.cpu_time_ms, row.memory_peak_bytes, row.gpus_idle_since) == (None, None, None)
    assert (row.gpus_are_held, row.gpu_known_s) == (None, 0)


def test_gpus_are_idle_since_none_of_them_works(company: Company, bob: User) -> None:
    """One without a process, one with a process that does nothing.

    Against: one idle GPU was enough. Against: the time began anew with each sample.
    """
    attempt = running_attempt(company, bob, mgpu_per_node=2_000)
    unused = GpuSample("n1", 0, has_process=False)

    def at(at_s: int, percent: int) -> AttemptMetrics:
        gpus = (unused, GpuSample("n1", 1, percent, has_process=True))
        sample(company, a_sample(attempt, at_s, gpus=gpus))
        return AttemptMetrics.objects.get(attempt=attempt)

    assert at(30, 70).gpus_idle_since is None
    assert at(60, 0).gpus_idle_since == NOW + timedelta(seconds=30)
    row = at(90, 0)
    assert (row.gpus_idle_since, row.gpus_are_held) == (NOW + timedelta(seconds=30), True)
    assert (row.gpu_known_s, row.gpu_idle_s) == (180, 150)
    assert at(120, 5).gpus_idle_since is None


@pytest.mark.parametrize(
    ("percent", "has_process", "is_idle"),
    [
        (95, False, False),
        (0, True, True),
        (0, None, True),
        (None, False, True),
        (None, True, None),
        (None, None, None),
    ],
)
def test_the_utilisation_decides_whether_a_gpu_is_idle(
    percent: int | None, has_process: bool | None, is_idle: bool | None
) -> None:
    """A list of processes may be empty because nobody may read it.

    Against: a GPU without a process was idle, whatever its utilisation.
    """
    assert GpuSample("n1", 0, percent, has_process=has_process).is_idle is is_idle


def test_time_without_samples_counts_for_nobody(company: Company, bob: User) -> None:
    """An hour without an observer is not an idle hour.

    Against: the whole time counted. Against: the GPUs were idle since before that hour.
    """
    attempt = running_attempt(company, bob)
    unused = (GpuSample("n1", 0, has_process=False),)
    sample(company, a_sample(attempt, 30, gpus=unused))
    sample(company, a_sample(attempt, 3_630, gpus=unused))
    row = AttemptMetrics.objects.get(attempt=attempt)
    assert row.gpu_idle_s == 30 + 90
    assert row.gpus_idle_since == NOW + timedelta(seconds=3_540)


def test_a_long_attempt_keeps_few_points_that_are_evenly_spread(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: the interval stayed. Against: the latest point was deleted."""
    monkeypatch.setattr(sampling, "POINTS_MAX", 8)
    attempt = running_attempt(company, bob)
    most = 0
    for number in range(1, 65):
        sample(company, a_sample(attempt, 30 * number, cpu_time_ms=number))
        most = max(most, MetricPoint.objects.filter(attempt=attempt).count())
    row = AttemptMetrics.objects.get(attempt=attempt)
    numbers = list(
        MetricPoint.objects.filter(attempt=attempt)
        .order_by("at")
        .values_list("cpu_time_ms", flat=True)
    )
    assert most == 7
    assert numbers == [16, 32, 48, 64]
    assert (row.interval_s, row.point_count, row.cpu_time_ms) == (480, 4, 64)


def test_a_round_takes_the_longest_unsampled_first(
    company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against: the same attempts in each round."""
    monkeypatch.setattr(sampling, "ATTEMPTS_MAX", 1)
    attempts = [running_attempt(company, bob) for _ in range(2)]
    for at_s in (10, 20):
        sample(company, *(a_sample(attempt, at_s) for attempt in attempts))
    assert AttemptMetrics.objects.filter(attempt__in=attempts).count() == 2


def test_a_sample_of_the_past_is_left_out(company: Company, bob: User) -> None:
    attempt = running_attempt(company, bob)
    assert sample(company, a_sample(attempt, 60, cpu_time_ms=5)) == 1
    assert sample(company, a_sample(attempt, 60, cpu_time_ms=9)) == 0
    assert AttemptMetrics.objects.get(attempt=attempt).cpu_time_ms == 5


def complete(final: FinalFigures, company: Company, reader: AReader, at_s: int) -> int:
    now = NOW + timedelta(seconds=at_s)
    return final.complete(company.cluster, reader, leadership=Fenced("observer"), now=now)  # type: ignore[arg-type]


def test_the_figures_of_an_end_complete_the_samples(company: Company, bob: User) -> None:
    """Also of an attempt that ended before its first sample. Against: it had no metrics."""
    attempt = ended_attempt(company, bob, 100)
    figures = FinalMetrics(
        cpu_time_ms=90_000,
        memory_peak_bytes=MIB,
        cpu_milli=4_000,
        memory_given_bytes=8 * MIB,
        gpu_utilisation_percent=30,
        gpu_memory_peak_bytes=2 * MIB,
    )
    assert complete(FinalFigures(), company, AReader(ends={attempt.key: figures}), 110) == 1
    row = AttemptMetrics.objects.get(attempt=attempt)
    assert (row.cpu_time_ms, row.memory_peak_bytes, row.cpu_milli) == (90_000, MIB, 4_000)
    assert (row.memory_given_bytes, row.gpu_memory_peak_bytes) == (8 * MIB, 2 * MIB)
    assert (row.gpu_measured_s, row.gpu_percent_s) == (100, 3_000)
    assert row.final_at == NOW + timedelta(seconds=110)


def test_an_end_without_an_answer_blocks_no_other(company: Company, bob: User) -> None:
    """Against: the oldest was asked about in each round, and the next one never."""
    first, second = (ended_attempt(company, bob, number) for number in (10, 20))
    reader = AReader(ends={first.key: None, second.key: FinalMetrics(cpu_time_ms=1)})
    final = FinalFigures()
    assert complete(final, company, reader, 30) == 0
    assert complete(final, company, reader, 60) == 1
    assert complete(final, company, reader, 90) == 0
    assert reader.asked == [first.key, second.key, first.key]
    # An hour after its end nobody asks any more.
    assert complete(final, company, reader, 3_610) == 1
    assert complete(final, company, reader, 3_640) == 0
    assert not AttemptMetrics.objects.filter(final_at=None).exists()


@pytest.mark.parametrize("figures", [RuntimeError("a bug"), FinalMetrics(cpu_milli=1 << 63)])
def test_an_end_that_fails_unexpectedly_blocks_no_other(
    company: Company, bob: User, figures: FinalMetrics | Exception
) -> None:
    """A reader with a bug, and figures that cannot be stored. An hour later it ends without any.

    Against: the error left the round, and nothing was stored. Against: it was asked for ever.
    """
    first, second = (ended_attempt(company, bob, number) for number in (10, 20))
    reader = AReader(ends={first.key: figures, second.key: FinalMetrics(cpu_time_ms=1)})
    final = FinalFigures()
    assert complete(final, company, reader, 30) == 1
    assert AttemptMetrics.objects.get(attempt=second).cpu_time_ms == 1
    assert complete(final, company, reader, 3_610) == 1
    row = AttemptMetrics.objects.get(attempt=first)
    assert (row.final_at, row.cpu_milli) == (NOW + timedelta(seconds=3_610), None)
    assert complete(final, company, reader, 3_640) == 0
    assert reader.asked == [first.key, second.key, first.key]


def test_points_go_90_days_after_the_end_and_the_summary_stays(company: Company, bob: User) -> None:
    """Against: points of an attempt that runs for longer went, too."""
    long_ago = NOW - METRIC_POINT_RETENTION - timedelta(days=1)
    over, runs = ended_attempt(company, bob, 0), running_attempt(company, bob)
    Attempt.objects.filter(pk=over.pk).update(started_at=long_ago, released_at=long_ago)
    for attempt in (over, runs):
        MetricPoint.objects.create(attempt=attempt, at=long_ago)
        AttemptMetrics.objects.create(attempt=attempt, interval_s=30)
    assert forget_old_metric_points(now=NOW) == 1
    assert [point.attempt_id for point in MetricPoint.objects.all()] == [runs.pk]
    assert AttemptMetrics.objects.count() == 2


@pytest.mark.parametrize(
    ("figures", "constraint"),
    [
        ({"interval_s": 0}, "metrics_have_an_interval"),
        ({"cpu_time_ms": -1}, "metrics_are_not_negative"),
        ({"gpu_memory_peak_bytes": -1}, "metrics_are_not_negative"),
        ({"cpu_measured_s": -1}, "metrics_cpu_rate_is_not_negative"),
        ({"cpu_rate_milli_s": -1}, "metrics_cpu_rate_is_not_negative"),
        ({"gpu_known_s": 1, "gpu_idle_s": 2}, "metrics_idle_time_is_part_of_it"),
        ({"gpu_measured_s": 1, "gpu_percent_s": 101}, "metrics_idle_time_is_part_of_it"),
    ],
)
def test_impossible_figures_cannot_be_stored(
    company: Company, bob: User, figures: dict[str, int], constraint: str
) -> None:
    attempt = running_attempt(company, bob)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        AttemptMetrics.objects.create(attempt=attempt, **{"interval_s": 30, **figures})


def test_a_moment_of_an_attempt_has_one_point_without_negative_figures(
    company: Company, bob: User
) -> None:
    attempt = running_attempt(company, bob)
    MetricPoint.objects.create(attempt=attempt, at=NOW)
    with pytest.raises(IntegrityError, match="metric_point_once"), transaction.atomic():
        MetricPoint.objects.create(attempt=attempt, at=NOW)
    with pytest.raises(IntegrityError, match="metric_point_is_not_negative"), transaction.atomic():
        MetricPoint.objects.create(attempt=attempt, at=NOW + timedelta(1), memory_bytes=-1)
    with (
        pytest.raises(IntegrityError, match="metric_point_rate_is_not_negative"),
        transaction.atomic(),
    ):
        MetricPoint.objects.create(attempt=attempt, at=NOW + timedelta(1), cpu_rate_milli=-1)
