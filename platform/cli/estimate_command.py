"""`tidegate estimate`: simulate when a waiting job starts."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.context import open_api
from cli.job_lookup import WAITING, JobArgument, id_of_job
from cli.job_text import range_text
from cli.output import Format, Output, print_data, print_fields
from cli.submitting import seconds


def estimate(
    ctx: typer.Context,
    job: JobArgument,
    horizon: Annotated[
        str, typer.Option(help="Simulated time, such as 12h, from 5m to 7d.")
    ] = "1d",
    output: Output = Format.TABLE,
) -> None:
    """Simulate when a waiting job starts.

    Assumes running jobs use their full time limit and no new jobs are submitted.
    """
    api = open_api(ctx)
    body = {"horizon_s": seconds(horizon, "--horizon")}
    job_id = id_of_job(api, job, states=WAITING)
    found = api.post(f"jobs/{job_id}/estimate", body)
    if output is not Format.TABLE:
        print_data(found, output)
        return
    print_fields(
        [
            ("starts", range_text(found["estimated_start"])),
            ("looked until", found["until"]),
            ("jobs without a limit", found["assumed_ends"]),
            ("as of", found["as_of"]),
        ]
    )
