"""`tidegate periods`: the months of an organization, and their closing."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.context import open_api
from cli.organizations import organization_named
from cli.output import Devices, Format, Output, print_data, print_fields, print_table, tell
from primitives.currencies import money_text

periods_app = typer.Typer(
    no_args_is_help=True, help="Months of an organization.", rich_markup_mode=None
)

OfOrganization = Annotated[
    str | None,
    typer.Option("--organization", help="Its slug. Required if there are several."),
]
#: The most unconfirmed days that are printed.
_DAYS_SHOWN = 10


@periods_app.command("list")
def periods_list(
    ctx: typer.Context, organization: OfOrganization = None, output: Output = Format.TABLE
) -> None:
    """List months, newest first.

    A month is open until its end, in its grace for 72 hours, then due until a person closes it.
    """
    api = open_api(ctx)
    path = f"organizations/{organization_named(api, organization)['id']}/periods"
    found = api.get(path)["items"]
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("Nothing was used yet, so there is no month.")
        return
    print_table(
        ["MONTH", "STATE", "UNCONFIRMED DAYS", "CLOSED BY", "DIGEST"],
        [
            [
                item["month"],
                item["state"],
                str(len(item["unconfirmed"])),
                item["closed_by"] or "-",
                (item["digest"] or "-")[:12],
            ]
            for item in found
        ],
    )


@periods_app.command("show")
def periods_show(
    ctx: typer.Context,
    month: Annotated[str, typer.Argument(help="2026-11")],
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """Show what blocks closing a month, or the charges of a closed one."""
    api = open_api(ctx)
    found = api.get(f"organizations/{organization_named(api, organization)['id']}/periods/{month}")
    _show(found, output)


@periods_app.command("close")
def periods_close(
    ctx: typer.Context,
    month: Annotated[str, typer.Argument(help="2026-11")],
    reason: Annotated[
        str | None, typer.Option(help="Why it is closed although days are not confirmed.")
    ] = None,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """Close a month for good. Its charges never change after that."""
    api = open_api(ctx)
    path = f"organizations/{organization_named(api, organization)['id']}/periods/{month}/close"
    found = api.post(path, {} if reason is None else {"reason": reason})
    tell(f"{month} is closed with {found['row_count']} charges.")
    _show(found, output)


def _show(month: dict[str, Any], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(month, output)
        return
    print_fields(
        [
            ("Month", f"{month['month']} ({month['time_zone']})"),
            ("State", month["state"]),
            ("From", month["start"]),
            ("Until", month["end"]),
            ("Due from", month["due_at"]),
            ("Closed", f"{month['closed_at']} by {month['closed_by']}" if month["digest"] else "-"),
            ("Reason", month["reason"] or "-"),
            (
                "Adjustments",
                f"{money_text(month['adjustments_nano'], month['currency'])} "
                f"{month['currency'] or ''}".strip(),
            ),
            ("Digest", month["digest"] or "-"),
        ]
    )
    unconfirmed = month["unconfirmed"]
    if unconfirmed:
        print_table(
            ["UNCONFIRMED DAY", "CLUSTER", "STATUS"],
            [
                [item["day"], item["cluster"], item["status"] or "not compared"]
                for item in unconfirmed[:_DAYS_SHOWN]
            ],
        )
        if len(unconfirmed) > _DAYS_SHOWN:
            tell(f"{len(unconfirmed) - _DAYS_SHOWN} more days: use -o json.")
    if month["charges"]:
        devices = Devices(item["device"] for item in month["charges"])
        print_table(
            ["TEAM", "POOL", "CLASS", "KIND", "HOURS", f"COST {month['currency']}".strip()],
            [
                [
                    item["team"],
                    item["pool"],
                    item["usage_class"],
                    _kind(item),
                    ("-" if _quantity(item) < 0 else "")
                    + devices.hours(abs(_quantity(item)), item["device"]),
                    money_text(item["cost_nano"], month["currency"]),
                ]
                for item in month["charges"]
            ],
            squeeze="TEAM",
        )


def _quantity(item: dict[str, Any]) -> int:
    """Return the use, or the quantity of a commitment or of top-ups."""
    quantity: int = item["mgpu_s"] + item["extra_mgpu_s"]
    return quantity


def _kind(item: dict[str, Any]) -> str:
    if item["is_correction"]:
        return "correction"
    return "use" if item["mgpu_s"] else "beside use"
