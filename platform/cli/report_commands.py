"""Commands on quotas and reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from cli.context import open_api
from cli.errors import CliError
from cli.moments import day_or_time, moment
from cli.output import (
    NAME_PAD_MAX,
    Devices,
    Format,
    Output,
    gpus,
    is_wide,
    plain,
    print_data,
    print_table,
    tell,
)
from primitives.currencies import money_text
from primitives.units import DeviceKind

_QUOTAS_MAX = 1_000

quota_app = typer.Typer(no_args_is_help=True, help="Quotas of the tree.", rich_markup_mode=None)
report_app = typer.Typer(no_args_is_help=True, help="Usage and cost.", rich_markup_mode=None)

#: Dimensions of a report. The server refuses others.
_DIMENSIONS = (
    *("organization", "department", "team", "user", "pool", "cluster", "usage_class"),
    *("priority_class", "job_type", "cost_centre", "project_code", "hour", "day", "week", "month"),
)
_BOTH = (
    "Give both --start and --end, such as --start 2026-11-01 --end 2026-12-01, or neither for this "
    "month."
)

Start = Annotated[
    str | None,
    typer.Option(
        help="2026-11-01, in the organization's time zone, or 2026-11-01T00:00:00Z. Default: this "
        "month."
    ),
]
End = Annotated[str | None, typer.Option(help="End of the period, excluded.")]
Team = Annotated[str | None, typer.Option(help="Only this path and all below it.")]
CostCentre = Annotated[
    str | None,
    typer.Option(
        help="Only teams in the months in which they have this cost centre; (none): none."
    ),
]
ProjectCode = Annotated[
    str | None,
    typer.Option(
        help="Only teams in the months in which they have this project code; (none): none."
    ),
]


@quota_app.command("get")
def quota_get(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(help="Path: ai-company/research/nlp.")],
    pool: Annotated[str | None, typer.Option(help="Only this pool.")] = None,
    subtree: Annotated[bool, typer.Option("--subtree", help="Include all nodes below it.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show the guarantee of a node of the tree, and its use, in GPUs or cores.

    UNUSED is the part of the guarantee that its protected jobs do not use. Its own jobs can get it,
    but it need not be free now. LENT is the part of it that other teams borrow. BORROWED is the use
    above the guarantee; a job that is only partly covered can be preempted as a whole. CAN START is
    how much its quota lets start now, borrowed GPUs included; "0 (70 over)" means that use is 70
    above the limit. WAITING is the size of its queued jobs.

    A narrow terminal omits the limits and LENT. The column OF appears if a pool has CPU cores.
    """
    which = {"subtree" if subtree else "node": node.rstrip("/")}
    quotas = list(open_api(ctx).items("quotas", most=_QUOTAS_MAX, pool=pool, **which))
    if output is not Format.TABLE:
        print_data(quotas, output)
        return
    if not quotas:
        tell(f"{node} has no quota" + (f" in {pool}." if pool else "."))
        return
    shows_all = is_wide()
    columns = [name for name in _QUOTA_COLUMNS if shows_all or name not in _WIDE_ONLY]
    counts = {quota["device"] for quota in quotas}
    print_table(
        ["NODE", "POOL", *(["OF"] * (counts != {"gpu"})), *columns],
        [
            [
                quota["node"],
                quota["pool"],
                *([DeviceKind(quota["device"]).plural] * (counts != {"gpu"})),
                *(_QUOTA_COLUMNS[name](quota) for name in columns),
            ]
            for quota in quotas
        ],
        squeeze="NODE",
        keep_end=True,
    )


