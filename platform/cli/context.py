"""Settings, connections and errors for all commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer
from typer.core import TyperGroup

from cli.api import Api
from cli.errors import CANCELLED, CliError
from cli.output import tell
from cli.settings import Settings, load_settings


class Commands(TyperGroup):
    """Turns the errors of all commands into a sentence and an exit code."""

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
