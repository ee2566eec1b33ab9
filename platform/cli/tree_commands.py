"""`tidegate tree`: archive and restore teams, departments and organizations."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.output import print_table, tell

_SEARCHED_MAX = 10_000

tree_app = typer.Typer(
    no_args_is_help=True,
    help="Archive and restore teams, departments and organizations.",
    rich_markup_mode=None,
)
PathArgument = Annotated[str, typer.Argument(help="Its path: ai-company/research/nlp.")]


@tree_app.command("archive")
def archive(
    ctx: typer.Context,
    path: PathArgument,
    waiting: Annotated[
        str | None, typer.Option(help="Jobs that wait: wait (until the restore) or cancel.")
    ] = None,
    running: Annotated[
        str | None, typer.Option(help="Jobs that run: end (run to their end) or cancel.")
    ] = None,
) -> None:
    """Archive a node with all below it: nothing new is submitted or starts there.

    Lists what runs there first, and asks for --running and --waiting where there is such work.
    History and bills stay readable; `tidegate tree restore` brings it back.
    """
    api = open_api(ctx)
    address = f"tree/{_node_at(api, path)['id']}/archive"
    work = api.get(address)
    if work["running_jobs"]:
        print_table(
            ["RUNS", "TEAM", "USER", "STATE"],
            [[job["name"], job["team"], job["user"], job["state"]] for job in work["running_jobs"]],
            squeeze="RUNS",
        )
    missing = []
    if work["running"] and running is None:
        missing.append(f"{work['running']:,} jobs run: add --running end or --running cancel.")
    if work["waiting"] and waiting is None:
        missing.append(f"{work['waiting']:,} jobs wait: add --waiting wait or --waiting cancel.")
    if missing:
        raise CliError(" ".join(["Nothing is archived yet.", *missing]))
    chosen = {"waiting": waiting, "running": running}
    api.post(address, {name: value for name, value in chosen.items() if value is not None})
    tell(f"{path} is archived. Restore it with `tidegate tree restore {path}`.")


@tree_app.command("restore")
def restore(ctx: typer.Context, path: PathArgument) -> None:
    """Restore a node with all that was archived together with it."""
    api = open_api(ctx)
    api.post(f"tree/{_node_at(api, path)['id']}/restore")
    tell(f"{path} is restored.")


def _node_at(api: Api, path: str) -> dict[str, Any]:
    wanted = path.strip("/")
    parent = wanted.rpartition("/")[0]
    lists = ("teams", "departments") if parent else ("organizations",)
    for kind in lists:
        for node in api.items(kind, most=_SEARCHED_MAX, parent=parent or None):
            if node["path"] == wanted:
                return node
    raise CliError(f"There is no {wanted!r} that you can see.")
