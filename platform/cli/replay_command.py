"""`tidegate replay`: show recorded cycles, their decisions and the reasons."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import typer

from cli.context import open_api
from cli.errors import CliError, Refused
from cli.job_lookup import id_of_job
from cli.output import (
    Devices,
    Format,
    Output,
    duration,
    gpus,
    now_utc,
    print_data,
    print_fields,
    print_table,
    tell,
)
from primitives.units import DeviceKind

_CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?")
_CYCLES_MAX = 10_000

AtOption = Annotated[
    str | None,
    typer.Option(
        help="Only at this time (UTC): 14:03, 14:03:27, 2026-11-21T14:03 or ...T14:03:27Z."
    ),
]


def replay(
    ctx: typer.Context,
    cycle: Annotated[
        str | None, typer.Argument(metavar="[CYCLE]", help="Its id. Default: list the cycles.")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(help="Only decisions on this job: its id, or the beginning of its name."),
    ] = None,
    at: AtOption = None,
    limit: Annotated[int, typer.Option(min=1, max=_CYCLES_MAX, help="Number of cycles.")] = 20,
    output: Output = Format.TABLE,
) -> None:
    """Show why a job was started or preempted, and by which cycle.

    With --job, show the decisions of recorded cycles on one of your jobs, and the numbers at that
    time. For platform administrators, without --job: list recorded cycles, or show all decisions of
    one. For one cycle, also show what this version and today's policy would do differently.
    """
    if cycle is not None and (job is not None or at is not None):
        raise CliError("Give either a cycle, or --job and --at.")
    api = open_api(ctx)
    times = {} if at is None else times_at(at)
    if job is not None:
        job_id = id_of_job(api, job)
        found = api.get(f"jobs/{job_id}/decisions", **times, limit=min(limit, 20))["items"]
        if output is not Format.TABLE:
            print_data(found, output)
        elif found:
            _show_decisions(found)
        else:
            tell(
                "No recorded cycle started it, stopped it or reserved GPUs for it"
                + (f" at {at}." if at else ".")
                + " `tidegate why` shows why it waits."
            )
    elif cycle is not None:
        replayed = api.get(f"cycles/{_cycle_id(cycle)}")
        if output is not Format.TABLE:
            print_data(replayed, output)
        else:
            _show_cycle(replayed)
    else:
        try:
            cycles = list(api.items("cycles", most=limit, **times))
        except Refused as refused:
            if refused.status == 403:
                tell(
                    "For decisions on your jobs, run `tidegate decisions`; for one job, "
                    "`tidegate replay --job JOB`."
                )
            raise
        if output is not Format.TABLE:
            print_data(cycles, output)
        elif cycles:
            _show_cycles(cycles)
        else:
            tell("No cycles are recorded" + (f" at {at}." if at else "."))


def _cycle_id(given: str) -> str:
    try:
        return str(UUID(given))
    except ValueError:
        raise CliError(
            f"{given[:40]!r} is not the id of a cycle. `tidegate replay` lists cycles, and "
            "`tidegate replay --job JOB` lists those of a job."
        ) from None


def times_at(text: str) -> dict[str, str]:
    """Return the second or minute in `text` as filters of the API."""
    given = text.removesuffix("Z")
    if _CLOCK.fullmatch(given):
        given = f"{now_utc():%Y-%m-%d}T{given.zfill(5 if given.count(':') == 1 else 8)}"
    try:
        start = datetime.strptime(
            f"{given}+0000", f"%Y-%m-%dT%H:%M{':%S' * (given.count(':') == 2)}%z"
        )
    except ValueError:
        raise CliError(
            f"--at {text[:40]!r}: write 14:03 (today, UTC) or 2026-11-21T14:03:27Z."
        ) from None
    end = start + timedelta(seconds=1 if given.count(":") == 2 else 60)
    return {
        "decided_at__gte": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        "decided_at__lt": f"{end:%Y-%m-%dT%H:%M:%SZ}",
    }


def _show_cycles(cycles: list[dict[str, Any]]) -> None:
    print_table(
        ["DECIDED", "STARTED", "CLAIMED", "STOPPED", "VERSION", "CYCLE"],
        [
            [one["decided_at"], one["started"], one["claimed"], one["stopped"], one["version"],
             one["id"]]
            for one in cycles
        ],
    )  # fmt: skip


def _show_decisions(found: list[dict[str, Any]]) -> None:
    for number, one in enumerate(found):
        if number:
            typer.echo()
        named, device = one["job"], DeviceKind(one["device"])
        print_fields(
            [
                ("decided", f"{one['decided_at']} (cycle {one['cycle']})"),
                ("job", f"{named['name'] or 'of others'} ({named['id'] or named['team'] or '-'})"),
                ("decision", one["decision"].replace("_", " ")),
                ("why", one["sentence"]),
                ("use then", _standings(one["standings"], device)),
            ]
        )
        if one["beneficiary"] is not None:
            theirs = one["beneficiary"]
            use_then = _standings(theirs["standings"], device)
            print_fields([("for", _who(theirs)), ("its use then", use_then)])
        if one["victims"]:
            print_table(
                [
                    "VICTIM",
                    "TEAM",
                    Devices([device]).head,
                    "GUARANTEED",
                    "RIGHT",
                    "NOT SAVED",
                    "GRACE",
                ],
                [
                    [
                        victim["name"] or victim["id"] or "-",
                        victim["team"] or "another organization",
                        gpus(victim["mgpu"]),
                        gpus(victim["guaranteed_mgpu"]),
                        victim["right"].replace("_", " "),
                        "-" if victim["unsaved_s"] is None else duration(victim["unsaved_s"]),
                        duration(victim["grace_s"]),
                    ]
                    for victim in one["victims"]
                ],
                squeeze="VICTIM",
            )


def _who(job: dict[str, Any]) -> str:
    if job["id"] is None:
        return job["team"] or "another organization"
    return f"{job['name']} of {job['team']} ({job['id']})"


def _standings(standings: list[dict[str, Any]], device: DeviceKind) -> str:
    return "; ".join(
        f"{one['node']} {gpus(one['in_use_mgpu'])} of {device.text(one['guaranteed_mgpu'])} "
        "guaranteed"
        for one in standings
    )


def _show_cycle(cycle: dict[str, Any]) -> None:
    print_fields(
        [
            ("decided", cycle["decided_at"]),
            ("by version", cycle["version"]),
            ("waited", cycle["queued"]),
            ("ran", cycle["running"]),
        ]
    )
    typer.echo()
    _show_decisions(cycle["decisions"])
    typer.echo()
    if not cycle["difference_count"]:
        typer.echo("Today's decisions would be the same.")
    else:
        count = cycle["difference_count"]
        typer.echo(f"Today, {count:,} job{'s' * (count > 1)} would be treated differently:")
        print_table(
            ["JOB", "THEN", "TODAY"],
            [
                [
                    one["job"]["name"] or one["job"]["id"] or "-",
                    _fate(one["then"]),
                    _fate(one["today"]),
                ]
                for one in cycle["differences"]
            ],
            squeeze="JOB",
        )
    if not cycle["is_same_policy"]:
        tell("The policy has changed since then.")


def _fate(fate: dict[str, Any]) -> str:
    text = str(fate["decision"]).replace("_", " ")
    if fate["code"] is not None:
        text += f": {fate['code']}"
    elif fate["decision"] == "waits":
        text = "left as it is"
    if fate["cluster"] is not None:
        text += (
            f" on {fate['cluster']} {','.join(fate['nodes'][:3])}{',…' * (len(fate['nodes']) > 3)}"
        )
    if fate["other_jobs"]:
        others = [job["name"] or job["team"] or "another's" for job in fate["other_jobs"]]
        text += (
            f" for {', '.join(others)}"
            if fate["decision"] == "stopped"
            else (f", stopping {', '.join(others)}")
        )
    if fate["grace_s"] is not None:
        text += f" in {duration(fate['grace_s'])}"
    return text
