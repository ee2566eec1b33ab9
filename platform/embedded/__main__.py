"""`python -m embedded up|down|status|reset|psql`: the launcher behind `make`."""

import argparse
import os
import sys
import time
from urllib.parse import urlsplit

from embedded import local_jobs, postgres
from embedded.environment import read_env_file
from embedded.errors import LauncherError
from embedded.layout import Layout, layout_here
from embedded.personas import introduction
from embedded.progress import complain, show
from embedded.records import is_alive, read_records
from embedded.startup import read_phase, up
from embedded.stopping import SUPERVISOR, down, reset
from embedded.supervisor import SILENT_AFTER_S, last_beat_ns

#: A missing heartbeat is reported after this time. Services send one every second.
_SILENT_FROM_S = 5
_NOT_RUNNING = 3  # as systemctl status says it


def main(words: list[str]) -> int:
    """Run the command in `words`, and return the exit status."""
    arguments = _parser().parse_args(words)
    layout = layout_here()
    try:
        match arguments.command:
            case "up":
                return up(
                    layout,
                    port=port_of(arguments.port or os.environ.get("TIDEGATE_PORT") or "8000"),
                    detach=arguments.detach,
                    servers_only=arguments.servers_only,
                    is_in_background=arguments.background,
                    pages_port=None if arguments.dev is None else port_of(arguments.dev),
                )
            case "down":
                down(layout)
            case "status":
                return status(layout)
            case "reset":
                reset(layout, is_agreed=arguments.yes)
            case "psql":
                psql(layout)
    except LauncherError as refused:
        complain(str(refused))
        return 1
    except KeyboardInterrupt:
        complain("interrupted.")
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m embedded", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("up", help="start everything and watch over it")
    start.add_argument("--port", help="port of the web process (default: TIDEGATE_PORT, or 8000)")
    start.add_argument("--detach", action="store_true", help="run in the background once ready")
    start.add_argument(
        "--servers-only", action="store_true", help="start only PostgreSQL and Valkey"
    )
    start.add_argument(
        "--dev", metavar="PORT", help="follow changes of the code; Vite serves the pages at PORT"
    )
    start.add_argument("--background", action="store_true", help=argparse.SUPPRESS)
    commands.add_parser("down", help="stop everything except jobs of the local cluster")
    commands.add_parser("status", help="show what is running")
    wipe = commands.add_parser("reset", help="stop everything and delete all data")
    wipe.add_argument("--yes", action="store_true", help="do not ask")
    commands.add_parser("psql", help="open the database as the application's role")
    return parser


def port_of(text: str) -> int:
    """Return `text` as a port number. Raises LauncherError."""
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 65535:
        return int(text)
    raise LauncherError(f"A port is a whole number from 1 to 65535, not {text!r}.")


def status(layout: Layout) -> int:
    """Print the running processes, and return 0 when Tidegate is ready and works."""
    records = read_records(layout.run)
    alive = {record.name for record in records if is_alive(record)}
    silent = {name: s for name in alive if (s := silent_for_s(layout, name)) is not None}
    for record in records:
        state = "running" if record.name in alive else "not running"
        if record.name in silent:
            state = f"no heartbeat for {silent[record.name]} s"
        show(f"{record.name:<12} {record.pid:>8}  {state}")
    count = local_jobs.count_running(layout)
    show(f"{'local jobs':<12} {count:>8}  running")
    phase = read_phase(layout)
    if SUPERVISOR not in alive or phase.word != "ready":
        show("Tidegate is not running." if SUPERVISOR not in alive else "Tidegate is starting.")
        return _NOT_RUNNING
    for line in introduction(layout, port=phase.port, with_secrets=False):
        show(line)
    if silent:
        show(
            f"Not working: {', '.join(sorted(silent))}. The supervisor replaces a process without "
            f"a heartbeat after {SILENT_AFTER_S} s."
        )
        return _NOT_RUNNING
    return 0


def silent_for_s(layout: Layout, name: str) -> int | None:
    """Return for how many seconds a service has sent no heartbeat, or None for a short pause.

    Also returns None for a service without a heartbeat file.
    """
    beat_ns = last_beat_ns(layout, name)
    if beat_ns is None:
        return None
    age_s = int(time.time() - beat_ns / 1e9)
    return age_s if age_s >= _SILENT_FROM_S else None


def psql(layout: Layout) -> None:
    """Replace this process by `psql`, connected with the application's role."""
    address = urlsplit(read_env_file(layout.env_file).get("TIDEGATE_DATABASE_URL", ""))
    if not address.port:
        raise LauncherError("There is no database yet: run `make up` first.")
    program = postgres.wheel_programs() / "psql"
    words = [
        *(str(program), f"--host={address.hostname}", f"--port={address.port}"),
        *(f"--username={address.username}", f"--dbname={address.path[1:]}"),
    ]
    os.execve(program, words, os.environ | {"PGPASSWORD": address.password or ""})  # noqa: S606


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
