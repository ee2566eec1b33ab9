"""`tidegate organization`: create an organization that works at once."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import typer

from cli.change_commands import mgpu_of
from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, print_data, print_fields, tell
from cli.people_commands import tell_link

organization_app = typer.Typer(
    no_args_is_help=True,
    help="Create organizations (for platform administrators).",
    rich_markup_mode=None,
)

Output = Annotated[Format, typer.Option("-o", "--output", help="How to print.")]


@organization_app.command("create")
def organization_create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Name that people see.")],
    slug: Annotated[
        str | None, typer.Option(help="First part of its paths. Default: made from the name.")
    ] = None,
    admin: Annotated[
        str | None, typer.Option(metavar="USERNAME", help="First administrator.")
    ] = None,
    admin_name: Annotated[
        str | None, typer.Option(help="Name of the administrator. Default: the username.")
    ] = None,
    admin_email: Annotated[
        str | None, typer.Option(help="Address to which the password link is mailed.")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Pool of the first quota.")] = None,
    gpus: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="GPUs or cores guaranteed in the pool.")
    ] = None,
    team: Annotated[
        str | None, typer.Option(metavar="SLUG", help="First team. Default: `main`.")
    ] = None,
    currency: Annotated[
        str | None,
        typer.Option(help="Currency of its prices, for example EUR. Default: no rate card."),
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option(help="For example Europe/Berlin. Default: UTC.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Create an organization with priority classes, a first team and its quota.

    The first administrator's password link is mailed, or printed here once.
    """
    if admin is None and (admin_name or admin_email):
        raise CliError("--admin-name and --admin-email need --admin.")
    if (pool is None) != (gpus is None):
        raise CliError("Give both --pool and --gpus, or neither.")
    body: dict[str, Any] = {
        "name": name,
        "slug": slug,
        "team": team,
        "pool": pool,
        "guaranteed_mgpu": None if gpus is None else mgpu_of(gpus, "--gpus"),
        "currency": currency,
        "time_zone": time_zone,
    }
    if admin is not None:
        body["first_administrator"] = {
            "username": admin,
            "name": admin_name or admin,
            "email": admin_email or "",
        }
    given = {field: value for field, value in body.items() if value is not None}
    api = open_api(ctx)
    made = api.post("organizations", given, key=str(uuid.uuid4()))
    if output is not Format.TABLE:
        print_data(made, output)
        return
    print_fields(
        [
            ("organization", made["path"]),
            ("team", made["team"]),
            ("administrator", made["first_administrator"]),
        ]
    )
    for sentence in made["missing"]:
        tell(sentence)
    if made["password_link"] is not None:
        tell_link(api, made["password_link"])
