"""`tidegate announcements`: texts on top of all pages."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

import typer

from cli.api import Api
from cli.context import Commands, open_api
from cli.errors import CliError
from cli.named import by_id_end
from cli.output import Format, Output, plain, print_data, print_table, tell

announcements_app = typer.Typer(
    cls=Commands, no_args_is_help=True, help="Show a text on top of all pages."
)

_LISTED_MAX = 1_000

Identifier = Annotated[str, typer.Argument(metavar="ID", help="Its id, or the end of it.")]
Start = Annotated[str | None, typer.Option("--from", help="2026-12-01T08:00:00Z. Default: now.")]
End = Annotated[
    str | None, typer.Option("--to", help="End, excluded. Default: until it is removed.")
]
Level = Annotated[str | None, typer.Option(help="info, warning or critical.")]


@announcements_app.command("list")
def announcements_list(
    ctx: typer.Context,
    current: Annotated[bool, typer.Option("--current", help="Only those shown now.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """List announcements, newest first."""
    found = list(
        open_api(ctx).items("announcements", most=_LISTED_MAX, current="true" if current else None)
    )
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No announcements.")
        return
    print_table(
        ["ID", "LEVEL", "FOR", "FROM", "TO", "TEXT"],
        [
            [
                str(each["id"])[-8:],
                each["level"],
                each["node"] or each["cluster"] or "everybody",
                each["start"],
                each["end"] or "-",
                plain(each["text"]),
            ]
            for each in found
        ],
        squeeze="TEXT",
    )


@announcements_app.command("new")
def announcements_new(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(help="The text.")],
    node: Annotated[str | None, typer.Option(help="Path of a node, for people there.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Name of a cluster.")] = None,
    level: Level = None,
    start: Start = None,
    end: End = None,
) -> None:
    """Announce a text on top of all pages: to everybody, or of a node or a cluster."""
    body = {"text": text, "node": node, "cluster": cluster, "start": start, "end": end}
    if level is not None:
        body["level"] = level
    made = open_api(ctx).post("announcements", body, key=str(uuid4()))
    typer.echo(made["id"])


@announcements_app.command("set")
def announcements_set(
    ctx: typer.Context,
    announcement: Identifier,
    text: Annotated[str | None, typer.Option(help="Another text.")] = None,
    level: Level = None,
    start: Start = None,
    end: End = None,
) -> None:
    """Change an announcement."""
    changes = {"text": text, "level": level, "start": start, "end": end}
    body = {field: value for field, value in changes.items() if value is not None}
    if not body:
        raise CliError("Nothing to change: give --text, --level, --from or --to.")
    api = open_api(ctx)
    found = _found(api, announcement)
    api.patch(f"announcements/{found['id']}", body, if_match=f'"v{found["version"]}"')
    tell("Changed.")


@announcements_app.command("remove")
def announcements_remove(ctx: typer.Context, announcement: Identifier) -> None:
    """Remove an announcement."""
    api = open_api(ctx)
    api.delete(f"announcements/{_found(api, announcement)['id']}")
    tell("Removed.")


def _found(api: Api, text: str) -> dict[str, Any]:
    """Return the announcement whose id ends in `text`."""
    return by_id_end(api.items("announcements", most=_LISTED_MAX), text, "announcements")
