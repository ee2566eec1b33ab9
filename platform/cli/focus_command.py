"""`tidegate focus check`: checks a file against FOCUS 1.4, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.errors import CliError
from cli.output import Format, Output, print_data, tell
from focus.columns import DATASETS, VERSION
from focus.files import UnreadableFile, opened
from focus.rules import dataset_named, faults_of, rules_of

focus_app = typer.Typer(
    no_args_is_help=True, help="Files of the FinOps FOCUS specification.", rich_markup_mode=None
)
_HAS_FAULTS = 1


@focus_app.command("check")
def focus_check(
    file: Annotated[Path, typer.Argument(help="A CSV or Parquet file.")],
    dataset: Annotated[
        str | None,
        typer.Option(help=f"One of {', '.join(DATASETS)}. Default: by its columns."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Check a file against FOCUS 1.4: columns, formats, values and relations.

    The command needs no server. It exits with 1 where a rule is broken, and names each such rule.
    """
    if dataset is not None and dataset not in DATASETS:
        raise CliError(f"--dataset must be one of {', '.join(DATASETS)}.")
    try:
        with opened(file) as (header, rows):
            name = dataset or dataset_named(header)
            if name is None:
                raise CliError(
                    f"{file} has no column of a FOCUS dataset. Choose one with --dataset."
                )
            faults = faults_of(name, header, rows)
    except UnreadableFile as error:
        raise CliError(str(error)) from error
    except OSError as error:
        raise CliError(f"{file} cannot be read: {error.strerror}.") from error
    if output is not Format.TABLE:
        print_data(
            [
                {
                    "rule": fault.rule,
                    "says": fault.says,
                    "count": fault.count,
                    "examples": list(fault.examples),
                }
                for fault in faults
            ],
            output,
        )
    else:
        for fault in faults:
            typer.echo(f"{fault.rule}  {fault.says}: {fault.count:,} times")
            for example in fault.examples:
                typer.echo(f"    {example}")
    kept = len(rules_of(name)) - len(faults)
    tell(f"{name} of FOCUS {VERSION}: {kept} rules kept, {len(faults)} broken.")
    if faults:
        raise typer.Exit(_HAS_FAULTS)
