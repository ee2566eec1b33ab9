"""`tidegate checkpoint`: a job says that it has saved its work, most times from inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import environment, open_api, open_api_as
from cli.errors import CliError
from cli.job_lookup import JOB_HELP, RUNNING, id_of_job
from cli.output import Format, print_data
from cli.settings import Settings, checked_server, checked_token

_API = "/api/v1/"


def checkpoint(
    ctx: typer.Context,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]",
            help=f"{JOB_HELP} Inside a job it may be left out.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(help="When, such as 2026-11-21T12:00:00Z; now if absent."),
    ] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="How to print.")] = Format.TABLE,
) -> None:
    """Tell that a running job has saved its work: a stop then loses only what came since.

    Inside a job it needs no login where the portal gave the job a token for this.
    """
    body: dict[str, Any] = {} if at is None else {"at": at}
    if job is None:
        api, path, body = _inside(ctx, environment(), body)
    else:
        api = open_api(ctx)
        path = f"jobs/{id_of_job(api, job, states=RUNNING)}/checkpoints"
    known = api.post(path, body)
    if output is Format.TABLE:
        typer.echo(f"attempt {known['attempt']}: saved at {known['checkpoint_at']}")
    else:
        print_data(known, output)


def _inside(
    ctx: typer.Context, given: Mapping[str, str], body: dict[str, Any]
) -> tuple[Api, str, dict[str, Any]]:
    """Whom to ask, what, and with which body, by the environment that a job runs in."""
    url, token = given.get("TIDEGATE_CHECKPOINT_URL"), given.get("TIDEGATE_CHECKPOINT_TOKEN")
    if url and token:
        server, _, path = url.partition(_API)
        return open_api_as(ctx, Settings(checked_server(server), checked_token(token))), path, body
    job_id, attempt = given.get("TIDEGATE_JOB_ID"), given.get("TIDEGATE_ATTEMPT", "")
    if not job_id:
        raise CliError("Which job? Give its id; only inside a job it is known by itself.")
    if attempt.isascii() and attempt.isdigit():
        body = {**body, "attempt": int(attempt)}
    return open_api(ctx), f"jobs/{job_id}/checkpoints", body
