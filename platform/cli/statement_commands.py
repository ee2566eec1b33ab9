"""`tidegate statements`: issued for closed months, downloaded and credited."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.organizations import organization_named
from cli.output import Devices, Format, Output, print_data, print_fields, print_table, tell
from primitives.currencies import cents_text

statements_app = typer.Typer(
    no_args_is_help=True, help="Statements of closed months.", rich_markup_mode=None
)

Month = Annotated[str, typer.Argument(help="2026-11")]
Number = Annotated[str, typer.Argument(help="2026-00012")]
OfOrganization = Annotated[
    str | None,
    typer.Option("--organization", help="Its slug. Required if there are several."),
]


@statements_app.command("list")
def statements_list(
    ctx: typer.Context,
    month: Month,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """List the statements and credit notes of a month."""
    api = open_api(ctx)
    _print(_statements(api, month, organization), output)


@statements_app.command("issue")
def statements_issue(
    ctx: typer.Context,
    month: Month,
    unit: Annotated[
        str, typer.Option(help="department (right below the organization) or team.")
    ] = "department",
    due: Annotated[str | None, typer.Option(help="Due date, such as 2026-12-31.")] = None,
    terms: Annotated[str | None, typer.Option(help="Terms of payment, as text.")] = None,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """Issue a statement to each unit of a closed month that has none.

    Statements never change: `tidegate statements credit` takes one back.
    """
    api = open_api(ctx)
    body: dict[str, Any] = {"unit": unit}
    if due is not None:
        body["due_on"] = due
    if terms is not None:
        body["terms"] = terms
    _print(api.post(_path(api, month, organization), body)["items"], output)


@statements_app.command("get")
def statements_get(
    ctx: typer.Context,
    month: Month,
    number: Number,
    file: Annotated[
        Path | None, typer.Option(help="Write the document to a file: .pdf or .html.")
    ] = None,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a statement with its lines, or download its document."""
    api = open_api(ctx)
    path = f"statements/{_named(api, month, number, organization)['id']}"
    if file is not None:
        if file.suffix not in (".pdf", ".html"):
            raise CliError("Name a file that ends with .pdf or .html.")
        try:
            file.write_bytes(b"".join(api.download(f"{path}/{file.suffix[1:]}")))
        except OSError as error:
            raise CliError(f"{file} cannot be written: {error.strerror}.") from error
        tell(f"{file} is written.")
        return
    _show(api.get(path), output)


@statements_app.command("credit")
def statements_credit(
    ctx: typer.Context,
    month: Month,
    number: Number,
    reason: Annotated[str, typer.Option(help="Why it is taken back.")],
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """Take a statement back by a credit note. Its charges may be issued anew then."""
    api = open_api(ctx)
    found = _named(api, month, number, organization)
    note = api.post(f"statements/{found['id']}/credit", {"reason": reason})
    tell(f"{number} is credited by {note['number']}.")
    _show(note, output)


def _path(api: Api, month: str, organization: str | None) -> str:
    return f"organizations/{organization_named(api, organization)['id']}/periods/{month}/statements"


def _statements(api: Api, month: str, organization: str | None) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = api.get(_path(api, month, organization))["items"]
    return items


def _named(api: Api, month: str, number: str, organization: str | None) -> dict[str, Any]:
    for item in _statements(api, month, organization):
        if item["number"] == number:
            return item
    raise CliError(f"{month} has no statement {number}. See: tidegate statements list {month}")


def _print(items: list[dict[str, Any]], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(items, output)
        return
    if not items:
        tell("No statements yet. Issue them: tidegate statements issue MONTH")
        return
    print_table(
        ["NUMBER", "KIND", "UNIT", "TOTAL", "CURRENCY", "DUE", "CREDITS", "CREDITED BY"],
        [
            [
                *(
                    item["number"],
                    item["kind"],
                    item["unit"],
                    cents_text(item["total_cents"], item["currency"]),
                ),
                *(item["currency"], item["due_on"] or "-"),
                *(item["credits"] or "-", item["credited_by"] or "-"),
            ]
            for item in items
        ],
        squeeze="UNIT",
    )


def _show(statement: dict[str, Any], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(statement, output, rows="lines")
        return
    print_fields(
        [
            ("Number", f"{statement['number']} ({statement['kind']})"),
            ("Unit", statement["unit"]),
            ("Month", statement["month"]),
            (
                "Total",
                f"{cents_text(statement['total_cents'], statement['currency'])} "
                f"{statement['currency']}",
            ),
            ("Issued", f"{statement['issued_at']} by {statement['issued_by']}"),
            ("Due", statement["due_on"] or "-"),
            ("Terms", statement["terms"] or "-"),
            ("Credits", statement["credits"] or "-"),
            ("Credited by", statement["credited_by"] or "-"),
            ("Reason", statement["reason"] or "-"),
        ]
    )
    devices = Devices(line["device"] for line in statement["lines"])
    print_table(
        ["TEAM", "POOL", "CLASS", "MONTH", "KIND", "HOURS", f"AMOUNT {statement['currency']}"],
        [
            [
                *(line["team"], line["pool"], line["usage_class"], line["month"]),
                "correction" if line["is_correction"] else line["reason"] or "use",
                "-"
                if line["adjustment"]
                else ("-" if line["mgpu_s"] < 0 else "")
                + devices.hours(abs(line["mgpu_s"]), line["device"]),
                cents_text(line["amount_cents"], statement["currency"]),
            ]
            for line in statement["lines"]
        ],
        squeeze="TEAM",
    )
