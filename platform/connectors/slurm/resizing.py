"""Jobs that were resized while they ran: one job, several records in the accounting.

Slurm closes the record of the old size as RESIZING and opens another one. The new record's submit
time is the moment of the change. Its start is the start of the job (22.05) or also the change
(24.11, 26.05).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from connectors.slurm.neutral import HistoryJob

_RESIZING = "RESIZING"


def held_since(run: HistoryJob) -> int | None:
    """Return the time from which `run` had its recorded size; None if it never began."""
    return None if run.start_time is None else max(run.start_time, run.submit_time)


def joined(runs: Iterable[HistoryJob]) -> list[HistoryJob]:
    """Return `runs` with the records of each resized run joined into one.

    The result is the last record with the submit time and start of the first. `before` holds the
    earlier sizes: pairs of end time and GPUs by type.
    """
    by_job: dict[int, list[HistoryJob]] = defaultdict(list)
    for run in runs:
        by_job[run.job_id].append(run)
    found: list[HistoryJob] = []
    for records in by_job.values():
        open_one: HistoryJob | None = None
        for run in sorted(records, key=lambda one: one.submit_time):
            if open_one is not None and _goes_on(open_one, run):
                had = (run.submit_time, open_one.gpus)
                run = replace(
                    run,
                    submit_time=open_one.submit_time,
                    start_time=open_one.start_time,
                    before=(*open_one.before, had),
                )
            elif open_one is not None:
                found.append(open_one)
            open_one = None
            if _RESIZING in (run.state, *run.state_flags) and run.end_time is not None:
                open_one = run
            else:
                found.append(run)
        if open_one is not None:
            found.append(open_one)
    return found


def _goes_on(before: HistoryJob, after: HistoryJob) -> bool:
    """Return whether `after` continues the run of `before`, a record closed by a resize."""
    changed_at = before.end_time
    return after.submit_time == changed_at and after.start_time in (before.start_time, changed_at)
