"""`tidegate scim`: tokens with which an identity provider pushes people and groups."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.identity_commands import OrganizationOption
from cli.named import by_prefix
from cli.organizations import organization_named
from cli.output import Format, Output, print_data, print_fields, print_table, tell

_TOKENS_MAX = 1_000
_DAYS_MAX = 365
_HOURS_MAX = 168

scim_app = typer.Typer(
    no_args_is_help=True,
    help="People and groups that the identity provider pushes by SCIM.",
    rich_markup_mode=None,
)

TokenArgument = Annotated[
    str, typer.Argument(help="Its id, or the first 12 characters as in `tidegate scim show`.")
]


@scim_app.command("show")
def show(
    ctx: typer.Context, organization: OrganizationOption = None, output: Output = Format.TABLE
) -> None:
    """Show the address, the settings, the last contact, what was pushed, and the tokens."""
    api = open_api(ctx)
    address = _address(api, organization)
    scim, tokens = api.get(address), _tokens(api, address)
    if output is not Format.TABLE:
        print_data({**scim, "tokens": tokens}, output)
        return
    print_fields(
        [
            ("Address", scim["base_url"]),
            ("Last contact", scim["last_contact_at"] or "never"),
            ("People", f"{scim['active_people']} active, {scim['deactivated_people']} deactivated"),
            ("Groups", str(scim["groups"])),
            ("externalId is the claim", scim["external_id_claim"]),
            ("Takes over accounts", "yes" if scim["adopts_accounts"] else "no"),
        ]
    )
    if tokens:
        print_table(
            ["TOKEN", "EXPIRES", "LAST USED", "ENDED", "NAME"],
            [
                [
                    token["prefix"],
                    token["expires_at"],
                    token["last_used_at"] or "never",
                    token["revoked_at"] or "-",
                    token["name"],
                ]
                for token in tokens
            ],
            squeeze="NAME",
        )


@scim_app.command("set")
def set_scim(
    ctx: typer.Context,
    organization: OrganizationOption = None,
    claim: Annotated[
        str | None, typer.Option(help="Claim that equals externalId: sub, oid or uid.")
    ] = None,
    adopt: Annotated[
        bool | None,
        typer.Option("--adopt/--no-adopt", help="Take over accounts with the same username."),
    ] = None,
) -> None:
    """Change the settings. A setting that no option names stays."""
    api = open_api(ctx)
    address = _address(api, organization)
    known, etag = api.get_tagged(address)
    body = {
        "external_id_claim": known["external_id_claim"] if claim is None else claim,
        "adopts_accounts": known["adopts_accounts"] if adopt is None else adopt,
    }
    api.put(address, body, if_match=etag)
    tell("The settings of SCIM are changed.")


@scim_app.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the token, such as the provider's.")],
    days: Annotated[int, typer.Option(min=1, max=_DAYS_MAX, help="Days until it expires.")],
    organization: OrganizationOption = None,
) -> None:
    """Create a token for SCIM and print its secret, this once."""
    api = open_api(ctx)
    address = f"{_address(api, organization)}/tokens"
    body = {"name": name, "expires_in_days": days}
    _print_secret(api.post(address, body, key=str(uuid.uuid4())))


@scim_app.command("rotate")
def rotate(
    ctx: typer.Context,
    token: TokenArgument,
    organization: OrganizationOption = None,
    overlap_hours: Annotated[
        int, typer.Option(min=0, max=_HOURS_MAX, help="Hours until the old token ends (0: now).")
    ] = 0,
) -> None:
    """Replace a token for SCIM by a new one with the same name and lifetime."""
    api = open_api(ctx)
    found = _found_token(api, token, organization)
    body = {"overlap_s": overlap_hours * 3_600}
    _print_secret(api.post(f"scim-tokens/{found}/replace", body, key=str(uuid.uuid4())))


@scim_app.command("revoke")
def revoke(
    ctx: typer.Context, token: TokenArgument, organization: OrganizationOption = None
) -> None:
    """Revoke a token for SCIM at once. People, groups and roles stay as they are."""
    api = open_api(ctx)
    api.delete(f"scim-tokens/{_found_token(api, token, organization)}")
    tell("The token no longer works.")


def _address(api: Api, organization: str | None) -> str:
    return f"organizations/{organization_named(api, organization)['id']}/scim"


def _tokens(api: Api, address: str) -> list[dict[str, Any]]:
    return list(api.items(f"{address}/tokens", most=_TOKENS_MAX))


def _found_token(api: Api, token: str, organization: str | None) -> str:
    """Return the id of a token that is named by its id or its first characters."""
    try:
        return str(uuid.UUID(token))
    except ValueError:
        pass
    tokens = _tokens(api, _address(api, organization))
    return by_prefix(tokens, token, "tokens for SCIM", "`tidegate scim show`.")


def _print_secret(made: Mapping[str, Any]) -> None:
    tell(f"Token {made['name']}, valid until {made['expires_at']}. It is not shown again:")
    typer.echo(made["secret"])
