"""Settings, connections and errors for all commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer
from typer.core import TyperGroup

from cli.api import Api
from cli.completion import COMPLETED, names_for
from cli.errors import CANCELLED, CliError
from cli.output import tell
from cli.settings import Settings, load_settings


class Commands(TyperGroup):
    """All commands: their errors become a sentence and an exit code, and names complete."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for command in _leaves(self):
            for parameter in command.params:
                if parameter.name in COMPLETED:
                    _complete(parameter)

    def invoke(self, ctx: Any) -> Any:
        """Run the requested command."""
        try:
            return super().invoke(ctx)
        except CliError as error:
            tell(f"Error: {error.message}")
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(CANCELLED)
        except BrokenPipeError:
            # The reader closed the pipe (`tidegate ls | head`). Leave nothing to flush.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)


def _leaves(group: Any) -> Iterator[Any]:
    for command in group.commands.values():
        if hasattr(command, "commands"):
            yield from _leaves(command)
        else:
            yield command


def _complete(parameter: Any) -> None:
    """Let the shell complete the parameter with names from the server."""

    def completions(ctx: typer.Context, incomplete: str) -> list[Any]:
        from typer._click.shell_completion import CompletionItem

        found = names_for(parameter.name, incomplete, open_with=lambda: open_api(ctx))
        return [CompletionItem(name, help=words) for name, words in found]

    parameter.shell_complete = completions


def own_version() -> str:
    """Return the version of this command."""
    try:
        return version("tidegate")
    except PackageNotFoundError:
        return "unknown"


def environment() -> Mapping[str, str]:
    """Return the process's environment."""
    return os.environ


def open_api(ctx: typer.Context) -> Api:
    """Return a connection with the user's settings. It closes when the command ends."""
    return open_api_as(ctx, load_settings(environment()))


def open_api_as(ctx: typer.Context, settings: Settings) -> Api:
    """Return a connection with other settings. It closes when the command ends.

    `ctx.obj` may be an httpx transport to use instead of the network.
    """
    import httpx

    transport = ctx.obj if isinstance(ctx.obj, httpx.BaseTransport) else None
    api = Api(settings, version=own_version(), transport=transport)
    ctx.call_on_close(api.close)
    return api
