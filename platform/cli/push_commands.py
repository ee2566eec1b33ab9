"""`tidegate quota push`: write the quota tree into a cluster's own limits."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

import typer

from cli import api as api_module
from cli.api import Api
from cli.context import open_api
from cli.errors import REFUSED, STILL_OPEN, CliError
from cli.output import Format, Output, print_data, print_table, tell
from cli.submitting import seconds

_CLUSTERS_MAX = 1_000
_POLL_S = 1.0
_POLL_S_MAX = 5.0


def quota_push(
    ctx: typer.Context,
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="Its name.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the differences. Change nothing.")
    ] = False,
    timeout: Annotated[
        str, typer.Option(help="Maximum wait for the cluster's answer: 90s, 30m, 2h...")
    ] = "20m",
    output: Output = Format.TABLE,
) -> None:
    """Set a cluster's own limits to the quotas, and show each difference.

    For platform administrators. Reductions come first. Accepted differences stay as they are.

    Exit codes: 0 done; 3 refused by the portal or the cluster; 75 still waiting after --timeout.
    """
    patience_s = seconds(timeout, "--timeout") or 0
    api = open_api(ctx)
    path = f"clusters/{_cluster_id(api, cluster)}/quota-pushes"
    body = {"kind": "dry_run" if dry_run else "push"}
    push = api.post(path, body, key=str(uuid4()))
    push = _wait(api, f"{path}/{push['id']}", push, patience_s)
    if output is not Format.TABLE:
        print_data(push, output)
    else:
        _show(push)
    if push["status"] == "waiting":
        tell(f"{cluster} has not answered yet. {push['error']}".rstrip())
        tell(f"The request continues without this command: {push['id']}")
        raise typer.Exit(STILL_OPEN)
    if push["status"] == "failed":
        raise CliError(push["error"], exit_code=REFUSED)


def _wait(api: Api, path: str, push: dict[str, Any], patience_s: int) -> dict[str, Any]:
    """Return the request once it is done, or its state after `patience_s`."""
    waited_s, pause_s, told = 0.0, _POLL_S, ""
    while push["status"] == "waiting" and waited_s < patience_s:
        if push["error"] != told:
            told = push["error"]
            tell(f"Waiting: {told}")
        api_module.sleep(pause_s)
        waited_s += pause_s
        pause_s = min(pause_s * 1.5, _POLL_S_MAX)
        push = api.get(path)
    return push


def _show(push: dict[str, Any]) -> None:
    changes = push["changes"]
    if not changes:
        if push["status"] == "done":
            tell("No differences.")
        return
    rows = [
        [change["kind"], change["subject"], name, *sides, change["result"]]
        for change in changes
        for name, *sides in _settings(change)
    ]
    columns = ["CHANGE", "OF", "SETTING", "BEFORE", "AFTER", "RESULT"]
    print_table(columns, rows, squeeze="OF", keep_end=True)
    for change in changes:
        if change["note"]:
            tell(f"{change['subject']}: {change['note']}")
    if (left := push["change_count"] - len(changes)) > 0:
        tell(f"And {left} more differences.")


def _settings(change: dict[str, Any]) -> list[list[str]]:
    """Return a row for each setting: its name, the present value and the new value."""
    before, after = change["before"], change["after"]
    names = list(dict.fromkeys([*before, *after]))
    return [[name, _text(before, name), _text(after, name)] for name in names]


def _text(settings: dict[str, Any], name: str) -> str:
    if name not in settings:
        return "-"
    value = settings[name]
    if value is None:
        return "none"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _cluster_id(api: Api, name: str) -> str:
    found = list(api.items("clusters", most=_CLUSTERS_MAX))
    for cluster in found:
        if name in (cluster["name"], cluster["id"]):
            return str(cluster["id"])
    names = ", ".join(str(cluster["name"]) for cluster in found[:10])
    raise CliError(f"There is no cluster {name[:63]!r}. Known: {names or 'none'}.")
