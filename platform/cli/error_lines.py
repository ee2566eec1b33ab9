"""Prints the last error lines of a failed job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from cli.api import Api
from cli.errors import Refused, Unreachable
from cli.output import plain

#: Time limit of the summary, in seconds. The job itself is printed already.
TIMEOUT_S = 5.0
#: Lowest HTTP status of an error of the server or the cluster, which may pass.
_AWAY = 500
_FAILED = frozenset({"failed", "timed_out"})


def print_error_lines(api: Api, job: Mapping[str, Any]) -> None:
    """Print the last error lines of a failed job, and the command that prints the whole log.

    Prints nothing for a job that did not fail. There is one try only: while the job's cluster is
    unreachable, it prints that the log cannot be read now.
    """
    if job["state"] not in _FAILED or "logs" not in job["can"]:
        return
    try:
        summary = api.get_once(f"jobs/{job['id']}/log-summary", timeout_s=TIMEOUT_S)
    except (Refused, Unreachable) as error:
        if isinstance(error, Refused) and error.status < _AWAY:
            return
        typer.echo()
        typer.echo(f"Its log cannot be read now. Try later: tidegate logs {job['id']}")
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
