"""`tidegate organization`: a new organization that works at once."""

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
    no_args_is_help=True, help="Organizations, for platform administrators.", rich_markup_mode=None
)

Output = Annotated[Format, typer.Option("-o", "--output", help="How to print.")]


@organization_app.command("create")
def organization_create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="What people read.")],
    slug: Annotated[
        str | None, typer.Option(help="What paths begin with; made from the name if absent.")
    ] = None,
    admin: Annotated[
        str | None, typer.Option(metavar="USERNAME", help="Its first administrator.")
    ] = None,
    admin_name: Annotated[
        str | None, typer.Option(help="Their name; the user name if absent.")
    ] = None,
    admin_email: Annotated[
        str | None, typer.Option(help="Where their password link is mailed to.")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Where it gets its first quota.")] = None,
    gpus: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="GPUs or cores guaranteed there.")
    ] = None,
    team: Annotated[
        str | None, typer.Option(metavar="SLUG", help="Its first team; `main` if absent.")
    ] = None,
    currency: Annotated[
        str | None, typer.Option(help="Of its prices, for example EUR; no rate card if absent.")
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option(help="For example Europe/Berlin; UTC if absent.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Create an organization in one step, with priority classes, a first team and its quota.

    The first administrator's password link is mailed, or printed here, this once.
    """
    if admin is None and (admin_name or admin_email):
        raise CliError("--admin-name and --admin-email need --admin.")
    if (pool is None) != (gpus is None):
        raise CliError("Give --pool and --gpus, or neither.")
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
