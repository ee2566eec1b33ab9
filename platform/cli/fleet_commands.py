"""Commands on clusters, pools and nodes."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli import api as api_module
from cli.api import Api
from cli.context import open_api
from cli.errors import REFUSED, STILL_OPEN, CliError
from cli.open_work import RunningOption, WaitingOption, decided
from cli.output import (
    Devices,
    Format,
    Output,
    age,
    gpus,
    is_wide,
    now_utc,
    print_data,
    print_table,
    tell,
)

#: The most clusters or pools that are read.
LISTED_MAX = 1_000
_NODES_MAX = 10_000
_POLL_S = 1.0
#: How long `node drain` and `node resume` wait for the cluster's answer, in seconds.
_PATIENCE_S = 20
_NODE_NAME = re.compile(r"[\x21-\x7e]{1,253}")

cluster_app = typer.Typer(
    no_args_is_help=True,
    help="Add, change, test, archive and delete clusters, and map their users.",
    rich_markup_mode=None,
)
pool_app = typer.Typer(
    no_args_is_help=True,
    help="Add, change, archive and delete pools.",
    rich_markup_mode=None,
)
node_app = typer.Typer(
    no_args_is_help=True, help="Drain and resume nodes of clusters.", rich_markup_mode=None
)

NodeArgument = Annotated[str, typer.Argument(help="Its name on the cluster, or its id.")]
ClusterOption = Annotated[
    str | None, typer.Option(help="Required when several clusters have a node of this name.")
]


def clusters(ctx: typer.Context, output: Output = Format.TABLE) -> None:
    """List the clusters: their state, and their healthy GPUs or cores by pool.

    SEEN is the age of the last complete answer. While a cluster does not answer, its healthy GPUs
    are of that time. Problems are printed below the table.
    """
    found = list(open_api(ctx).items("clusters", most=LISTED_MAX))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No clusters yet. A platform administrator adds the first one.")
        return
    now = now_utc()
    rows = []
    devices = Devices(pool["device"] for cluster in found for pool in cluster["pools"])
    for cluster in found:
        about = [
            cluster["name"],
            " ".join([cluster["kind"], cluster["api_version"]]).strip(),
            _state(cluster),
            age(cluster["seen_at"], now=now),
        ]
        is_stale = cluster["state"] == "unreachable"
        as_of = f" ({age(cluster['seen_at'], now=now)} ago)" if is_stale else ""
        rows += [
            [
                *about,
                pool["pool"],
                f"{gpus(pool['healthy_mgpu'])}/"
                + devices.count(pool["capacity_mgpu"], pool["device"])
                + as_of,
                f"{pool['nodes_healthy']}/{pool['nodes']}",
            ]
            for pool in cluster["pools"]
        ] or [[*about, "-", "-", "-"]]
    print_table(
        ["CLUSTER", "KIND", "STATE", "SEEN", "POOL", f"HEALTHY {devices.head}", "NODES"], rows
    )
    for cluster in found:
        for words in (cluster["message"], cluster.get("isolation", "")):
            if words:
                tell(f"{cluster['name']}: {words}")


def _state(cluster: Mapping[str, Any]) -> str:
    if cluster.get("archived_at") is not None:
        return "archived"
    state: str = cluster["state"]
    return state if cluster["is_enabled"] else f"disabled, {state}"


ClusterArgument = Annotated[str, typer.Argument(help="Its name.")]


@cluster_app.command("archive")
def cluster_archive(
    ctx: typer.Context,
    name: ClusterArgument,
    waiting: WaitingOption = None,
    running: RunningOption = None,
) -> None:
    """Archive a cluster: no job starts there, and its capacity no longer counts.

    Lists running jobs first, and asks for --running and --waiting where there are such jobs.
    Waiting jobs are jobs pinned to the cluster. For platform administrators.
    """
    api = open_api(ctx)
    address = address_of(api, "cluster", name) + "/archive"
    api.post(address, decided(api.get(address), waiting=waiting, running=running))
    tell(f"{name} is archived. Restore it with `tidegate cluster restore {name}`.")


@cluster_app.command("restore")
def cluster_restore(ctx: typer.Context, name: ClusterArgument) -> None:
    """Restore a cluster. Jobs may start there once it answers."""
    api = open_api(ctx)
    api.post(address_of(api, "cluster", name) + "/restore")
    tell(f"{name} is in use again.")


@cluster_app.command("delete")
def cluster_delete(ctx: typer.Context, name: ClusterArgument) -> None:
    """Delete a cluster that never answered."""
    api = open_api(ctx)
    api.delete(address_of(api, "cluster", name))
    tell(f"{name} is deleted.")


PoolArgument = Annotated[str, typer.Argument(help="Its name.")]


@pool_app.command("alias")
def pool_alias(
    ctx: typer.Context,
    name: PoolArgument,
    add: Annotated[
        list[str] | None,
        typer.Option(metavar="ALIAS", help="Another name of its GPUs. Repeatable."),
    ] = None,
    remove: Annotated[list[str] | None, typer.Option(metavar="ALIAS", help="Repeatable.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show or change the other names of a pool, such as nvidia_h100_80gb_hbm3.

    Jobs may ask for the pool by them: `--gres=gpu:h100-sxm:8`. Case does not matter, and _ is -.
    Changes are for platform administrators.
    """
    api = open_api(ctx)
    address = address_of(api, "pool", name)
    aliases = api.get(address)["aliases"]
    if add or remove:
        gone = {alias.lower().replace("_", "-") for alias in remove or ()}
        if unknown := gone - set(aliases):
            raise CliError(f"{name} has no alias {min(unknown)!r}.")
        left = [alias for alias in aliases if alias not in gone]
        aliases = api.patch(address, {"aliases": [*left, *(add or ())]})["aliases"]
    if output is Format.TABLE:
        typer.echo(", ".join(aliases) or "none")
    else:
        print_data({"pool": name, "aliases": aliases}, output)


