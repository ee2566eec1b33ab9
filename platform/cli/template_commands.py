"""`tidegate templates`: requests that a team's jobs are submitted from."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, Output, print_data, print_table, tell
from cli.submitting import body_of

app = typer.Typer(
    no_args_is_help=True,
    help="Templates of a team: requests with members that are locked or free.",
    rich_markup_mode=None,
)
#: The templates that a command reads at most.
_TEMPLATES_MAX = 1_000

TemplateName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the template.")]
TeamOption = Annotated[
    str | None, typer.Option("--team", help="Path of its team. Default: TIDEGATE_TEAM.")
]


@app.command("list")
def template_list(
    ctx: typer.Context,
    team: Annotated[
        str | None, typer.Option(help="Only templates of this team, or of teams below this node.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """List the templates from which you may submit jobs."""
    found = list(open_api(ctx).items("job-templates", most=_TEMPLATES_MAX, team=team))
    if output is not Format.TABLE:
        print_data(found, output)
    elif found:
        print_table(
            ["TEAM", "NAME", "LOCKED", "DESCRIPTION"],
            [
                [one["team"], one["name"], ",".join(one["locked"]) or "-", one["description"]]
                for one in found
            ],
            squeeze="DESCRIPTION",
        )
    else:
        tell("No templates.")


@app.command("show")
def template_show(
    ctx: typer.Context,
    name: TemplateName,
    team: TeamOption = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a template: its request, and the members that it locks."""
    found = template_named(open_api(ctx), name, team)
    print_data(found, Format.YAML if output is Format.TABLE else output)


@app.command("set")
def template_set(
    ctx: typer.Context,
    name: TemplateName,
    team: TeamOption = None,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The request: a .yaml file, as `tidegate get JOB -o yaml` prints it, or a script.",
        ),
    ] = None,
    lock: Annotated[
        str | None,
        typer.Option(
            metavar="MEMBERS",
            help='Members that a submission may not change: gpus,pool. "" locks none.',
        ),
    ] = None,
    description: Annotated[str | None, typer.Option(help="A sentence for its users.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Create a template, or change one. Settings that are not given stay."""
    api = open_api(ctx)
    edit: dict[str, Any] = {}
    if file is not None:
        edit["request"] = body_of(file, None, {})
        team = team or edit["request"].pop("team", None)
        edit["request"].pop("team", None)
    if lock is not None:
        edit["locked"] = [one for one in lock.split(",") if one]
    if description is not None:
        edit["description"] = description
    present = _find(api, name, team)
    if present is not None:
        path = f"job-templates/{present['id']}"
        _, etag = api.get_tagged(path)
        found = api.patch(path, edit, if_match=etag)
    elif "request" not in edit:
        raise CliError(f"There is no template {name}. Give --file to create it.")
    else:
        body = {"team": team or api.settings.team, "name": name, **edit}
        if not body["team"]:
            raise CliError("Which team? Give --team PATH, or set TIDEGATE_TEAM.")
        found = api.post("job-templates", body, key=str(uuid4()))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    locked = ", ".join(found["locked"]) or "nothing"
    typer.echo(f"{found['name']} of {found['team']} locks {locked}.")


@app.command("delete")
def template_delete(ctx: typer.Context, name: TemplateName, team: TeamOption = None) -> None:
    """Delete a template. Jobs that were submitted from it stay."""
    api = open_api(ctx)
    path = f"job-templates/{template_named(api, name, team)['id']}"
    _, etag = api.get_tagged(path)
    api.delete(path, if_match=etag)
    tell(f"{name} is deleted.")


def template_named(api: Api, name: str, team: str | None) -> dict[str, Any]:
    """Return the only template of that name, or with that id. Raises CliError."""
    found = _find(api, name, team)
    if found is None:
        raise CliError(f"There is no template {name}. `tidegate templates list` lists them.")
    return found


def _find(api: Api, name: str, team: str | None) -> dict[str, Any] | None:
    templates = api.items(
        "job-templates", most=_TEMPLATES_MAX, team=team or api.settings.team or None
    )
    found = [one for one in templates if name in (one["name"], one["id"])]
    if len(found) > 1:
        teams = ", ".join(one["team"] for one in found)
        raise CliError(f"Several teams have a template {name}. Give --team: {teams}.")
    return found[0] if found else None
