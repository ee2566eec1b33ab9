"""`tidegate today`: lost work, ended attempts and quota changes since yesterday."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.context import open_api
from cli.moments import moment
from cli.output import Devices, Format, Output, print_data, print_table, tell

_HOW = {
    "timed_out": "reached its time limit",
    "withdrawn": "withdrawn from its cluster",
    "node_lost": "lost its node",
    "requeued": "requeued as asked",
    "unknown": "outcome unknown",
}


def today(
    ctx: typer.Context,
    team: Annotated[
        str | None, typer.Argument(help="Only this team, or all teams below this node: its path.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="At most 7 days ago. Default: 24 hours ago.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show lost work, ended attempts and quota changes since yesterday.

    Lost work is the work since the last checkpoint, or the start. It is lost when an attempt fails,
    times out, is preempted, is withdrawn from its cluster or loses its node.
    """
    start = None if since is None else moment(since, "--since")
    found = open_api(ctx).get("today", team=team, since=start)
    if output is not Format.TABLE:
        print_data(found, output)
        return
    devices = Devices(one["device"] for one in [*found["waste"], *found["ends"]])
    if found["waste"]:
        print_table(
            ["LOST WORK OF", "TEAM", "USER", "WHAT HAPPENED", "TIMES", devices.hours_head],
            [
                [
                    one["name"],
                    one["team"],
                    one["user"],
                    _how(one) + ("" if one["has_checkpoint"] else ", no checkpoint"),
                    str(one["attempts"]),
                    devices.hours(one["lost_mgpu_s"], one["device"]),
                ]
                for one in found["waste"]
            ],
            squeeze="LOST WORK OF",
        )
    for total in found["totals"]:
        device = total["device"]
        if total["used_mgpu_s"] == 0:
            continue
        tell(
            f"Lost: {devices.hours(total['lost_mgpu_s'], device)} of "
            f"{devices.hours(total['used_mgpu_s'], device)} {devices.hours_words} that ended."
        )
    if found["ends"]:
        print_table(
            ["ENDED", "JOB", "TEAM", "USER", "HOW", devices.head],
            [
                [
                    one["ended_at"],
                    one["name"],
                    one["team"],
                    one["user"],
                    _how(one),
                    devices.count(one["mgpu"], one["device"]),
                ]
                for one in found["ends"]
            ],
            squeeze="JOB",
        )
    if found["quota_changes"]:
        print_table(
            ["CHANGED", "NODE", "POOL", "BY", "REASON"],
            [
                [one["at"], one["node"], one["pool"], one["actor"] or "Tidegate", one["reason"]]
                for one in found["quota_changes"]
            ],
            squeeze="REASON",
        )
    if not (found["ends"] or found["quota_changes"]):
        tell("No jobs ended and no quotas changed.")


def _how(one: Mapping[str, Any]) -> str:
    return _HOW.get(one["how"], str(one["how"]))
