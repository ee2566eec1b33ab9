"""`tidegate views`: saved views of the list of jobs."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, Output, print_data, print_table, tell

app = typer.Typer(
    no_args_is_help=True,
    help="Saved views of the list of jobs: `tidegate ls --view NAME` opens one.",
    rich_markup_mode=None,
)
#: The views that a command reads at most.
_VIEWS_MAX = 1_000

ViewName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the view.")]


@app.command("list")
def view_list(ctx: typer.Context, output: Output = Format.TABLE) -> None:
    """List your views, and those that are shared with you."""
    found = list(open_api(ctx).items("job-views", most=_VIEWS_MAX))
    if output is not Format.TABLE:
        print_data(found, output)
    elif found:
        print_table(
            ["NAME", "SHARED WITH", "FILTERS"],
            [[one["name"], one["shared_with"] or "-", _words(one["parameters"])] for one in found],
            squeeze="FILTERS",
        )
    else:
        tell("No views.")


@app.command("save")
def view_save(
    ctx: typer.Context,
    name: ViewName,
    parameters: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PARAMETER=VALUE]...", help="Parameters of GET /jobs: state=running sort=-gpus"
        ),
    ] = None,
    share: Annotated[
        str | None, typer.Option(metavar="TEAM", help="Path of a team that gets it, too.")
    ] = None,
) -> None:
    """Save a view under a name."""
    pairs = [one.partition("=") for one in parameters or ()]
    for parameter, equals, _ in pairs:
        if not equals:
            raise CliError(f"{parameter[:60]!r}: write PARAMETER=VALUE, such as state=running.")
    body = {
        "name": name,
        "parameters": {parameter: value for parameter, _, value in pairs},
        "share_with": share,
    }
    made = open_api(ctx).post("job-views", body, key=str(uuid4()))
    tell(f"{made['name']} is saved.")


@app.command("delete")
def view_delete(ctx: typer.Context, name: ViewName) -> None:
    """Delete a view."""
    api = open_api(ctx)
    api.delete(f"job-views/{_view(api, name)['id']}")
    tell(f"{name} is deleted.")


def parameters_of_view(api: Api, name: str) -> dict[str, str]:
    """Return the filters and the order of a view. Raises CliError."""
    parameters: dict[str, str] = dict(_view(api, name)["parameters"])
    # The columns are those of the page.
    parameters.pop("columns", None)
    return parameters


def _view(api: Api, name: str) -> dict[str, Any]:
    """Return the personal view of that name, or else the only shared one. Raises CliError."""
    found = [
        one for one in api.items("job-views", most=_VIEWS_MAX) if name in (one["name"], one["id"])
    ]
    found = [one for one in found if one["shared_with"] is None] or found
    if not found:
        raise CliError(f"There is no view {name}. `tidegate views list` lists them.")
    if len(found) > 1:
        shared = ", ".join(f"{one['id']} of {one['shared_with']}" for one in found)
        raise CliError(f"Several teams have a view {name}. Give the id of one: {shared}.")
    return found[0]


def _words(parameters: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in parameters.items()) or "-"
