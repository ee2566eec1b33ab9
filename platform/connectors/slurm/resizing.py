"""Jobs whose resources were changed while they ran: one job, several records in the accounting.

Slurm closes the record of what the job had as RESIZING and opens another one, whose submit time is
the moment of the change; its start is that of the job (22.05) or the change too (24.11, 26.05).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from connectors.slurm.neutral import HistoryJob

_RESIZING = "RESIZING"


def held_since(run: HistoryJob) -> int | None:
    """From when on `run` had what its record says; None for one that never began."""
    return None if run.start_time is None else max(run.start_time, run.submit_time)


def joined(runs: Iterable[HistoryJob]) -> list[HistoryJob]:
    """`runs` with each job's records of before and after a change as one: that of the end, with
    the first one's submit time and start, and `before` it (until when, GPUs by type) what it had
    earlier."""
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
    """Whether `after` is what became of the run that `before`, a record of a change, tells of."""
    changed_at = before.end_time
    return after.submit_time == changed_at and after.start_time in (before.start_time, changed_at)
