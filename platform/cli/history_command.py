"""`tidegate history`: use, waits and preemptions of a node over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from cli.context import open_api
from cli.errors import CliError
from cli.moments import day_or_time, zone_named
from cli.output import Devices, Format, Output, duration, gpus, print_data, print_table, tell

_PAIRS_SHOWN = 20


def history(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(help="Path: ai-company/research.")],
    pool: Annotated[str, typer.Option(help="Name of the pool.")],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            "--start",
            help="2026-11-01, in the organization's time zone, or 2026-11-01T00:00:00Z. Default: "
            "7 days ago.",
        ),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", "--end", help="End, excluded.")] = None,
    step: Annotated[
        str | None, typer.Option(help="5m, hour or day. Default: follows the period.")
    ] = None,
    waits: Annotated[
        bool, typer.Option("--waits", help="Show how long jobs waited before their first start.")
    ] = False,
    preemptions: Annotated[
        bool, typer.Option("--preemptions", help="Show preemptions, and the work that they cost.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show the use, guarantee, lent and waiting GPUs of a node over time.

    The table has averages of each step, in GPUs or cores. IN USE is WITHIN the guarantee and ABOVE
    it. LENT is idle guarantee that others used. Example: history ai-company/research --pool h100
    --from 2026-11-01 --to 2026-12-01 --step day.
    """
    if (start is None) != (end is None):
        raise CliError("Give both --from and --to, or neither for the last 7 days.")
    asked = {
        "node": node,
        "pool": pool,
        "start": None if start is None else day_or_time(start, "--from"),
        "end": None if end is None else day_or_time(end, "--to"),
    }
    if waits and preemptions:
        raise CliError("Give --waits or --preemptions, not both.")
    kind = "waits" if waits else "preemptions" if preemptions else "use"
    if kind != "use" and step is not None:
        raise CliError(f"Give --{kind} without --step.")
    api = open_api(ctx)
    if output is Format.CSV:
        steps = {"step": step} if kind == "use" else {}
        text = api.get_text(f"history/{kind}", **asked, **steps, format="csv")
        typer.echo(text, nl=not text.endswith("\n"))
        return
    found = api.get(f"history/{kind}", **asked, **({"step": step} if kind == "use" else {}))
    if output is not Format.TABLE:
        print_data(found, output)
    elif waits:
        _show_waits(found)
    elif preemptions:
        _show_preemptions(found)
    else:
        _show_use(found)


def _show_use(found: Mapping[str, Any]) -> None:
    zone = zone_named(found["time_zone"])
    steps = found["series"]["steps"]
    rows = []
    for number, (start, end) in enumerate(pairwise(found["edges"])):
        seconds = _seconds(start, end)
        level = {name: _average(values[number], seconds) for name, values in steps.items()}
        rows.append([_local(start, zone), *(gpus(value) for value in _columns(level))])
    print_table(["STEP", "IN USE", "WITHIN", "ABOVE", "GUARANTEE", "LENT", "IDLE", "WAITING"], rows)
    devices = Devices([found["device"]])
    if found["pairs"]:
        print_table(
            ["BORROWER", "LENDER", devices.hours_head],
            [
                [pair["borrower"], pair["lender"], devices.hours(pair["mgpu_s"], found["device"])]
                for pair in found["pairs"][:_PAIRS_SHOWN]
            ],
        )
    within, lent, guarantee = (
        found["series"]["sums"][f"{name}_mgpu_s"] for name in ("within", "lent", "guarantee")
    )
    parts = [
        devices.hours(value, found["device"])
        for value in (within, lent, guarantee - within - lent, guarantee)
    ]
    tell(
        f"Within {parts[0]} + lent {parts[1]} + idle {parts[2]} = guarantee {parts[3]} "
        f"{devices.hours_words}."
    )


def _columns(level: Mapping[str, int]) -> Sequence[int]:
    classes = ("guaranteed", "borrowed", "unpaid", "fault")
    used = sum(level[f"{name}_mgpu_s"] for name in classes)
    within, guarantee = level["within_mgpu_s"], level["guarantee_mgpu_s"]
    lent = level["lent_mgpu_s"]
    idle = guarantee - within - lent
    return used, within, used - within, guarantee, lent, idle, level["waiting_mgpu_s"]


def _average(mgpu_s: int, seconds: int) -> int:
    """Return the average of a step in milli-GPU, halves rounded up."""
    return (2 * mgpu_s + seconds) // (2 * seconds) if seconds else 0


def _seconds(start: str, end: str) -> int:
    length = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return int(length.total_seconds())


def _local(moment: str, zone: ZoneInfo) -> str:
    return f"{datetime.fromisoformat(moment).astimezone(zone):%Y-%m-%d %H:%M}"


def _show_waits(found: Mapping[str, Any]) -> None:
    if not found["totals"]:
        tell(f"No job of {found['node']} started in {found['pool']} in this period.")
        return
    print_table(
        ["TEAM", "DEMAND", "JOBS", "P50", "P95"],
        [
            [
                row.get("team", "all"),
                row["usage_class"],
                row["jobs"],
                duration(row["p50_s"]),
                duration(row["p95_s"]),
            ]
            for row in [*found["totals"], *found["teams"]]
        ],
        squeeze="TEAM",
        keep_end=True,
    )


def _show_preemptions(found: Mapping[str, Any]) -> None:
    if not found["rows"]:
        tell(f"No preemption of or for {found['node']} in {found['pool']} in this period.")
        return
    devices = Devices([found["device"]])
    print_table(
        ["TEAM", "PREEMPTED FOR", "TIMES", "JOBS", f"LOST {devices.hours_head}"],
        [
            [
                row["team"],
                row["for_team"],
                row["preemptions"],
                row["jobs"],
                devices.hours(row["lost_mgpu_s"], found["device"]),
            ]
            for row in found["rows"]
        ],
    )
    lost = devices.hours(found["lost_mgpu_s"], found["device"])
    tell(
        f"Jobs of {found['node']}: preempted {found['preemptions']} times, "
        f"{lost} {devices.hours_words} lost."
    )
