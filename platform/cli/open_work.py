"""Open jobs of something that is archived or deactivated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.errors import CliError
from cli.output import print_table

WaitingOption = Annotated[
    str | None, typer.Option(help="Waiting jobs: wait (until it is restored) or cancel.")
]
RunningOption = Annotated[
    str | None, typer.Option(help="Running jobs: end (let them end) or cancel.")
]


def decided(work: Mapping[str, Any], *, waiting: str | None, running: str | None) -> dict[str, str]:
    """List the running jobs, and return the decisions to send.

    Raises CliError for running or waiting jobs without a decision.
    """
    if work["running_jobs"]:
        print_table(
            ["RUNS", "TEAM", "USER", "STATE"],
            [[job["name"], job["team"], job["user"], job["state"]] for job in work["running_jobs"]],
            squeeze="RUNS",
        )
    missing = []
    if work["running"] and running is None:
        run = "job runs" if work["running"] == 1 else "jobs run"
        missing.append(f"{work['running']:,} {run}: add --running end or --running cancel.")
    if work["waiting"] and waiting is None:
        wait = "job waits" if work["waiting"] == 1 else "jobs wait"
        missing.append(f"{work['waiting']:,} {wait}: add --waiting wait or --waiting cancel.")
    if missing:
        raise CliError(" ".join(["Nothing was changed.", *missing]))
    chosen = {"waiting": waiting, "running": running}
    return {name: value for name, value in chosen.items() if value is not None}
