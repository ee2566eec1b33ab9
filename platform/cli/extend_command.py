"""`tidegate extend`: make the time limit of a job longer, with the plan first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.budget_amounts import left_of
from cli.context import open_api
from cli.errors import CliError
from cli.job_lookup import OPEN, JobArgument, id_of_job
from cli.output import Format, Output, cost, plain, print_data, print_fields, print_table
from cli.submitting import time_limit
from primitives.durations import duration_of_seconds


def extend(
    ctx: typer.Context,
    job: JobArgument,
    longer: Annotated[
        str | None,
        typer.Argument(
            metavar="[LONGER]", help="+2h for two hours more, or the whole new limit, such as 8h."
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="LIMIT", help="The whole new limit, such as 8h.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only show the plan.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Make the time limit of a waiting or running job longer.

    Prints the plan: the new end, the most that it costs, what budgets have left after it, and the
    waiting jobs that start later. An extension is refused that delays jobs that you may not manage,
    or that a budget does not cover.
    """
    body = _body(longer, to)
    api = open_api(ctx)
    job_id = id_of_job(api, job, states=OPEN)
    planned = api.post(f"jobs/{job_id}/extension-plan", body)
    if output is Format.TABLE:
        _print(planned)
    elif plan:
        print_data(planned, output)
    if plan:
        return
    if planned["refusal"]:
        raise CliError("The job is not extended.")
    changed = api.post(f"jobs/{job_id}/extend", {"time_limit_s": planned["time_limit_s"]})
    if output is not Format.TABLE:
        print_data(changed, output)
        return
    limit = duration_of_seconds(changed["time_limit_s"])
    typer.echo(f"\n{changed['id']}  time limit {limit}")


def _body(longer: str | None, to: str | None) -> dict[str, int | None]:
    if (longer is None) == (to is None):
        raise CliError("How long? Give +2h for two hours more, or --to 8h for the whole limit.")
    if longer is not None and longer.startswith("+"):
        return {"by_s": time_limit(longer[1:])}
    return {"time_limit_s": time_limit(longer if to is None else to)}


def _print(plan: Mapping[str, Any]) -> None:
    costs = None
    if plan["cost_nano"] is not None:
        costs = cost(plan["cost_nano"], plan["unbilled_nano"], plan["price_mode"], plan["currency"])
    before, after = (duration_of_seconds(plan[name]) for name in ("before_s", "time_limit_s"))
    print_fields(
        [
            ("time limit", f"{after} (was {before})"),
            ("ends", plan["ends_at"] and f"{plan['ends_at']} (was {plan['ends_before']})"),
            ("notice", plan["notice_at"]),
            ("costs at most", costs),
            *((f"budget {one['name']}", left_of(one, "it")) for one in plan["budgets"]),
            ("delayed jobs", plan["delayed_jobs"]),
        ]
    )
    if plan["delays"]:
        typer.echo()
        print_table(
            ("DELAYED JOB", "TEAM", "USER", "START", "NEW START"),
            [
                (
                    one["name"],
                    one["team"],
                    one["user"],
                    one["before"] or f"after {plan['until']}",
                    one["after"] or f"after {plan['until']}",
                )
                for one in plan["delays"]
            ],
        )
    for sentence in (*plan["notes"], plan["unseen"], plan["refusal"]):
        if sentence:
            typer.echo(f"\n{plain(sentence)}")
