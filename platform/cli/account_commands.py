"""Commands on the connection itself: login, whoami, version."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

import typer

from cli.context import environment, open_api, open_api_as, own_version
from cli.device_login import token_by_device_login
from cli.errors import CliError
from cli.output import Format, Output, print_data, print_fields, tell
from cli.settings import Settings, checked_server, checked_token, store_settings

_DAYS_MAX = 90


def login(
    ctx: typer.Context,
    server: Annotated[str, typer.Option(help="Address, such as https://tidegate.example.org.")],
    token: Annotated[
        str | None,
        typer.Option(
            help="- reads an access token from standard input. Default: TIDEGATE_TOKEN, or approve "
            "the login in a browser.",
            metavar="-",
        ),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="Right to ask for in the browser: read, jobs, quotas, reports or admin. "
            "Repeatable. Default: read and jobs."
        ),
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=_DAYS_MAX, help="Days until the new token expires.")
    ] = 30,
    team: Annotated[str, typer.Option(help="Default team of `submit`.")] = "",
    allow_http: Annotated[
        bool, typer.Option("--allow-http", help="Send the token unencrypted.")
    ] = False,
) -> None:
    """Log in, and store the access token for the next commands, readable by you only.

    Without a token, this shows an address and a code. Open the address in a browser, on any
    machine, and approve the login there.
    """
    address = checked_server(server, may_be_plain=allow_http)
    if token is None:
        secret = environment().get("TIDEGATE_TOKEN") or token_by_device_login(
            open_api_as(ctx, Settings(address, "")), scopes=scope or ["read", "jobs"], days=days
        )
    elif token == "-":  # noqa: S105 - the word for standard input
        secret = getpass.getpass("Access token: ") if sys.stdin.isatty() else sys.stdin.readline()
    else:
        raise CliError(
            "Other users can see a token on the command line. Pipe it in with --token -, or omit "
            "--token and type it."
        )
    settings = Settings(address, checked_token(secret.strip()), team=team)
    user = open_api_as(ctx, settings).get("session")["user"]
    path = store_settings(
        Settings(address, settings.token, login=str(user["login"]), team=team), environment()
    )
    tell(f"Logged in to {address} as {user['login']}. The token is stored in {path}.")


def whoami(
    ctx: typer.Context,
    output: Output = Format.TABLE,
) -> None:
    """Show the user of the access token, with roles."""
    api = open_api(ctx)
    session = api.get("session")
    session.pop("csrf_token", None)
    if output is not Format.TABLE:
        print_data(session, output)
        return
    user = session["user"]
    organization = user["organization"]
    print_fields(
        [
            ("login", user["login"]),
            ("name", user["name"]),
            ("organization", None if organization is None else organization["name"]),
            ("server", api.settings.server),
            *(
                ("role", f"{grant['role']} of {grant['node_path'] or 'the platform'}")
                for grant in session["grants"]
            ),
        ]
    )


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        version()
        raise typer.Exit


def options(
    _: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version of this command.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    """Read the options before the name of a command."""


def version() -> None:
    """Print the version of this command."""
    typer.echo(f"tidegate {own_version()}")
