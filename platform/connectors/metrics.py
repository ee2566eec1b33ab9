"""Metrics of workloads: CPU time, memory, processes and GPUs, as far as a cluster reports them.

A kind without `ClusterKind.open_metrics` reports none. None in a field means that the cluster does
not report this figure; 0 is a figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class GpuSample:
    """A GPU of a workload at one moment. `index` counts on its `node`.

    `has_process` says whether a process of the workload holds the GPU.
    """

    node: str
    index: int
    utilisation_percent: int | None = None
    memory_bytes: int | None = None
    memory_total_bytes: int | None = None
    has_process: bool | None = None

    @property
    def is_idle(self) -> bool | None:
        """Return whether the GPU does nothing; None if that is unknown.

        The utilisation decides. A GPU of unknown utilisation is idle without a process.
        """
        if self.utilisation_percent is not None:
            return self.utilisation_percent == 0
        return True if self.has_process is False else None


@dataclass(frozen=True, slots=True)
class MetricSample:
    """A running workload at one moment.

    `sampled_at` is in epoch seconds. `cpu_time_ms` is the CPU time of all its processes since the
    start, those that have ended included. `cpu_rate_milli` is the busy milli-cores, as a mean over
    the cluster's own window before the sample, on clusters that report no CPU time. `memory_bytes`
    is in use now, and `memory_peak_bytes` is the most that the cluster itself has seen since the
    start. `gpus` of None means that the cluster reports nothing about GPUs.
    """

    key: str
    sampled_at: int
    cpu_time_ms: int | None = None
    cpu_rate_milli: int | None = None
    memory_bytes: int | None = None
    memory_peak_bytes: int | None = None
    processes: int | None = None
    gpus: tuple[GpuSample, ...] | None = None


@dataclass(frozen=True, slots=True)
class FinalMetrics:
    """The figures of an ended workload, from its start to its end.

    `cpu_milli` (milli-cores) and `memory_given_bytes` are what the cluster gave to it. The
    utilisation is the mean over its GPUs and its time; the GPU memory is a peak.
    """

    cpu_time_ms: int | None = None
    memory_peak_bytes: int | None = None
    cpu_milli: int | None = None
    memory_given_bytes: int | None = None
    gpu_utilisation_percent: int | None = None
    gpu_memory_peak_bytes: int | None = None


class MetricReader(Protocol):
    """Reads metrics of our workloads. Both methods raise ClusterUnavailable."""

    def running(self, keys: Sequence[str]) -> Sequence[MetricSample]:
        """Return a sample of each of these workloads that runs and has figures."""
        ...

    def ended(self, key: str, native_id: str) -> FinalMetrics | None:
        """Return the figures of an ended workload; None where the cluster has none.

        Raises ClusterUnavailable while they may still come.
        """
        ...
