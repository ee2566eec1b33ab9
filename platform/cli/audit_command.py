"""`tidegate audit`: print the audit log."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cli.context import open_api
from cli.errors import CliError
from cli.moments import moment
from cli.output import Format, Output, print_data, print_table, tell

_LISTED_MAX = 10_000


def audit(
    ctx: typer.Context,
    actor: Annotated[str | None, typer.Option(help="Only acts of this login.")] = None,
    action: Annotated[
        str | None, typer.Option(help="Only this action, for example team_created.")
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option("--object", help="Only acts on this kind or object: team, or team/ID."),
    ] = None,
    organization: Annotated[
        str | None, typer.Option(help="Only this organization, by its slug.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Start of the period: 2026-11-01, or 2026-11-01T00:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="End of the period, excluded.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=_LISTED_MAX, help="Number of events.")] = 50,
    csv: Annotated[bool, typer.Option("--csv", help="Print all matching events as CSV.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """List events of the audit log, newest first.

    Auditors and administrators see the events of their part of the tree. Platform administrators
    see all events.
    """
    kind, _, pk = (subject or "").partition("/")
    if subject is not None and not kind:
        raise CliError("--object takes a kind, or a kind and an id: team, or team/ID.")
    wanted = {
        "actor": actor,
        "action": action,
        "subject_kind": kind or None,
        "subject_id": pk or None,
        "organization": organization,
        "since": None if since is None else moment(since, "--since"),
        "until": None if until is None else moment(until, "--until"),
    }
    api = open_api(ctx)
    if csv:
        text = api.get_text("audit-events", **wanted, format="csv")
        typer.echo(text, nl=not text.endswith("\n"))
        return
    found = list(api.items("audit-events", most=limit, **wanted))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No visible event matches.")
        return
    print_table(
        ["AT", "ACTOR", "ACTION", "OBJECT", "NODE", "DETAIL"],
        [
            [
                one["at"],
                one["actor"],
                one["action"],
                f"{one['subject']['kind']}/{one['subject']['id']}",
                one["node"],
                json.dumps(one["detail"], ensure_ascii=False),
            ]
            for one in found
        ],
        squeeze="DETAIL",
    )
    if len(found) == limit:
        tell(f"These are the first {limit}. Use --limit for more.")
