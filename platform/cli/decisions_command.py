"""`tidegate decisions`: list starts and preemptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.context import open_api
from cli.output import Devices, Format, Output, gpus, print_data, print_table, tell
from cli.replay_command import AtOption, times_at

_LISTED_MAX = 10_000


def decisions(
    ctx: typer.Context,
    team: Annotated[
        str | None, typer.Option(help="Only this team, or all teams below this node: its path.")
    ] = None,
    decision: Annotated[
        str | None,
        typer.Option(
            help="Only these, separated by commas: started, claimed, stopped, claim_dropped."
        ),
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Only in this pool.")] = None,
    at: AtOption = None,
    limit: Annotated[int, typer.Option(min=1, max=_LISTED_MAX, help="Number of decisions.")] = 20,
    output: Output = Format.TABLE,
) -> None:
    """List starts and preemptions of your jobs, newest first.

    Shows which jobs were started, got GPUs or cores reserved, or were preempted. For a preemption
    it also shows the other job, the rule, and the GPU-hours or core-hours of work at risk.
    `tidegate replay --job JOB` has all numbers of one decision.
    """
    times = {} if at is None else times_at(at)
    api = open_api(ctx)
    found = list(
        api.items("decisions", most=limit, team=team, decision=decision, pool=pool, **times)
    )
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No decisions are recorded" + (f" at {at}." if at else "."))
        return
    devices = Devices(one["device"] for one in found)
    print_table(
        ["DECIDED", "DECISION", "JOB", "TEAM", "POOL", devices.head, "AT RISK", "FOR OR FROM"],
        [
            [
                one["decided_at"],
                one["decision"].replace("_", " "),
                one["job"]["name"],
                one["job"]["team"],
                one["pool"],
                devices.count(one["mgpu"], one["device"]),
                "none"
                if one["at_risk_mgpu_s"] is None
                else devices.hours(one["at_risk_mgpu_s"], one["device"]),
                _other_side(one),
            ]
            for one in found
        ],
        squeeze="JOB",
    )
    tell(f"AT RISK: {devices.hours_words} of work since the last checkpoint known at that time.")
    if len(found) == limit:
        tell(f"These are the first {limit}. Use --limit for more.")


def _other_side(one: Mapping[str, Any]) -> str:
    """Return for which job a job was stopped, by which rule, or from which jobs its GPUs came."""
    if one["decision"] == "stopped":
        other = one["beneficiary"]
        who = other["team"] or "another organization"
        named = f"{other['name']} of {who}" if other["name"] else who
        return f"for {named} ({one['right'].replace('_', ' ')})"
    if one["victims"]:
        jobs = "1 job" if one["victims"] == 1 else f"{one['victims']:,} jobs"
        return f"from {jobs} with {gpus(one['victims_mgpu'])}"
    if one["decision"] == "started" and one["guaranteed_mgpu"] < one["mgpu"]:
        return f"{gpus(one['mgpu'] - one['guaranteed_mgpu'])} borrowed"
    return "-"
