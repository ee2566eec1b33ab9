"""`tidegate identity`: the identity provider of an organization, and groups that give roles."""

from __future__ import annotations

import getpass
import sys
import uuid
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError, Refused
from cli.organizations import organization_named
from cli.output import Format, Output, print_data, print_fields, print_table, tell

identity_app = typer.Typer(
    no_args_is_help=True,
    help="Sign-in with the identity provider of an organization.",
    rich_markup_mode=None,
)
_MAPPINGS_MAX = 1_000
_NOT_FOUND = 404

OrganizationOption = Annotated[
    str | None, typer.Option(help="Slug of the organization. Default: yours.")
]


@identity_app.command("show")
def show(
    ctx: typer.Context, organization: OrganizationOption = None, output: Output = Format.TABLE
) -> None:
    """Show the identity provider and the groups that give roles."""
    api = open_api(ctx)
    address = _address(api, organization)
    provider = api.get(f"{address}/identity-provider")
    mappings = list(api.items(f"{address}/group-mappings", most=_MAPPINGS_MAX))
    if output is not Format.TABLE:
        print_data({**provider, "group_mappings": mappings}, output)
        return
    print_fields(
        [
            ("Name", provider["name"]),
            ("Issuer", provider["issuer"]),
            ("Client ID", provider["client_id"]),
            ("Redirect URI", provider["callback_url"]),
            ("Scopes", " ".join(provider["scopes"])),
            ("Groups claim", provider["groups_claim"] or "none"),
            ("Creates people", _yes(provider["creates_people"])),
            ("Links by email", _yes(provider["links_by_email"])),
            ("Enabled", _yes(provider["is_enabled"])),
            ("Listed for everybody", _yes(provider["is_listed"])),
            ("Passwords", "on" if provider["allows_passwords"] else "off"),
        ]
    )
    if mappings:
        print_table(
            ["GROUP", "ROLE", "NODE", "ID"],
            [[each["group"], each["role"], each["node"], each["id"]] for each in mappings],
            squeeze="GROUP",
        )


@identity_app.command("set")
def set_provider(
    ctx: typer.Context,
    organization: OrganizationOption = None,
    name: Annotated[str | None, typer.Option(help="Name on the button.")] = None,
    issuer: Annotated[str | None, typer.Option(help="Exactly as the provider has it.")] = None,
    client_id: Annotated[str | None, typer.Option(help="Client ID at the provider.")] = None,
    secret: Annotated[
        str | None,
        typer.Option("--secret", metavar="-", help="- reads the client secret from input."),
    ] = None,
    scope: Annotated[
        list[str] | None, typer.Option(help="Scope to ask for. Repeatable; replaces all.")
    ] = None,
    groups_claim: Annotated[
        str | None, typer.Option(help="Claim with the names of groups. Empty: none.")
    ] = None,
    create_people: Annotated[
        bool | None,
        typer.Option("--create-people/--no-create-people", help="At the first sign-in."),
    ] = None,
    link_by_email: Annotated[
        bool | None,
        typer.Option("--link-by-email/--no-link-by-email", help="By the verified address."),
    ] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether it can be used.")
    ] = None,
    listed: Annotated[
        bool | None, typer.Option("--list/--unlist", help="Show its button to everybody.")
    ] = None,
    passwords: Annotated[
        bool | None, typer.Option("--passwords/--no-passwords", help="Sign-in with passwords.")
    ] = None,
) -> None:
    """Create or change the identity provider. A change keeps all values that no option names.

    A new provider needs --name, --issuer and --client-id, and asks for the client secret.
    """
    api = open_api(ctx)
    address = f"{_address(api, organization)}/identity-provider"
    found = _found(api, address)
    body: dict[str, Any] = {}
    etag = None
    if found is not None:
        known, etag = found
        body = {
            each: value
            for each, value in known.items()
            if each not in {"organization", "callback_url", "version", "changed_at"}
        }
    given = {
        "name": name,
        "issuer": issuer,
        "client_id": client_id,
        "scopes": scope,
        "groups_claim": groups_claim,
        "creates_people": create_people,
        "links_by_email": link_by_email,
        "is_enabled": enabled,
        "is_listed": listed,
        "allows_passwords": passwords,
    }
    body.update({each: value for each, value in given.items() if value is not None})
    if not {"name", "issuer", "client_id"} <= set(body):
        raise CliError("A new identity provider needs --name, --issuer and --client-id.")
    if secret is not None and secret != "-":  # noqa: S105 - the word for standard input
        raise CliError("Other users can see a secret on the command line. Pipe it in: --secret -.")
    if secret is not None:
        body["client_secret"] = sys.stdin.readline().rstrip("\r\n")
    elif found is None:
        body["client_secret"] = getpass.getpass("Client secret: ")
    made = api.put(address, body, if_match=etag)
    tell(f"The identity provider {made['name']} is set. Redirect URI: {made['callback_url']}")


@identity_app.command("map")
def map_group(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(help="Exactly as the provider spells it.")],
    role: Annotated[str, typer.Argument(help="Such as researcher or team_lead.")],
    node: Annotated[str, typer.Argument(help="Path of the team, department or organization.")],
    organization: OrganizationOption = None,
) -> None:
    """Let a group give a role on a node.

    Members of a group that SCIM pushes have it at once, others from their next sign-in.
    """
    api = open_api(ctx)
    made = api.post(
        f"{_address(api, organization)}/group-mappings",
        {"group": group, "role": role, "node": node},
        key=str(uuid.uuid4()),
    )
    tell(f"The group {made['group']} gives {made['role']} on {made['node']}.")


@identity_app.command("unmap")
def unmap_group(
    ctx: typer.Context,
    mapping: Annotated[str, typer.Argument(help="Its id, as in `tidegate identity show`.")],
) -> None:
    """Remove a group mapping. The roles that it gave end at once."""
    open_api(ctx).delete(f"group-mappings/{mapping}")
    tell("The mapping is removed, and the roles that it gave have ended.")


@identity_app.command("test")
def check_provider(ctx: typer.Context, organization: OrganizationOption = None) -> None:
    """Fetch the provider's discovery document and check it. Signs nobody in."""
    api = open_api(ctx)
    found = api.post(f"{_address(api, organization)}/identity-provider/test")
    if found["problems"]:
        raise CliError("\n".join(found["problems"]))
    tell("The identity provider answers, and its discovery document can be used.")


def _address(api: Api, organization: str | None) -> str:
    return f"organizations/{organization_named(api, organization)['id']}"


def _found(api: Api, address: str) -> tuple[dict[str, Any], str] | None:
    try:
        return api.get_tagged(address)
    except Refused as refused:
        if refused.status != _NOT_FOUND:
            raise
        return None


def _yes(value: bool) -> str:
    return "yes" if value else "no"
