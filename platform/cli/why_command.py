"""`tidegate why`: why a job waits or has waited, and how it could start sooner."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.alternatives_text import print_alternatives
from cli.api import Api
from cli.context import open_api
from cli.errors import CliError, Refused, Unreachable
from cli.job_lookup import WAITING, JobArgument, id_of_job, of_one_job, one_job
from cli.job_text import print_explanation, print_reasons, starts_unknown
from cli.output import Format, Output, print_data


def why(
    ctx: typer.Context,
    job: JobArgument,
    history: Annotated[
        bool, typer.Option("--history", help="Show the past reasons for its wait instead.")
    ] = False,
    alternatives: Annotated[
        bool,
        typer.Option("--alternatives", help="Show requests that would start sooner instead."),
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show why a job waits, and when it may start."""
    if history and alternatives:
        raise CliError("Give either --history or --alternatives, not both.")
    api = open_api(ctx)
    job_id = id_of_job(api, job, states=WAITING)
    if alternatives:
        # This request changes nothing, so it is safe to repeat without a key.
        with one_job(api, job_id):
            found = api.post(f"jobs/{job_id}/alternatives")
    else:
        found = of_one_job(api, job_id, "/reasons" if history else "/explanation")
    if output is not Format.TABLE:
        print_data(found, output)
    elif alternatives:
        print_alternatives(found)
    elif history:
        print_reasons(found["items"])
    else:
        if starts_unknown(found):
            found = {**found, "estimated_start": _looked_ahead(api, job_id)}
        print_explanation(found, device=of_one_job(api, job_id, "")["device"])


def _looked_ahead(api: Api, job_id: str) -> dict[str, Any] | None:
    """Return when the job starts if no job is submitted, or None if that is unknown at present."""
    try:
        estimate: dict[str, Any] = api.post(f"jobs/{job_id}/estimate", {})["estimated_start"]
    except (Refused, Unreachable):
        return None
    return estimate
