"""`tidegate codes`: cost centres and project codes of nodes, by month."""

from __future__ import annotations

import csv
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.organizations import organization_named
from cli.output import Format, Output, print_data, print_table, tell

_CODES_MAX = 20_000
_FILE_BYTES_MAX = 1 << 20
#: The columns of a file to import. `end` may be empty or left out.
_COLUMNS = ("node", "kind", "code", "start", "end")

codes_app = typer.Typer(
    no_args_is_help=True, help="Cost centres and project codes of nodes.", rich_markup_mode=None
)
Identifier = Annotated[str, typer.Argument(metavar="ID", help="Its id, or the end of it.")]
OfOrganization = Annotated[
    str | None,
    typer.Option("--organization", help="Its slug. Required if there are several."),
]


@codes_app.command("list")
def codes_list(
    ctx: typer.Context,
    node: Annotated[str | None, typer.Option("--node", help="Only this node, by its path.")] = None,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """List codes, past and scheduled ones included, newest first."""
    api = open_api(ctx)
    _print(list(api.items(_path(api, organization), most=_CODES_MAX, node=node)), output)


@codes_app.command("set")
def codes_set(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Path of the node.")],
    start: Annotated[str, typer.Option("--from", metavar="MONTH", help="Such as 2026-12.")],
    cost_centre: Annotated[str | None, typer.Option("--cost-centre", metavar="CODE")] = None,
    project_code: Annotated[str | None, typer.Option("--project-code", metavar="CODE")] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="MONTH", help="Excluded. Default: until the next code."),
    ] = None,
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """Set the cost centre or the project code of a node and of all nodes below it.

    It ends the one before it. Nodes with a code of their own keep theirs, and so do closed months.
    """
    kinds = {"cost_centre": cost_centre, "project_code": project_code}
    wanted = [
        {"node": node, "kind": kind, "code": code, "start": start, "end": until}
        for kind, code in kinds.items()
        if code is not None
    ]
    if not wanted:
        raise CliError("Give --cost-centre, --project-code or both.")
    api = open_api(ctx)
    _print(_set(api, organization, wanted), output)


@codes_app.command("import")
def codes_import(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="CSV with the columns node,kind,code,start,end.")],
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """Set at most 1,000 codes from a file, all or none. A repeat changes nothing.

    `kind` is cost_centre or project_code, `start` a month, and `end` a month or empty.
    """
    wanted = _read(file)
    api = open_api(ctx)
    _print(_set(api, organization, wanted), output)


@codes_app.command("end")
def codes_end(
    ctx: typer.Context,
    code_id: Identifier,
    month: Annotated[str, typer.Argument(metavar="MONTH", help="First month without it.")],
    organization: OfOrganization = None,
    output: Output = Format.TABLE,
) -> None:
    """End a code. Then the code of the node above applies."""
    api = open_api(ctx)
    found = _found(api, organization, code_id)
    _print([api.patch(f"accounting-codes/{found['id']}", {"end": month})], output)


@codes_app.command("remove")
def codes_remove(
    ctx: typer.Context, code_id: Identifier, organization: OfOrganization = None
) -> None:
    """Remove a code that no closed month has."""
    api = open_api(ctx)
    found = _found(api, organization, code_id)
    api.delete(f"accounting-codes/{found['id']}")
    tell(f"Removed {found['code']} of {found['node']}.")


def _path(api: Api, organization: str | None) -> str:
    return f"organizations/{organization_named(api, organization)['id']}/accounting-codes"


def _set(api: Api, organization: str | None, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answer = api.post(_path(api, organization), {"codes": wanted}, key=str(uuid.uuid4()))
    items: list[dict[str, Any]] = answer["items"]
    return items


def _found(api: Api, organization: str | None, code_id: str) -> dict[str, Any]:
    rows = api.items(_path(api, organization), most=_CODES_MAX)
    found = [row for row in rows if str(row["id"]).endswith(code_id)]
    if len(found) != 1:
        raise CliError("There is no such code, or several. `tidegate codes list` shows them.")
    return found[0]


def _read(file: Path) -> list[dict[str, Any]]:
    try:
        if file.stat().st_size > _FILE_BYTES_MAX:
            raise CliError(f"{file} is larger than 1 MiB. Split it.")
        with file.open(encoding="utf-8-sig", newline="") as opened:
            reader = csv.DictReader(opened, strict=True)
            rows = list(reader)
    except OSError as error:
        raise CliError(f"{file} cannot be read: {error.strerror}.") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise CliError(f"{file} is no CSV in UTF-8: {error}.") from error
    names = reader.fieldnames or ()
    if not set(_COLUMNS[:-1]) <= set(names) <= set(_COLUMNS):
        raise CliError(f"The first line of {file} must be {','.join(_COLUMNS)}.")
    return [{**row, "end": row.get("end") or None} for row in rows]


def _print(items: list[dict[str, Any]], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(items, output)
        return
    if not items:
        tell("No codes yet.")
        return
    print_table(
        ["ID", "NODE", "KIND", "CODE", "FROM", "UNTIL", "SET BY"],
        [
            [
                *(str(row["id"])[-8:], row["node"], row["kind"], row["code"], row["start"]),
                *(row["end"] or "-", row["set_by"]),
            ]
            for row in items
        ],
        squeeze="NODE",
    )
