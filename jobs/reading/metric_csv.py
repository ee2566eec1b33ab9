"""The metrics of an attempt as CSV, exact and safe in a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

from jobs.models import MetricPoint
from jobs.reading.metrics import JobMetrics
from primitives.csv_text import csv_line, plain_text

#: New columns are added at the end. A column never changes its meaning.
COLUMNS = (
    *("at", "cpu_time_ms", "memory_bytes", "processes", "node", "gpu"),
    *("gpu_utilisation_percent", "gpu_memory_bytes", "gpu_memory_total_bytes", "gpu_has_process"),
    "cpu_rate_milli",
)


def csv_lines(metrics: JobMetrics) -> Iterator[str]:
    """Yield the header, then a line for each point, and for each further GPU of it.

    Figures of the job stand on the first line of a point only, so that columns can be summed. A
    figure that the cluster does not report is empty.
    """
    yield csv_line(COLUMNS)
    for point in metrics.points:
        for number, gpu in enumerate(point.gpus or [{}]):
            rate_milli = point.cpu_rate_milli if number == 0 else None
            yield csv_line(
                (*_of_job(point, is_first=number == 0), *_of_gpu(gpu), _cell(rate_milli))
            )


def _of_job(point: MetricPoint, *, is_first: bool) -> tuple[str, ...]:
    at = point.at.astimezone(UTC).isoformat()
    figures = (point.cpu_time_ms, point.memory_bytes, point.processes)
    return (at, *(_cell(figure if is_first else None) for figure in figures))


def _of_gpu(gpu: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("index", "utilisation_percent", "memory_bytes", "memory_total_bytes", "has_process")
    return (plain_text(gpu.get("node", "")), *(_cell(gpu.get(name)) for name in names))


def _cell(figure: int | bool | None) -> str:
    if isinstance(figure, bool):
        return "true" if figure else "false"
    return "" if figure is None else str(figure)
