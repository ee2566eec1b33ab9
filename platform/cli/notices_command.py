"""`tidegate notices`: list the own notices, and mark them as read."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, Output, plain, print_data, print_table, tell

_LISTED_MAX = 1_000


def notices(
    ctx: typer.Context,
    unread: Annotated[bool, typer.Option("--unread", help="Only unread ones.")] = False,
    event: Annotated[
        str | None, typer.Option(help="Only this event, for example job_failed.")
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option("--object", help="Only of this kind or object: job, or job/ID."),
    ] = None,
    read: Annotated[
        bool, typer.Option("--read", help="Mark all as read, up to the newest listed one.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=_LISTED_MAX, help="Number of notices.")] = 50,
    output: Output = Format.TABLE,
) -> None:
    """List your notices, newest first. A star marks unread ones.

    Notices are about your jobs, teams that you manage, and requests that wait for you.
    """
    kind, _, pk = (subject or "").partition("/")
    if subject is not None and not kind:
        raise CliError("--object takes a kind, or a kind and an id: job, or job/ID.")
    if read and (event or subject):
        raise CliError("--read marks notices of all events. Leave out --event and --object.")
    api = open_api(ctx)
    wanted = {
        "event": event,
        "subject_kind": kind or None,
        "subject_id": pk or None,
        "unread": "true" if unread else None,
    }
    found = list(api.items("notices", most=limit, **wanted))
    if read and found:
        api.post("notices/read", {"through": found[0]["id"]})
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No notices.")
        return
    print_table(
        ["", "AT", "EVENT", "NOTICE", "DEADLINE"],
        [
            [
                "*" if each["read_at"] is None else "",
                each["at"],
                each["event"],
                plain(each["sentence"]),
                each["deadline"],
            ]
            for each in found
        ],
        squeeze="NOTICE",
    )
