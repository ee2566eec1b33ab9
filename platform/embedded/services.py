"""All processes of an embedded Tidegate, and how each is stopped."""

import os
import shlex
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from embedded import postgres, valkey
from embedded.environment import Secrets, service_environment
from embedded.layout import REPO, Layout
from embedded.ports import HOST

STOP_WITHIN_S = 10
#: Where the code of the services lies, from the checkout's root.
_SOURCES = ("platform", "tenants", "quotas", "jobs", "billing")
WEB_WORKERS = 2


@dataclass(frozen=True)
class Service:
    """A process that the supervisor keeps running.

    `run_as` is its system user; None is the current user. With `beats`, the service touches its
    heartbeat file (TIDEGATE_HEARTBEAT_FILE) once a second.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    run_as: str | None = None
    stop_signal: int = signal.SIGTERM
    beats: bool = False


def postgres_service(layout: Layout, secrets: Secrets) -> Service:
    """Return the database. Its stop signal rolls back, writes a checkpoint and ends."""
    home = postgres.locate_home(layout.postgres)
    return Service(
        "postgres",
        tuple(postgres.server_command(home, port=secrets.postgres_port)),
        postgres.server_environment(),
        run_as=home.run_as,
        stop_signal=postgres.STOP_SIGNAL,
    )


def valkey_service(layout: Layout, secrets: Secrets) -> Service:
    """Return the broker and store for live updates."""
    command = valkey.write_configuration(
        layout.valkey, port=secrets.valkey_port, password=secrets.valkey_password
    )
    return Service("valkey", tuple(command), postgres.server_environment())


def web_command(port: int) -> tuple[str, ...]:
    """Return the command of the web process, which is a parent with workers."""
    return (
        *(sys.executable, "-m", "uvicorn", "portal.asgi:application"),
        *("--host", HOST, "--port", str(port), "--workers", str(WEB_WORKERS)),
        *("--loop", "portal.accepting:SharingLoop", "--lifespan", "on"),
        *("--http", "portal.connections:BoundedProtocol", "--ws-max-size", "4096"),
        # uvicorn would trust X-Forwarded-For from this machine. `portal.client_addresses` decides
        # instead.
        "--no-proxy-headers",
        *("--timeout-graceful-shutdown", "5", "--no-server-header", "--no-access-log"),
    )


def portal_services(
    layout: Layout, *, port: int, pages_port: int | None = None
) -> tuple[Service, ...]:
    """Return Tidegate's own processes, in the order of their start.

    With `pages_port` they are a developer's: each restarts when a Python file changes, and Vite
    serves the pages there from their sources.
    """
    python = (sys.executable, "-m")
    commands = {
        "web": web_command(port),
        "arbiter": (sys.executable, "manage.py", "run_arbiter"),
        "observer": (sys.executable, "manage.py", "run_observer"),
        "worker": (
            *(*python, "celery", "--app", "portal.celeryapp", "worker", "--loglevel", "INFO"),
            *("--concurrency", "2", "--without-mingle", "--without-gossip"),
        ),
        "beat": (
            *(*python, "celery", "--app", "portal.celeryapp", "beat", "--loglevel", "INFO"),
            *("--schedule", str(layout.state / "celerybeat-schedule"), "--pidfile", ""),
        ),
    }
    environment = {
        # Address at which jobs on this machine reach the portal.
        "TIDEGATE_PUBLIC_URL": f"http://127.0.0.1:{port}",
        **service_environment(layout, os.environ),
    }
    if pages_port is not None:
        return _developers_services(commands, environment, port=port, pages_port=pages_port)
    return tuple(
        Service(
            name,
            command,
            {**environment, "TIDEGATE_HEARTBEAT_FILE": str(layout.heartbeat_of(name))},
            beats=True,
        )
        for name, command in commands.items()
    )


def _developers_services(
    commands: Mapping[str, tuple[str, ...]],
    environment: Mapping[str, str],
    *,
    port: int,
    pages_port: int,
) -> tuple[Service, ...]:
    """Return the services of a developer, without heartbeats.

    So a service whose code cannot be loaded waits for the next change instead of being killed.
    """
    reloading = {
        name: (
            *(sys.executable, "-m", "watchfiles", "--filter", "python"),
            *("--target-type", "command", shlex.join(command), *_SOURCES),
        )
        for name, command in commands.items()
    }
    vite = str(REPO / "frontend" / "node_modules" / "vite" / "bin" / "vite.js")
    return (
        *(Service(name, command, environment) for name, command in reloading.items()),
        Service(
            "pages",
            (
                *(str(REPO / ".venv" / "bin" / "node"), vite, str(REPO / "frontend")),
                *("--port", str(pages_port), "--strictPort", "--clearScreen", "false"),
            ),
            {**environment, "TIDEGATE_PORT": str(port)},
        ),
    )
