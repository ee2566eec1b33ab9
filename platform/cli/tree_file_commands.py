"""`tidegate tree export` and `tidegate tree import`: the tree as a CSV or YAML file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.output import Format, Output, counted, print_data, print_table, tell
from cli.tree_commands import node_at

#: The most bytes of a file, as on the server.
_BYTES_MAX = 3_000_000
#: The most changes and errors that a table shows.
_SHOWN_MAX = 200


class FileFormat(StrEnum):
    """The format of a tree file."""

    CSV = "csv"
    YAML = "yaml"


NodeOption = Annotated[
    str | None,
    typer.Option("--node", help="Path of the node. Default: your only organization."),
]


def export(
    ctx: typer.Context,
    node: NodeOption = None,
    file_format: Annotated[
        FileFormat, typer.Option("--format", help="Format of the file.")
    ] = FileFormat.CSV,
) -> None:
    """Print the nodes, quotas and members at and below a node, as a file for `tree import`."""
    api = open_api(ctx)
    address = f"tree/{_node_id(api, node)}/export"
    typer.echo(api.get_text(address, format=file_format.value), nl=False)


def import_(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="A .csv, .yaml or .yml file, as of `tree export`.")],
    node: NodeOption = None,
    archive_missing: Annotated[
        bool, typer.Option("--archive-missing", help="Archive nodes that the file lacks.")
    ] = False,
    revoke_missing: Annotated[
        bool,
        typer.Option("--revoke-missing", help="Revoke roles and invitations that the file lacks."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only preview.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Import it. Default: only preview.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Make nodes, their quotas, members and roles as in a file.

    First lists the changes, or the errors of all lines. Nothing but the listed changes is applied,
    all of them in one transaction.
    """
    body = {
        "format": format_of(file).value,
        "text": text_of(file),
        "archive_missing": archive_missing,
        "revoke_missing": revoke_missing,
    }
    api = open_api(ctx)
    address = f"tree/{_node_id(api, node)}/import"
    preview = api.post(address, body, dry_run="true")
    if output is not Format.TABLE:
        print_data(preview, output, rows="changes")
    else:
        print_preview(preview)
    if preview["second_person"] is not None:
        tell(f"{preview['second_person']}, so the whole file waits for a second person.")
    if preview["error_count"]:
        raise CliError(f"Nothing was imported: {counted(preview['error_count'], 'error')}.")
    if preview["digest"] is None:
        tell("The tree is as in the file already.")
    elif yes and not dry_run:
        api.post_tagged(address, body, if_match=f'"{preview["digest"]}"')
        tell(f"{counted(len(preview['changes']), 'change')} applied.")
    elif not dry_run:
        raise CliError("Nothing was imported. Add --yes to import it.")


def print_preview(preview: dict[str, Any]) -> None:
    """Print the changes of a tree file, or the errors of its lines."""
    errors, changes = preview["line_errors"][:_SHOWN_MAX], preview["changes"]
    if errors:
        print_table(["LINE", "ERROR"], [[each["line"], each["sentence"]] for each in errors])
    elif changes:
        columns = (
            *("action", "line", "path", "user", "role", "pool"),
            *("before", "after", "nodes_below"),
        )
        print_table(
            [name.upper() for name in columns],
            [[each[name] for name in columns] for each in changes[:_SHOWN_MAX]],
        )
        if len(changes) > _SHOWN_MAX:
            tell(f"{len(changes) - _SHOWN_MAX:,} more changes; see all with -o csv.")
    _tell_missing(preview["missing_nodes"], "node", "nodes", "`--archive-missing` archives")
    _tell_missing(
        preview["missing_roles"],
        "role or invitation",
        "roles or invitations",
        "`--revoke-missing` revokes",
    )


def _tell_missing(count: int, singular: str, plural: str, advice: str) -> None:
    if count == 1:
        tell(f"The file lacks 1 {singular}, which stays. {advice} it.")
    elif count:
        tell(f"The file lacks {count:,} {plural}, which stay. {advice} them.")


def _node_id(api: Api, node: str | None) -> str:
    if node is not None:
        return str(node_at(api, node)["id"])
    found = list(api.items("organizations", most=2))
    if len(found) != 1:
        raise CliError("Name the node with --node, for example --node ai-company.")
    return str(found[0]["id"])


def format_of(file: Path) -> FileFormat:
    """Return the format of a tree file by its ending. Raises CliError for another ending."""
    suffix = file.suffix.lower()
    if suffix == ".csv":
        return FileFormat.CSV
    if suffix in (".yaml", ".yml"):
        return FileFormat.YAML
    raise CliError(f"{file} is no tree file. Give a .csv, .yaml or .yml file.")


def text_of(file: Path) -> str:
    """Return the text of a tree file. Raises CliError for one that is too large or no text."""
    try:
        with file.open("rb") as opened:
            data = opened.read(_BYTES_MAX + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise CliError(f"Cannot read {file}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{file} is not UTF-8 text.") from error
    if len(data) > _BYTES_MAX:
        raise CliError(f"{file} is larger than {_BYTES_MAX:,} bytes. Split it by department.")
    return text