@pool_app.command("archive")
def pool_archive(
    ctx: typer.Context,
    name: PoolArgument,
    waiting: WaitingOption = None,
    running: RunningOption = None,
) -> None:
    """Archive a pool: no job starts in it, and its capacity no longer counts.

    Lists running jobs first, and asks for --running and --waiting where there are such jobs.
    Waiting jobs that accept another pool start there. For platform administrators.
    """
    api = open_api(ctx)
    address = address_of(api, "pool", name) + "/archive"
    api.post(address, decided(api.get(address), waiting=waiting, running=running))
    tell(f"{name} is archived. Restore it with `tidegate pool restore {name}`.")


@pool_app.command("restore")
def pool_restore(ctx: typer.Context, name: PoolArgument) -> None:
    """Restore a pool. Its nodes count once their clusters answer."""
    api = open_api(ctx)
    api.post(address_of(api, "pool", name) + "/restore")
    tell(f"{name} is in use again.")


@pool_app.command("delete")
def pool_delete(ctx: typer.Context, name: PoolArgument) -> None:
    """Delete a pool that was never used."""
    api = open_api(ctx)
    api.delete(address_of(api, "pool", name))
    tell(f"{name} is deleted.")


def address_of(api: Api, kind: str, name: str) -> str:
    """Return the address of the cluster or pool with this name.

    Raises CliError where there is none.
    """
    for each in api.items(f"{kind}s", most=LISTED_MAX):
        if each["name"] == name:
            return f"{kind}s/{each['id']}"
    raise CliError(f"There is no {kind} {name!r}.")


