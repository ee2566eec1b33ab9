"""Commands on people: own password, password links for others, access tokens."""

from __future__ import annotations

import getpass
import sys
import uuid
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.named import by_prefix
from cli.open_work import RunningOption, WaitingOption, decided
from cli.output import Format, Output, print_data, print_table, tell

_USERS_MAX = 10_000
_TOKENS_MAX = 10_000
_DAYS_MAX = 365
_HOURS_MAX = 168
_PREFIX_LENGTH = 12

user_app = typer.Typer(
    no_args_is_help=True, help="People and service accounts.", rich_markup_mode=None
)
token_app = typer.Typer(
    no_args_is_help=True,
    help="Access tokens: yours, and those of accounts that you manage.",
    rich_markup_mode=None,
)

TokenArgument = Annotated[
    str, typer.Argument(help="Its id, or the first 12 characters as in `token ls`.")
]
UserOption = Annotated[
    str | None, typer.Option("--user", help="Login of an account that you manage.")
]
OrganizationOption = Annotated[
    str | None, typer.Option(help="All tokens of an organization that you manage, by its slug.")
]


def passwd(
    ctx: typer.Context,
    stdin: Annotated[
        bool,
        typer.Option("--stdin", help="Read the old and the new password from two input lines."),
    ] = False,
) -> None:
    """Change your own password. Your browser sessions end. Access tokens stay valid."""
    if stdin:
        old, new = (sys.stdin.readline().rstrip("\r\n") for _ in range(2))
    else:
        old = getpass.getpass("Old password: ")
        new = getpass.getpass("New password (at least 12 characters): ")
        if getpass.getpass("Repeat the new password: ") != new:
            raise CliError("The two new passwords differ. Try again.")
    open_api(ctx).post("password", {"old_password": old, "new_password": new})
    tell("Password changed. Your browser sessions have ended.")