_QUOTA_COLUMNS: Mapping[str, Callable[[dict[str, Any]], str]] = {
    "GUARANTEED": lambda quota: gpus(quota["guaranteed_mgpu"]),
    "BORROW LIMIT": lambda quota: _limit(quota["borrow_limit_mgpu"]),
    "LEND LIMIT": lambda quota: _limit(quota["lend_limit_mgpu"]),
    "IN USE": lambda quota: gpus(quota["use"]["in_use_mgpu"]),
    "UNUSED": lambda quota: gpus(quota["guaranteed_mgpu"] - quota["use"]["protected_mgpu"]),
    "BORROWED": lambda quota: gpus(quota["use"]["borrowed_mgpu"]),
    "LENT": lambda quota: gpus(quota["use"]["lent_mgpu"]),
    "CAN START": lambda quota: _startable(quota["use"]["available_mgpu"]),
    "WAITING": lambda quota: gpus(quota["use"]["waiting_mgpu"]),
}
_WIDE_ONLY = frozenset({"BORROW LIMIT", "LEND LIMIT", "LENT"})


def _startable(available_mgpu: int) -> str:
    """Return the GPUs that may start, or by how much the use is over the limit."""
    return gpus(available_mgpu) if available_mgpu >= 0 else f"0 ({gpus(-available_mgpu)} over)"


def _limit(mgpu: int | None) -> str:
    return "none" if mgpu is None else gpus(mgpu)


