"""The command `top`: teams and running jobs, again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import Unreachable
from cli.job_lookup import RUNNING
from cli.job_text import print_jobs
from cli.output import (
    Devices,
    Format,
    Output,
    is_terminal,
    now_utc,
    print_data,
    print_table,
    screen,
    tell,
    terminal_height,
)
from cli.polling import FAILURES_MAX

#: The most rows of each table, whatever `--rows` says.
ROWS_MAX = 500
ROWS = 50
_QUOTAS_MAX = 1_000
#: Lines of a screen that are no rows: two heads, the gap between, and the last line.
_FRAME = 4


def sleep(seconds: float) -> None:
    """Wait. A function of its own, so that tests can replace it."""
    time.sleep(seconds)


def top(
    ctx: typer.Context,
    team: Annotated[str | None, typer.Option(help="Only this path and all below it.")] = None,
    pool: Annotated[str | None, typer.Option(help="Only this pool.")] = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, max=ROWS_MAX, help="Rows of each table. Default: what fits, or 50."),
    ] = None,
    interval: Annotated[
        int, typer.Option(min=1, max=3_600, help="Seconds between two refreshes.")
    ] = 2,
    once: Annotated[bool, typer.Option("--once", help="Print once, and end.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show what each team uses, borrows, lends and waits for, and the running jobs, live.

    UNUSED is the part of the guarantee that the team's protected jobs do not use. JOBS are the
    jobs in the state `running` or `preempting`, newest first. ^C ends it. Piped, or in another
    format, it prints once. CSV has the teams.
    """
    api = open_api(ctx)
    if once or output is not Format.TABLE or not is_terminal():
        found = _read(api, team, pool, rows or ROWS)
        if output is Format.TABLE:
            _show(found)
        else:
            print_data(found, output, rows="teams")
        return
    failures = 0
    with suppress(KeyboardInterrupt), screen() as clear:
        while True:
            try:
                found = _read(api, team, pool, rows or max(1, (terminal_height() - _FRAME) // 2))
            except Unreachable:
                failures += 1
                if failures == FAILURES_MAX:
                    raise
            else:
                failures = 0
                clear()
                _show(found)
            sleep(interval)


def _read(api: Api, team: str | None, pool: str | None, rows: int) -> dict[str, Any]:
    """Return the busiest rows: organizations, then teams, and the latest running jobs."""
    quotas = api.items("quotas", most=_QUOTAS_MAX, subtree=team, pool=pool)
    teams = [quota for quota in quotas if quota["node_kind"] != "department"]
    teams.sort(key=lambda quota: (quota["node_kind"] == "team", -_busy(quota), quota["node"]))
    jobs = api.items("jobs", most=rows, state=",".join(RUNNING), team=team, pool=pool)
    return {"teams": teams[:rows], "jobs": list(jobs)}


def _busy(quota: Mapping[str, Any]) -> int:
    return int(quota["use"]["in_use_mgpu"]) + int(quota["use"]["waiting_mgpu"])


def _show(found: Mapping[str, Any]) -> None:
    teams, jobs = found["teams"], found["jobs"]
    devices = Devices(each["device"] for each in [*teams, *jobs])
    print_table(
        ["TEAM", "POOL", *_COLUMNS],
        [
            [
                quota["node"],
                quota["pool"],
                *(devices.count(amount(quota), quota["device"]) for amount in _COLUMNS.values()),
            ]
            for quota in teams
        ],
        squeeze="TEAM",
        keep_end=True,
    )
    typer.echo()
    if jobs:
        print_jobs(jobs, now=now_utc())
    else:
        tell("No running jobs.")


_COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], int]] = {
    "GUARANTEED": lambda quota: quota["guaranteed_mgpu"],
    "IN USE": lambda quota: quota["use"]["in_use_mgpu"],
    "UNUSED": lambda quota: quota["guaranteed_mgpu"] - quota["use"]["protected_mgpu"],
    "BORROWED": lambda quota: quota["use"]["borrowed_mgpu"],
    "LENT": lambda quota: quota["use"]["lent_mgpu"],
    "WAITING": lambda quota: quota["use"]["waiting_mgpu"],
}