def nodes(
    ctx: typer.Context,
    cluster: Annotated[str | None, typer.Option(help="Only of this cluster.")] = None,
    pool: Annotated[str | None, typer.Option(help="Only of this pool.")] = None,
    out: Annotated[bool, typer.Option("--out", help="Only nodes that accept no new jobs.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=_NODES_MAX, help="Number of nodes.")] = 1_000,
    output: Output = Format.TABLE,
) -> None:
    """List the nodes of the clusters, with their state as the cluster calls it.

    TAKES WORK says whether new jobs may start there. REASON is the note of the cluster's
    administrators, or the last request from the portal and its result. Only platform administrators
    see it. FEATURES are omitted on a narrow terminal.
    """
    items = list(open_api(ctx).items("nodes", most=limit, cluster=cluster, pool=pool))
    found = [node for node in items if not (out and node["is_schedulable"])]
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No matching nodes.")
        return
    now = now_utc()
    devices = Devices(node["device"] for node in found)
    wide = ["FEATURES"] if is_wide() else []
    print_table(
        ["CLUSTER", "NODE", "POOL", devices.head, "TAKES WORK", "STATE", "SEEN", *wide, "REASON"],
        [
            [
                node["cluster"],
                node["name"],
                node["pool"],
                devices.count(node["capacity_mgpu"], node["device"]),
                "yes" if node["is_schedulable"] else "no",
                node["state"],
                age(node["seen_at"], now=now),
                *([",".join(node["features"]) or "-"] if wide else []),
                _remark(node),
            ]
            for node in found
        ],
        squeeze="REASON",
    )
    if len(items) == limit:
        tell(f"These are the first {limit}. Use --limit for more.")


@node_app.command("drain")
def node_drain(
    ctx: typer.Context,
    node: NodeArgument,
    reason: Annotated[str, typer.Option(help="Reason in one line, which the cluster shows.")],
    evict: Annotated[
        bool, typer.Option("--evict", help="Preempt and requeue its jobs, and evict the rest.")
    ] = False,
    grace: Annotated[
        int,
        typer.Option(
            min=1, max=3_600, help="With --evict: seconds of grace for workloads that are no jobs."
        ),
    ] = 300,
    cluster: ClusterOption = None,
    output: Output = Format.TABLE,
) -> None:
    """Keep new jobs off a node. Running jobs continue. For platform administrators.

    With --evict, jobs get the notice and grace period of their class, are stopped and requeued. The
    command waits a little for the cluster's answer. Exit codes: 0 done by the cluster; 3 refused by
    the portal or the cluster; 75 no answer from the cluster yet, or the node is not empty yet.
    """
    body: dict[str, str | int] = {"reason": reason}
    if evict:
        body["evict_grace_s"] = grace
    _ask(ctx, node, cluster, "drain", body, output)


@node_app.command("resume")
def node_resume(
    ctx: typer.Context,
    node: NodeArgument,
    cluster: ClusterOption = None,
    output: Output = Format.TABLE,
) -> None:
    """Let new jobs start on a node again. Waits and exits as `drain` does."""
    _ask(ctx, node, cluster, "resume", {}, output)


def _ask(
    ctx: typer.Context,
    node: str,
    cluster: str | None,
    action: str,
    body: Mapping[str, str | int],
    output: Format,
) -> None:
    api = open_api(ctx)
    node_id = _node_id(api, node, cluster)
    found = api.post(f"nodes/{node_id}/{action}", body, key=str(uuid.uuid4()))
    asked_at = found["request"]["requested_at"]
    waited_s = 0.0
    while found["request"]["state"] == "pending" and waited_s < _PATIENCE_S:
        api_module.sleep(_POLL_S)
        waited_s += _POLL_S
        found = api.get(f"nodes/{node_id}")
        if found["request"]["requested_at"] != asked_at:
            raise CliError(f"Somebody else changed {node} in the meantime: {_remark(found)}")
    if output is not Format.TABLE:
        print_data(found, output)
    name, request = f"{found['name']} of {found['cluster']}", found["request"]
    match request["state"]:
        case "done":
            tell(f"{name}: done by the cluster. The list shows it at the next update.")
        case "pending" if request["message"]:
            tell(f"{name}: {request['message']}")
            raise typer.Exit(STILL_OPEN)
        case "pending":
            tell(f"{name}: no answer from the cluster yet. The portal retries by itself.")
            raise typer.Exit(STILL_OPEN)
        case _:
            raise CliError(f"{name}: {request['message']}", exit_code=REFUSED)


def _node_id(api: Api, node: str, cluster: str | None) -> str:
    """Return the id of the node with this id or name. Raises CliError unless it is unique."""
    try:
        return str(uuid.UUID(node))
    except ValueError:
        pass
    if not _NODE_NAME.fullmatch(node):
        raise CliError(f"{node[:60]!r} is not a valid node name.")
    found = [
        item
        for item in api.items("nodes", most=_NODES_MAX, cluster=cluster)
        if item["name"] == node
    ]
    where = {item["cluster"] for item in found}
    if not found:
        raise CliError(f"There is no node {node}" + (f" in {cluster}." if cluster else "."))
    if len(where) > 1:
        raise CliError(f"{node} is in {', '.join(sorted(where))}. Choose one with --cluster.")
    return str(found[0]["id"])


def _remark(node: dict[str, Any]) -> str:
    """Return the cluster's reason, and a request that the cluster has not executed."""
    request = node["request"]
    parts = [node["reason"]] if node["reason"] else []
    if request is not None and request["state"] == "pending":
        parts.append(f"{request['action']} requested {request['requested_at']}")
        parts += [request["message"]] if request["message"] else []
    elif request is not None and request["state"] in ("refused", "given_up"):
        word = request["state"].replace("_", " ")
        parts.append(f"{request['action']} {word}: {request['message']}")
    return "; ".join(parts) or "-"
