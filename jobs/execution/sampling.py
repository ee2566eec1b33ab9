"""Sample the metrics of running attempts, and complete those of ended ones.

A sample updates the figures of its attempt (`AttemptMetrics`). It is also stored as a point if the
attempt's latest point is an interval ago. At `POINTS_MAX` points every second one is deleted and
the interval doubles, so that the points of any attempt are few and evenly spread.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import OperationalError, connection
from django.db.models import F, Value
from django.db.models.functions import Coalesce

from clusters.models import Cluster
from connectors.errors import ConnectorError
from connectors.metrics import FinalMetrics, GpuSample, MetricReader, MetricSample
from jobs.leadership import Leadership, NotLeading
from jobs.models import Attempt, AttemptMetrics, AttemptState, Job, JobOrigin, MetricPoint
from primitives.clock import from_epoch

log = logging.getLogger(__name__)

#: Seconds between two samples of an attempt, and of its first points.
SAMPLE_EVERY_S = 30
#: The most attempts of a cluster in one round. The longest unsampled come first in the next.
ATTEMPTS_MAX = 500
POINTS_MAX = 240
#: The most GPUs that a point names one by one.
GPUS_MAX = 64
#: A sample speaks for at most so many seconds before it: while nobody sampled, nothing is known.
REACH_S = 3 * SAMPLE_EVERY_S
#: The most ended attempts that a round asks a cluster about.
ENDED_MAX = 20
#: For so long after its end, a cluster is asked for the figures of an attempt.
FINAL_WITHIN = timedelta(hours=1)
#: Attempts that ended before their first sample are found for so long.
_UNSAMPLED_FOR = timedelta(minutes=5)


def sample_running(cluster: Cluster, reader: MetricReader, *, leadership: Leadership) -> int:
    """Sample the running attempts of `cluster`; return how many have figures.

    Raises ConnectorError, and NotLeading when the leadership is over.
    """
    running = list(
        Attempt.objects.filter(
            cluster=cluster,
            released_at=None,
            started_at__isnull=False,
            state__in=(AttemptState.RUNNING, AttemptState.STOPPING),
            job__origin=JobOrigin.PORTAL,
        )
        .select_related("metrics")
        .defer("slots", "exit_codes", "message")
        .order_by(F("metrics__sampled_at").asc(nulls_first=True), "pk")[:ATTEMPTS_MAX]
    )
    # The cluster may take long, and another thread may need the connection.
    connection.close()
    samples = {each.key: each for each in reader.running([attempt.key for attempt in running])}
    if not samples:
        return 0
    with leadership.fence():
        return record_samples(running, samples)


def record_samples(attempts: Sequence[Attempt], samples: Mapping[str, MetricSample]) -> int:
    """Store the samples of `attempts` by their keys; return how many. Must run behind the fence."""
    rows: list[AttemptMetrics] = []
    points: list[MetricPoint] = []
    for attempt in attempts:
        sample = samples.get(attempt.key)
        if sample is None:
            continue
        row = metrics_of(attempt)
        at = from_epoch(sample.sampled_at)
        if row.sampled_at is not None and at <= row.sampled_at:
            # The same figures once more, or a clock that was set back. The next sample counts.
            continue
        add_sample(row, sample, started_at=attempt.started_at, at=at)
        rows.append(row)
        if row.pointed_at == at:
            points.append(_point(attempt.id, sample, at))
    _store(rows)
    MetricPoint.objects.bulk_create(points, ignore_conflicts=True)
    if full := [row for row in rows if row.point_count >= POINTS_MAX]:
        _thin(full)
    return len(rows)


def metrics_of(attempt: Attempt) -> AttemptMetrics:
    """Return the stored metrics of an attempt, or new ones."""
    found: AttemptMetrics | None = getattr(attempt, "metrics", None)
    return found or AttemptMetrics(attempt_id=attempt.id, interval_s=SAMPLE_EVERY_S)


def add_sample(
    row: AttemptMetrics, sample: MetricSample, *, started_at: datetime | None, at: datetime
) -> None:
    """Add the sample of the moment `at` to the figures of an attempt that began at `started_at`."""
    known_since = row.sampled_at or started_at or at
    passed_s = max(0, min(REACH_S, int((at - known_since).total_seconds())))
    if at - known_since > timedelta(seconds=REACH_S):
        row.gpus_idle_since = None
    row.sampled_at = at
    row.cpu_time_ms = _most(row.cpu_time_ms, sample.cpu_time_ms)
    if sample.cpu_rate_milli is not None:
        row.cpu_measured_s += passed_s
        row.cpu_rate_milli_s += passed_s * sample.cpu_rate_milli
    row.memory_bytes = sample.memory_bytes
    row.memory_peak_bytes = _most(
        row.memory_peak_bytes, sample.memory_peak_bytes, sample.memory_bytes
    )
    row.processes = sample.processes
    _add_gpus(row, sample.gpus or (), passed_s, at)
    due = row.pointed_at is None or at >= row.pointed_at + timedelta(seconds=row.interval_s)
    if due:
        row.pointed_at = at
        row.point_count += 1


def _add_gpus(row: AttemptMetrics, gpus: Sequence[GpuSample], passed_s: int, at: datetime) -> None:
    idle = [gpu.is_idle for gpu in gpus if gpu.is_idle is not None]
    row.gpu_known_s += passed_s * len(idle)
    row.gpu_idle_s += passed_s * sum(idle)
    percents = [gpu.utilisation_percent for gpu in gpus if gpu.utilisation_percent is not None]
    row.gpu_measured_s += passed_s * len(percents)
    row.gpu_percent_s += passed_s * sum(min(100, percent) for percent in percents)
    memory = [gpu.memory_bytes for gpu in gpus if gpu.memory_bytes is not None]
    row.gpu_memory_peak_bytes = _most(row.gpu_memory_peak_bytes, sum(memory) if memory else None)
    answers = [gpu.has_process for gpu in gpus if gpu.has_process is not None]
    row.gpus_are_held = any(answers) if answers else None
    if not gpus or len(idle) < len(gpus) or not all(idle):
        row.gpus_idle_since = None
    elif row.gpus_idle_since is None:
        row.gpus_idle_since = at - timedelta(seconds=passed_s)


def _most(*figures: int | None) -> int | None:
    return max((figure for figure in figures if figure is not None), default=None)


def _point(attempt_id: UUID, sample: MetricSample, at: datetime) -> MetricPoint:
    return MetricPoint(
        attempt_id=attempt_id,
        at=at,
        cpu_time_ms=sample.cpu_time_ms,
        cpu_rate_milli=sample.cpu_rate_milli,
        memory_bytes=sample.memory_bytes,
        processes=sample.processes,
        gpus=None if sample.gpus is None else [asdict(gpu) for gpu in sample.gpus[:GPUS_MAX]],
    )


_WRITTEN = [field.name for field in AttemptMetrics._meta.concrete_fields if not field.primary_key]


def _store(rows: Sequence[AttemptMetrics]) -> None:
    AttemptMetrics.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["attempt"], update_fields=_WRITTEN
    )


def _thin(rows: Sequence[AttemptMetrics]) -> None:
    """Delete every second point of these attempts, and double their intervals."""
    ids = [row.attempt_id for row in rows]
    with connection.cursor() as cursor:
        cursor.execute(_THIN, [ids])
    counts: dict[UUID, int] = dict.fromkeys(ids, 0)
    for attempt_id in MetricPoint.objects.filter(attempt__in=ids).values_list(
        "attempt_id", flat=True
    ):
        counts[attempt_id] += 1
    for row in rows:
        row.point_count = counts[row.attempt_id]
        row.interval_s *= 2
    _store(rows)


# The latest point stays: the next one is due an interval after it.
_THIN = """
DELETE FROM jobs_metricpoint WHERE id IN (
    SELECT id FROM (
        SELECT id, row_number() OVER (PARTITION BY attempt_id ORDER BY at DESC) AS place
        FROM jobs_metricpoint WHERE attempt_id = ANY(%s::uuid[])
    ) AS numbered WHERE place %% 2 = 0
)
"""


class FinalFigures:
    """Asks one cluster for the figures of attempts that ended; one object per observed cluster."""

    def __init__(self) -> None:
        self._postponed: set[UUID] = set()

    def complete(
        self, cluster: Cluster, reader: MetricReader, *, leadership: Leadership, now: datetime
    ) -> int:
        """Complete the metrics of attempts that ended; return how many.

        A round ends with the first attempt about which the cluster has no answer yet. The next
        round continues behind it. An unexpected error postpones its attempt alone. Raises
        NotLeading when the leadership is over, and OperationalError without a database.
        """
        _note_unsampled(cluster, leadership=leadership, now=now)
        ended = self._next_of(cluster)
        connection.close()
        count = 0
        for attempt in ended:
            assert attempt.released_at is not None
            may_come = now - attempt.released_at < FINAL_WITHIN
            try:
                figures = reader.ended(attempt.key, attempt.native_id or "")
                _complete(attempt, figures or FinalMetrics(), leadership=leadership, now=now)
            except (NotLeading, OperationalError):
                raise
            except ConnectorError as error:
                if may_come:
                    self._postponed.add(attempt.id)
                    break
                log.warning("attempt %s has no final metrics: %s", attempt.id, error)
                _complete(attempt, FinalMetrics(), leadership=leadership, now=now)
            except Exception:
                log.exception("the final metrics of attempt %s cannot be read", attempt.id)
                if may_come:
                    self._postponed.add(attempt.id)
                    continue
                _complete(attempt, FinalMetrics(), leadership=leadership, now=now)
            count += 1
        return count

    def _next_of(self, cluster: Cluster) -> list[Attempt]:
        waiting = (
            Attempt.objects.filter(
                cluster=cluster,
                released_at__isnull=False,
                metrics__isnull=False,
                metrics__final_at=None,
            )
            .select_related("metrics")
            .order_by("released_at", "pk")
        )
        found = list(waiting.exclude(pk__in=self._postponed)[:ENDED_MAX])
        if not found and self._postponed:
            self._postponed.clear()
            found = list(waiting[:ENDED_MAX])
        return found


def _complete(
    attempt: Attempt, figures: FinalMetrics, *, leadership: Leadership, now: datetime
) -> None:
    """Store the final figures of an ended attempt."""
    # Figures that cannot be stored must not stay in the attempt's own row.
    row = copy(metrics_of(attempt))
    add_final(row, figures, attempt)
    row.final_at = now
    with leadership.fence():
        _store([row])


def _note_unsampled(cluster: Cluster, *, leadership: Leadership, now: datetime) -> None:
    """Create the metrics of attempts that ended before their first sample."""
    since = now - _UNSAMPLED_FOR
    # As in the index of jobs by their ends. Attempts have none.
    by_end = Coalesce("ended_at", Value(datetime(1970, 1, 1, tzinfo=UTC)))
    short = (
        Attempt.objects.filter(
            job__in=Job.objects.alias(by_end=by_end).filter(by_end__gte=since).values("pk"),
            cluster=cluster,
            released_at__gte=since,
            started_at__isnull=False,
            metrics=None,
            job__origin=JobOrigin.PORTAL,
        )
        .order_by("released_at")
        .values_list("pk", flat=True)[:ATTEMPTS_MAX]
    )
    if ids := list(short):
        rows = [AttemptMetrics(attempt_id=pk, interval_s=SAMPLE_EVERY_S) for pk in ids]
        with leadership.fence():
            AttemptMetrics.objects.bulk_create(rows, ignore_conflicts=True)


def add_final(row: AttemptMetrics, figures: FinalMetrics, attempt: Attempt) -> None:
    """Add the final figures of an ended attempt."""
    row.cpu_time_ms = _most(row.cpu_time_ms, figures.cpu_time_ms)
    row.memory_peak_bytes = _most(row.memory_peak_bytes, figures.memory_peak_bytes)
    row.gpus_idle_since = row.gpus_are_held = None
    row.cpu_milli = figures.cpu_milli
    row.memory_given_bytes = figures.memory_given_bytes
    row.gpu_memory_peak_bytes = _most(row.gpu_memory_peak_bytes, figures.gpu_memory_peak_bytes)
    percent = figures.gpu_utilisation_percent
    if percent is not None and not row.gpu_measured_s:
        assert attempt.ended_at is not None
        assert attempt.started_at is not None
        elapsed_s = max(1, int((attempt.ended_at - attempt.started_at).total_seconds()))
        row.gpu_measured_s = elapsed_s * max(1, attempt.mgpu // 1_000)
        row.gpu_percent_s = row.gpu_measured_s * min(100, percent)
