"""Exports the list of jobs as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from jobs.reading.job_orders import Order
from jobs.reading.listing import JobFilter, page_of_jobs
from jobs.reading.queries import JobView, views_of
from primitives.csv_text import csv_line, plain_text
from primitives.errors import InvalidRequest
from primitives.units import MGPU_PER_GPU
from tenants.access import Actor

#: Most jobs in one export. An export is always complete, so it is never cut unnoticed.
EXPORT_MAX: Final = 20_000
#: Number of jobs that are read at once.
_CHUNK: Final = 500
_GPU_DECIMALS: Final = 3


def _time(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")


def _gpus(mgpu: int) -> str:
    whole, rest = divmod(mgpu, MGPU_PER_GPU)
    return f"{whole}.{rest:0{_GPU_DECIMALS}}"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


#: A column never changes its meaning. Of an attempt it shows the latest, while the job has one.
COLUMNS: Final[Mapping[str, Callable[[JobView], str]]] = {
    "id": lambda view: str(view.job.id),
    "name": lambda view: view.job.name,
    "state": lambda view: view.job.state,
    "team": lambda view: view.job.team__path.rstrip("/"),
    "user": lambda view: view.job.user__username,
    "priority_class": lambda view: view.job.priority_class__name,
    "type": lambda view: view.job.type,
    "origin": lambda view: view.job.origin,
    "device": lambda view: view.job.pool__device,
    "gpus": lambda view: _gpus(view.job.mgpu),
    "nodes": lambda view: str(view.job.node_count),
    "pool": lambda view: view.job.pool__name,
    "cluster": lambda view: "" if view.attempt is None else view.attempt.cluster__name,
    "native_id": lambda view: "" if view.attempt is None else (view.attempt.native_id or ""),
    "attempt": lambda view: str(view.job.attempt_number),
    "guaranteed_gpus": lambda view: (
        "" if view.attempt is None else _gpus(view.attempt.guaranteed_mgpu)
    ),
    "submitted_at": lambda view: _time(view.job.submitted_at),
    "started_at": lambda view: _time(view.job.started_at),
    "ended_at": lambda view: _time(view.job.ended_at),
    "end_reason": lambda view: view.job.end_reason or "",
    "exit_code": lambda view: _number(view.job.exit_code),
    "guaranteed_mgpu_s": lambda view: str(view.guaranteed_mgpu_s),
    "borrowed_mgpu_s": lambda view: str(view.borrowed_mgpu_s),
}


def csv_of_jobs(
    actor: Actor, wanted: JobFilter, *, order: Order, columns: Sequence[str], now: datetime
) -> Iterator[str]:
    """Return the header, then one line per visible job, each ended by CR LF.

    Raises InvalidRequest for more than `EXPORT_MAX` jobs, before the first line.
    """
    found = page_of_jobs(actor, wanted, order=order, after=None, limit=EXPORT_MAX + 1)
    if len(found) > EXPORT_MAX:
        raise InvalidRequest(
            f"More than {EXPORT_MAX:,} jobs match. Narrow the list, for example by the time of "
            "submission, and export one part after the other."
        )
    return _lines([one.job_id for one in found], columns, now)


def _lines(job_ids: Sequence[UUID], columns: Sequence[str], now: datetime) -> Iterator[str]:
    cells = [COLUMNS[name] for name in columns]
    yield csv_line(columns)
    for start in range(0, len(job_ids), _CHUNK):
        for view in views_of(job_ids[start : start + _CHUNK], now=now):
            yield csv_line([plain_text(cell(view)) for cell in cells])
