"""Why a failed job failed, in its own last words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from cli.api import Api
from cli.errors import Refused, Unreachable
from cli.output import plain

_FAILED = frozenset({"failed", "timed_out"})


def print_error_lines(api: Api, job: Mapping[str, Any]) -> None:
    """The last error lines of a failed job, and the command that prints the whole log.

    Prints nothing of a job that did not fail, or whose log cannot be read now.
    """
    if job["state"] not in _FAILED or "logs" not in job["can"]:
        return
    try:
        summary = api.get(f"jobs/{job['id']}/log-summary")
    except (Refused, Unreachable):
        return
    if not summary["error_lines"]:
        return
    stream, rank = summary["error_stream"], summary["rank"]
    where = f"rank {rank}" + (f" on {summary['node']}" if summary["node"] else "")
    typer.echo()
    typer.echo(plain(f"Last lines of {stream}, {where}:"))
    for line in summary["error_lines"]:
        typer.echo(plain(f"  {line}"))
    options = (" --stderr" if stream == "stderr" else "") + (f" --rank {rank}" if rank else "")
    typer.echo(f"The whole log: tidegate logs {job['id']}{options}")
