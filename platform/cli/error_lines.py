"""Why a failed job failed, in its own last words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from cli.api import Api
from cli.errors import Refused, Unreachable
from cli.output import plain

#: Seconds for the whole summary: the job itself is on the screen already.
TIMEOUT_S = 5.0
#: From this HTTP status on the refusal is the server's or the cluster's, and may pass.
_AWAY = 500
_FAILED = frozenset({"failed", "timed_out"})


def print_error_lines(api: Api, job: Mapping[str, Any]) -> None:
    """The last error lines of a failed job, and the command that prints the whole log.

    Prints nothing of a job that did not fail. Asks once only: while the job's cluster is away,
    prints that its log cannot be read now.
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