@report_app.command("chargeback")
def chargeback(
    ctx: typer.Context,
    by: Annotated[
        str, typer.Option(help="One or two dimensions: " + ", ".join(_DIMENSIONS) + ".")
    ] = "team,pool",
    start: Start = None,
    end: End = None,
    team: Team = None,
    organization: Annotated[
        str | None, typer.Option(help="Only this organization, by its slug.")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Only this pool.")] = None,
    user: Annotated[str | None, typer.Option(help="Only this username.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Only this cluster.")] = None,
    priority_class: Annotated[str | None, typer.Option(help="Only this priority class.")] = None,
    job_type: Annotated[str | None, typer.Option(help="Only jobs of this type.")] = None,
    cost_centre: CostCentre = None,
    project_code: ProjectCode = None,
    usage_class: Annotated[
        str | None,
        typer.Option(help="Only guaranteed, borrowed, unpaid, fault, commitment or top_up."),
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(help="Count running jobs until this time. Default: now.")
    ] = None,
    jobs: Annotated[
        bool, typer.Option("--jobs", help="List the jobs behind the numbers, largest first.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="With --jobs: number of jobs.")
    ] = 500,
    idle: Annotated[
        str | None,
        typer.Option(
            help="Also show idle time: none, or shared out among teams by_guarantee or by_usage."
        ),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show usage and cost of a period by groups. With --jobs, show the jobs behind them.

    Days, weeks and months are those of the organization's time zone. Each currency has its own
    table. Example: --by department,day --start 2026-11-01 --end 2026-12-01.

    With --idle, IDLE is unused capacity inside of unused guarantees, SPARE the rest of the unused
    capacity. OUTSIDE was used by workloads of no team. Nodes that are down have no capacity. The
    shares of a pool and its idle account sum to zero.
    """
    if (start is None) != (end is None):
        raise CliError(_BOTH)
    if team is not None and organization is not None:
        raise CliError("Give --team or --organization, not both.")
    asked = {
        "start": None if start is None else day_or_time(start, "--start"),
        "end": None if end is None else day_or_time(end, "--end"),
        "as_of": None if as_of is None else moment(as_of, "--as-of"),
        "node": team or organization,
        "pool": pool,
        "user": user,
        "cluster": cluster,
        "priority_class": priority_class,
        "job_type": job_type,
        "cost_centre": cost_centre,
        "project_code": project_code,
        "usage_class": usage_class,
    }
    if idle is not None and (jobs or csv):
        raise CliError("Give --idle without --jobs and --csv.")
    api = open_api(ctx)
    if jobs:
        if asked["node"] is None:
            raise CliError("Whose jobs? Give --team PATH or --organization SLUG with --jobs.")
        if csv:
            text = api.get_text("reports/chargeback/jobs", **asked, format="csv")
            typer.echo(text, nl=not text.endswith("\n"))
            return
        found = api.items("reports/chargeback/jobs", most=limit, **asked)
        _show_jobs(list(found), limit, output)
        return
    if csv:
        text = api.get_text("reports/chargeback", by=by, **asked, format="csv")
        typer.echo(text, nl=not text.endswith("\n"))
        return
    report = api.get("reports/chargeback", by=by, **asked)
    unused = None
    if idle is not None:
        when = {name: asked[name] for name in ("start", "end", "as_of", "pool")}
        unused = api.get("reports/chargeback/idle", share=idle, **when)
    if output is not Format.TABLE:
        print_data(report if unused is None else {**report, "idle": unused}, output, rows="rows")
        return
    devices = Devices(
        total["device"] for total in report["totals_by_device"] or [{"device": "gpu"}]
    )
    several = len(report["by_currency"]) > 1
    for place, part in enumerate(report["by_currency"]):
        if place:
            typer.echo()
        rows = [row for row in report["rows"] if not several or row["currency"] == part["currency"]]
        _show_currency(report["by"], rows, part, devices)
    tell(
        f"{devices.hours_words} from {report['start']} to {report['end']}, as of "
        f"{report['as_of']}. Days of {report['time_zone']}."
    )
    for line in report["corrections"]:
        tell(
            f"Priced after the fact: {line['usage_class']} {line['pool']} of "
            f"{line['organization']} from {line['start']}, added by {plain(line['added_by'])} at "
            f"{line['added_at']}."
        )
    if unused is not None:
        _show_idle(unused)
    if not report["check"]["is_equal"]:
        raise CliError("The rows do not add up to the metered use. Tell an administrator.")


@report_app.command("moves")
def moves(
    ctx: typer.Context,
    start: Start = None,
    end: End = None,
    team: Team = None,
    pool: Annotated[str | None, typer.Option(help="Only this pool.")] = None,
    cost_centre: CostCentre = None,
    project_code: ProjectCode = None,
    output: Output = Format.TABLE,
) -> None:
    """Show what moved since the period before, such as the last month, by team.

    CHANGE is the sum of PRICE, VOLUME (more or less use), CLASS (another mix of usage classes),
    NEW and ENDED (teams with use in one period only). A period that still runs is compared with as
    much time of the period before.
    """
    if (start is None) != (end is None):
        raise CliError(_BOTH)
    found = open_api(ctx).get(
        "reports/chargeback/moves",
        start=None if start is None else day_or_time(start, "--start"),
        end=None if end is None else day_or_time(end, "--end"),
        node=team,
        pool=pool,
        cost_centre=cost_centre,
        project_code=project_code,
    )
    if output is not Format.TABLE:
        print_data(found, output, rows="rows")
        return
    for place, total in enumerate(found["totals"]):
        if place:
            typer.echo()
        rows = [row for row in found["rows"] if row["currency"] == total["currency"]]
        print_table(
            ["TEAM", f"BEFORE {total['currency'] or ''}".strip(), "AFTER", *_PARTS],
            [
                [
                    name,
                    money_text(row["before_nano"], total["currency"]),
                    money_text(row["after_nano"], total["currency"]),
                ]
                + [money_text(row[part], total["currency"]) for part in _PARTS.values()]
                for name, row in [*((row["team"], row) for row in rows), ("total", total)]
            ],
            squeeze="TEAM",
        )
    before, after = found["before"], found["after"]
    tell(f"From {before['start']} to {before['end']}, and from {after['start']} to {after['end']}.")


def _show_idle(found: Mapping[str, Any]) -> None:
    """Print idle time of pools, and the shares of teams."""
    typer.echo()
    if not found["pools"]:
        tell("There is no pool whose idle time you may see: it would reveal the use of others.")
        return
    devices = Devices(each["device"] for each in found["pools"])
    print_table(
        ["POOL", *_IDLE],
        [
            [each["pool"], *(devices.hours(each[name], each["device"]) for name in _IDLE.values())]
            for each in found["pools"]
        ],
        squeeze="POOL",
    )
    if found["rows"]:
        typer.echo()
        print_table(
            ["POOL", "TEAM", devices.hours_head],
            [
                [
                    row["pool"],
                    row["team"] or "(idle account)",
                    devices.hours(row["mgpu_s"], row["device"]),
                ]
                for row in found["rows"]
            ],
            squeeze="TEAM",
        )


_IDLE = {
    "CAPACITY": "capacity_mgpu_s",
    "IN USE": "in_use_mgpu_s",
    "OUTSIDE": "outside_mgpu_s",
    "IDLE": "idle_mgpu_s",
    "SPARE": "spare_mgpu_s",
}
_PARTS = {
    "CHANGE": "change_nano",
    "PRICE": "price_nano",
    "VOLUME": "volume_nano",
    "CLASS": "usage_class_nano",
    "NEW": "new_nano",
    "ENDED": "ended_nano",
}


def _show_currency(
    by: list[str], rows: list[dict[str, Any]], part: Mapping[str, Any], devices: Devices
) -> None:
    """Print rows and totals of one currency."""
    whole = part["totals"]
    totals = part["totals_by_device"] or [{**whole, "device": "gpu"}]
    classes = [name for name in _CLASSES if name in _ALWAYS or whole[f"{name}_mgpu_s"]]
    heads = [name.replace("_", " ").upper() for name in by]
    label = ["total", *[""] * (len(by) - 1)]
    lines = [
        [
            *(plain(row["keys"][name]) or "(none)" for name in by),
            *_amounts(row, devices, classes, part["currency"]),
        ]
        for row in rows
    ]
    lines += [[*label, *_amounts(total, devices, classes, part["currency"])] for total in totals]
    if len(totals) > 1:
        # Costs and jobs can be added up, but hours of cores and GPUs cannot.
        none = ["-"] * len(classes)
        lines.append(
            [
                *label[:-1],
                "all",
                *none,
                money_text(whole["cost_nano"], part["currency"]),
                str(whole["jobs"]),
            ]
        )
    print_table(
        [
            *heads,
            *(_CLASSES[name] for name in classes),
            f"COST {part['currency'] or ''}".strip(),
            "JOBS",
        ],
        lines,
        squeeze=heads[0],
    )


def _show_jobs(jobs: list[dict[str, Any]], limit: int, output: Format) -> None:
    if output is not Format.TABLE:
        print_data(jobs, output)
        return
    if not jobs:
        tell("No jobs ran there in this period.")
        return
    devices = Devices(job["device"] for job in jobs)

    def amounts(some: list[dict[str, Any]], device: str) -> list[str]:
        mgpu_s, cost_nano = (sum(job[name] for job in some) for name in ("mgpu_s", "cost_nano"))
        return [devices.hours(mgpu_s, device), money_text(cost_nano, None)]

    rows = [
        [
            job["job"] or "(commitment)",
            job["name"] or "-",
            ", ".join([job["usage_class"], *job["faults"]]),
            *amounts([job], job["device"]),
        ]
        for job in jobs
    ]
    is_whole = len(jobs) < limit
    for kind in DeviceKind:
        if of_kind := [job for job in jobs if job["device"] == kind]:
            rows.append(["total" if is_whole else "total so far", "", "", *amounts(of_kind, kind)])
    print_table(
        ["JOB", "NAME", "USE", devices.hours_head, "COST"],
        rows,
        squeeze="NAME",
        pad_max=NAME_PAD_MAX,
    )
    if not is_whole:
        tell(f"These are the first {limit}. Use --limit for more.")


#: Columns of the usage classes. Others than `_ALWAYS` are shown where there is such use.
_CLASSES = {
    "guaranteed": "GUARANTEED",
    "borrowed": "BORROWED",
    "unpaid": "UNPAID",
    "fault": "FREE (FAULTS)",
}
_ALWAYS = frozenset({"guaranteed", "borrowed"})


def _amounts(
    row: Mapping[str, Any], devices: Devices, classes: list[str], currency: str | None
) -> list[str]:
    return [
        *(devices.hours(row[f"{name}_mgpu_s"], row["device"]) for name in classes),
        money_text(row["cost_nano"], currency),
        str(row["jobs"]),
    ]
