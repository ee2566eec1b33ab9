"""`tidegate organization`: list organizations, and create ones that work at once."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.change_commands import mgpu_of
from cli.context import open_api
from cli.errors import CliError
from cli.member_commands import tell_invitation
from cli.output import (
    Format,
    Output,
    counted,
    gpus,
    print_data,
    print_fields,
    print_table,
    tell,
)
from cli.people_commands import tell_link
from cli.tree_file_commands import format_of, print_preview, text_of

#: The most organizations that are listed.
_LISTED_MAX = 10_000

organization_app = typer.Typer(
    no_args_is_help=True,
    help="List and create organizations (for platform administrators).",
    rich_markup_mode=None,
)


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
    invite: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Invite the first administrator by mail instead."),
    ] = None,
    tree: Annotated[
        Path | None,
        typer.Option(help="A .csv or .yaml file of its nodes and members, as of `tree export`."),
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only preview.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Create an organization with priority classes, a first team and its quota.

    The first administrator's link is mailed, or printed here once. With --tree there is no first
    team but those in the file, whose paths begin with the slug.
    """
    if admin is None and admin_email:
        raise CliError("--admin-email needs --admin.")
    if admin is None and invite is None and admin_name:
        raise CliError("--admin-name needs --admin or --invite.")
    if admin is not None and invite is not None:
        raise CliError("Give --admin, who gets an account, or --invite, and not both.")
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
    if invite is not None:
        body["invited_administrator"] = {"email": invite, "name": admin_name}
    if tree is not None:
        body["tree"] = {"format": format_of(tree).value, "text": text_of(tree)}
    given = {field: value for field, value in body.items() if value is not None}
    api = open_api(ctx)
    if dry_run:
        _preview(api.post("organizations/preview", given), output)
        return
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
    if made["invitation"] is not None:
        tell_invitation(api, made["invitation"])


def _preview(found: dict[str, Any], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(found, output)
    else:
        print_fields([("organization", found["path"]), ("team", found["team"] or "-")])
        if found["tree"] is not None:
            print_preview(found["tree"])
        for sentence in found["missing"]:
            tell(sentence)
    if found["tree"] is not None and found["tree"]["error_count"]:
        raise CliError(f"It cannot be created: {counted(found['tree']['error_count'], 'error')}.")


@organization_app.command("list")
def organization_list(ctx: typer.Context, output: Output = Format.TABLE) -> None:
    """List all organizations, with their people, teams, guarantees and jobs."""
    items = list(open_api(ctx).items("organizations/summaries", most=_LISTED_MAX))
    if output is not Format.TABLE:
        print_data(items, output)
        return
    if not items:
        tell("No organizations yet. `tidegate organization create` makes one.")
        return
    print_table(
        ["SLUG", "NAME", "ZONE", "CURRENCY", "PEOPLE", "TEAMS", "GUARANTEED", "JOBS", "SINCE"],
        [
            [
                item["slug"],
                item["name"],
                item["time_zone"],
                item["currency"] or "-",
                item["people"],
                item["teams"],
                _guarantees(item) or "-",
                item["jobs_running"],
                "archived" if item["archived_at"] else item["created_at"][:10],
            ]
            for item in items
        ],
        squeeze="NAME",
    )


def _guarantees(item: dict[str, Any]) -> str:
    return ", ".join(
        f"{each['pool']} {gpus(each['guaranteed_mgpu'])}" for each in item["guarantees"]
    )
