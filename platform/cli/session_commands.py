"""`tidegate session`: browser sessions of yourself and of people whom you manage."""

from __future__ import annotations

import uuid
from typing import Annotated

import typer

from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, Output, print_data, print_table, tell

session_app = typer.Typer(
    no_args_is_help=True,
    help="Browser sessions: yours, and those of people whom you manage.",
    rich_markup_mode=None,
)
_SESSIONS_MAX = 1_000

UserOption = Annotated[
    str | None, typer.Option("--user", help="Login of a person whom you manage.")
]


@session_app.command("ls")
def session_ls(ctx: typer.Context, user: UserOption = None, output: Output = Format.TABLE) -> None:
    """List browser sessions, newest first: your own, or those of a person."""
    found = list(open_api(ctx).items("sessions", most=_SESSIONS_MAX, user=user))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No sessions.")
        return
    print_table(
        ["SESSION", "DEVICE", "ADDRESS", "SIGNED IN", "LAST USED"],
        [
            [
                session["id"],
                session["device"],
                session["address"] or "-",
                session["started_at"],
                session["last_used_at"],
            ]
            for session in found
        ],
        squeeze="DEVICE",
    )


@session_app.command("end")
def session_end(
    ctx: typer.Context,
    session: Annotated[
        str | None, typer.Argument(help="Its id, as in `tidegate session ls`.")
    ] = None,
    is_all: Annotated[bool, typer.Option("--all", help="All sessions of the person.")] = False,
    user: UserOption = None,
) -> None:
    """End a browser session, or all of them. Open pages are signed out at once."""
    api = open_api(ctx)
    if is_all and session is None:
        ended = api.post("sessions/end", {"user": user})["ended"]
        tell(f"{ended} {'session has' if ended == 1 else 'sessions have'} ended.")
        return
    if session is None or is_all or user is not None:
        raise CliError("Give either the id of a session, or --all with an optional --user.")
    try:
        found = uuid.UUID(session)
    except ValueError as error:
        raise CliError(f"{session!r} is no id of a session. See `tidegate session ls`.") from error
    api.delete(f"sessions/{found}")
    tell("The session has ended.")
