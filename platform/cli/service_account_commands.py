"""`tidegate service-accounts`: accounts for programs, which work with access tokens only."""

from __future__ import annotations

import uuid
from typing import Annotated

import typer

from cli.context import open_api
from cli.member_commands import MEMBERS_MAX, ExpiresOption, NodeArgument, expiry, tell_role
from cli.output import Format, Output, print_data, print_table, tell
from cli.people_commands import user_deactivate, user_reactivate
from cli.tree_commands import node_at

service_accounts_app = typer.Typer(
    no_args_is_help=True,
    help="Service accounts of a team, department or organization.",
    rich_markup_mode=None,
)


@service_accounts_app.command("list")
def service_accounts_list(
    ctx: typer.Context, node: NodeArgument, output: Output = Format.TABLE
) -> None:
    """List the service accounts of a node, with their roles and live tokens."""
    api = open_api(ctx)
    members = api.items(f"tree/{node_at(api, node)['id']}/members", most=MEMBERS_MAX)
    found = [member for member in members if member["user"]["kind"] == "service"]
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No service accounts.")
        return
    print_table(
        ["LOGIN", "STATE", "ROLE", "TOKENS"],
        [
            [
                member["user"]["login"],
                "active" if member["user"]["is_active"] else "deactivated",
                ", ".join(f"{role['role']} in {role['node']}" for role in member["roles"]),
                ", ".join(token["prefix"] for token in member["tokens"]) or "none",
            ]
            for member in found
        ],
        squeeze="ROLE",
    )


@service_accounts_app.command("create")
def service_accounts_create(
    ctx: typer.Context,
    node: NodeArgument,
    username: Annotated[str, typer.Argument(help="Its username, for example ci.")],
    name: Annotated[str | None, typer.Option("--name", help="Default: the username.")] = None,
    expires: ExpiresOption = None,
) -> None:
    """Create a service account with the role service_account on a node.

    `tidegate token create NAME --scope jobs --user LOGIN` then gives it a token.
    """
    api = open_api(ctx)
    body = {"username": username, "name": name, "role_expires_at": expiry(expires)}
    address = f"tree/{node_at(api, node)['id']}/service-accounts"
    made = api.post(address, body, key=str(uuid.uuid4()))
    tell_role(made)
    tell(f"Give it a token: tidegate token create NAME --scope jobs --user {made['user']}")


service_accounts_app.command("deactivate")(user_deactivate)
service_accounts_app.command("reactivate")(user_reactivate)
