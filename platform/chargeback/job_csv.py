"""The jobs behind a number as CSV: exact decimals, safe in a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from billing.periods import Period
from chargeback.group_csv import cost_text, gpu_hours_text
from chargeback.jobs import JobUse
from primitives.csv_text import csv_line, plain_text

#: New columns are added at the end. A column never changes its meaning.
COLUMNS = (
    "job",
    "name",
    "team",
    "user",
    "pool",
    "device",
    "usage_class",
    "faults",
    "attempts",
    "gpu_hours",
    "mgpu_seconds",
    "cost",
    "period_start",
    "period_end",
    "as_of",
)


def jobs_file_name(period: Period, node: str) -> str:
    """Return the name of the file, with the last step of the node's path."""
    dates = f"{period.start:%Y%m%d}-{period.end:%Y%m%d}"
    return f"chargeback-jobs-{node.split('/')[-1]}-{dates}.csv"


def job_lines(period: Period, jobs: Iterable[JobUse]) -> Iterator[str]:
    """Yield the header, then one line per job and usage class, ended by CR LF.

    A commitment has no job. If `device` is cpu, hours are those of cores. The lines of one device
    sum to the number.
    """
    yield csv_line(COLUMNS)
    for job in jobs:
        yield csv_line(
            [
                "" if job.job_id is None else str(job.job_id),
                *map(plain_text, (job.name, job.team, job.user, job.pool)),
                job.device.value,
                job.usage_class.value,
                " ".join(job.faults),
                str(job.attempts),
                gpu_hours_text(job.mgpu_s),
                str(job.mgpu_s),
                cost_text(job.cost_nano),
                *(each.isoformat() for each in (period.start, period.end, period.as_of)),
            ]
        )
