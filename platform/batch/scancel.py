"""`scancel` inside of a batch job, on a cluster without Slurm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batch.command_line import Argument, Options, Refused, read_command_line
from batch.portal import Portal

_JOBS_MAX = 100
_OPTIONS: Options = {"quiet": ("Q", Argument.NONE), "verbose": ("v", Argument.NONE)}


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Cancel the jobs that are named."""
    _, jobs = read_command_line("scancel", _OPTIONS, arguments)
    if not 1 <= len(jobs) <= _JOBS_MAX:
        raise Refused(f"name 1 to {_JOBS_MAX} jobs.")
    portal = Portal(environment)
    for job in jobs:
        portal.post(f"jobs/{portal.id_of(job)}/cancel")
    return 0
