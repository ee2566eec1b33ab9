"""Run as a script: do one step of the local connector's work and die by SIGKILL at a chosen point.

crash_points.py submit POINT OPTIONS-AS-JSON KEY SCRIPT RANKS
crash_points.py supervise POINT ATTEMPT-DIRECTORY
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from builders.connector_builders import a_workload
from conformance.rigs import CLUSTER_ID
from connectors.local import allocations, connector, keeper, publishing, supervising, supervisor
from connectors.local.attempt_files import AttemptFiles
from connectors.local.options import PATH
from connectors.local.own_files import OwnFiles
from connectors.registry import open_connector


def die(*_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def then_die(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        function(*arguments)
        die()

    return call


def on_call(count: int, function: Callable[..., Any], instead: Callable[..., Any]) -> Any:
    """`function`, but `instead` on the call number `count`."""
    calls = 0

    def call(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return (instead if calls == count else function)(*arguments)

    return call


def submit(point: str, options: str, key: str, script: str, ranks: str) -> None:
    if point == "before-rename":
        publishing.os.rename = die  # type: ignore[attr-defined]
    elif point == "after-rename":
        publishing.os.rename = then_die(os.rename)  # type: ignore[attr-defined]
    elif point == "before-spawn":
        connector.start_supervisors = die
    elif point == "after-spawn":
        supervising._start = then_die(supervising._start)
    open_connector("local", json.loads(options), CLUSTER_ID).submit(
        a_workload(script, key=key, ranks=int(ranks))
    )


def supervise(point: str, attempt: str) -> None:
    if point == "before-allocation":
        allocations.try_allocate = die  # type: ignore[assignment]
    elif point == "after-allocation":
        allocations.try_allocate = then_die(allocations.try_allocate)
    elif point == "before-second-fork":
        supervisor.fork_keeper = on_call(2, supervisor.fork_keeper, die)
    elif point == "after-second-fork":
        fork = supervisor.fork_keeper
        supervisor.fork_keeper = on_call(2, fork, then_die(fork))
    elif point == "before-end":
        supervisor.Supervisor._end = die  # type: ignore[method-assign]
    elif point == "after-end":
        allocations.release = die
    elif point == "keeper-before-started":
        keeper.write_json = on_call(1, keeper.write_json, die)
    elif point == "keeper-after-started":
        keeper._start = die
    elif point == "keeper-after-fork":
        keeper._start = then_die(keeper._start)
    elif point == "keeper-before-exit":
        keeper._record = die
    supervisor.main(attempt)


def keepers(attempt: str, proof: str, count: str) -> None:
    write_json = keeper.write_json

    def write_slowly(*arguments: Any) -> None:
        time.sleep(0.2)
        write_json(*arguments)

    keeper.write_json = write_slowly  # type: ignore[assignment]
    files = AttemptFiles(attempt)
    command = ["/bin/sh", "-c", f"echo started >> {proof}"]
    start = keeper.Start(
        command,
        {"PATH": PATH},
        credentials=None,
        sandbox=None,
        limits=None,
        cgroup="",
        files=OwnFiles(None, None, None, appends=False),
    )
    pids = [keeper.fork_keeper(files, 0, start) for _ in range(int(count))]
    for pid in pids:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    {"submit": submit, "supervise": supervise, "keepers": keepers}[sys.argv[1]](*sys.argv[2:])
