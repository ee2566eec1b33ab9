"""`tidegate budgets default`: the budget that each new team gets."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.budget_amounts import UNITS, amount_text, integer_of
from cli.budget_commands import (
    BUDGETS_MAX,
    Measure,
    Policy,
    period_text,
    window_of,
)
from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, Output, print_data, print_fields, print_table, tell

default_app = typer.Typer(
    no_args_is_help=True,
    help="Default budgets: what each team made below a node gets.",
    rich_markup_mode=None,
)

Node = Annotated[str, typer.Argument(metavar="NODE", help="Path of an organization or department.")]


@default_app.command("list")
def default_list(ctx: typer.Context, output: Output = Format.TABLE) -> None:
    """List default budgets. A new team gets the one of the nearest node above it."""
    found = list(open_api(ctx).items("budget-defaults", most=BUDGETS_MAX))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("There is no default budget that you may see.")
        return
    print_table(
        ["TEAMS BELOW", "NAME", "PERIOD", "LIMIT", "AT 100 %"],
        [
            [
                each["node"],
                each["name"],
                period_text(each),
                amount_text(each, each["limit"]),
                each["policy"].replace("_", " "),
            ]
            for each in found
        ],
        squeeze="TEAMS BELOW",
    )


@default_app.command("set")
def default_set(
    ctx: typer.Context,
    node: Node,
    limit: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Such as 5000: GPU-hours, credits or money."),
    ] = None,
    measure: Annotated[
        Measure, typer.Option("--in", help="Of a new default: what it counts.")
    ] = Measure.GPU_HOURS,
    per: Annotated[
        str | None,
        typer.Option(metavar="PERIOD", help="month, quarter, year, or rolling days such as 30d."),
    ] = None,
    at_limit: Annotated[Policy | None, typer.Option(help="Effect at 100 %.")] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="A team's budget is called NAME of SLUG.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Set the budget that each team made below a node gets. Settings not named stay.

    Existing teams and budgets stay as they are. A first default needs --limit. By default it is in
    GPU-hours a month, notifies, and is called default.
    """
    api = open_api(ctx)
    found = _of(api, node)
    counts = found["measure"] if found else measure.value
    edit: dict[str, Any] = {}
    if limit is not None:
        edit["limit"] = integer_of(limit, UNITS[counts], "--limit")
    if per is not None:
        edit |= window_of(per)
    if at_limit is not None:
        edit["policy"] = at_limit.value
    if name is not None:
        edit["name"] = name
    if found is not None:
        if not edit:
            raise CliError("Nothing to set: give --limit, --per, --at-limit or --name.")
        path = f"budget-defaults/{found['id']}"
        shown = api.patch(path, edit, if_match=f'"v{found["version"]}"')
    else:
        if limit is None:
            raise CliError(f"{node} has no default budget. To make it, give --limit.")
        body = {
            "name": "default",
            "node": node,
            "measure": counts,
            "window": "month",
            "policy": Policy.NOTIFY.value,
            **edit,
        }
        shown = api.post("budget-defaults", body, key=str(uuid.uuid4()))
    if output is not Format.TABLE:
        print_data(shown, output)
        return
    print_fields(
        [
            ("teams below", shown["node"]),
            ("name", shown["name"]),
            ("period", period_text(shown)),
            ("limit", amount_text(shown, shown["limit"])),
            ("at 100 %", shown["policy"].replace("_", " ")),
        ]
    )


@default_app.command("remove")
def default_remove(ctx: typer.Context, node: Node) -> None:
    """Remove the default budget of a node. The budgets of teams stay."""
    api = open_api(ctx)
    found = _of(api, node)
    if found is None:
        raise CliError(f"{node} has no default budget, or you may not see it.")
    api.delete(f"budget-defaults/{found['id']}", if_match=f'"v{found["version"]}"')
    tell(f"Removed the default budget of {found['node']}.")


def _of(api: Api, node: str) -> dict[str, Any] | None:
    """Return the default of the node itself; None without one."""
    found = api.items("budget-defaults", most=BUDGETS_MAX, node=node)
    return next((each for each in found if each["node"] == node), None)
