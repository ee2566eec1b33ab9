"""`tidegate maintenance`: times in which nothing runs on a cluster."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

import typer

from cli.api import Api
from cli.context import Commands, open_api
from cli.errors import CliError
from cli.named import by_id_end
from cli.output import Format, Output, plain, print_data, print_table, tell

maintenance_app = typer.Typer(
    cls=Commands, no_args_is_help=True, help="Plan maintenance of clusters."
)

_LISTED_MAX = 1_000

Identifier = Annotated[str, typer.Argument(metavar="ID", help="Its id, or the end of it.")]


@maintenance_app.command("list")
def maintenance_list(
    ctx: typer.Context,
    cluster: Annotated[str | None, typer.Option(help="Only of this cluster.")] = None,
    ahead: Annotated[bool, typer.Option("--ahead", help="Only planned and open ones.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """List maintenance windows, newest first."""
    found = list(
        open_api(ctx).items(
            "maintenance-windows",
            most=_LISTED_MAX,
            cluster=cluster,
            in_force="true" if ahead else None,
        )
    )
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No maintenance.")
        return
    print_table(
        ["ID", "STATE", "CLUSTER", "POOL", "NODES", "FROM", "TO", "REASON"],
        [
            [
                str(each["id"])[-8:],
                each["state"],
                each["cluster"],
                each["pool"] or "all",
                _nodes_text(each["nodes"]),
                each["start"],
                each["end"],
                plain(each["reason"]),
            ]
            for each in found
        ],
        squeeze="REASON",
    )


@maintenance_app.command("plan")
def maintenance_plan(
    ctx: typer.Context,
    cluster: Annotated[str, typer.Argument(help="Name of the cluster.")],
    reason: Annotated[str, typer.Argument(help="Why, in one sentence.")],
    end: Annotated[str, typer.Option("--to", help="End, excluded: 2026-12-01T12:00:00Z.")],
    start: Annotated[
        str | None, typer.Option("--from", help="2026-12-01T08:00:00Z. Default: now.")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Only the nodes of this pool.")] = None,
    named: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="NODE", help="Only this node. May be repeated."),
    ] = None,
    node_count: Annotated[
        int | None,
        typer.Option(
            "--nodes", min=1, help="Only so many nodes: drained ones, then those with least work."
        ),
    ] = None,
) -> None:
    """Plan a window: no job starts that could still run in it. Nothing is stopped."""
    if named and node_count is not None:
        raise CliError("Give --node or --nodes, not both.")
    times = {"start": start, "end": end}
    body: dict[str, Any] = {"cluster": cluster, "pool": pool, **times, "reason": reason}
    if named:
        body["nodes"] = named
    if node_count is not None:
        body["node_count"] = node_count
    made = open_api(ctx).post("maintenance-windows", body, key=str(uuid4()))
    typer.echo(made["id"])
    if node_count is not None:
        tell(f"Nodes: {', '.join(made['nodes'])}.")


@maintenance_app.command("set")
def maintenance_set(
    ctx: typer.Context,
    window: Identifier,
    start: Annotated[str | None, typer.Option("--from", help="Another start.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Another end, excluded.")] = None,
    reason: Annotated[str | None, typer.Option(help="Another reason.")] = None,
) -> None:
    """Change a window that is not over."""
    changes = {"start": start, "end": end, "reason": reason}
    body = {field: value for field, value in changes.items() if value is not None}
    if not body:
        raise CliError("Nothing to change: give --from, --to or --reason.")
    api = open_api(ctx)
    found = _found(api, window)
    api.patch(f"maintenance-windows/{found['id']}", body, if_match=f'"v{found["version"]}"')
    tell("Changed.")


@maintenance_app.command("cancel")
def maintenance_cancel(ctx: typer.Context, window: Identifier) -> None:
    """Cancel a planned window, or end an open one now."""
    api = open_api(ctx)
    api.post(f"maintenance-windows/{_found(api, window)['id']}/cancel")
    tell("Cancelled.")


@maintenance_app.command("jobs")
def maintenance_jobs(ctx: typer.Context, window: Identifier, output: Output = Format.TABLE) -> None:
    """List the jobs that would still run when a window begins."""
    api = open_api(ctx)
    found = list(
        api.items(f"maintenance-windows/{_found(api, window)['id']}/jobs", most=_LISTED_MAX)
    )
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("All jobs that you may see end before it.")
        return
    print_table(
        ["JOB", "NAME", "TEAM", "USER", "ENDS BY"],
        [
            [
                str(each["job"])[-8:],
                plain(each["name"]),
                each["team"],
                each["user"],
                each["ends_at"] or "no limit",
            ]
            for each in found
        ],
    )


def _nodes_text(nodes: list[str] | None) -> str:
    """Return up to two names of nodes, or the first and how many more there are."""
    if nodes is None:
        return "all"
    return ", ".join(nodes) if len(nodes) < 3 else f"{nodes[0]} and {len(nodes) - 1} more"


def _found(api: Api, text: str) -> dict[str, Any]:
    """Return the window whose id ends in `text`."""
    return by_id_end(
        api.items("maintenance-windows", most=_LISTED_MAX), text, "maintenance windows"
    )
