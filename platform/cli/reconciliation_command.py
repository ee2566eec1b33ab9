"""The command on reconciled days: our meter against the clusters' own accounts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.output import Devices, Format, Output, print_data, print_table, tell


def reconciliation(
    ctx: typer.Context,
    cluster: Annotated[str | None, typer.Option(help="Only of this cluster.")] = None,
    day: Annotated[str | None, typer.Option(help="Only this day (UTC): 2026-11-20.")] = None,
    month: Annotated[
        str | None, typer.Option(help="Show a calendar of this month: 2026-11.")
    ] = None,
    differences: Annotated[
        bool, typer.Option("--differences", help="List every difference.")
    ] = False,
    run: Annotated[
        bool, typer.Option("--run", help="Compare this day of the cluster again first.")
    ] = False,
    acknowledge: Annotated[
        str | None,
        typer.Option("--acknowledge", help="Acknowledge a red day of the cluster, with a reason."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Number of days.")] = 31,
    output: Output = Format.TABLE,
) -> None:
    """Compare our meter with the clusters' own accounting, by day, newest first.

    Green: they agree, except for use of users that the portal does not know. Red: they differ, and
    --differences lists the runs and causes. Pending and unavailable days are compared again
    automatically. So is every day for 35 days, because accounts may be changed later.
    """
    api = open_api(ctx)
    if month is not None:
        if day is not None or run or acknowledge is not None or differences:
            raise CliError("--month shows a calendar; combine it with --cluster only.")
        _show_month(api, month, cluster, output)
        return
    if run:
        if cluster is None or day is None:
            raise CliError("Which day? Give --cluster NAME and --day 2026-11-20 with --run.")
        api.post("reconciliations", {"cluster": cluster, "day": day})
        tell(f"{day} of {cluster} will be compared soon. Look again in a minute.")
    days = list(api.items("reconciliations", most=limit, cluster=cluster, day=day))
    if acknowledge is not None:
        if cluster is None or day is None or len(days) != 1:
            raise CliError(
                "Which day? With --acknowledge, give --cluster NAME and --day 2026-11-20 of a day "
                "that was compared."
            )
        path = f"reconciliations/{days[0]['id']}/acknowledgement"
        days = [api.post(path, {"reason": acknowledge})]
        tell(f"{day} of {cluster} is acknowledged.")
    if differences:
        days = [api.get(f"reconciliations/{item['id']}") for item in days]
    if output is not Format.TABLE:
        print_data(days, output)
        return
    if not days:
        tell("No days were compared yet.")
    elif differences:
        _show_differences(days)
    else:
        devices = Devices(sums["device"] for item in days for sums in item["by_device"])
        print_table(
            ["DAY", "CLUSTER", "STATUS", "METER", "CLUSTER'S", "DIFFERENCE", "RUNS"],
            [
                [
                    item["day"],
                    item["cluster"],
                    item["status"]
                    + ("" if item["is_complete"] or not item["as_of"] else " so far")
                    + (" acknowledged" if item.get("acknowledgement") else ""),
                    *_compared(sums, devices),
                    str(item["difference_count"]),
                ]
                for item in days
                for sums in item["by_device"] or [_NOTHING]
            ],
            squeeze="CLUSTER",
        )
        tell(
            f"{devices.hours_words}. A positive difference means more use in the cluster's "
            "accounts."
        )


#: The sums of a day without any use.
_NOTHING: Mapping[str, Any] = {"device": "gpu", "metered_mgpu_s": 0, "accounted_mgpu_s": 0}


def _compared(sums: Mapping[str, Any], devices: Devices) -> list[str]:
    """Return use by our meter, by the cluster, and the difference, for one kind of devices."""
    metered_mgpu_s, accounted_mgpu_s = sums["metered_mgpu_s"], sums["accounted_mgpu_s"]
    gap_mgpu_s = accounted_mgpu_s - metered_mgpu_s
    metered, accounted, gap = (
        devices.hours(mgpu_s, sums["device"])
        for mgpu_s in (metered_mgpu_s, accounted_mgpu_s, abs(gap_mgpu_s))
    )
    return [metered, accounted, f"{'-' if gap_mgpu_s < 0 else ''}{gap}"]


def _show_differences(days: list[dict[str, Any]]) -> None:
    """Print differences in seconds, so that one second of one GPU is not rounded to 0."""
    devices = Devices(account["device"] for item in days for account in item["accounts"])
    rows = [
        [
            item["day"],
            account["team"] or account["account"],
            account["pool"],
            difference["cause"],
            devices.seconds(difference["mgpu_s"], account["device"]),
            difference["job"] or f"{difference['native_id']} of {difference['user']}",
        ]
        for item in days
        for account in item["accounts"]
        for difference in account["differences"]
    ]
    if not rows:
        tell("No differences.")
        return
    print_table(
        ["DAY", "TEAM OR ACCOUNT", "POOL", "CAUSE", devices.seconds_head, "JOB"],
        rows,
        squeeze="TEAM OR ACCOUNT",
    )
    if cut := sum(account["cut_count"] for item in days for account in item["accounts"]):
        tell(f"{cut} smaller differences are not listed. The sums include them.")


#: The sign of a day in a calendar, by its status.
_SIGNS: Mapping[str, str] = {"green": "+", "red": "X", "pending": "~", "unavailable": "?"}
_MONTH = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])", re.ASCII)
#: 31 days of this many clusters.
_CALENDAR_MAX = 31 * 100


def _show_month(api: Api, month: str, cluster: str | None, output: Format) -> None:
    """Print a line for each cluster, with a sign for each day of the month."""
    found = _MONTH.fullmatch(month)
    if found is None:
        raise CliError("Write the month as 2026-11.")
    first = date(int(found[1]), int(found[2]), 1)
    following = (first + timedelta(days=31)).replace(day=1)
    days = list(
        api.items(
            "reconciliations",
            most=_CALENDAR_MAX,
            cluster=cluster,
            start=first.isoformat(),
            end=following.isoformat(),
        )
    )
    if output is not Format.TABLE:
        print_data(days, output)
        return
    if not days:
        tell("No days of this month were compared yet.")
        return
    signs = {
        (item["cluster"], int(item["day"][8:])): (
            "a" if item.get("acknowledgement") else _SIGNS[item["status"]]
        )
        for item in days
    }
    count = (following - first).days
    names = sorted({item["cluster"] for item in days})
    print_table(
        ["CLUSTER", f"DAYS 1 TO {count}, IN FIVES"],
        [
            [
                name,
                "".join(
                    signs.get((name, number), ".") + " " * (number % 5 == 0)
                    for number in range(1, count + 1)
                ).rstrip(),
            ]
            for name in names
        ],
        squeeze="CLUSTER",
    )
    tell("+ agrees   X differs   a differs, acknowledged   ~ pending   ? unavailable   . none")
