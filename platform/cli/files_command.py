"""`tidegate files`: the files that a job left in its folder."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import urlencode

import typer

from cli.context import open_api
from cli.job_lookup import JobArgument, id_of_job
from cli.output import Format, Output, print_data, print_table, tell
from cli.saving import new_file

#: Files that are listed at most, as the server lists them.
_FILES_MAX = 10_000


def files(
    ctx: typer.Context,
    job: JobArgument,
    name: Annotated[
        str | None, typer.Argument(help="File to download. Without it, all files are listed.")
    ] = None,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Number of the attempt. Default: the latest.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="Where to store the download. Default: its own name, in this folder."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """List the files that a job left in its folder, or download one."""
    api = open_api(ctx)
    path = f"jobs/{id_of_job(api, job)}/files"
    if name is None:
        found = list(api.items(path, most=_FILES_MAX, attempt=attempt))
        if output is not Format.TABLE:
            print_data(found, output)
            return
        print_table(
            ["NAME", "BYTES", "CHANGED"],
            [[each["name"], each["size_bytes"], each["modified_at"]] for each in found],
            squeeze="NAME",
            keep_end=True,
        )
        return
    target = file or Path(PurePosixPath(name).name)
    query = {"name": name} | ({} if attempt is None else {"attempt": str(attempt)})
    hint = "Choose another name with --file, or add --force."
    with new_file(target, force=force, hint=hint) as opened:
        for chunk in api.download(f"{path}/download?{urlencode(query)}"):
            opened.write(chunk)
    tell(f"{name} is stored as {target}.")
