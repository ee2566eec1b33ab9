"""What every command starts from: settings, a connection, and errors told in a sentence."""

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
    """Turns the failures of all commands into a sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except CliError as error:
            tell(f"Error: {error.message}")
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(CANCELLED)
        except BrokenPipeError:
            # The reader has seen enough (`tidegate ls | head`); leave nothing to flush.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)


def own_version() -> str:
    """The version of this command."""
    try:
        return version("tidegate")
    except PackageNotFoundError:
        return "unknown"


def environment() -> Mapping[str, str]:
    """The process's environment."""
    return os.environ


def open_api(ctx: typer.Context) -> Api:
    """A connection with the user's settings, closed when the command ends."""
    return open_api_as(ctx, load_settings(environment()))


def open_api_as(ctx: typer.Context, settings: Settings) -> Api:
    """The same with other settings.

    `ctx.obj` may be an httpx transport to use instead of the network.
    """
    import httpx

    transport = ctx.obj if isinstance(ctx.obj, httpx.BaseTransport) else None
    api = Api(settings, version=own_version(), transport=transport)
    ctx.call_on_close(api.close)
    return api
