"""`tidegate checkpoint`: report a checkpoint of a job, usually from inside the job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import environment, open_api, open_api_as
from cli.errors import CliError
from cli.job_lookup import JOB_HELP, RUNNING, id_of_job
from cli.output import Format, Output, print_data
from cli.settings import Settings, checked_server, checked_token

_API = "/api/v1/"


def checkpoint(
    ctx: typer.Context,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]",
            help=f"{JOB_HELP} Optional inside a job.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(help="Time of the checkpoint, such as 2026-11-21T12:00:00Z. Default: now."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Report that a running job has checkpointed. A stop then loses only later work.

    Inside a job it needs no login, if the portal gave the job a token for this.
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
    """Return the API, path and body of the report, from the environment of the job."""
    url, token = given.get("TIDEGATE_CHECKPOINT_URL"), given.get("TIDEGATE_CHECKPOINT_TOKEN")
    if url and token:
        server, _, path = url.partition(_API)
        return open_api_as(ctx, Settings(checked_server(server), checked_token(token))), path, body
    job_id, attempt = given.get("TIDEGATE_JOB_ID"), given.get("TIDEGATE_ATTEMPT", "")
    if not job_id:
        raise CliError("Which job? Give its id. It is optional only inside a job.")
    if attempt.isascii() and attempt.isdigit():
        body = {**body, "attempt": int(attempt)}
    return open_api(ctx), f"jobs/{job_id}/checkpoints", body
