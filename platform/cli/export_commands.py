"""Commands on exports: files with the charges of a period."""

from __future__ import annotations

import hashlib
from datetime import UTC, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.api import Api, sleep
from cli.context import open_api
from cli.errors import CliError
from cli.moments import is_day, moment, this_month
from cli.organizations import organization_named, zone_over
from cli.output import Format, Output, print_data, print_fields, print_table, tell
from cli.saving import new_file

export_app = typer.Typer(
    no_args_is_help=True, help="Files with the charges of a period.", rich_markup_mode=None
)

#: How long `create --wait` waits for a file, and how often it asks.
_WAIT_S_MAX = 900
_ASK_EVERY_S = 2.0


class FileFormat(StrEnum):
    """The format of a file."""

    CSV = "csv"
    XLSX = "xlsx"
    PARQUET = "parquet"
    PDF = "pdf"


class DatasetName(StrEnum):
    """The contents of a file."""

    CHARGES = "charges"
    CLOSED_CHARGES = "closed_charges"
    FOCUS_COST_AND_USAGE = "focus_cost_and_usage"
    FOCUS_BILLING_PERIOD = "focus_billing_period"
    FOCUS_CONTRACT_COMMITMENT = "focus_contract_commitment"
    FOCUS_INVOICE_DETAIL = "focus_invoice_detail"


class UserNaming(StrEnum):
    """The names of users in FOCUS files."""

    PSEUDONYMS = "pseudonyms"
    NAMES = "names"


