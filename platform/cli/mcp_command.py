"""`tidegate mcp`: tools for agents, over standard input and output."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.context import open_api, own_version
from cli.errors import CliError


def mcp(
    ctx: typer.Context,
    allow_writes: Annotated[
        bool,
        typer.Option(
            "--allow-writes",
            help="Also offer tools that submit, cancel, hold, release and requeue jobs.",
        ),
    ] = False,
) -> None:
    """Serve the tools of an agent by the Model Context Protocol, on standard input and output.

    The tools read jobs, reasons, plans, logs, quotas, usage, changes of spend and lost work, with
    the rights of your token: the scope `read` for most of them, `reports` for usage and spend,
    `jobs` for plans. With --allow-writes each write shows a preview first, and needs the
    confirmation that came with it.
    """
    try:
        from cli.agent_tools import server_of
    except ModuleNotFoundError as error:
        raise CliError(
            "This needs the package `mcp`. Install it with: pip install 'tidegate[mcp]'"
        ) from error
    api = open_api(ctx)
    server_of(api, version=own_version(), allows_writes=allow_writes).run("stdio")
