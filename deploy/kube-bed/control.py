#!/usr/bin/env python3
"""A real Kubernetes with Kueue and JobSet on this machine, on 127.0.0.1 only: docs/kube-bed.md.

.venv/bin/python deploy/kube-bed/control.py start | stop | reset | status | build
.venv/bin/python deploy/kube-bed/control.py kill|run|freeze|thaw SERVER...
.venv/bin/python deploy/kube-bed/control.py node-down|node-up NODE...
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from kubebed.api import Refused
from kubebed.bed import Bed
from kubebed.building import build
from kubebed.settings import BedError, build_seconds, read_settings


def main() -> None:
    """Do what the command line says; end with a sentence where that cannot be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("reset", "status", "build"):
        commands.add_parser(name)
    start = commands.add_parser("start")
    start.add_argument("--no-build", action="store_true", help="end if the servers are not built")
    commands.add_parser("stop").add_argument("--purge", action="store_true")
    for name in ("kill", "run", "freeze", "thaw", "node-down", "node-up"):
        commands.add_parser(name).add_argument("names", nargs="+")
    try:
        _do(parser.parse_args())
    except (BedError, Refused, OSError) as error:
        print(f"Kubernetes bed: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def _do(arguments: argparse.Namespace) -> None:
    settings = read_settings()
    bed = Bed(settings)
    build_s = build_seconds()
    match arguments.command:
        case "start":
            bed.start(None if arguments.no_build else build_s)
        case "reset":
            bed.reset(build_s)
        case "build":
            build(settings.binaries, lambda text: print(f"Kubernetes bed: {text}"), build_s)
        case "status":
            print("\n".join(bed.status()))
        case "stop":
            bed.stop(purge=arguments.purge)
        case "node-down":
            bed.node_down(arguments.names)
        case "node-up":
            bed.node_up(arguments.names)
        case act:
            _refuse_unknown(arguments.names, bed.server_names)
            {"kill": bed.kill, "run": bed.run, "freeze": bed.freeze, "thaw": bed.thaw}[act](
                arguments.names
            )


def _refuse_unknown(names: list[str], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise BedError(f"there is no server '{name}'; there are {', '.join(known)}.")


if __name__ == "__main__":
    main()
