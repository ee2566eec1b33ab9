"""`tidegate audit`: who did what to what, when."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, print_data, print_table, tell
from cli.report_commands import moment

_LISTED_MAX = 10_000


def audit(
    ctx: typer.Context,
    actor: Annotated[str | None, typer.Option(help="Only acts of this login.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this action: team_created.")] = None,
    subject: Annotated[
        str | None,
        typer.Option("--object", help="Only acts on this kind, or on one of it: team, team/ID."),
    ] = None,
    organization: Annotated[str | None, typer.Option(help="Only of this slug.")] = None,
    since: Annotated[
        str | None, typer.Option(help="From then on: 2026-11-01, or 2026-11-01T00:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Before then; as --since.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=_LISTED_MAX, help="At most.")] = 50,
    csv: Annotated[bool, typer.Option("--csv", help="Print all that match as CSV.")] = False,
    output: Annotated[Format, typer.Option("-o", "--output", help="How to print.")] = Format.TABLE,
) -> None:
    """List events of the audit log that you may see, newest first.

    Auditors and administrators see those of their part of the tree; platform administrators all.
    """
    kind, _, pk = (subject or "").partition("/")
    if subject is not None and not kind:
        raise CliError("--object is a kind, or a kind and an id: team, team/ID.")
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
        tell("No event matches that you may see.")
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
        tell(f"The first {limit}; use --limit for more.")