@export_app.command("create")
def export_create(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(help="Path of the node: ai-company/research.")],
    file_format: Annotated[
        FileFormat,
        typer.Option("--format", help="CSV and Parquet are exact; PDF has sums for people."),
    ] = FileFormat.CSV,
    dataset: Annotated[
        DatasetName,
        typer.Option(
            help="charges; closed_charges: closed months as they were billed; or a dataset of "
            "FOCUS 1.4 for one month."
        ),
    ] = DatasetName.CHARGES,
    start: Annotated[
        str | None,
        typer.Option(
            help="A day in the organization's zone (2026-11-01), or a time "
            "(2026-11-01T00:00:00Z). Default: this month."
        ),
    ] = None,
    end: Annotated[str | None, typer.Option(help="End of the period, excluded.")] = None,
    as_of: Annotated[
        str | None, typer.Option(help="Count running jobs until this time. Default: now.")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="Only this pool.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Wait, and store the file here.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Request a file with the charges of each job of a node, by day.

    Without --file, the command prints the ID for `tidegate export get`.
    """
    if (start is None) != (end is None):
        raise CliError("Give both --start and --end, or neither for this month.")
    api = open_api(ctx)
    zone: tzinfo = UTC
    if start is None or any(is_day(text) for text in (start, end, as_of) if text is not None):
        zone = zone_over(api, node)
    if start is None or end is None:
        start, end = this_month(zone)
        tell(f"This month ({zone}): from {start} to {end}, excluded.")
    body = {
        "dataset": dataset.value,
        "format": file_format.value,
        "node": node.rstrip("/"),
        "start": moment(start, "--start", zone),
        "end": moment(end, "--end", zone),
        "as_of": None if as_of is None else moment(as_of, "--as-of", zone),
        "pool": pool,
    }
    export = api.post("exports", body)
    if file is not None:
        export = _finished(api, export)
        _store(api, export, file)
    if output is not Format.TABLE:
        print_data(export, output)
    elif file is None:
        typer.echo(export["id"])


@export_app.command("list")
def export_list(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Number of exports.")] = 20,
    output: Output = Format.TABLE,
) -> None:
    """List exports, newest first."""
    found = list(open_api(ctx).items("exports", most=limit))
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No exports yet. Request one with `tidegate export create`.")
        return
    print_table(
        ["ID", "FILE", "STATE", "ROWS", "REQUESTED"],
        [
            [one["id"], one["file_name"], _state(one), _rows(one), one["created_at"]]
            for one in found
        ],
        squeeze="FILE",
    )


@export_app.command("get")
def export_get(
    ctx: typer.Context,
    export_id: Annotated[str, typer.Argument(metavar="ID", help="ID of the export.")],
    file: Annotated[
        Path | None, typer.Option("--file", help="Store the file here, and check it.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show an export with its progress and sums, or download its file."""
    api = open_api(ctx)
    export = api.get(f"exports/{export_id}")
    if file is not None:
        _store(api, export, file)
        return
    if output is not Format.TABLE:
        print_data(export, output)
        return
    manifest = export["manifest"] or {}
    print_fields(
        [
            ("export", export["id"]),
            ("file", export["file_name"]),
            ("node", export["node"]),
            ("period", f"{export['start']} to {export['end']}, as of {export['as_of']}"),
            ("state", _state(export)),
            ("message", export["message"]),
            ("rows", _rows(export)),
            ("sha256", manifest.get("sha256", "")),
        ]
    )


@export_app.command("again")
def export_again(
    ctx: typer.Context,
    export_id: Annotated[str, typer.Argument(metavar="ID", help="ID of the export.")],
) -> None:
    """Make a removed or failed file again, of the same moment. Prints the new ID."""
    typer.echo(open_api(ctx).post(f"exports/{export_id}/again")["id"])


@export_app.command("users")
def export_users(
    ctx: typer.Context,
    users: Annotated[
        UserNaming | None,
        typer.Argument(metavar="[pseudonyms|names]", help="Without it, only show the choice."),
    ] = None,
    organization: Annotated[
        str | None, typer.Option("--organization", help="Its slug. Required if there are several.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show or change how new FOCUS files of an organization name users.

    Files that were requested before keep their names.
    """
    api = open_api(ctx)
    path = f"organizations/{organization_named(api, organization)['id']}/export-policy"
    shown, tag = api.get_tagged(path)
    if users is not None:
        shown = api.patch(path, {"users": users.value}, if_match=tag)
    if output is not Format.TABLE:
        print_data(shown, output)
        return
    print_fields(
        [
            ("organization", shown["organization"]),
            ("users", shown["users"]),
            ("changed by", shown["changed_by"] or "-"),
            ("changed at", shown["changed_at"] or "-"),
        ]
    )


@export_app.command("audits")
def export_audits(
    ctx: typer.Context,
    month: Annotated[str | None, typer.Option(help="Only this month: 2026-11.")] = None,
    organization: Annotated[
        str | None, typer.Option(help="Only this organization, by its slug.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Number of audits.")] = 24,
    output: Output = Format.TABLE,
) -> None:
    """List the latest audit of each month's charges, newest first.

    Each night another program computes use and cost again, from raw use and prices. DIFFER counts
    the sums by pool and usage class that do not agree to the unit.
    """
    found = list(
        open_api(ctx).items("charge-audits", most=limit, month=month, organization=organization)
    )
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No audits yet. The charges are audited once a day.")
        return
    print_table(
        ["ORGANIZATION", "MONTH", "AUDITED", "SUMS", "DIFFER", "BY (NANO)", "BY (MGPU-S)"],
        [
            [
                one["organization"],
                one["month"],
                one["audited_at"],
                str(one["line_count"]),
                str(one["difference_count"]),
                f"{one['difference_nano']:,}",
                f"{one['difference_mgpu_s']:,}",
            ]
            for one in found
        ],
        squeeze="ORGANIZATION",
    )


def _finished(api: Api, export: dict[str, Any]) -> dict[str, Any]:
    """Return the export once it is done or failed."""
    for _ in range(int(_WAIT_S_MAX / _ASK_EVERY_S)):
        if export["state"] in {"done", "failed"}:
            return export
        sleep(_ASK_EVERY_S)
        export = api.get(f"exports/{export['id']}")
    raise CliError(
        f"The file is not there after {_WAIT_S_MAX // 60} minutes. Get it later with `tidegate "
        f"export get {export['id']} --file FILE`."
    )


def _store(api: Api, export: dict[str, Any], file: Path) -> None:
    """Download the file, and compare it with its manifest. An existing file is replaced."""
    if export["state"] == "failed":
        raise CliError(f"The export failed: {export['message']}")
    digest = hashlib.sha256()
    with new_file(file) as target:
        for chunk in api.download(f"exports/{export['id']}/file"):
            digest.update(chunk)
            target.write(chunk)
        if digest.hexdigest() != export["manifest"]["sha256"]:
            raise CliError("The download differs from its manifest. Try again.")
    tell(f"{file}: {_rows(export)} rows, SHA-256 {digest.hexdigest()}.")


def _state(export: dict[str, Any]) -> str:
    if export["removed_at"] is not None:
        return "file removed"
    if export["state"] == "running":
        return f"running {export['progress_permille'] // 10}%"
    return str(export["state"])


def _rows(export: dict[str, Any]) -> str:
    return f"{export['manifest']['rows']:,}" if export["manifest"] else "-"
