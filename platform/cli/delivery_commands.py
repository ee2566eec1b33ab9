"""`tidegate deliveries`: files that the portal delivers by itself."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from cli.context import open_api
from cli.export_commands import DatasetName, FileFormat
from cli.organizations import organization_named
from cli.output import Format, Output, print_data, print_table, tell

deliveries_app = typer.Typer(
    no_args_is_help=True, help="Scheduled files at a folder or a store.", rich_markup_mode=None
)
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="Number of lines.")]


class Frequency(StrEnum):
    """When a file is delivered."""

    MONTHLY = "monthly"
    DAILY = "daily"


@deliveries_app.command("targets")
def deliveries_targets(ctx: typer.Context, output: Output = Format.TABLE) -> None:
    """List the targets that the operator named."""
    found = open_api(ctx).get("delivery-targets")["items"]
    if output is not Format.TABLE:
        print_data(found, output)
    elif not found:
        tell("No targets. The operator names them in TIDEGATE_DELIVERY_TARGETS.")
    else:
        print_table(["TARGET", "KIND"], [[one["name"], one["kind"]] for one in found])


@deliveries_app.command("schedule")
def deliveries_schedule(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(help="Name of the target.")],
    frequency: Annotated[
        Frequency,
        typer.Option("--every", help="monthly: once a month is closed. daily: after each day."),
    ] = Frequency.MONTHLY,
    dataset: Annotated[
        DatasetName, typer.Option(help="charges, or a dataset of FOCUS 1.4.")
    ] = DatasetName.CHARGES,
    file_format: Annotated[FileFormat, typer.Option("--format", help="Format of the file.")] = (
        FileFormat.CSV
    ),
    organization: Annotated[
        str | None, typer.Option(help="Its slug. Required if there are several.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Deliver a file from now on. Prints the ID for `tidegate deliveries end`.

    A daily file has the month until the last day, and replaces the one before.
    """
    api = open_api(ctx)
    body = {
        "organization": organization_named(api, organization)["slug"],
        "dataset": dataset.value,
        "format": file_format.value,
        "frequency": frequency.value,
        "target": target,
    }
    schedule = api.post("delivery-schedules", body)
    if output is Format.TABLE:
        typer.echo(schedule["id"])
    else:
        print_data(schedule, output)


@deliveries_app.command("schedules")
def deliveries_schedules(
    ctx: typer.Context, limit: Limit = 50, output: Output = Format.TABLE
) -> None:
    """List schedules, newest first."""
    found = list(open_api(ctx).items("delivery-schedules", most=limit))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No schedules yet. Make one with `tidegate deliveries schedule`.")
        return
    print_table(
        ["ID", "FILE", "EVERY", "TARGET", "BY", "ENDED"],
        [
            [
                one["id"],
                _file_of(one),
                one["frequency"],
                one["target"],
                one["created_by"],
                one["ended_at"] or "-",
            ]
            for one in found
        ],
        squeeze="BY",
    )


@deliveries_app.command("end")
def deliveries_end(
    ctx: typer.Context,
    schedule_id: Annotated[str, typer.Argument(metavar="ID", help="ID of the schedule.")],
) -> None:
    """End a schedule. Delivered files stay."""
    open_api(ctx).delete(f"delivery-schedules/{schedule_id}")
    tell("The schedule is ended.")


@deliveries_app.command("list")
def deliveries_list(ctx: typer.Context, limit: Limit = 20, output: Output = Format.TABLE) -> None:
    """List deliveries with their state, newest first."""
    found = list(open_api(ctx).items("deliveries", most=limit))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("Nothing was delivered yet.")
        return
    print_table(
        ["ID", "DUE", "FILE", "TARGET", "STATE", "TRIES", "MESSAGE"],
        [
            [
                one["id"],
                one["due_on"],
                one["file_name"] or _file_of(one["schedule"]),
                one["schedule"]["target"],
                one["state"],
                str(one["tries"]),
                one["message"],
            ]
            for one in found
        ],
        squeeze="MESSAGE",
    )


@deliveries_app.command("repeat")
def deliveries_repeat(
    ctx: typer.Context,
    delivery_id: Annotated[str, typer.Argument(metavar="ID", help="ID of the delivery.")],
) -> None:
    """Make a delivery again. It replaces the file at the target."""
    open_api(ctx).post(f"deliveries/{delivery_id}/repeat", None)
    tell("The delivery is repeated. See `tidegate deliveries list`.")


def _file_of(schedule: dict[str, Any]) -> str:
    return f"{schedule['dataset']}.{schedule['format']}"
