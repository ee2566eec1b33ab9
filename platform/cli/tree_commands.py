"""`tidegate tree`: changes of teams, departments and organizations."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.open_work import RunningOption, WaitingOption, decided
from cli.output import print_table, tell
from primitives.units import gpus_text

tree_app = typer.Typer(
    no_args_is_help=True,
    help="Create, rename, move, archive, export and import teams and departments.",
    rich_markup_mode=None,
)
PathArgument = Annotated[str, typer.Argument(help="Its path, or the end of it: research/nlp.")]


@tree_app.command("create")
def create(
    ctx: typer.Context,
    path: Annotated[str, typer.Argument(help="Its whole path: ai-company/research/robotics.")],
    name: Annotated[
        str | None, typer.Option(help="Name that people see. Default: the last part of the path.")
    ] = None,
    department: Annotated[
        bool, typer.Option("--department", help="A department. Default: a team.")
    ] = False,
) -> None:
    """Create a team or department. The last part of its path never changes."""
    parent, _, slug = path.strip("/").rpartition("/")
    if not parent:
        raise CliError("Give the whole path, for example ai-company/research/robotics.")
    body = {"parent": parent, "slug": slug, "name": name or slug}
    kind = "departments" if department else "teams"
    made = open_api(ctx).post(kind, body, key=str(uuid.uuid4()))
    tell(f"{made['path']} is created.")


@tree_app.command("rename")
def rename(
    ctx: typer.Context,
    path: PathArgument,
    name: Annotated[str, typer.Argument(help="Name that people see. The path stays.")],
) -> None:
    """Give a team, department or organization another name."""
    api = open_api(ctx)
    node = node_at(api, path)
    api.patch(f"{node['kind']}s/{node['id']}", {"name": name})
    tell(f"{node['path']} is {name} now.")


@tree_app.command("archive")
def archive(
    ctx: typer.Context,
    path: PathArgument,
    waiting: WaitingOption = None,
    running: RunningOption = None,
) -> None:
    """Archive a node with all below it: no jobs are submitted or start there.

    Lists running jobs first, and asks for --running and --waiting where there are such jobs.
    History and bills stay readable. `tidegate tree restore` restores the node.
    """
    api = open_api(ctx)
    node = node_at(api, path)
    address = f"tree/{node['id']}/archive"
    api.post(address, decided(api.get(address), waiting=waiting, running=running))
    tell(f"{node['path']} is archived. Restore it with `tidegate tree restore {node['path']}`.")


@tree_app.command("restore")
def restore(ctx: typer.Context, path: PathArgument) -> None:
    """Restore a node with everything that was archived together with it."""
    api = open_api(ctx)
    node = node_at(api, path)
    api.post(f"tree/{node['id']}/restore")
    tell(f"{node['path']} is restored.")


@tree_app.command("move")
def move(
    ctx: typer.Context,
    path: PathArgument,
    to: Annotated[
        str, typer.Option(help="Its new parent: ai-company/production, or the end of that path.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Move it. Default: only preview.")] = False,
) -> None:
    """Move a team, or a department with all below it, to another parent of its organization.

    First lists the changes: guarantees of both parents, jobs, and people with inherited roles.
    Future use counts for the new parent. Past use stays with the former parent.
    """
    api = open_api(ctx)
    node = node_at(api, path)
    address = f"tree/{node['id']}/move"
    shown = api.get(address, parent=to)
    _print_move(shown)
    if shown["problem"]:
        raise CliError(f"It cannot be moved yet. {shown['problem']}")
    if not yes:
        raise CliError("Nothing was moved. Add --yes to move it.")
    moved = api.post(address, {"parent": to})
    tell(
        f"{node['path']} is {moved['path']} now. Its bills until now stay with "
        f"{shown['node']['parent']}."
    )
    if moved["clusters_to_push"]:
        tell(
            "Its waiting jobs cannot start on these clusters until a platform administrator pushes "
            "the quotas:"
        )
    for cluster in moved["clusters_to_push"]:
        tell(f"    tidegate quota push {cluster}")


@tree_app.command("delete")
def delete(ctx: typer.Context, path: PathArgument) -> None:
    """Delete a node that was never used, with its quotas.

    A node that has or had jobs, bills, prices or members must be archived instead.
    """
    api = open_api(ctx)
    node = node_at(api, path)
    api.delete(f"tree/{node['id']}")
    tell(f"{node['path']} is deleted.")


def _print_move(shown: dict[str, Any]) -> None:
    """Print the changes of a move as tables."""
    guarantees = [
        [
            each["pool"],
            gpus_text(each["guaranteed_mgpu"]),
            _reserve_text(each["leaves"]),
            _reserve_text(each["joins"]),
        ]
        for each in shown["guarantees"]
    ]
    if guarantees:
        left, joined = shown["node"]["parent"], shown["parent"]
        print_table(["POOL", "GUARANTEED", f"FREE IN {left}", f"FREE IN {joined}"], guarantees)
    if shown["running_jobs"]:
        print_table(
            ["RUNNING JOB", "TEAM", "USER", "STATE"],
            [
                [job["name"], job["team"], job["user"], job["state"]]
                for job in shown["running_jobs"]
            ],
            squeeze="RUNNING JOB",
        )
    running, waiting = shown["running"], shown["waiting"]
    tell(
        f"{running:,} running {'job continues' if running == 1 else 'jobs continue'}, and "
        f"{waiting:,} {'job continues' if waiting == 1 else 'jobs continue'} to wait."
    )
    roles = [
        [change, each["user"], each["role"], each["given_on"]]
        for change in ("gained", "lost")
        for each in shown[change]
    ]
    if roles:
        print_table(["ROLE IS", "USER", "ROLE", "GIVEN ON"], roles)
    for change in ("gained", "lost"):
        if shown[f"{change}_count"] > len(shown[change]):
            tell(f"In total, {shown[f'{change}_count']:,} roles are {change}.")


def _reserve_text(share: dict[str, Any] | None) -> str:
    if share is None:
        return "no quota"
    return f"{gpus_text(share['reserve_before_mgpu'])} -> {gpus_text(share['reserve_after_mgpu'])}"


def node_at(api: Api, path: str) -> dict[str, Any]:
    """Return the node with this path, or the only one whose path ends with it.

    Raises Refused, which lists the candidates, or CliError if there is none.
    """
    wanted = path.strip("/")
    for kind in ("teams", "departments", "organizations"):
        for node in api.items(kind, most=1, path=wanted):
            return node
    raise CliError(f"There is no {wanted!r} that you can see.")
