"""`tidegate entitlement`: what a team has of each pool, and what could start now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from cli.context import open_api
from cli.errors import CliError
from cli.output import (
    Devices,
    Format,
    Output,
    counted,
    duration,
    level_text,
    print_data,
    print_fields,
    print_table,
    tell,
)
from primitives.units import MGPU_PER_GPU, DeviceKind

_KINDS = {
    "guaranteed": "now, guaranteed",
    "borrowed": "now, borrowed",
    "reclaim": "after a reclaim",
    "waits": "waits",
    "refused": "refused",
}


def entitlement(
    ctx: typer.Context,
    team: Annotated[
        str | None, typer.Argument(help="Path of the team. Default: the team of your settings.")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Only this pool.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show what a team has of each pool, what could start now, and expected waits.

    START is decided by the scheduler for a job of that size alone; nothing is reserved. P50 and P95
    are waits of jobs of that size, submitted in the last four weeks. CSV has a line for each pool.
    """
    api = open_api(ctx)
    team = team or api.settings.team
    if not team:
        raise CliError("Give the path of a team: tidegate entitlement ai-company/research/nlp.")
    found = api.get("entitlement", team=team, pool=pool)
    if output is not Format.TABLE:
        print_data(found, output, rows="pools" if output is Format.CSV else "")
        return
    for each in found["pools"]:
        _show(each)
    if found["contacts"]:
        people = [
            f"{one['name'] or one['username']} ({one['role'].replace('_', ' ')})"
            for one in found["contacts"]
        ]
        tell(f"Talk to: {', '.join(people)}.")


def _show(pool: Mapping[str, Any]) -> None:
    device = pool["device"]
    devices = Devices([device])

    def count(name: str) -> str:
        return devices.count(pool[name], device)

    share = pool["fair_share"]
    level = level_text(share["level_permille"])
    print_fields(
        [
            ("pool", pool["pool"]),
            ("now", pool["sentence"]),
            ("guaranteed", count("guaranteed_mgpu")),
            ("in use", count("in_use_mgpu")),
            ("borrowed", count("borrowed_mgpu")),
            ("at risk of reclaim", count("at_risk_mgpu")),
            ("lent", count("lent_mgpu")),
            ("waiting", count("waiting_mgpu")),
            ("fair share", level if share["level_permille"] is None else f"{level} (1 = even)"),
            ("place among siblings", f"{share['place']} of {share['siblings']}"),
            *_partners("borrowed by", pool["borrowers"], devices, device),
            *_partners("borrowed from", pool["lenders"], devices, device),
        ]
    )
    reclaimed = pool["reclaimed"]
    if reclaimed["jobs"]:
        until = reclaimed["until"]
        tell(
            f"{DeviceKind(device).text(reclaimed['mgpu'])} of {counted(reclaimed['jobs'], 'job')} "
            f"{'is' if reclaimed['mgpu'] == MGPU_PER_GPU else 'are'} being reclaimed"
            f"{f', the first by {until}' if until else ''}."
        )
    starts = {one["devices"]: one for one in pool["starts"] or ()}
    waits = {one["devices"]: one for one in pool["waits"]}
    rows = []
    for size in sorted(starts.keys() | waits.keys()):
        start, wait = starts.get(size), waits.get(size)
        rows.append(
            [
                str(size),
                "unknown" if start is None else _KINDS.get(start["kind"], start["kind"]),
                "no data" if wait is None else duration(wait["p50_s"]),
                "no data" if wait is None else duration(wait["p95_s"]),
                "0" if wait is None else str(wait["jobs"]),
            ]
        )
    if rows:
        print_table([devices.head, "START", "P50", "P95", "JOBS"], rows)


def _partners(
    words: str, nodes: Sequence[Mapping[str, Any]], devices: Devices, device: str
) -> list[tuple[str, str]]:
    named = [f"{one['node']} {devices.count(one['mgpu'], device)}" for one in nodes]
    return [(words, ", ".join(named))] if named else []
