"""The metrics of an attempt: its points over time, and how well it used what it was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from connectors.registry import kind_named
from jobs.access import visible_jobs
from jobs.models import Attempt, AttemptMetrics, MetricPoint
from primitives.errors import NotFound
from primitives.units import DeviceKind
from tenants.access import Actor

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """The figures of an attempt up to `sampled_at`, which is its end once they are complete.

    None: its cluster does not report them.

    `cpu_milli` (milli-cores) and `memory_asked_bytes` are what it was given or asked for, on all
    its nodes. Efficiencies are use in thousandths of that. `cpu_rate_milli` is the mean of the
    busy milli-cores, on clusters that report no CPU time. `gpu_idle_permille` is the idle part of
    its GPU time.
    """

    sampled_at: datetime
    elapsed_s: int
    cpu_time_ms: int | None
    cpu_rate_milli: int | None
    cpu_milli: int | None
    cpu_efficiency_permille: int | None
    memory_peak_bytes: int | None
    memory_asked_bytes: int | None
    memory_efficiency_permille: int | None
    gpu_utilisation_percent: int | None
    gpu_idle_permille: int | None
    gpu_memory_peak_bytes: int | None
    gpus_idle_since: datetime | None
    gpus_are_held: bool | None


@dataclass(frozen=True, slots=True)
class JobMetrics:
    """The metrics of one attempt of a job. `attempt` is its number; None if there is none yet.

    Without a `summary`, the cluster has reported nothing so far. `is_final` says that nothing will
    follow: the attempt has ended, and the cluster was asked for its last figures.
    """

    attempt: int | None
    cluster: str | None
    summary: MetricSummary | None
    points: Sequence[MetricPoint]
    #: Whether the cluster is of a kind that reports metrics at all.
    is_supported: bool
    is_final: bool


def get_metrics(job_id: UUID, *, actor: Actor, attempt: int | None, now: datetime) -> JobMetrics:
    """Return the metrics of an attempt of a visible job, by default of the latest.

    Metrics are as visible as the job itself. Raises NotFound for an invisible job, or a
    number that no attempt has.
    """
    if not visible_jobs(actor).filter(pk=job_id).exists():
        raise NotFound("There is no such job that you can see.")
    found = (
        Attempt.objects.filter(job_id=job_id, **({} if attempt is None else {"number": attempt}))
        .select_related("metrics", "cluster", "job__pool")
        .order_by("-number")
        .first()
    )
    if found is None and attempt is not None:
        raise NotFound(f"The job has no attempt {attempt}.")
    if found is None:
        return JobMetrics(None, None, None, [], is_supported=True, is_final=False)
    stored: AttemptMetrics | None = getattr(found, "metrics", None)
    has_figures = stored is not None and (
        stored.sampled_at is not None
        or stored.cpu_time_ms is not None
        or stored.memory_peak_bytes is not None
    )
    return JobMetrics(
        found.number,
        found.cluster.name,
        summary_of(found, stored, now=now) if stored is not None and has_figures else None,
        list(MetricPoint.objects.filter(attempt=found).order_by("at")),
        is_supported=kind_named(found.cluster.kind).open_metrics is not None,
        is_final=stored is not None and stored.final_at is not None,
    )


def summary_of(attempt: Attempt, metrics: AttemptMetrics, *, now: datetime) -> MetricSummary:
    """Return the figures of `attempt`, which began; its job and pool are read with it."""
    until = attempt.ended_at if metrics.final_at is not None else metrics.sampled_at
    began = attempt.started_at
    until = until or now
    elapsed_s = max(0, int((until - began).total_seconds())) if began else 0
    cpu_milli = metrics.cpu_milli or _asked_cpu_milli(attempt)
    rate_milli = (
        metrics.cpu_rate_milli_s // metrics.cpu_measured_s if metrics.cpu_measured_s else None
    )
    memory_bytes = metrics.memory_given_bytes or _asked_memory_bytes(attempt)
    return MetricSummary(
        sampled_at=until,
        elapsed_s=elapsed_s,
        cpu_time_ms=metrics.cpu_time_ms,
        cpu_rate_milli=rate_milli,
        cpu_milli=cpu_milli,
        cpu_efficiency_permille=(
            _part(rate_milli, cpu_milli)
            if metrics.cpu_time_ms is None
            # A milli-core for a second is a core for a millisecond.
            else _part(metrics.cpu_time_ms, None if cpu_milli is None else cpu_milli * elapsed_s)
        ),
        memory_peak_bytes=metrics.memory_peak_bytes,
        memory_asked_bytes=memory_bytes,
        memory_efficiency_permille=_part(metrics.memory_peak_bytes, memory_bytes),
        gpu_utilisation_percent=(
            metrics.gpu_percent_s // metrics.gpu_measured_s if metrics.gpu_measured_s else None
        ),
        gpu_idle_permille=_part(metrics.gpu_idle_s, metrics.gpu_known_s),
        gpu_memory_peak_bytes=metrics.gpu_memory_peak_bytes,
        gpus_idle_since=metrics.gpus_idle_since,
        gpus_are_held=metrics.gpus_are_held,
    )


def _part(used: int | None, whole: int | None) -> int | None:
    """Return `used` in thousandths of `whole`; None if either is unknown or there was nothing."""
    return used * 1_000 // whole if used is not None and whole else None


def _asked_cpu_milli(attempt: Attempt) -> int | None:
    job = attempt.job
    if job.pool.kind == DeviceKind.CPU:
        return attempt.mgpu
    cores = job.cpus_per_node
    return None if cores is None else cores * len(attempt.slots) * 1_000


def _asked_memory_bytes(attempt: Attempt) -> int | None:
    mib = attempt.job.memory_mib_per_node
    return None if mib is None else mib * len(attempt.slots) * MIB