@user_app.command("ls")
def user_ls(
    ctx: typer.Context,
    organization: Annotated[str | None, typer.Option(help="Only of this organization.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """List the people and service accounts that you may see."""
    found = list(open_api(ctx).items("users", most=_USERS_MAX, organization=organization))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    print_table(
        ["LOGIN", "KIND", "STATE", "NAME"],
        [
            [
                user["login"],
                user["kind"],
                "active" if user["is_active"] else "deactivated",
                user["name"],
            ]
            for user in found
        ],
        squeeze="NAME",
    )


@user_app.command("password-link")
def password_link(
    ctx: typer.Context, login: Annotated[str, typer.Argument(help="Login of the person.")]
) -> None:
    """Create a link with which a person sets a password, once, within an hour.

    The link is mailed if mail is configured and the person has an address. Otherwise it is printed
    here once.
    """
    api = open_api(ctx)
    made = api.post(
        f"users/{user_named(api, login)['id']}/password-link", {}, key=str(uuid.uuid4())
    )
    tell_link(api, made)


def user_named(api: Api, login: str) -> Mapping[str, Any]:
    """Return the user with this login. Raises CliError without one."""
    users = (user for user in api.items("users", most=_USERS_MAX) if user["login"] == login)
    user = next(users, None)
    if user is None:
        raise CliError(f"There is no user {login!r} that you can see.")
    return user


def tell_link(api: Api, made: Mapping[str, Any]) -> None:
    """Print a new link, or where it was sent."""
    if made["sent_to"] is not None:
        tell(f"The link for {made['user']} was mailed to {made['sent_to']}.")
    elif made["link"] is None:
        raise CliError(f"The link for {made['user']} was shown before. Create a new one.")
    else:
        tell(f"For {made['user']}, valid once, until {made['expires_at']}. It is not shown again:")
        typer.echo(api.settings.server + made["link"])


@user_app.command("deactivate")
def user_deactivate(
    ctx: typer.Context,
    login: Annotated[str, typer.Argument(help="Login: bob@ai-company.")],
    waiting: WaitingOption = None,
    running: RunningOption = None,
) -> None:
    """Deactivate an account: its sessions end, tokens are revoked, and waiting jobs do not start.

    Lists running jobs first, and asks for --running and --waiting where there are such jobs.
    """
    api = open_api(ctx)
    address = f"users/{user_named(api, login)['id']}/deactivate"
    api.post(address, decided(api.get(address), waiting=waiting, running=running))
    tell(f"{login} is deactivated. Reactivate it with `tidegate user reactivate {login}`.")


@user_app.command("reactivate")
def user_reactivate(
    ctx: typer.Context,
    login: Annotated[str, typer.Argument(help="Login: bob@ai-company.")],
) -> None:
    """Reactivate an account. Its tokens stay revoked. Its waiting jobs may start."""
    api = open_api(ctx)
    api.patch(f"users/{user_named(api, login)['id']}", {"is_active": True})
    tell(f"{login} is active.")


@user_app.command("delete")
def user_delete(
    ctx: typer.Context,
    login: Annotated[str, typer.Argument(help="Login: bob@ai-company.")],
) -> None:
    """Delete an account that was never used, with its roles."""
    api = open_api(ctx)
    api.delete(f"users/{user_named(api, login)['id']}")
    tell(f"{login} is deleted.")


@token_app.command("ls")
def token_ls(
    ctx: typer.Context,
    user: UserOption = None,
    organization: OrganizationOption = None,
    output: Output = Format.TABLE,
) -> None:
    """List access tokens, newest first: your own, or those of a user or an organization."""
    found = _tokens(open_api(ctx), user=user, organization=organization)
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No tokens.")
        return
    print_table(
        ["TOKEN", "USER", "SCOPES", "EXPIRES", "LAST USED", "REVOKED", "NAME"],
        [
            [
                token["prefix"],
                token["user"],
                ",".join(token["scopes"]),
                token["expires_at"],
                token["last_used_at"] or "never",
                token["revoked_at"] or "-",
                token["name"],
            ]
            for token in found
        ],
        squeeze="NAME",
    )


@token_app.command("create")
def token_create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Purpose of the token.")],
    scope: Annotated[
        list[str], typer.Option(help="read, jobs, quotas, reports or admin. Repeatable.")
    ],
    days: Annotated[int, typer.Option(min=1, max=_DAYS_MAX, help="Days until it expires.")] = 30,
    user: Annotated[
        str | None, typer.Option("--user", help="Login of a service account that you manage.")
    ] = None,
) -> None:
    """Create an access token and print its secret, this once.

    It never has more rights, nor a longer life, than the token in use. It is revoked with that
    token.
    """
    made = open_api(ctx).post(
        "tokens",
        {"name": name, "scopes": scope, "expires_in_days": days, "user": user},
        key=str(uuid.uuid4()),
    )
    _print_secret(made)


@token_app.command("rotate")
def token_rotate(
    ctx: typer.Context,
    token: TokenArgument,
    user: UserOption = None,
    overlap_hours: Annotated[
        int, typer.Option(min=0, max=_HOURS_MAX, help="Hours until the old token ends (0: now).")
    ] = 0,
) -> None:
    """Replace an access token by a new one with the same name and scopes."""
    api = open_api(ctx)
    found = _found_token(api, token, user=user)
    made = api.post(
        f"tokens/{found}/rotate",
        {"overlap_s": overlap_hours * 3_600},
        key=str(uuid.uuid4()),
    )
    _print_secret(made)


@token_app.command("revoke")
def token_revoke(ctx: typer.Context, token: TokenArgument, user: UserOption = None) -> None:
    """Revoke an access token and all tokens created with it, at once and for ever."""
    api = open_api(ctx)
    api.delete(f"tokens/{_found_token(api, token, user=user)}")
    tell("The token no longer works.")


def _print_secret(made: Mapping[str, Any]) -> None:
    tell(
        f"Token {made['name']} of {made['user']}, valid until {made['expires_at']}. "
        "It is not shown again:"
    )
    typer.echo(made["secret"])


def _tokens(
    api: Api, *, user: str | None = None, organization: str | None = None
) -> list[dict[str, Any]]:
    if user is not None and organization is not None:
        raise CliError("Give --user or --organization, not both.")
    return list(api.items("tokens", most=_TOKENS_MAX, user=user, organization=organization))


def _found_token(api: Api, token: str, *, user: str | None) -> str:
    """Return the id of a token that is named by its id or its first characters."""
    try:
        return str(uuid.UUID(token))
    except ValueError:
        pass
    if len(token) != _PREFIX_LENGTH:
        raise CliError("Give the id of the token, or its first 12 characters.")
    see = "`tidegate token ls`." + (
        "" if user else " For tokens of another account, add --user LOGIN."
    )
    return by_prefix(_tokens(api, user=user), token, "tokens", see)
